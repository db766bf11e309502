//! Terminals inside the workbench.
//!
//! A [`Pane`] is fed a worker's bytes and keeps a grid of cells. What is drawn is made from those cells, never from the
//! bytes: nothing a worker prints reaches the outer terminal, and nothing it asks for (title, clipboard, colours,
//! reports) leaves the pane. Emulators stand behind [`PaneTerm`]; one that fails over some bytes becomes a pane that
//! says so.
//!
//! Invariant: what a pane shows depends only on its size and the bytes and resizes it was given, in order; not on how
//! the bytes were split, and not on time.

mod alacritty;
mod filter;
pub mod keys;
mod quiet;
mod vt100;

pub use self::alacritty::AlacrittyPane;
pub use self::vt100::Vt100Pane;

use crate::contain::contained;
use crate::sweep::{self, SYMBOL_BYTES};
use crate::theme::{ColorMode, degrade_style};
use filter::Filter;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use std::fmt;
use stockade_protocol::text::{Untrusted, is_hidden};
use unicode_width::UnicodeWidthStr as _;

/// Most lines kept above the screen.
pub const HISTORY_LINES: usize = 2_000;

/// Most cells kept above the screen: wide panes keep fewer lines, so that a pane's memory is bounded.
pub const HISTORY_CELLS: usize = 400_000;

/// Longest title kept, characters.
pub const TITLE_CHARS: usize = 256;

/// Smallest and largest pane, columns and rows. One column of wide characters makes emulators fail or grow without
/// end, so there are always at least two.
pub const SIZE_MIN: (u16, u16) = (2, 1);
/// See [`SIZE_MIN`].
pub const SIZE_MAX: (u16, u16) = (1_000, 500);

/// How many columns a cell's text takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellWidth {
    /// One.
    Narrow,
    /// Two: this cell and the next.
    Wide,
    /// None: the second half of a wide cell, or the gap before one that did not fit on its line.
    Spacer,
}

/// One cell of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaneCell<'a> {
    /// A base character and its marks, as printed: not yet fit for drawing.
    pub text: &'a str,
    /// Columns it takes.
    pub width: CellWidth,
    /// Colours and attributes as asked for.
    pub style: Style,
}

/// Where a pane's cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Column, from 0.
    pub column: u16,
    /// Row of the screen, from 0.
    pub row: u16,
    /// Whether the program shows it.
    pub visible: bool,
}

/// What the program in a pane asked of its keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Cursor keys send their application forms.
    pub app_cursor: bool,
    /// Pastes are to be marked.
    pub bracketed_paste: bool,
    /// It drew over the whole screen; there is no history.
    pub alternate_screen: bool,
}

/// A terminal emulator. Implementations may panic; [`Pane`] contains that.
pub trait PaneTerm: Send {
    /// Takes bytes of output.
    fn advance(&mut self, bytes: &[u8]);
    /// Takes a new size, at least [`SIZE_MIN`].
    fn resize(&mut self, columns: u16, rows: u16);
    /// Columns and rows.
    fn size(&self) -> (u16, u16);
    /// Lines above the screen.
    fn history(&self) -> usize;
    /// Visits the cells of a line from left to right: 0 is the top of the screen, -1 the line above it.
    fn line(&self, line: i32, visit: &mut dyn FnMut(u16, PaneCell<'_>));
    /// The cursor.
    fn cursor(&self) -> Cursor;
    /// What the program asked of its keyboard.
    fn modes(&self) -> Modes;
    /// The title the program gave itself, at most [`TITLE_CHARS`].
    fn title(&self) -> Option<&Untrusted>;
}

/// How a pane is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Lines scrolled up into the history; more than there are shows the oldest.
    pub offset: usize,
    /// The colours the terminal has.
    pub color: ColorMode,
    /// Draw with ASCII characters only.
    pub ascii: bool,
}

/// A terminal in the workbench.
pub struct Pane {
    /// `None` once the emulator failed.
    term: Option<Box<dyn PaneTerm>>,
    filter: Filter,
    size: (u16, u16),
}

impl fmt::Debug for Pane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pane").field("size", &self.size).field("failed", &self.failed()).finish_non_exhaustive()
    }
}

/// Shown in place of a terminal whose emulator failed.
const FAILED: [&str; 2] = ["this terminal's emulator failed", "its output is whole in the journal"];

