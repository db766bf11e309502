//! The line at the bottom: what to press here, or what was just said.

use super::ink::{Ink, Line};
use crate::card::Gate;
use crate::keymap::{Action, Binding, Context, Judge, footer};
use crate::model::{Over, Workbench};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    let ink = &model.ink;
    let width = usize::from(area.width);
    if let Some(Over::Search(needle)) = &model.over {
        let line = Line::new().own(" search: ", ink.theme.accent).outside(needle, ink.theme.text, ink);
        let hints = hints(&footer(&[Context::Search]), width / 2, ink);
        let x = area.x + u16::try_from(line.width().min(width - 1)).unwrap_or(0);
        let line = line.fit(width.saturating_sub(1), ink);
        let line = if line.width() + hints.width() + 2 < width { line.gap(2).then(hints) } else { line };
        line.draw(buffer, area.x, area.y, width);
        return Some(Position::new(x, area.y));
    }
    let line = match (&model.failed, &model.notice) {
        (Some(why), _) => Line::new()
            .own(" everything was ended: ", ink.theme.danger)
            .outside(why, ink.theme.danger, ink)
            .fit(width, ink),
        (None, Some(notice)) => Line::new().gap(1).outside(notice, ink.theme.accent, ink).fit(width, ink),
        (None, None) => {
            // What the approve key does stands in the card; here it is named only while it works.
            let armed = model.gate() == Gate::Armed;
            let mut bindings = footer(&model.contexts());
            bindings.retain(|binding| armed || binding.action != Action::Judge(Judge::Approve));
            hints(&bindings, width, ink)
        }
    };
    line.draw(buffer, area.x, area.y, width);
    None
}

/// Whole hints while they fit; the help key always does.
fn hints(bindings: &[&Binding], width: usize, ink: &Ink) -> Line {
    let hint = |binding: &Binding| {
        let key = shown_key(binding.key, ink);
        Line::new().own(key, ink.theme.accent).gap(1).own(binding.name, ink.theme.dim)
    };
    let help = bindings
        .iter()
        .find(|binding| binding.key == "?")
        .map(|_| Line::new().gap(2).own("?", ink.theme.accent).own(" help", ink.theme.dim));
    let reserved = help.as_ref().map_or(0, Line::width) + 1;
    let mut line = Line::new().gap(1);
    for binding in bindings.iter().filter(|binding| binding.key != "?") {
        let hint = hint(binding);
        let gap = if line.width() > 1 { 2 } else { 0 };
        if line.width() + gap + hint.width() + reserved > width {
            break;
        }
        line = line.gap(gap).then(hint);
    }
    match help {
        Some(help) => line.then(help),
        None => line,
    }
}

/// A key's name; in ASCII, words stand for the signs.
pub(super) fn shown_key(key: &'static str, ink: &Ink) -> &'static str {
    match (key, ink.ascii) {
        ("⏎", true) => "Enter",
        ("↑↓", true) => "Up/Down",
        ("←→", true) => "Left/Right",
        ("↑", true) => "Up",
        ("↓", true) => "Down",
        ("←", true) => "Left",
        (key, _) => key,
    }
}
