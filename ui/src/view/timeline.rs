//! The time line of a recording.

use super::frame::Frame;
use super::ink::Line;
use crate::model::Workbench;
use crate::projection::Mark;
use crate::replay::SPEEDS;
use crate::text::{clock, count, date, duration};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use stockade_protocol::time::Timestamp;

/// Its frame, which shares a line with the panes above.
pub(super) fn frame(model: &Workbench, area: Rect) -> Frame {
    let (title, facts) = titles(model);
    Frame { area, focused: false, title, facts }
}

pub(super) fn draw(model: &Workbench, text: Rect, buffer: &mut Buffer) {
    let Some(replay) = &model.replay else { return };
    let ink = &model.ink;
    let width = usize::from(text.width);
    let marks = replay.marks(&model.events, width);
    let cursor = replay.column(&model.events, width);
    let mut bar = Line::new();
    for (at, mark) in marks.iter().enumerate() {
        let (sign, style) = sign(model, *mark);
        let style = if at == cursor { style.add_modifier(Modifier::REVERSED) } else { style };
        let sign = if at == cursor && *mark == Mark::Plain { ink.glyphs.here } else { sign };
        bar = bar.own(sign, style);
    }
    bar.draw(buffer, text.x, text.y, width);
    if text.height >= 2 {
        at_cursor(model, width).draw(buffer, text.x, text.y + 1, width);
    }
    if text.height >= 3 {
        legend(model).fit(width, ink).draw(buffer, text.x, text.y + 2, width);
    }
}

fn sign(model: &Workbench, mark: Mark) -> (&'static str, ratatui::style::Style) {
    let (glyphs, theme) = (&model.ink.glyphs, &model.ink.theme);
    match mark {
        Mark::Plain => (glyphs.line, theme.border),
        Mark::Call => (glyphs.running, theme.accent),
        Mark::Asked => (glyphs.waiting, theme.wait),
        Mark::Refused => (glyphs.failed, theme.text),
        Mark::Person => (glyphs.person, theme.accent),
        Mark::Done | Mark::Published => (glyphs.done, theme.ok),
    }
}

fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let Some(replay) = &model.replay else { return (Line::new(), Line::new()) };
    let events = &model.events;
    let (first, last) = replay.bounds(events);
    let time = |cursor: usize| cursor.checked_sub(1).and_then(|at| events.get(at)).map_or(Timestamp(0), |e| e.time);
    let name = replay.run.and_then(|run| replay.projection.run(run)).map(|run| run.title.text.raw().to_owned());
    let mut title = Line::new().own("replay", ink.theme.accent.add_modifier(Modifier::BOLD)).gap(1);
    title = match &name {
        Some(name) => title.outside(name, ink.theme.text, ink).fit(40, ink),
        None => title.own("everything", ink.theme.text),
    };
    let state = if replay.playing.is_some() { "playing" } else { "paused" };
    let speed = SPEEDS.get(replay.speed).copied().unwrap_or(1);
    let facts = format!(
        "{} / {}  {}{speed} {state}  event {} of {}",
        duration(time(replay.cursor).since(time(first))),
        duration(time(last).since(time(first))),
        ink.glyphs.times,
        count((replay.cursor + 1).saturating_sub(first.max(1)) as u64),
        count((last + 1).saturating_sub(first.max(1)) as u64),
    );
    let mut line = Line::new().made(facts, ink.theme.text);
    let waiting = model.live.waiting().len();
    if waiting > 0 && !model.recording() {
        // What waits now is not part of the past that is shown.
        let style = ink.theme.wait;
        line = line.gap(2).own(ink.glyphs.waiting, style).made(format!(" {waiting} waiting now, r returns"), style);
    }
    (title, line)
}

/// What happened at the cursor, in one line.
fn at_cursor(model: &Workbench, width: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let Some(row) = model.projection().rows().back() else {
        return Line::new().own("before the first event; Space plays", theme.dim);
    };
    let (sign, style) = sign(model, row.mark);
    let when = format!("{} {}", date(row.time, &model.zone), clock(row.time, &model.zone));
    let line = Line::new()
        .made(when, theme.dim)
        .gap(1)
        .own(if row.mark == Mark::Plain { " " } else { sign }, style)
        .gap(1)
        .own(row.kind, theme.text)
        .gap(2)
        .outside(&row.subject, theme.text, ink)
        .gap(2)
        .outside(&row.detail, theme.text, ink);
    let digest = row.digest.map(|digest| digest.short()).unwrap_or_default();
    let digest = Line::new().made(digest, theme.dim);
    line.fit(width.saturating_sub(digest.width() + 2), ink).pad_to(width.saturating_sub(digest.width())).then(digest)
}

fn legend(model: &Workbench) -> Line {
    let ink = &model.ink;
    let mut line = Line::new();
    let words = [
        (Mark::Call, "calls"),
        (Mark::Asked, "asked"),
        (Mark::Refused, "refused, failed"),
        (Mark::Person, "a person"),
        (Mark::Done, "done, published"),
    ];
    for (mark, word) in words {
        let (sign, style) = sign(model, mark);
        line = line.own(sign, style).gap(1).own(word, ink.theme.dim).gap(3);
    }
    line
}
