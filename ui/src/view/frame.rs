//! Borders. Neighbours share one line: rectangles overlap by their edges, and where lines meet they join.

use super::ink::{Ink, Line};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;

const UP: u8 = 1;
const RIGHT: u8 = 2;
const DOWN: u8 = 4;
const LEFT: u8 = 8;

/// A pane's frame: its rectangle with the border, what stands in the border's upper edge.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub area: Rect,
    pub focused: bool,
    /// At the left of the upper edge.
    pub title: Line,
    /// At the right of it.
    pub facts: Line,
}

/// Everything with a border on one screen, in layers: what lies over cuts off what is under it, and joins its lines.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Arms of lines that are on the screen.
    cells: BTreeMap<(u16, u16), Joint>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Joint {
    arms: u8,
    focused: bool,
}

impl Frames {
    /// Draws frames that share their edges, and lines across (from, row, width).
    pub(crate) fn layer(&mut self, frames: &[Frame], rules: &[(u16, u16, u16)], buffer: &mut Buffer, ink: &Ink) {
        let mut drawn = Vec::new();
        let mut mark = |at: (u16, u16), arms: u8, focused: bool| {
            let joint = self.cells.entry(at).or_default();
            joint.arms |= arms;
            joint.focused |= focused;
            drawn.push(at);
        };
        for frame in frames.iter().filter(|frame| frame.area.width >= 2 && frame.area.height >= 2) {
            let Rect { x, y, width, height } = frame.area;
            let (right, bottom) = (x + width - 1, y + height - 1);
            for column in x..=right {
                let arms = if column > x { LEFT } else { 0 } | if column < right { RIGHT } else { 0 };
                mark((column, y), arms, frame.focused);
                mark((column, bottom), arms, frame.focused);
            }
            for row in y..=bottom {
                let arms = if row > y { UP } else { 0 } | if row < bottom { DOWN } else { 0 };
                mark((x, row), arms, frame.focused);
                mark((right, row), arms, frame.focused);
            }
        }
        for &(x, y, width) in rules {
            for column in x..x.saturating_add(width) {
                let arms = if column > x { LEFT } else { 0 } | if column + 1 < x + width { RIGHT } else { 0 };
                mark((column, y), arms, false);
            }
        }
        for at in drawn {
            let Some(joint) = self.cells.get(&at) else { continue };
            let style = if joint.focused { ink.theme.border_focus } else { ink.theme.border };
            if let Some(cell) = buffer.cell_mut(at) {
                cell.set_symbol(sign(joint.arms, ink.ascii)).set_style(style);
            }
        }
        for frame in frames {
            frame.draw_titles(buffer, ink);
        }
    }

    /// Cuts off the lines under an area that is about to be drawn over.
    pub(crate) fn cut(&mut self, area: Rect) {
        if area.width < 2 || area.height < 2 {
            return;
        }
        let (left, right, top, bottom) = (area.x, area.right() - 1, area.y, area.bottom() - 1);
        self.cells.retain(|&(x, y), joint| {
            if x < left || x > right || y < top || y > bottom {
                return true;
            }
            // On the edge, only what goes on outside or along it stays.
            let side = x == left || x == right;
            let edge = y == top || y == bottom;
            joint.focused = false;
            if side && !edge {
                joint.arms &= !(if x == left { RIGHT } else { LEFT });
            }
            if edge && !side {
                joint.arms &= !(if y == top { DOWN } else { UP });
            }
            side || edge
        });
    }
}

impl Frame {
    fn draw_titles(&self, buffer: &mut Buffer, ink: &Ink) {
        let room = usize::from(self.area.width).saturating_sub(4);
        let border = if self.focused { ink.theme.border_focus } else { ink.theme.border };
        let facts = self.facts.width();
        let with_facts = facts > 0 && facts + 3 + self.title.width().min(12) <= room;
        let title_room = if with_facts { room - facts - 3 } else { room };
        if self.title.width() > 0 {
            let title = self.title.clone().fit(title_room, ink);
            let title = Line::new().gap(1).then(title).gap(1);
            title.draw(buffer, self.area.x + 1, self.area.y, room + 2);
        }
        if with_facts {
            let facts = Line::new().gap(1).then(self.facts.clone()).gap(1).own(ink.glyphs.line, border);
            let x = self.area.right().saturating_sub(u16::try_from(facts.width()).unwrap_or(u16::MAX) + 1);
            facts.draw(buffer, x, self.area.y, facts.width());
        }
    }
}

/// The inside of a bordered rectangle.
pub(crate) fn inner(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(1),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    }
}

const fn sign(arms: u8, ascii: bool) -> &'static str {
    const LEFT_RIGHT: u8 = LEFT | RIGHT;
    const UP_DOWN: u8 = UP | DOWN;
    if ascii {
        return match arms {
            LEFT_RIGHT | LEFT | RIGHT => "-",
            UP_DOWN | UP | DOWN => "|",
            _ => "+",
        };
    }
    match arms & 15 {
        3 => "└",
        6 => "┌",
        7 => "├",
        9 => "┘",
        11 => "┴",
        12 => "┐",
        13 => "┤",
        14 => "┬",
        15 => "┼",
        UP | DOWN | UP_DOWN => "│",
        _ => "─",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Glyphs, Theme};
    use ratatui::style::Style;

    fn rows(buffer: &Buffer) -> String {
        let width = usize::from(buffer.area.width);
        let row = |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
        buffer.content.chunks(width).map(row).collect::<Vec<_>>().join("\n")
    }

    fn frame(x: u16, y: u16, width: u16, height: u16) -> Frame {
        Frame { area: Rect::new(x, y, width, height), ..Frame::default() }
    }

    fn drawn(ascii: bool, over: bool) -> String {
        let ink = Ink { theme: Theme::dark(), glyphs: Glyphs::new(ascii), ascii };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 24, 5));
        let mut frames = Frames::default();
        let title = Line::new().own("left", Style::new());
        let focused = Frame { focused: true, ..frame(9, 2, 15, 3) };
        let left = Frame { title, ..frame(0, 0, 10, 5) };
        frames.layer(&[left, frame(9, 0, 15, 3), focused], &[], &mut buffer, &ink);
        if over {
            let area = Rect::new(4, 1, 12, 4);
            frames.cut(area);
            for position in area.positions() {
                buffer[position].reset();
            }
            frames.layer(&[Frame { area, ..Frame::default() }], &[(4, 3, 12)], &mut buffer, &ink);
        }
        rows(&buffer)
    }

    #[test]
    fn neighbours_share_one_line_and_lines_join() {
        let lines = [
            "┌ left ──┬─────────────┐",
            "│        │             │",
            "│        ├─────────────┤",
            "│        │             │",
            "└────────┴─────────────┘",
        ];
        assert_eq!(drawn(false, false), lines.join("\n"));
        assert!(drawn(true, false).is_ascii());
        assert!(drawn(true, false).starts_with("+ left --+-------------+"));
    }

    #[test]
    fn what_lies_over_joins_the_lines_it_cuts() {
        let lines = [
            "┌ left ──┬─────────────┐",
            "│   ┌────┴─────┐       │",
            "│   │          ├───────┤",
            "│   ├──────────┤       │",
            "└───┴──────────┴───────┘",
        ];
        assert_eq!(drawn(false, true), lines.join("\n"));
    }
}
