//! Untrusted text, and the only form in which it may be drawn.
//!
//! What came from outside (an agent, a tool's output, a file's name, a manifest) can hold bytes that move a cursor,
//! reverse a line or vanish. [`SafeText`] makes every one of them visible in place, so that what is shown is what is
//! there. Nothing is removed and nothing is truncated here.

use serde::{Deserialize, Serialize};
use std::fmt;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Text from outside. It has no `Display`: forgetting to make it safe does not compile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted(String);

impl Untrusted {
    /// Marks text as coming from outside.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The raw text, for hashing, matching and execution; never for drawing.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// The drawable form, one line.
    #[must_use]
    pub fn safe(&self) -> SafeText {
        SafeText::line(&self.0)
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted({:?})", SafeText::line(&self.0).to_string())
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// How a piece of safe text came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Drawn as it was.
    Plain,
    /// A visible stand-in for something that would not have been seen: drawn reversed.
    Escape,
    /// A visible stand-in for a long run of blanks or line ends, with its count: drawn dim.
    Run,
}

/// One piece of safe text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// How it came to be.
    pub kind: PieceKind,
    /// Printable text.
    pub text: String,
}

/// Text that can be drawn: it holds no control, bidirectional, zero-width or otherwise invisible character.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeText {
    pieces: Vec<Piece>,
    /// How many characters had to be made visible.
    hidden: usize,
}

impl SafeText {
    /// Makes text drawable on one line: line ends become `⏎`, everything invisible `\u{…}`.
    #[must_use]
    pub fn line(text: &str) -> Self {
        Self::build(text, false)
    }

    /// As [`Self::line`], and runs of four or more blanks or line ends become one mark with a count (`·×900`,
    /// `⏎×40`), so that padding cannot push anything out of sight.
    #[must_use]
    pub fn folded(text: &str) -> Self {
        Self::build(text, true)
    }

    /// Splits at line ends first; each line as [`Self::line`].
    #[must_use]
    pub fn lines(text: &str) -> Vec<Self> {
        text.split('\n').map(|line| Self::line(line.strip_suffix('\r').unwrap_or(line))).collect()
    }

    /// The text in rows of at most `width` columns. Every row but the first begins with `margin`, so that no part of a
    /// long line can pass for a line of its own where it is wrapped.
    #[must_use]
    pub fn rows(&self, width: usize, margin: &str) -> Vec<String> {
        let text = self.to_string();
        let (mut rows, mut row, mut used, mut empty) = (Vec::new(), String::new(), 0, true);
        for grapheme in text.graphemes(true) {
            let wide = grapheme.width();
            // A row takes at least one, however narrow it is.
            if used + wide > width && !empty {
                rows.push(std::mem::replace(&mut row, margin.to_owned()));
                used = margin.width();
            }
            row.push_str(grapheme);
            used += wide;
            empty = false;
        }
        rows.push(row);
        rows
    }

    fn build(text: &str, fold: bool) -> Self {
        let mut safe = Self::default();
        let mut rest = text;
        while let Some(first) = rest.graphemes(true).next() {
            if fold && let Some((mark, count)) = run(rest) {
                safe.push(PieceKind::Run, &format!("{mark}×{}", group_digits(count as u64)));
                rest = skip_chars(rest, count);
                continue;
            }
            safe.push_grapheme(first);
            rest = rest.get(first.len()..).unwrap_or_default();
        }
        safe
    }

    fn push_grapheme(&mut self, grapheme: &str) {
        let marks = grapheme.chars().filter(|c| unicode_width::UnicodeWidthChar::width(*c) == Some(0)).count();
        let small = grapheme.len() <= GRAPHEME_BYTES && marks <= GRAPHEME_MARKS;
        if grapheme.chars().all(|c| !is_hidden(c)) && grapheme.width() > 0 && small {
            self.push(PieceKind::Plain, grapheme);
            return;
        }
        for c in grapheme.chars() {
            if c == '\n' {
                self.push(PieceKind::Escape, "⏎");
            } else if is_hidden(c) || unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) == 0 {
                self.hidden += 1;
                self.push(PieceKind::Escape, &format!("\\u{{{:04X}}}", u32::from(c)));
            } else {
                self.push(PieceKind::Plain, c.encode_utf8(&mut [0; 4]));
            }
        }
    }

    fn push(&mut self, kind: PieceKind, text: &str) {
        match self.pieces.last_mut() {
            Some(last) if last.kind == kind && kind == PieceKind::Plain => last.text.push_str(text),
            _ => self.pieces.push(Piece { kind, text: text.to_owned() }),
        }
    }

    /// The pieces in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// How many characters had to be made visible, line ends not counted.
    #[must_use]
    pub const fn hidden(&self) -> usize {
        self.hidden
    }

    /// Columns it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text.width()).sum()
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| f.write_str(&piece.text))
    }
}

