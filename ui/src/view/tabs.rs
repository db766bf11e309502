//! Numbers of the terminals, when one is shown at a time.

use super::ink::Line;
use super::layout::shown;
use crate::model::{PaneId, Workbench};
use crate::projection::Session;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use stockade_protocol::ids::SessionId;

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    for (x, _, line) in tabs(model, area) {
        line.draw(buffer, x, area.y, usize::from(area.right().saturating_sub(x)));
    }
}

/// The terminal whose tab is at a column.
pub(crate) fn at(model: &Workbench, area: Rect, x: u16) -> Option<SessionId> {
    let tabs = tabs(model, area);
    tabs.iter().rev().find(|(start, _, _)| *start <= x).and_then(|(start, id, line)| {
        let end = usize::from(*start) + line.width();
        (usize::from(x) < end).then_some(*id)
    })
}

/// Tabs with their columns. When there is no room for all, those before the one shown fall away, counted.
fn tabs(model: &Workbench, area: Rect) -> Vec<(u16, SessionId, Line)> {
    let ink = &model.ink;
    let layout = model.layout();
    let current = layout.panes.iter().find_map(|pane| match pane.id {
        PaneId::Terminal(id) => Some(id),
        PaneId::Runs | PaneId::Files | PaneId::NoTerminal | PaneId::Talk | PaneId::Journal => None,
    });
    let sessions = shown(model);
    let lines: Vec<(SessionId, Line)> =
        sessions.iter().map(|session| (session.id, tab(model, session, current == Some(session.id)))).collect();
    let at = lines.iter().position(|(id, _)| Some(*id) == current).unwrap_or(0);
    let room = usize::from(area.width).saturating_sub(4);
    let mut first = 0;
    let width = |range: &[(SessionId, Line)]| range.iter().map(|(_, line)| line.width() + 1).sum::<usize>();
    while first < at && width(lines.get(first..=at).unwrap_or_default()) > room {
        first += 1;
    }
    let mut x = area.x + 1;
    let mut placed = Vec::new();
    for (id, line) in lines.into_iter().skip(first) {
        let room = usize::from(area.right().saturating_sub(x));
        if room < 6 {
            break;
        }
        let line = line.fit(room, ink);
        let next = x + u16::try_from(line.width()).unwrap_or(u16::MAX) + 1;
        placed.push((x, id, line));
        x = next;
    }
    placed
}

fn tab(model: &Workbench, session: &Session, current: bool) -> Line {
    let ink = &model.ink;
    let style = if current { ink.theme.accent.add_modifier(Modifier::BOLD) } else { ink.theme.dim };
    let (open, close) = if current { ("[", "]") } else { (" ", " ") };
    let name = Line::new().outside(&session.tool, style, ink).fit(18, ink);
    let mut line = Line::new().own(open, style).made(session.number.to_string(), style).gap(1).then(name);
    if model.projection().session_waits(session.id) {
        line = line.gap(1).own(ink.glyphs.waiting, ink.theme.wait);
    } else if !session.is_open() {
        line = line.own(" ended", ink.theme.dim);
    }
    line.own(close, style)
}
