//! The pane's second emulator: `vt100`. Simpler and less complete; it checks the first in tests.

use super::{CellWidth, Cursor, HISTORY_CELLS, HISTORY_LINES, Modes, PaneCell, PaneTerm, indexed, title};
use ratatui::style::{Color, Modifier, Style};
use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU16;
use stockade_protocol::text::Untrusted;

/// Keeps the title, ignores every other request.
#[derive(Default)]
struct Quiet {
    title: Option<Untrusted>,
}

impl vt100::Callbacks for Quiet {
    fn set_window_title(&mut self, _: &mut vt100::Screen, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.title = (!text.is_empty()).then(|| title(&text));
    }
}

/// A pane emulated by `vt100`.
pub struct Vt100Pane {
    /// Reading the history moves the emulator's view for a moment.
    parser: RefCell<vt100::Parser<Quiet>>,
    /// A copy, because the parser's own lives behind the cell.
    title: Option<Untrusted>,
}

impl fmt::Debug for Vt100Pane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vt100Pane").field("size", &self.size()).finish_non_exhaustive()
    }
}

fn at_least_one(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

impl Vt100Pane {
    /// A pane of this size; see [`super::SIZE_MIN`].
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let history = HISTORY_LINES.min(HISTORY_CELLS / usize::from(columns.max(1)));
        let parser =
            vt100::Parser::new_with_callbacks(at_least_one(rows), at_least_one(columns), history, Quiet::default());
        Self { parser: RefCell::new(parser), title: None }
    }
}

impl PaneTerm for Vt100Pane {
    fn advance(&mut self, bytes: &[u8]) {
        let parser = self.parser.get_mut();
        parser.process(bytes);
        self.title.clone_from(&parser.callbacks().title);
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.get_mut().set_size(at_least_one(rows), at_least_one(columns));
    }

    fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.parser.borrow().screen().size();
        (columns.get(), rows.get())
    }

    fn history(&self) -> usize {
        let parser = self.parser.borrow();
        if parser.screen().alternate_screen() { 0 } else { parser.screen().scrollback_len() }
    }

    fn line(&self, line: i32, visit: &mut dyn FnMut(u16, PaneCell<'_>)) {
        let (columns, rows) = self.size();
        let above = usize::try_from(line.saturating_neg()).unwrap_or(0);
        if line >= i32::from(rows) || above > self.history() {
            return;
        }
        let mut parser = self.parser.borrow_mut();
        parser.screen_mut().set_scrollback(above);
        let row = u16::try_from(line).unwrap_or(0);
        for column in 0..columns {
            let Some(cell) = parser.screen().cell(row, column) else { break };
            let width = if cell.is_wide() {
                CellWidth::Wide
            } else if cell.is_wide_continuation() {
                CellWidth::Spacer
            } else {
                CellWidth::Narrow
            };
            let text = if cell.has_contents() { cell.contents() } else { " " };
            visit(column, PaneCell { text, width, style: style(cell) });
        }
        parser.screen_mut().set_scrollback(0);
    }

    fn cursor(&self) -> Cursor {
        let parser = self.parser.borrow();
        let (row, column) = parser.screen().cursor_position();
        // After the last column has been written the cursor waits behind it.
        let column = column.min(parser.screen().size().1.get().saturating_sub(1));
        Cursor { column, row, visible: !parser.screen().hide_cursor() }
    }

    fn modes(&self) -> Modes {
        let parser = self.parser.borrow();
        let screen = parser.screen();
        Modes {
            app_cursor: screen.application_cursor(),
            bracketed_paste: screen.bracketed_paste(),
            alternate_screen: screen.alternate_screen(),
        }
    }

    fn title(&self) -> Option<&Untrusted> {
        self.title.as_ref()
    }
}

fn style(cell: &vt100::Cell) -> Style {
    let mut style = Style::new().fg(color(cell.fgcolor())).bg(color(cell.bgcolor()));
    let attributes = [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ];
    for (set, modifier) in attributes {
        if set {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn color(asked: vt100::Color) -> Color {
    match asked {
        vt100::Color::Default => Color::Reset,
        vt100::Color::Idx(index) => indexed(index),
        vt100::Color::Rgb(r, g, b) => Color::Rgb(r, g, b),
    }
}
