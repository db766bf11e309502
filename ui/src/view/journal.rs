//! The journal, newest record at the bottom.

use super::empty;
use super::ink::Line;
use crate::model::Workbench;
use crate::projection::{Mark, Row};
use crate::text::{clock, count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Says how many records there are, and how many of them are listed: hiding is never silent.
pub(super) fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let projection = model.projection();
    let records = projection.journal.records;
    let listed = projection.rows().iter().filter(|row| model.filter.lists(row.kind)).count() as u64;
    let title =
        Line::new().own("Journal", ink.theme.text).gap(1).made(format!("{} records", count(records)), ink.theme.dim);
    let older = records.saturating_sub(projection.rows().len() as u64);
    let hidden = (projection.rows().len() as u64).saturating_sub(listed);
    let facts = match (hidden, older) {
        (0, 0) => "all listed".to_owned(),
        (0, older) => format!("{} older: stockade journal show", count(older)),
        (hidden, 0) => format!("{} of terminals not listed, f lists all", count(hidden)),
        (hidden, older) => format!("{} of terminals and {} older not listed", count(hidden), count(older)),
    };
    let facts = Line::new().made(facts, ink.theme.dim);
    (title, facts)
}

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let ink = &model.ink;
    let rows = model.projection().rows();
    if rows.is_empty() {
        let lines = [Line::new().own("nothing recorded yet; every step of every call will be here", ink.theme.dim)];
        empty(&lines, area, buffer);
        return;
    }
    let width = usize::from(area.width);
    let height = usize::from(area.height);
    let until = model.journal_at;
    let listed = rows.iter().rev().filter(|row| model.filter.lists(row.kind));
    let shown: Vec<&Row> = listed.skip_while(|row| until.is_some_and(|seq| row.seq > seq)).take(height).collect();
    for (row, y) in shown.iter().rev().zip(area.y..area.bottom()) {
        line(model, row, width).draw(buffer, area.x, y, width);
    }
}

/// Time, mark, type, subject, what it says, digest; the last fall away where there is no room.
fn line(model: &Workbench, row: &Row, width: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let (mark, style) = match row.mark {
        Mark::Plain => (" ", theme.dim),
        Mark::Call => (ink.glyphs.running, theme.accent),
        Mark::Asked => (ink.glyphs.waiting, theme.wait),
        Mark::Refused => (ink.glyphs.failed, theme.text),
        Mark::Person => (ink.glyphs.person, theme.accent),
        Mark::Done | Mark::Published => (ink.glyphs.done, theme.ok),
    };
    let (kinds, subjects) = if width >= 110 { (20, 22) } else { (18, 16) };
    let kind = Line::new().own(row.kind, theme.dim).fit(kinds, ink);
    let subject = Line::new().outside(&row.subject, theme.text, ink).fit(subjects, ink);
    let line = Line::new()
        .made(clock(row.time, &model.zone), theme.dim)
        .gap(1)
        .own(mark, style)
        .gap(1)
        .then(kind)
        .pad_to(11 + kinds + 1)
        .then(subject)
        .pad_to(11 + kinds + 1 + subjects + 1);
    let digest = row.digest.filter(|_| width >= 90).map(|digest| digest.short()).unwrap_or_default();
    let digest = Line::new().made(digest, theme.dim);
    let room = width.saturating_sub(line.width() + digest.width() + usize::from(digest.width() > 0) * 2);
    let detail = Line::new().outside(&row.detail, theme.text, ink).fit(room, ink);
    let line = line.then(detail);
    if digest.width() > 0 { line.pad_to(width.saturating_sub(digest.width())).then(digest) } else { line }
}
