//! Lines of text, and the only way in which text reaches the screen.
//!
//! A [`Line`] is put together from three kinds of text: `own`, a literal of this program; `made`, composed by this
//! program from numbers, times and digests; `outside`, everything else. The last two pass through [`SafeText`], so
//! that no line can hold a character that is not seen.

use crate::theme::{Glyphs, Theme};
use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use stockade_protocol::text::{PieceKind, SafeText};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// What lines are drawn with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ink {
    /// Colours as roles.
    pub theme: Theme,
    /// Marks.
    pub glyphs: Glyphs,
    /// Whether only ASCII may be drawn.
    pub ascii: bool,
}

/// Longest text from outside that is looked at for a cell of a list, characters. Cards show everything.
const CELL: usize = 512;

impl Ink {
    /// The drawable pieces of a text, with their styles over `base`.
    pub(crate) fn pieces(&self, safe: &SafeText, base: Style) -> Vec<(String, Style)> {
        let mut pieces = Vec::with_capacity(safe.pieces().len());
        for piece in safe.pieces() {
            let style = self.style_of(piece.kind, base);
            if self.ascii {
                self.ascii_piece(piece.kind, &piece.text, base, &mut pieces);
            } else {
                pieces.push((piece.text.clone(), style));
            }
        }
        pieces
    }

    fn style_of(&self, kind: PieceKind, base: Style) -> Style {
        match kind {
            PieceKind::Plain => base,
            PieceKind::Escape => base.add_modifier(Modifier::REVERSED),
            PieceKind::Run => base.patch(self.theme.dim).add_modifier(Modifier::REVERSED),
        }
    }

    fn ascii_piece(&self, kind: PieceKind, text: &str, base: Style, pieces: &mut Vec<(String, Style)>) {
        let marked = self.style_of(kind, base);
        match kind {
            PieceKind::Run => pieces.push((text.replace('·', "_").replace('⏎', "\\n").replace('×', "x"), marked)),
            PieceKind::Escape => pieces.push((text.replace('⏎', "\\n"), marked)),
            PieceKind::Plain => {
                let escape = base.add_modifier(Modifier::REVERSED);
                for c in text.chars() {
                    let (shown, style) = if c.is_ascii() {
                        (c.to_string(), base)
                    } else {
                        (format!("\\u{{{:04X}}}", u32::from(c)), escape)
                    };
                    match pieces.last_mut() {
                        Some((last, same)) if *same == style && style == base => last.push_str(&shown),
                        _ => pieces.push((shown, style)),
                    }
                }
            }
        }
    }
}

