//! The last sweep over a finished buffer, and the stand-ins it puts in place of what must not be written.
//!
//! Whatever a screen drew, after the sweep no cell holds a control, bidirectional, zero-width or otherwise invisible
//! character, no symbol is wider than its cells or longer than [`SYMBOL_BYTES`], and no colour is used that the
//! terminal does not have.

use crate::theme::{ColorMode, degrade};
use ratatui::buffer::{Buffer, Cell, CellDiffOption};
use ratatui::style::{Color, Modifier};
use stockade_protocol::text::is_hidden;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Longest symbol of one cell, bytes: a base character and a few marks. The rest of a heap of marks is not drawn.
pub const SYMBOL_BYTES: usize = 32;

/// Sweeps the whole buffer.
pub fn sweep(buffer: &mut Buffer, color: ColorMode, ascii: bool) {
    let width = usize::from(buffer.area.width).max(1);
    for row in buffer.content.chunks_mut(width) {
        let mut at = 0;
        while at < row.len() {
            let room = row.len() - at;
            let (stand_in, columns) = match row.get(at) {
                Some(cell) => checked(cell.symbol(), room.min(2), ascii),
                None => break,
            };
            for (nth, cell) in row.iter_mut().skip(at).take(columns).enumerate() {
                match &stand_in {
                    Some(text) => _ = cell.set_symbol(text),
                    // The second cell of a wide symbol is never written; blank, it compares equal.
                    None if nth > 0 => _ = cell.set_symbol(" "),
                    None => {}
                }
                tone(cell, color);
            }
            at += columns;
        }
    }
}

/// The colours and attributes that are written. Hidden text is drawn dim, blinking text still.
fn tone(cell: &mut Cell, color: ColorMode) {
    cell.fg = degrade(cell.fg, color);
    cell.bg = degrade(cell.bg, color);
    if cell.modifier.contains(Modifier::HIDDEN) {
        cell.modifier.insert(Modifier::DIM);
    }
    cell.modifier.remove(Modifier::HIDDEN | Modifier::SLOW_BLINK | Modifier::RAPID_BLINK);
    cell.underline_color = Color::Reset;
    cell.set_diff_option(CellDiffOption::None);
}

/// What to draw instead of `symbol`, if it must not be drawn, and how many columns it takes, 1 or 2.
/// Two columns of stand-in are two cells with the same stand-in.
fn checked(symbol: &str, room: usize, ascii: bool) -> (Option<&'static str>, usize) {
    if let [byte] = symbol.as_bytes()
        && (b' '..0x7f).contains(byte)
    {
        return (None, 1);
    }
    let columns = symbol.width();
    if let Some(mark) = stand_in(symbol, ascii) {
        return (Some(mark), columns.clamp(1, room.max(1)));
    }
    if columns == 0 || columns > room || symbol.len() > SYMBOL_BYTES {
        return (Some(unknown(ascii)), columns.clamp(1, room.max(1)));
    }
    match ascii {
        true if !symbol.is_ascii() => (Some(ascii_form(symbol)), columns),
        _ => (None, columns),
    }
}

/// What stands for `symbol` if it holds anything that would not be seen: a visible blank for odd blanks, a
/// replacement character for everything else. `None` when all of it is visible.
#[must_use]
pub fn stand_in(symbol: &str, ascii: bool) -> Option<&'static str> {
    let hidden = symbol.chars().find(|c| is_hidden(*c))?;
    let blank = hidden.is_whitespace() || matches!(hidden, '\u{2800}' | '\u{3164}' | '\u{FFA0}');
    Some(match (blank && !hidden.is_control(), ascii) {
        (true, false) => "␣",
        (true, true) => "_",
        (false, false) => "\u{FFFD}",
        (false, true) => "?",
    })
}

const fn unknown(ascii: bool) -> &'static str {
    if ascii { "?" } else { "\u{FFFD}" }
}

/// A character that says about the same on a terminal that has only ASCII.
fn ascii_form(symbol: &str) -> &'static str {
    match symbol.chars().next().unwrap_or('?') {
        '─'..='━' | '┄'..='┅' | '┈'..='┉' | '╌'..='╍' | '═' | '—' | '–' => "-",
        '│'..='┃' | '┆'..='┇' | '┊'..='┋' | '╎'..='╏' | '║' | '▏' | '▕' => "|",
        '┌'..='╋' | '╒'..='╬' | '╭'..='╰' => "+",
        '█' | '▮' | '▓' => "#",
        '▯' | '░' | '▒' | '·' | '•' => ".",
        '…' => "~",
        '⏎' => "E",
        '×' => "x",
        '␣' => "_",
        '←' => "<",
        '→' => ">",
        '↑' => "^",
        '↓' => "v",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        _ => "?",
    }
}

/// Whether a character takes no column of its own and joins the one before it.
#[must_use]
pub fn is_mark(c: char) -> bool {
    c.width() == Some(0)
}

#[cfg(test)]
mod tests;
