//! The screens: pure functions of the model, one screen a file.

mod card;
mod files;
mod footer;
pub(crate) mod frame;
mod header;
pub(crate) mod help;
pub(crate) mod ink;
mod journal;
pub(crate) mod layout;
mod question;
pub(crate) mod tabs;
mod talk;
mod terminal;
mod timeline;
pub(crate) mod tree;

use crate::model::{Over, PaneId, Workbench};
use frame::{Frame, Frames, inner};
use ink::Line;
use layout::{Layout, Placed};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;

/// Draws everything and says where the cursor belongs.
pub(crate) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let layout = model.layout();
    buffer.set_style(area, model.ink.theme.text);
    let cursor = scene(model, &layout, buffer);
    footer::draw(model, layout.footer, buffer).or(cursor)
}

/// What live view and replay draw alike: header, panes, card; and a recording's time line, which joins their borders.
fn scene(model: &Workbench, layout: &Layout, buffer: &mut Buffer) -> Option<Position> {
    header::draw(model, layout.header, buffer);
    if let Some(area) = layout.tabs {
        tabs::draw(model, area, buffer);
    }
    let focus = model.focused(layout);
    let mut cursor = None;
    let mut frames = Frames::default();
    let placed = |over: bool| layout.panes.iter().filter(move |placed| placed.over == over);
    let mut under = Vec::new();
    for pane in placed(false) {
        cursor = content(model, pane, buffer).filter(|_| pane.id == focus).or(cursor);
        under.push(pane_frame(model, layout, pane, pane.id == focus));
    }
    under.extend(layout.timeline.map(|area| timeline::frame(model, area)));
    frames.layer(&under, &[], buffer, &model.ink);
    if let Some(area) = layout.timeline {
        timeline::draw(model, inner(area), buffer);
    }
    let over: Vec<&Placed> = placed(true).collect();
    for pane in &over {
        frames.cut(pane.area);
        clear(pane.area, buffer);
        content(model, pane, buffer);
    }
    let over: Vec<Frame> = over.iter().map(|pane| pane_frame(model, layout, pane, pane.id == focus)).collect();
    frames.layer(&over, &[], buffer, &model.ink);
    if let Some(place) = layout.card {
        frames.cut(place.area);
        clear(place.area, buffer);
        cursor = card::draw(model, &place, &mut frames, buffer);
    }
    match &model.over {
        Some(Over::Help(at)) => help::draw(model, *at, layout.body, &mut frames, buffer),
        Some(Over::Question(question)) => question::draw(model, *question, layout.body, &mut frames, buffer),
        Some(Over::Search(_)) | None => {}
    }
    if model.over.is_some() || !model.typing() || model.desk.is_some() {
        cursor = cursor.filter(|_| model.reason.is_some() && model.over.is_none());
    }
    cursor
}

/// Blanks an area that something is drawn over. A wide character that sticks into it is cut off whole.
fn clear(area: Rect, buffer: &mut Buffer) {
    let left = area.x.checked_sub(1);
    for y in area.y..area.bottom() {
        if let Some(cell) = left.and_then(|x| buffer.cell_mut((x, y)))
            && unicode_width::UnicodeWidthStr::width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
        for x in area.x..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}

fn content(model: &Workbench, placed: &Placed, buffer: &mut Buffer) -> Option<Position> {
    let area = inner(placed.area);
    if area.is_empty() {
        return None;
    }
    match placed.id {
        PaneId::Runs => tree::draw(model, area, buffer),
        PaneId::Files => files::draw(model, area, buffer),
        PaneId::Terminal(id) => return terminal::draw(model, id, area, buffer),
        PaneId::NoTerminal => terminal::draw_none(model, area, buffer),
        PaneId::Talk => talk::draw(model, area, buffer),
        PaneId::Journal => journal::draw(model, area, buffer),
    }
    None
}

fn pane_frame(model: &Workbench, layout: &Layout, placed: &Placed, focused: bool) -> Frame {
    let (title, facts) = match placed.id {
        PaneId::Runs => tree::titles(model),
        PaneId::Files => files::titles(model),
        PaneId::Terminal(id) => terminal::titles(model, id, placed.area.width),
        PaneId::NoTerminal => (Line::new().own("Terminals", model.ink.theme.text), Line::new()),
        PaneId::Talk => talk::titles(model),
        PaneId::Journal => journal::titles(model),
    };
    let last = layout.panes.iter().rev().find(|pane| matches!(pane.id, PaneId::Terminal(_)));
    let facts = if layout.more > 0 && layout.tabs.is_none() && last.is_some_and(|last| last.id == placed.id) {
        facts.made(format!("  +{} more", layout.more), model.ink.theme.dim)
    } else {
        facts
    };
    let focused = focused && model.desk.is_none() && model.over.is_none();
    let title = if focused {
        // Focus shows without colour: the title is marked and bold.
        Line::new()
            .own(model.ink.glyphs.closed, model.ink.theme.accent)
            .gap(1)
            .then(title)
            .patched(ratatui::style::Style::new().add_modifier(Modifier::BOLD))
    } else {
        title
    };
    Frame { area: placed.area, focused, title, facts }
}

/// Lines of an empty pane: what will be there, and the key or command that starts it.
fn empty(lines: &[Line], area: Rect, buffer: &mut Buffer) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let top = area.y + area.height.saturating_sub(height) / 3;
    let gap = usize::from(area.width).saturating_sub(widest).min(8) / 4;
    let x = area.x + u16::try_from(gap).unwrap_or(0);
    for (line, y) in lines.iter().zip(top..area.bottom()) {
        line.draw(buffer, x, y, usize::from(area.right().saturating_sub(x)));
    }
}
