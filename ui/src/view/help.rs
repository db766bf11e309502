//! Every key, generated from the keymap.

use super::clear;
use super::footer::shown_key;
use super::frame::{Frame, Frames, inner};
use super::ink::Line;
use crate::keymap::{Binding, Context, TABLE};
use crate::model::Workbench;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// A row of the help.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HelpRow {
    Heading(Context),
    Key(&'static Binding),
    Blank,
}

/// All rows, grouped by place.
pub(crate) fn rows() -> Vec<HelpRow> {
    let mut rows = Vec::new();
    let mut context = None;
    for binding in TABLE.iter().filter(|binding| !binding.key.is_empty()) {
        if context != Some(binding.context) {
            if context.is_some() {
                rows.push(HelpRow::Blank);
            }
            rows.push(HelpRow::Heading(binding.context));
            context = Some(binding.context);
        }
        rows.push(HelpRow::Key(binding));
    }
    rows
}

pub(super) fn draw(model: &Workbench, at: usize, body: Rect, frames: &mut Frames, buffer: &mut Buffer) {
    let ink = &model.ink;
    let width = body.width.min(84);
    let area = Rect { x: body.x + (body.width - width) / 2, width, ..body };
    clear(area, buffer);
    let text = inner(area);
    let rows = rows();
    let at = at.min(rows.len().saturating_sub(usize::from(text.height)));
    let last = (at + usize::from(text.height)).min(rows.len());
    let facts = Line::new().made(format!("{}-{} of {}", at + 1, last, rows.len()), ink.theme.dim);
    let title = Line::new().own("Keys", ink.theme.text.add_modifier(Modifier::BOLD));
    frames.cut(area);
    frames.layer(&[Frame { area, focused: true, title, facts }], &[], buffer, ink);
    for (row, y) in rows.iter().skip(at).zip(text.y..text.bottom()) {
        let line = match row {
            HelpRow::Blank => continue,
            HelpRow::Heading(context) => {
                Line::new().gap(1).own(context.heading(), ink.theme.text.add_modifier(Modifier::BOLD))
            }
            HelpRow::Key(binding) => Line::new()
                .gap(3)
                .own(shown_key(binding.key, ink), ink.theme.accent)
                .pad_to(12)
                .own(binding.help, ink.theme.text),
        };
        line.fit(usize::from(text.width), ink).draw(buffer, text.x, y, usize::from(text.width));
    }
}
