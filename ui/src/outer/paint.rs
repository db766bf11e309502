//! From changed cells to bytes.
//!
//! This is the only place that makes bytes for the outer terminal out of what is drawn. It writes cursor positions,
//! colours and attributes, and symbols that the sweep has passed; there is no other sequence in a frame than the ones
//! named here.

use base64::Engine as _;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use std::convert::Infallible;
use stockade_protocol::text::SafeText;

/// Begins a frame that is shown at once when it is complete.
const BEGIN: &[u8] = b"\x1b[?2026h";
/// Ends it.
const END: &[u8] = b"\x1b[?2026l";
const HIDE: &[u8] = b"\x1b[?25l";
const SHOW: &[u8] = b"\x1b[?25h";
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// Collects one frame's bytes; a backend that never touches the terminal.
#[derive(Debug)]
pub struct Canvas {
    size: Size,
    bytes: Vec<u8>,
    /// Where the cursor is shown on the terminal.
    shown: Option<Position>,
    /// Where the frame wants it.
    wanted: Option<Position>,
}

impl Canvas {
    /// A canvas for a terminal of this size whose cursor is hidden and whose screen is blank.
    #[must_use]
    pub const fn new(columns: u16, rows: u16) -> Self {
        Self { size: Size::new(columns, rows), bytes: Vec::new(), shown: None, wanted: None }
    }

    /// The terminal has this size now; the next frame draws all of it.
    pub const fn set_size(&mut self, columns: u16, rows: u16) {
        self.size = Size::new(columns, rows);
    }

    /// Columns and rows.
    #[must_use]
    pub const fn size_now(&self) -> (u16, u16) {
        (self.size.width, self.size.height)
    }

    /// Adds the sequence that puts text on the clipboard of the person at the outer terminal.
    pub fn copy(&mut self, text: &SafeText) {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.to_string());
        self.bytes.extend_from_slice(b"\x1b]52;c;");
        self.bytes.extend_from_slice(encoded.as_bytes());
        self.bytes.extend_from_slice(b"\x1b\\");
    }

    /// The bytes of the frame; none when it shows what is already there.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        let body = std::mem::take(&mut self.bytes);
        if body.is_empty() && self.shown == self.wanted {
            return body;
        }
        let mut frame = Vec::with_capacity(body.len() + 48);
        frame.extend_from_slice(BEGIN);
        if self.shown.is_some() {
            frame.extend_from_slice(HIDE);
        }
        frame.extend_from_slice(&body);
        if let Some(Position { x, y }) = self.wanted {
            go_to(&mut frame, x, y);
            frame.extend_from_slice(SHOW);
        }
        frame.extend_from_slice(END);
        self.shown = self.wanted;
        frame
    }
}

impl Backend for Canvas {
    type Error = Infallible;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> Result<(), Infallible> {
        // Where the terminal's cursor will be, as far as it is certain.
        let mut at = None;
        let mut style = None;
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                go_to(&mut self.bytes, x, y);
            }
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if style != Some(wanted) {
                paint(&mut self.bytes, wanted);
                style = Some(wanted);
            }
            let symbol = cell.symbol();
            self.bytes.extend_from_slice(symbol.as_bytes());
            at = advance(symbol).map(|columns| (x + columns, y));
        }
        if style.is_some() {
            self.bytes.extend_from_slice(b"\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        self.wanted = None;
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        self.wanted = self.wanted.or(Some(Position::ORIGIN));
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(self.wanted.unwrap_or_default())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        self.wanted = Some(position.into());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        self.bytes.extend_from_slice(CLEAR);
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
        self.clear()
    }

    fn size(&self) -> Result<Size, Infallible> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::default() })
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn go_to(bytes: &mut Vec<u8>, x: u16, y: u16) {
    bytes.extend_from_slice(format!("\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)).as_bytes());
}

/// How far the terminal's cursor moves over a symbol, where all terminals agree; after any other symbol the next
/// position is named, so that a terminal that measures differently cannot shift its neighbours.
fn advance(symbol: &str) -> Option<u16> {
    let mut chars = symbol.chars();
    match (chars.next(), chars.next()) {
        (Some(' '..='~' | '\u{A1}'..='\u{2FF}' | '\u{370}'..='\u{3FF}' | '\u{2500}'..='\u{259F}'), None) => Some(1),
        _ => None,
    }
}

fn paint(bytes: &mut Vec<u8>, (fg, bg, modifier): (Color, Color, Modifier)) {
    let mut codes = String::from("0");
    let attributes = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::ITALIC, ";3"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::REVERSED, ";7"),
        (Modifier::CROSSED_OUT, ";9"),
    ];
    for (attribute, code) in attributes {
        if modifier.contains(attribute) {
            codes.push_str(code);
        }
    }
    codes.push_str(&color(fg, 30));
    codes.push_str(&color(bg, 40));
    bytes.extend_from_slice(format!("\x1b[{codes}m").as_bytes());
}

/// The code of a colour; `base` is 30 for text and 40 for its background.
fn color(color: Color, base: u8) -> String {
    let named = |code: u8| format!(";{}", base + code);
    let bright = |code: u8| format!(";{}", base + 60 + code);
    match color {
        Color::Reset => String::new(),
        Color::Black => named(0),
        Color::Red => named(1),
        Color::Green => named(2),
        Color::Yellow => named(3),
        Color::Blue => named(4),
        Color::Magenta => named(5),
        Color::Cyan => named(6),
        Color::Gray => named(7),
        Color::DarkGray => bright(0),
        Color::LightRed => bright(1),
        Color::LightGreen => bright(2),
        Color::LightYellow => bright(3),
        Color::LightBlue => bright(4),
        Color::LightMagenta => bright(5),
        Color::LightCyan => bright(6),
        Color::White => bright(7),
        Color::Indexed(index) => format!(";{};5;{index}", base + 8),
        Color::Rgb(r, g, b) => format!(";{};2;{r};{g};{b}", base + 8),
    }
}