impl Pane {
    /// A pane of this size, clamped to [`SIZE_MIN`] and [`SIZE_MAX`].
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let (columns, rows) = clamp(columns, rows);
        Self::with(|| Box::new(AlacrittyPane::new(columns, rows)), columns, rows)
    }

    /// A pane with another emulator.
    #[must_use]
    pub fn with(term: impl FnOnce() -> Box<dyn PaneTerm>, columns: u16, rows: u16) -> Self {
        Self { term: contained(term).ok(), filter: Filter::new(), size: clamp(columns, rows) }
    }

    /// Takes bytes of output. A failing emulator is thrown away; the bytes are in the journal.
    pub fn advance(&mut self, bytes: &[u8]) {
        let Some(term) = &mut self.term else { return };
        let filter = &mut self.filter;
        if contained(|| filter.pass(bytes, |piece| term.advance(piece))).is_err() {
            self.fail();
        }
    }

    /// Takes a new size, clamped to [`SIZE_MIN`] and [`SIZE_MAX`].
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.size = clamp(columns, rows);
        let (columns, rows) = self.size;
        let Some(term) = &mut self.term else { return };
        if contained(|| term.resize(columns, rows)).is_err() {
            self.fail();
        }
    }

    fn fail(&mut self) {
        // Dropping what panicked half-way may panic again.
        let term = self.term.take();
        _ = contained(|| drop(term));
    }

    /// Whether the emulator failed.
    #[must_use]
    pub const fn failed(&self) -> bool {
        self.term.is_none()
    }

    /// Columns and rows.
    #[must_use]
    pub const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Lines above the screen that can be scrolled to.
    #[must_use]
    pub fn scrollback_len(&self) -> usize {
        self.ask(PaneTerm::history).unwrap_or(0)
    }

    /// The cursor; `None` once the emulator failed.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.ask(PaneTerm::cursor)
    }

    /// What the program asked of its keyboard.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.ask(PaneTerm::modes).unwrap_or_default()
    }

    /// The title the program gave itself: untrusted, at most [`TITLE_CHARS`].
    #[must_use]
    pub fn title(&self) -> Option<Untrusted> {
        self.ask(|term| term.title().cloned()).flatten()
    }

    /// Bytes cut because they asked too much of an emulator.
    #[must_use]
    pub const fn cut_bytes(&self) -> u64 {
        self.filter.dropped()
    }

    fn ask<T>(&self, question: impl FnOnce(&(dyn PaneTerm + 'static)) -> T) -> Option<T> {
        let term = self.term.as_deref()?;
        contained(|| question(term)).ok()
    }

    /// The screen's rows as drawn, without blanks at their ends. For tests and for searching.
    #[must_use]
    pub fn text(&self) -> Vec<String> {
        let (columns, rows) = self.size;
        let area = Rect::new(0, 0, columns, rows);
        let mut buffer = Buffer::empty(area);
        self.draw(area, &mut buffer, &Look::default());
        buffer.content.chunks(usize::from(columns)).map(row_text).collect()
    }

    /// Draws the pane into `area` of `buffer` and says where its cursor belongs, if it is on screen and shown. A pane
    /// larger than the area is cut at the right, and above the cursor's row.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer, look: &Look) -> Option<Position> {
        let area = area.intersection(buffer.area);
        for position in area.positions() {
            if let Some(cell) = buffer.cell_mut(position) {
                cell.reset();
            }
        }
        let drawn = self.ask(|term| draw(term, area, buffer, look));
        if drawn.is_none() {
            for (y, line) in (area.y..area.bottom()).zip(FAILED) {
                buffer.set_stringn(area.x, y, line, usize::from(area.width), Modifier::REVERSED);
            }
        }
        drawn.flatten()
    }
}

fn clamp(columns: u16, rows: u16) -> (u16, u16) {
    (columns.clamp(SIZE_MIN.0, SIZE_MAX.0), rows.clamp(SIZE_MIN.1, SIZE_MAX.1))
}

fn row_text(cells: &[ratatui::buffer::Cell]) -> String {
    let mut text = String::new();
    let mut skip = 0;
    for cell in cells {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        skip = cell.symbol().width().saturating_sub(1);
        text.push_str(cell.symbol());
    }
    text.truncate(text.trim_end().len());
    text
}

