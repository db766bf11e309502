//! When has a session answered? When the whole last line of its output, escapes removed, is the ready prompt.

use super::ansi::Stripper;
use crate::manifest::Pattern;

/// A line longer than this is not a prompt, characters.
const LINE_CHARS: usize = 4096;

/// Watches output for the ready prompt.
///
/// The line must be unterminated: a program that prints its prompt's text as a line of output has not answered. Output
/// after a prompt's text takes the match back, so the watcher is asked only when the program has fallen silent.
#[derive(Debug)]
pub(crate) struct PromptWatch {
    pattern: Pattern,
    stripper: Stripper,
    /// The start of a UTF-8 sequence that has not arrived whole.
    partial: Vec<u8>,
    line: String,
    overlong: bool,
}

impl PromptWatch {
    /// A pattern matches a line whole or not at all.
    pub(crate) const fn new(pattern: Pattern) -> Self {
        Self { pattern, stripper: Stripper::new(), partial: Vec::new(), line: String::new(), overlong: false }
    }

    /// Forgets the current line: what was there before a command is typed can't answer it.
    pub(crate) fn reset(&mut self) {
        self.stripper = Stripper::new();
        self.partial.clear();
        self.line.clear();
        self.overlong = false;
    }

    /// Takes more output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.partial);
        let mut rest = held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.push_text(text);
                    return;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.push_text(std::str::from_utf8(valid).unwrap_or_default());
                    match error.error_len() {
                        None => {
                            self.partial = after.to_vec();
                            return;
                        }
                        Some(bad) => {
                            self.push_char(char::REPLACEMENT_CHARACTER);
                            rest = after.get(bad..).unwrap_or_default();
                        }
                    }
                }
            }
        }
    }

    /// The prompt, if the output so far ends in it.
    pub(crate) fn observed(&self) -> Option<&str> {
        let whole = self.stripper.at_rest() && self.partial.is_empty() && !self.overlong && !self.line.is_empty();
        (whole && self.pattern.matches(&self.line)).then_some(self.line.as_str())
    }

    fn push_text(&mut self, text: &str) {
        text.chars().for_each(|c| self.push_char(c));
    }

    fn push_char(&mut self, c: char) {
        match self.stripper.push(c) {
            None => {}
            Some('\n') => {
                self.line.clear();
                self.overlong = false;
            }
            Some(_) if self.line.len() >= LINE_CHARS => self.overlong = true,
            Some(c) => self.line.push(c),
        }
    }
}

/// Splits an interaction's raw output into the answer and the prompt's line, which is everything after the last line
/// feed. White space of the answer is kept.
pub(crate) fn split_answer(output: &[u8]) -> (&[u8], &[u8]) {
    let at = output.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    output.split_at(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch(pieces: &[&[u8]]) -> Option<String> {
        let mut watch = PromptWatch::new(Pattern::new("report> ").unwrap());
        pieces.iter().for_each(|piece| watch.push(piece));
        watch.observed().map(str::to_owned)
    }

    #[test]
    fn the_whole_unterminated_last_line_is_a_prompt() {
        assert_eq!(watch(&[b"north 3\r\nreport> "]).as_deref(), Some("report> "));
        assert_eq!(watch(&[b"x\n\x1b[32mrep", b"ort> \x1b[", b"0m"]).as_deref(), Some("report> "));
        assert_eq!(watch(&[b"x\n\x1b]0;title\x07report> "]).as_deref(), Some("report> "));
    }

    #[test]
    fn prompt_text_inside_output_does_not_end_an_interaction() {
        for output in [
            &b"report> \n"[..],
            b"report> \r\n",
            b"report> and more",
            b"see report> ",
            b"report> \nnext line",
            b"rep\x1b[0mort> said the tool",
            b"\x1b]0;report> ",
            b"\x1b]0;report> \x07",
            b"\x1bPreport> ",
            b"\xc2\x9dreport> ",
            b"report> \x1b[",
            b"report> \xe2\x82",
            b"x\rreport> ",
            b"",
        ] {
            assert_eq!(watch(&[output]), None, "{:?}", String::from_utf8_lossy(output));
        }
    }

    #[test]
    fn an_answer_is_all_lines_before_the_prompt() {
        assert_eq!(split_answer(b"a\n b \nreport> "), (&b"a\n b \n"[..], &b"report> "[..]));
        assert_eq!(split_answer(b"report> "), (&b""[..], &b"report> "[..]));
    }

    proptest! {
        #[test]
        fn how_output_is_split_makes_no_difference(output in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let mut output = output;
            output.extend_from_slice(b"\x18\nreport> ");
            let (head, tail) = output.split_at(at.min(output.len()));
            prop_assert_eq!(watch(&[head, tail]), watch(&[&output]));
        }
    }
}