/// A grapheme longer than this many bytes (a cell loaded with combining marks) is taken apart and shown as escapes.
const GRAPHEME_BYTES: usize = 32;

/// So is one with more marks than any script writes on one letter: they would be drawn over the rows beside it.
const GRAPHEME_MARKS: usize = 4;

/// Shortest run that is folded.
const RUN: usize = 4;

fn run(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    let mark = match first {
        ' ' => '·',
        '\n' => '⏎',
        _ => return None,
    };
    let count = text.chars().take_while(|c| *c == first).count();
    (count >= RUN).then_some((mark, count))
}

fn skip_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}

/// A count with its digits in groups of three: `1 204`.
#[must_use]
pub fn group_digits(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Whether a character would not be seen, or would change how others are seen: controls, format characters
/// (bidirectional marks, joiners, tags, byte order mark), line and paragraph separators, odd blanks, fillers,
/// variation selectors, private use and unassigned noncharacters.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code,
            0x00A0 | 0x00AD | 0x034F | 0x061C | 0x070F | 0x115F | 0x1160 | 0x1680 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x0600..=0x0605 | 0x06DD | 0x08E2
            | 0x2000..=0x200F | 0x2028..=0x202F | 0x205F..=0x206F | 0x2800 | 0x3000 | 0x3164
            | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFC | 0xFFFE | 0xFFFF
            | 0x110BD | 0x110CD | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D159 | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF | 0xF0000..=0x10FFFF)
        || code & 0xFFFE == 0xFFFE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_of_a_long_line_begins_with_its_margin() {
        let rows = |text: &str, width| SafeText::line(text).rows(width, "  ");
        assert_eq!(rows("", 8), [""]);
        assert_eq!(rows("exactly8", 8), ["exactly8"]);
        assert_eq!(rows("reason:       risk: low", 8), ["reason: ", "        ", "  risk: ", "  low"]);
        assert_eq!(rows("漢漢漢漢", 5), ["漢漢", "  漢", "  漢"]);
        // Too narrow for anything: still nothing is lost and nothing loops.
        assert_eq!(rows("abc", 1), ["a", "  b", "  c"]);
    }

    #[test]
    fn what_would_not_be_seen_is_shown_in_place() {
        let shown = |text: &str| SafeText::line(text).to_string();
        assert_eq!(shown("a\u{1b}[2Kb"), "a\\u{001B}[2Kb");
        assert_eq!(shown("x\u{202e}y\u{200b}z\u{feff}"), "x\\u{202E}y\\u{200B}z\\u{FEFF}");
        assert_eq!(shown("one\ntwo\rthree"), "one⏎two\\u{000D}three");
        assert_eq!(shown("\u{9b}31m"), "\\u{009B}31m");
        assert_eq!(shown("tag\u{e0041}"), "tag\\u{E0041}");
    }

    #[test]
    fn ordinary_text_of_other_scripts_is_left_alone() {
        for text in ["שלום", "مرحبا", "漢字かな", "naïve café", "नमस्ते", "日本 🙂"] {
            let safe = SafeText::line(text);
            assert_eq!(safe.to_string(), text);
            assert_eq!(safe.hidden(), 0);
        }
    }

    #[test]
    fn a_pile_of_marks_is_taken_apart_and_what_scripts_write_is_not() {
        let pile = format!("a{}", "\u{0334}".repeat(5));
        assert_eq!((SafeText::line(&pile).hidden(), SafeText::line(&pile).width()), (5, 1 + 5 * 8));
        assert_eq!(SafeText::line("ế क्ष्म्य שָׁ").hidden(), 0);
    }

    #[test]
    fn padding_is_folded_with_its_count() {
        let folded = SafeText::folded(&format!("ls{};touch x{}!", "\n".repeat(40), " ".repeat(1900)));
        assert_eq!(folded.to_string(), "ls⏎×40;touch x·×1 900!");
    }

    proptest! {
        #[test]
        fn nothing_hidden_survives_and_nothing_is_lost(text in any::<String>()) {
            let safe = SafeText::line(&text);
            prop_assert!(safe.to_string().chars().all(|c| !is_hidden(c)));
            let hidden = text.chars().filter(|c| *c != '\n' && is_hidden(*c)).count();
            prop_assert!(safe.hidden() >= hidden);
        }
    }
}