fn draw(term: &dyn PaneTerm, area: Rect, buffer: &mut Buffer, look: &Look) -> Option<Position> {
    let (_, rows) = term.size();
    let cursor = term.cursor();
    // The lowest line in view: the last one, or the cursor's when the area is lower than the pane.
    let below = rows.saturating_sub(1).min(cursor.row.max(area.height.saturating_sub(1)));
    let height = area.height.min(rows);
    let offset = look.offset.min(term.history() + usize::from(below + 1 - height.min(below + 1)));
    let top = i32::from(below) + 1 - i32::from(height) - i32::try_from(offset).unwrap_or(i32::MAX);
    for row in 0..height {
        let y = area.y + row;
        term.line(top + i32::from(row), &mut |column, cell| {
            if column < area.width {
                put(cell, (area.x + column, y), area.right(), buffer, look);
            }
        });
    }
    let row = i32::from(cursor.row) - top;
    let inside = cursor.visible && cursor.column < area.width && (0..i32::from(height)).contains(&row);
    let y = area.y + u16::try_from(row).unwrap_or(0);
    inside.then_some(Position::new(area.x + cursor.column, y))
}

/// Draws one cell at a position, never past `right`.
fn put(cell: PaneCell<'_>, (x, y): (u16, u16), right: u16, buffer: &mut Buffer, look: &Look) {
    let style = degrade_style(visible(cell.style, cell.text), look.color);
    if let ([b' '..=b'~'], CellWidth::Narrow) = (cell.text.as_bytes(), cell.width) {
        if let Some(target) = buffer.cell_mut((x, y)) {
            target.set_symbol(cell.text).set_style(style);
        }
        return;
    }
    let columns = match cell.width {
        CellWidth::Narrow => 1,
        CellWidth::Wide => 2,
        CellWidth::Spacer => {
            // The wide cell before it has drawn itself over both; this keeps the background of a lone gap.
            if let Some(target) = buffer.cell_mut((x, y)) {
                let symbol = target.symbol().to_owned();
                target.set_symbol(&symbol).set_style(style);
            }
            return;
        }
    };
    let mut own = String::new();
    let text = shaped(cell.text, &mut own);
    let stand_in = sweep::stand_in(text, look.ascii).or_else(|| {
        let fits = text.width() == usize::from(columns) && text.len() <= SYMBOL_BYTES;
        (!fits || x + columns > right).then_some(if look.ascii { "?" } else { "\u{FFFD}" })
    });
    for nth in 0..columns {
        if let Some(target) = buffer.cell_mut((x + nth, y)).filter(|_| x + nth < right) {
            match stand_in {
                Some(mark) => target.set_symbol(mark),
                None if nth == 0 => target.set_symbol(text),
                None => target.set_symbol(" "),
            };
            target.set_style(style);
        }
    }
}

/// The text of a cell without what only shapes it: joiners and variation selectors after a character that is not
/// ASCII belong to scripts and emoji. After ASCII they hide something and stay, to be made visible.
fn shaped<'a>(text: &'a str, own: &'a mut String) -> &'a str {
    let shapes = |c: char| matches!(c, '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{180B}'..='\u{180D}');
    let mut chars = text.chars();
    match chars.next() {
        Some(base) if !base.is_ascii() && !is_hidden(base) && text.contains(shapes) => {
            own.push(base);
            own.extend(chars.filter(|c| !shapes(*c)));
            own
        }
        _ => text,
    }
}

/// Concealed text is drawn dim; text in the colour of its background in the default colour, unless it is one of the
/// blocks that pictures are made of. A pane hides nothing that was printed.
fn visible(style: Style, text: &str) -> Style {
    let mut style = style;
    if style.add_modifier.contains(Modifier::HIDDEN) {
        style.add_modifier.remove(Modifier::HIDDEN);
        style.add_modifier.insert(Modifier::DIM);
    }
    let picture = text.chars().all(|c| matches!(c, ' ' | '\u{2580}'..='\u{259F}'));
    if style.fg == style.bg && style.fg.is_some_and(|fg| fg != Color::Reset) && !picture {
        style.fg = Some(Color::Reset);
    }
    style
}

/// One of the first 16 colours by name, so that the terminal's own palette is used; else by index.
fn indexed(index: u8) -> Color {
    match index {
        0 => Color::Black,
        1 => Color::Red,
        2 => Color::Green,
        3 => Color::Yellow,
        4 => Color::Blue,
        5 => Color::Magenta,
        6 => Color::Cyan,
        7 => Color::Gray,
        8 => Color::DarkGray,
        9 => Color::LightRed,
        10 => Color::LightGreen,
        11 => Color::LightYellow,
        12 => Color::LightBlue,
        13 => Color::LightMagenta,
        14 => Color::LightCyan,
        15 => Color::White,
        _ => Color::Indexed(index),
    }
}

/// A title as kept.
fn title(text: &str) -> Untrusted {
    Untrusted::new(text.chars().take(TITLE_CHARS).collect::<String>())
}

#[cfg(test)]
mod recordings;
#[cfg(test)]
pub(crate) mod tests;
