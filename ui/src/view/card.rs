//! The approval card: its rows, the line that says how much is unseen, and its keys.

use super::frame::{Frame, Frames};
use super::ink::Line;
use super::layout::CardPlace;
use crate::card::{Gate, Off, QUIET_MS, STEPS};
use crate::model::Workbench;
use crate::projection::Settled;
use crate::text::{count, plural, span};
use crate::update::EXPIRY_WARNING_MS;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::Modifier;
use stockade_protocol::limits::APPROVE_MIN_SIZE;
use stockade_protocol::receipt::Decision;
use stockade_protocol::text::SafeText;

pub(super) fn draw(model: &Workbench, place: &CardPlace, frames: &mut Frames, buffer: &mut Buffer) -> Option<Position> {
    let ink = &model.ink;
    let desk = model.desk.as_ref()?;
    let (title, facts) = titles(model);
    let frame = Frame { area: place.area, focused: true, title, facts };
    let rule = (place.area.x, place.rule, place.area.width);
    let rules = if place.rule + 1 < place.area.bottom() { vec![rule] } else { Vec::new() };
    frames.layer(&[frame], &rules, buffer, ink);
    let rows = &model.laid.rows;
    let width = usize::from(place.text.width);
    for (row, y) in rows.iter().skip(desk.scroll).zip(place.text.y..place.text.bottom()) {
        row.line.draw(buffer, place.text.x, y, width);
    }
    let above = desk.scroll;
    let below = rows.len().saturating_sub(desk.scroll + usize::from(place.text.height));
    unseen(model, place, above, below, buffer);
    note(model, place, buffer);
    keys(model, place, buffer)
}

fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let theme = &ink.theme;
    let Some(desk) = &model.desk else { return (Line::new(), Line::new()) };
    let bold = theme.text.add_modifier(Modifier::BOLD);
    let waiting = model.projection().waiting();
    let place = waiting.iter().position(|approval| approval.call == desk.call);
    let gate = model.gate();
    let mut title = match gate {
        Gate::Off(Off::Malformed) => Line::new().own("MALFORMED", theme.danger.add_modifier(Modifier::BOLD)),
        Gate::Off(Off::Settled) => Line::new().own("OVER", bold),
        _ => Line::new().own("APPROVE?", theme.wait.add_modifier(Modifier::BOLD)),
    };
    if let Some(at) = place {
        title = title.gap(2).made(format!("{} of {}", at + 1, waiting.len()), theme.text);
    }
    let Some(approval) = place.and_then(|at| waiting.get(at)) else { return (title, Line::new()) };
    let left = approval.expires.since(model.now());
    let style = if left <= EXPIRY_WARNING_MS { theme.wait.add_modifier(Modifier::BOLD) } else { theme.dim };
    let mark = if left <= EXPIRY_WARNING_MS { Line::new().own(ink.glyphs.waiting, style).gap(1) } else { Line::new() };
    (title, mark.made(format!("expires in {}", span(left.div_ceil(1_000))), style))
}

/// In the line under the text: how many rows are out of sight, and how to get there.
fn unseen(model: &Workbench, place: &CardPlace, above: usize, below: usize, buffer: &mut Buffer) {
    let ink = &model.ink;
    let text = match (above, below) {
        (0, 0) => return,
        (0, below) => format!("{} below, PgDn", plural(below as u64, "more line")),
        (above, 0) => format!("{} above, PgUp", plural(above as u64, "line")),
        (above, below) => format!("{} above, {} below, PgDn", plural(above as u64, "line"), count(below as u64)),
    };
    let room = usize::from(place.area.width).saturating_sub(4);
    let line = Line::new().gap(1).made(text, ink.theme.wait).gap(1).fit(room, ink);
    line.draw(buffer, place.area.x + 2, place.rule, room);
}

fn keys(model: &Workbench, place: &CardPlace, buffer: &mut Buffer) -> Option<Position> {
    let area = place.keys;
    let width = usize::from(area.width);
    if area.is_empty() {
        return None;
    }
    if let Some(reason) = &model.reason {
        return reason_line(model, reason, place, buffer);
    }
    let gate = model.gate();
    let refuse = refuse_line(model, &gate, width);
    if area.height >= 2 {
        let gate = gate_line(model, &gate, width);
        refuse.draw(buffer, area.x, area.y, width);
        Line::new().pad_to(width.saturating_sub(gate.width())).then(gate).draw(buffer, area.x, area.y + 1, width);
        return None;
    }
    let gate = gate_line(model, &gate, width.saturating_sub(refuse.width() + 2));
    refuse.pad_to(width.saturating_sub(gate.width())).then(gate).draw(buffer, area.x, area.y, width);
    None
}

/// In the lower edge: what became of the newest key.
fn note(model: &Workbench, place: &CardPlace, buffer: &mut Buffer) {
    let ink = &model.ink;
    let Some(note) = model.desk.as_ref().and_then(|desk| desk.note.as_ref()) else { return };
    let room = usize::from(place.area.width).saturating_sub(4);
    let style = ink.theme.text.add_modifier(Modifier::BOLD);
    let line = Line::new().gap(1).then(Line::new().outside(note, style, ink).fit(room.saturating_sub(2), ink)).gap(1);
    line.draw(buffer, place.area.x + 2, place.area.bottom().saturating_sub(1), room);
}

