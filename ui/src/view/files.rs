//! Files that calls read and create.

use super::empty;
use super::ink::Line;
use crate::model::Workbench;
use crate::projection::{FileRow, FileState};
use crate::text::bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub(super) fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let count = model.projection().files().len();
    let facts = if count > 0 { Line::new().made(count.to_string(), ink.theme.dim) } else { Line::new() };
    (Line::new().own("Files", ink.theme.text), facts)
}

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let ink = &model.ink;
    let files = model.projection().files();
    if files.is_empty() {
        let lines = [
            Line::new().own("no files granted", ink.theme.dim),
            Line::new().own("a tool's manifest names", ink.theme.dim),
            Line::new().own("them; all else is out of", ink.theme.dim),
            Line::new().own("its reach", ink.theme.dim),
        ];
        empty(&lines, area, buffer);
        return;
    }
    let height = usize::from(area.height);
    let up = model.files_up.min(files.len().saturating_sub(height));
    let first = files.len().saturating_sub(height + up);
    let width = usize::from(area.width);
    for (file, y) in files.iter().skip(first).zip(area.y..area.bottom()) {
        row(model, file, width).draw(buffer, area.x, y, width);
    }
}

fn row(model: &Workbench, file: &FileRow, width: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let size = file.bytes.map(bytes).unwrap_or_default();
    let (letter, state) = match &file.state {
        FileState::Snapshot => ("r", Line::new().made(size, theme.dim).gap(1).own(ink.glyphs.shield, theme.dim)),
        FileState::Declared => ("c", Line::new().own("declared", theme.dim)),
        FileState::Staged => ("c", Line::new().own("staged", theme.wait)),
        FileState::Publishing => ("c", Line::new().own("publishing", theme.wait)),
        FileState::Published => ("c", Line::new().made(size, theme.dim).gap(1).own(ink.glyphs.done, theme.ok)),
        FileState::Unpublished(_) => {
            ("c", Line::new().own(ink.glyphs.failed, theme.text).own(" unpublished", theme.text))
        }
        FileState::Settled(state) => {
            let mark = if state == "published" { ink.glyphs.done } else { ink.glyphs.failed };
            ("c", Line::new().own(mark, theme.text).gap(1).outside(state, theme.text, ink).fit(14, ink))
        }
    };
    let head = Line::new().own(letter, theme.accent).gap(1);
    let room = width.saturating_sub(head.width() + state.width() + 1);
    let path = Line::new().outside(file.path.text.raw(), theme.text, ink).fit_middle(room, ink);
    let left = head.then(path);
    left.pad_to(width.saturating_sub(state.width())).then(state)
}
