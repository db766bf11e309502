//! The pane's first emulator: alacritty's grid and parser.

use super::quiet::Quiet;
use super::{CellWidth, Cursor, HISTORY_CELLS, HISTORY_LINES, Modes, PaneCell, PaneTerm, indexed};
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color as Asked, NamedColor, Processor, Timeout};
use ratatui::style::{Color, Modifier, Style};
use std::fmt;
use std::time::Duration;
use stockade_protocol::text::Untrusted;

/// Never waits: a program's synchronized update is drawn as it comes, so that a pane depends on no clock.
#[derive(Default)]
struct Never;

impl Timeout for Never {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }
    fn screen_lines(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.columns
    }
}

/// A pane emulated by `alacritty_terminal`.
pub struct AlacrittyPane {
    term: Term<VoidListener>,
    processor: Processor<Never>,
    title: Option<Untrusted>,
}

impl fmt::Debug for AlacrittyPane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlacrittyPane").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl AlacrittyPane {
    /// A pane of this size; see [`super::SIZE_MIN`].
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let size = Size { columns: usize::from(columns), rows: usize::from(rows) };
        Self { term: Term::new(config(size.columns), &size, VoidListener), processor: Processor::new(), title: None }
    }
}

fn config(columns: usize) -> Config {
    Config {
        scrolling_history: HISTORY_LINES.min(HISTORY_CELLS / columns.max(1)),
        kitty_keyboard: false,
        osc52: Osc52::Disabled,
        ..Config::default()
    }
}

impl PaneTerm for AlacrittyPane {
    fn advance(&mut self, bytes: &[u8]) {
        let mut quiet = Quiet { term: &mut self.term, title: &mut self.title };
        self.processor.advance(&mut quiet, bytes);
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        let size = Size { columns: usize::from(columns), rows: usize::from(rows) };
        if size.columns > self.term.columns() {
            // Fewer lines first, so that the widened ones never exceed the bound.
            self.term.set_options(config(size.columns));
            self.term.resize(size);
        } else {
            self.term.resize(size);
            self.term.set_options(config(size.columns));
        }
    }

    fn size(&self) -> (u16, u16) {
        let small = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        (small(self.term.columns()), small(self.term.screen_lines()))
    }

    fn history(&self) -> usize {
        self.term.history_size()
    }

    fn line(&self, line: i32, visit: &mut dyn FnMut(u16, PaneCell<'_>)) {
        let line = Line(line);
        if line < self.term.topmost_line() || line > self.term.bottommost_line() {
            return;
        }
        let row = &self.term.grid()[line];
        let mut text = String::new();
        for column in 0..u16::try_from(self.term.columns()).unwrap_or(u16::MAX) {
            let cell = &row[Column(usize::from(column))];
            text.clear();
            // A tab is kept in the first of the cells it spans.
            text.push(if cell.c == '\t' { ' ' } else { cell.c });
            text.extend(cell.zerowidth().unwrap_or_default());
            let width = if cell.flags.contains(Flags::WIDE_CHAR) {
                CellWidth::Wide
            } else if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                CellWidth::Spacer
            } else {
                CellWidth::Narrow
            };
            visit(column, PaneCell { text: &text, width, style: style(cell) });
        }
    }

    fn cursor(&self) -> Cursor {
        let point = self.term.grid().cursor.point;
        Cursor {
            column: u16::try_from(point.column.0).unwrap_or(u16::MAX),
            row: u16::try_from(point.line.0).unwrap_or(0),
            visible: self.term.mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    fn modes(&self) -> Modes {
        let mode = self.term.mode();
        Modes {
            app_cursor: mode.contains(TermMode::APP_CURSOR),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            alternate_screen: mode.contains(TermMode::ALT_SCREEN),
        }
    }

    fn title(&self) -> Option<&Untrusted> {
        self.title.as_ref()
    }
}

fn style(cell: &Cell) -> Style {
    let (fg, dim) = color(cell.fg);
    let (bg, _) = color(cell.bg);
    let mut style = Style::new().fg(fg).bg(bg);
    let attributes = [
        (Flags::BOLD, Modifier::BOLD),
        (Flags::DIM, Modifier::DIM),
        (Flags::ITALIC, Modifier::ITALIC),
        (Flags::ALL_UNDERLINES, Modifier::UNDERLINED),
        (Flags::INVERSE, Modifier::REVERSED),
        (Flags::HIDDEN, Modifier::HIDDEN),
        (Flags::STRIKEOUT, Modifier::CROSSED_OUT),
    ];
    for (flag, modifier) in attributes {
        if cell.flags.intersects(flag) {
            style = style.add_modifier(modifier);
        }
    }
    if dim { style.add_modifier(Modifier::DIM) } else { style }
}

/// The colour asked for, and whether it is one of the dim forms.
fn color(asked: Asked) -> (Color, bool) {
    match asked {
        Asked::Spec(rgb) => (Color::Rgb(rgb.r, rgb.g, rgb.b), false),
        Asked::Indexed(index) => (indexed(index), false),
        Asked::Named(name) => match name {
            NamedColor::DimBlack => (Color::Black, true),
            NamedColor::DimRed => (Color::Red, true),
            NamedColor::DimGreen => (Color::Green, true),
            NamedColor::DimYellow => (Color::Yellow, true),
            NamedColor::DimBlue => (Color::Blue, true),
            NamedColor::DimMagenta => (Color::Magenta, true),
            NamedColor::DimCyan => (Color::Cyan, true),
            NamedColor::DimWhite => (Color::Gray, true),
            NamedColor::DimForeground => (Color::Reset, true),
            NamedColor::Foreground | NamedColor::Background | NamedColor::BrightForeground | NamedColor::Cursor => {
                (Color::Reset, false)
            }
            name => (u8::try_from(name as usize).map_or(Color::Reset, indexed), false),
        },
    }
}
