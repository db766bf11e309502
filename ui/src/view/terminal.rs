//! A session's terminal and what its border says.

use super::empty;
use super::ink::Line;
use crate::model::Workbench;
use crate::pane::Look;
use crate::projection::{Session, SessionState};
use crate::text::{minutes, plural};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use stockade_protocol::ids::SessionId;
use stockade_protocol::result::Removal;

pub(super) fn draw(model: &Workbench, id: SessionId, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let session = model.projection().session(id)?;
    let Some(pane) = &session.pane else {
        let lines = [
            Line::new().own("this terminal's screen is no longer kept", model.ink.theme.dim),
            Line::new().own("r replays it from the journal", model.ink.theme.dim),
        ];
        empty(&lines, area, buffer);
        return None;
    };
    let offset = model.offset(session);
    let look = Look { offset, color: model.options.color, ascii: model.ink.ascii };
    let cursor = pane.draw(area, buffer, &look);
    if offset > 0 {
        let below = offset.min(pane.scrollback_len()) as u64;
        let mark = format!(" {} below, End goes there ", plural(below, "line"));
        let line = Line::new().made(mark, model.ink.theme.selection);
        let x = area.right().saturating_sub(u16::try_from(line.width()).unwrap_or(u16::MAX)).max(area.x);
        line.draw(buffer, x, area.bottom() - 1, usize::from(area.width));
    }
    cursor
}

pub(super) fn draw_none(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let ink = &model.ink;
    let key = |key: &'static str| Line::new().own(key, ink.theme.accent);
    let lines = [
        Line::new().own("no terminal is open", ink.theme.text),
        Line::new(),
        Line::new().own("when an agent opens a session, its live terminal is here", ink.theme.dim),
        key("m").own(" what the agent says and asks for", ink.theme.dim),
        key("j").own(" every record of the journal", ink.theme.dim),
        key("?").own(" all keys", ink.theme.dim),
    ];
    empty(&lines, area, buffer);
}

/// Number and name at the left, the boundary at the right: whatever fits, state and tier first.
pub(super) fn titles(model: &Workbench, id: SessionId, width: u16) -> (Line, Line) {
    let ink = &model.ink;
    let Some(session) = model.projection().session(id) else { return (Line::new(), Line::new()) };
    let mut title = Line::new().made(session.number.to_string(), ink.theme.accent).gap(1).outside(
        &session.tool,
        ink.theme.text,
        ink,
    );
    if !session.command.is_empty() {
        title = title.gap(1).own(ink.glyphs.dot, ink.theme.dim).gap(1).outside(&session.command, ink.theme.text, ink);
    }
    let title = title.fit(34, ink);
    let room = usize::from(width).saturating_sub(7 + title.width());
    let full = facts(model, session, 3);
    for detail in (0..=2).rev() {
        if facts(model, session, detail + 1).width() <= room {
            return (title, facts(model, session, detail + 1));
        }
    }
    (title, facts(model, session, 0).fit(room.min(full.width()), ink))
}

/// Detail 3: everything; 2: without words; 1: state, tier, network; 0: state and tier.
fn facts(model: &Workbench, session: &Session, detail: u8) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let now = model.now();
    let gap = || Line::new().gap(1).own(ink.glyphs.dot, theme.dim).gap(1);
    let mut line = state(model, session, detail == 0);
    let tier = &session.enforcement.tier;
    let tier_style = if tier == "none" { theme.danger } else { theme.text };
    line = line.then(gap()).outside(tier, tier_style, ink);
    if session.is_open() {
        line = line.gap(1).own(ink.glyphs.running, theme.ok);
    }
    if detail >= 2 {
        let held = minutes(session.closed.unwrap_or(now).since(session.opened));
        line = if detail >= 3 { line.own(" held ", theme.dim) } else { line.gap(1) };
        line = line.made(held, theme.dim);
    }
    if detail >= 1 {
        let net_style = if session.network == "none" { theme.text } else { theme.danger };
        line = line.then(gap()).own("net ", net_style).outside(&session.network, net_style, ink);
    }
    if detail >= 2 && session.is_open() {
        let left = session.deadline.since(now);
        let style = if left < 60_000 { theme.wait } else { theme.dim };
        line = line.then(gap()).own("ends in ", style).made(minutes(left), style);
    }
    line
}

fn state(model: &Workbench, session: &Session, short: bool) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    if model.projection().session_waits(session.id) {
        let style = theme.wait.add_modifier(Modifier::BOLD);
        let words = if short { " [w]" } else { " waits for you [w]" };
        return Line::new().own(ink.glyphs.waiting, style).own(words, style);
    }
    match &session.state {
        SessionState::TakenOver(by) if *by == model.me => {
            Line::new().own(ink.glyphs.person, theme.accent).own(" yours", theme.accent)
        }
        SessionState::TakenOver(by) => {
            let line = Line::new().own(ink.glyphs.person, theme.accent).own(" taken over by ", theme.accent);
            line.outside(&by.name, theme.accent, ink).fit(32, ink)
        }
        SessionState::Closed { why, removal } => {
            let line = Line::new().own("ended: ", theme.dim).outside(why, theme.text, ink).fit(24, ink);
            match removal {
                Removal::Confirmed => line,
                Removal::Unconfirmed => line.own(", removal unconfirmed", theme.danger),
            }
        }
        SessionState::Starting | SessionState::Ready | SessionState::Busy(_) => {
            let touched = if session.touched { ", touched by a person" } else { "" };
            Line::new().own(session.word(), theme.text).own(touched, theme.dim)
        }
    }
}