fn refuse_line(model: &Workbench, gate: &Gate, width: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    if let Gate::Off(Off::Settled | Off::Replay) = gate {
        return Line::new().own("[Esc]", theme.accent).own(" put away", theme.text);
    }
    // Refuse has focus: it is marked, and it is the only key there is at every size.
    let focus = theme.selection.add_modifier(Modifier::BOLD);
    let short = Line::new().own("[n] refuse", focus);
    let long = short.clone().gap(3).own("[r]", theme.accent).own(" refuse with reason", theme.text);
    let longer = long.clone().gap(3).own("[Esc]", theme.accent).own(" later", theme.text);
    if width >= 100 || (48..96).contains(&width) {
        longer
    } else if width >= 60 {
        long
    } else {
        short
    }
}

/// What stands where the approve key is.
fn gate_line(model: &Workbench, gate: &Gate, room: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let approve = || Line::new().own("[A]", theme.accent).own(" approve once", theme.text);
    let bold = theme.text.add_modifier(Modifier::BOLD);
    let forms = match gate {
        Gate::Off(Off::Small) => {
            let needs = format!("{}x{}", APPROVE_MIN_SIZE.0, APPROVE_MIN_SIZE.1);
            vec![
                Line::new().made(format!("approve is off: too small, needs {needs}"), bold),
                Line::new().made(format!("approve off: needs {needs}"), bold),
                Line::new().made(format!("needs {needs}"), bold),
            ]
        }
        Gate::Off(Off::Malformed) => vec![
            Line::new().own("malformed: it does not say what would run, so it cannot be approved", theme.danger),
            Line::new().own("malformed: cannot be approved", theme.danger),
            Line::new().own("malformed", theme.danger),
        ],
        Gate::Off(Off::Settled) => vec![settled(model)],
        Gate::Off(Off::Replay) => vec![
            Line::new().own("a recording: nothing is decided here", theme.text),
            Line::new().own("a recording", theme.text),
        ],
        Gate::Unseen { seen, total } => {
            let numbers = format!("{} of {}", count(*seen as u64), count(*total as u64));
            vec![
                Line::new().made(format!("{numbers} characters seen: read to the end to approve"), theme.wait),
                Line::new().made(format!("{numbers} characters seen"), theme.wait),
                Line::new().made(format!("{numbers} seen"), theme.wait),
            ]
        }
        Gate::Arming(left) => {
            let done = STEPS.saturating_sub(left.div_ceil(QUIET_MS / STEPS));
            let bar = (0..STEPS).fold(Line::new(), |bar, step| {
                bar.own(if step < done { ink.glyphs.full } else { ink.glyphs.empty }, theme.wait)
            });
            let seconds = format!("{}.{} s", left / 1_000, left % 1_000 / 100);
            vec![
                Line::new()
                    .own("[A] approve once", theme.dim)
                    .made(format!("  armed in {seconds} without a key  "), theme.text)
                    .then(bar.clone()),
                Line::new().own("[A]", theme.dim).made(format!(" armed in {seconds}  "), theme.text).then(bar),
            ]
        }
        Gate::Armed => vec![approve().gap(2).own("armed", theme.ok), approve()],
        Gate::Sent => {
            vec![Line::new().own("signing and sending the answer", theme.text), Line::new().own("sent", theme.text)]
        }
    };
    let last = forms.last().cloned().unwrap_or_default();
    forms.into_iter().find(|form| form.width() <= room).unwrap_or_else(|| last.fit(room, ink))
}

fn settled(model: &Workbench) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let settled = model.desk.as_ref().and_then(|desk| model.live.approval(desk.call)).and_then(|a| a.settled.as_ref());
    match settled {
        Some(Settled::Decided { decision, by, .. }) => {
            let word = match decision {
                Decision::Approve => "already approved by ",
                Decision::Reject => "already refused by ",
            };
            Line::new().own(word, theme.text).outside(by, theme.text, ink).fit(50, ink)
        }
        Some(Settled::Ended { outcome }) => Line::new().own("the call ended: ", theme.text).own(outcome, theme.text),
        Some(Settled::Expired) | None => Line::new().own("expired: nobody decided it", theme.text),
    }
}

/// The reason being written: its end stays in sight.
fn reason_line(model: &Workbench, reason: &str, place: &CardPlace, buffer: &mut Buffer) -> Option<Position> {
    let ink = &model.ink;
    let theme = &ink.theme;
    let area = place.keys;
    let width = usize::from(area.width);
    let head = Line::new().own("why refused: ", theme.accent);
    let hint = Line::new()
        .own(super::footer::shown_key("⏎", ink), theme.accent)
        .own(" refuse  ", theme.dim)
        .own("Esc", theme.accent)
        .own(" back", theme.dim);
    let two = area.height >= 2;
    let room = width.saturating_sub(head.width() + 1 + if two { 0 } else { hint.width() + 2 });
    let text = Line::new().drawn(ink.pieces(&SafeText::line(reason), theme.text)).end(room, ink);
    let x = area.x + u16::try_from(head.width() + text.width()).unwrap_or(0);
    head.then(text).draw(buffer, area.x, area.y, width);
    let at = area.right().saturating_sub(u16::try_from(hint.width()).unwrap_or(u16::MAX));
    hint.draw(buffer, at.max(area.x), if two { area.y + 1 } else { area.y }, width);
    Some(Position::new(x.min(area.right().saturating_sub(1)), area.y))
}