/// One row of text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    spans: Vec<(String, Style)>,
    width: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends a literal of this program.
    pub(crate) fn own(mut self, text: &'static str, style: Style) -> Self {
        self.put(text.to_owned(), style);
        self
    }

    /// Appends text this program composed.
    pub(crate) fn made(mut self, text: impl AsRef<str>, style: Style) -> Self {
        self.put(SafeText::line(text.as_ref()).to_string(), style);
        self
    }

    /// Appends text from outside, cut to what a list cell can show.
    pub(crate) fn outside(mut self, text: &str, style: Style, ink: &Ink) -> Self {
        let end = text.char_indices().nth(CELL).map_or(text.len(), |(at, _)| at);
        let cut = end < text.len();
        let text = text.get(..end).unwrap_or_default();
        for (piece, style) in ink.pieces(&SafeText::folded(text), style) {
            self.put(piece, style);
        }
        if cut { self.own(ink.glyphs.ellipsis, ink.theme.dim) } else { self }
    }

    /// Appends drawable pieces.
    pub(crate) fn drawn(mut self, pieces: Vec<(String, Style)>) -> Self {
        for (piece, style) in pieces {
            self.put(piece, style);
        }
        self
    }

    /// Appends another line.
    pub(crate) fn then(self, other: Self) -> Self {
        self.drawn(other.spans)
    }

    /// Appends blanks.
    pub(crate) fn gap(mut self, columns: usize) -> Self {
        self.put(" ".repeat(columns), Style::new());
        self
    }

    /// Appends blanks up to a column.
    pub(crate) fn pad_to(self, column: usize) -> Self {
        let gap = column.saturating_sub(self.width);
        if gap == 0 { self } else { self.gap(gap) }
    }

    fn put(&mut self, text: String, style: Style) {
        self.width += columns(&text);
        if !text.is_empty() {
            self.spans.push((text, style));
        }
    }

    /// Columns it takes.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// Changes the style of everything in it.
    pub(crate) fn patched(mut self, style: Style) -> Self {
        for (_, own) in &mut self.spans {
            *own = own.patch(style);
        }
        self
    }

    /// Cuts it to `columns`, ending in an ellipsis when something is lost.
    pub(crate) fn fit(self, columns: usize, ink: &Ink) -> Self {
        if self.width <= columns {
            return self;
        }
        let mark = ink.glyphs.ellipsis;
        let room = columns.saturating_sub(mark.width());
        let mut cut = self.head(room);
        if columns >= mark.width() {
            cut.put(mark.to_owned(), ink.theme.dim);
        }
        cut
    }

    /// As [`Self::fit`], losing the middle: a path keeps its end.
    pub(crate) fn fit_middle(self, columns: usize, ink: &Ink) -> Self {
        if self.width <= columns || columns < 8 {
            return self.fit(columns, ink);
        }
        let mark = ink.glyphs.ellipsis;
        let room = columns - mark.width();
        let tail = self.tail(room * 2 / 3);
        let mut cut = self.head(room - tail.width);
        cut.put(mark.to_owned(), ink.theme.dim);
        cut.then(tail)
    }

    /// Cuts it to `columns`, losing the beginning.
    pub(crate) fn end(self, columns: usize, ink: &Ink) -> Self {
        if self.width <= columns {
            return self;
        }
        let tail = self.tail(columns.saturating_sub(1));
        Self::new().own(ink.glyphs.ellipsis, ink.theme.dim).then(tail)
    }

    fn head(&self, columns: usize) -> Self {
        let mut head = Self::new();
        for (text, style) in &self.spans {
            let mut kept = String::new();
            for grapheme in text.graphemes(true) {
                if head.width + self::columns(&kept) + grapheme.width() > columns {
                    head.put(kept, *style);
                    return head;
                }
                kept.push_str(grapheme);
            }
            head.put(kept, *style);
        }
        head
    }

    fn tail(&self, columns: usize) -> Self {
        let mut spans = Vec::new();
        let mut width = 0;
        'spans: for (text, style) in self.spans.iter().rev() {
            let mut start = text.len();
            for (at, grapheme) in text.grapheme_indices(true).rev() {
                if width + grapheme.width() > columns {
                    spans.push((text.get(start..).unwrap_or_default().to_owned(), *style));
                    break 'spans;
                }
                width += grapheme.width();
                start = at;
            }
            spans.push((text.clone(), *style));
        }
        spans.reverse();
        Self::new().drawn(spans)
    }

    /// Draws it at most `columns` wide; never outside the buffer.
    pub(crate) fn draw(&self, buffer: &mut Buffer, x: u16, y: u16, columns: usize) {
        let area = *buffer.area();
        if y < area.top() || y >= area.bottom() || x < area.left() || x >= area.right() {
            return;
        }
        let (mut x, mut room) = (x, columns);
        for (text, style) in &self.spans {
            let (next, _) = buffer.set_stringn(x, y, text, room, *style);
            room = room.saturating_sub(usize::from(next - x));
            x = next;
            if x >= area.right() {
                break;
            }
        }
    }

    /// Its text without styles.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// Columns a text takes when each grapheme has cells of its own, which is how it is drawn. Some scripts join graphemes
/// into fewer columns; counting those would cut off ends.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(unicode_width::UnicodeWidthStr::width).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Theme;

    fn ink(ascii: bool) -> Ink {
        Ink { theme: Theme::dark(), glyphs: Glyphs::new(ascii), ascii }
    }

    #[test]
    fn nothing_hidden_and_no_other_style_reaches_a_line() {
        let line = Line::new().outside("a\u{202e}b\u{1b}[1mc\nd", Style::new(), &ink(false));
        assert_eq!(line.text(), "a\\u{202E}b\\u{001B}[1mc⏎d");
        let line = Line::new().outside("é·\n\n\n\n\nx", Style::new(), &ink(true));
        assert_eq!(line.text(), "\\u{00E9}\\u{00B7}\\nx5x");
    }

    #[test]
    fn what_is_cut_says_so() {
        let line = || Line::new().outside("src/very/long/name.rs", Style::new(), &ink(false));
        assert_eq!(line().fit(10, &ink(false)).text(), "src/very/…");
        assert_eq!(line().fit_middle(12, &ink(false)).text(), "src/…name.rs");
        assert_eq!(line().fit(40, &ink(false)).text(), "src/very/long/name.rs");
        assert_eq!(Line::new().outside("漢字漢字", Style::new(), &ink(false)).fit(4, &ink(false)).text(), "漢…");
    }

    #[test]
    fn joined_letters_are_counted_as_they_are_drawn() {
        let text = "\u{644}\u{627}".repeat(6);
        let line = Line::new().outside(&text, Style::new(), &ink(false));
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 20, 1));
        line.draw(&mut buffer, 0, 0, 20);
        assert_eq!(buffer.content.iter().filter(|cell| cell.symbol() != " ").count(), line.width());
    }

    #[test]
    fn a_line_stays_in_its_columns_and_rows() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 10, 2));
        let line = Line::new().own("0123456789abc", Style::new());
        line.draw(&mut buffer, 2, 0, 4);
        line.draw(&mut buffer, 0, 9, 4);
        line.draw(&mut buffer, 99, 0, 4);
        let row: String = (0..10).map(|x| buffer[(x, 0)].symbol().to_owned()).collect();
        assert_eq!(row, "  0123    ");
    }
}
