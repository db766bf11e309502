//! Lines out and answers in. Everything that is printed is made drawable first, on a terminal or not: a pipe may end
//! in one. Only `--raw` output leaves as it is, and never onto a terminal.

use crate::exit::Failure;
use crossterm::terminal::{WindowSize, window_size};
use serde::Serialize;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use stockade_protocol::text::{SafeText, is_hidden};

/// Columns of what is not a terminal.
const WIDTH: usize = 80;

/// What the rest of a line begins with that is longer than the terminal is wide.
const MARGIN: &str = "      ";

/// Prints one line. A line end in what it quotes is shown, and on a terminal the rest of a long line is set in, so that
/// no name or reason can add a line of its own.
pub(crate) fn say(text: impl AsRef<str>) {
    let out = std::io::stdout();
    let width = if out.is_terminal() { width() } else { usize::MAX };
    // Whoever reads may have had enough.
    let _ = print(&mut out.lock(), &SafeText::line(text.as_ref()), width, MARGIN);
}

/// Columns of the terminal.
fn width() -> usize {
    match window_size() {
        Ok(WindowSize { columns: columns @ 1.., .. }) => usize::from(columns),
        _ => WIDTH,
    }
}

fn print(out: &mut impl std::io::Write, line: &SafeText, width: usize, margin: &str) -> std::io::Result<()> {
    for row in line.rows(width, margin) {
        writeln!(out, "{row}")?;
    }
    out.flush()
}

/// Prints text that has several lines, such as a tool's output, each made drawable.
pub(crate) fn say_lines(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    for line in SafeText::lines(text.as_ref()) {
        // Whoever reads may have had enough.
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
}

/// Prints text that has several lines, each as [`say`] does on a terminal, also where it is read through a pager.
pub(crate) fn say_rows(text: impl AsRef<str>) {
    let width = width();
    let mut out = std::io::stdout().lock();
    for line in text.as_ref().split('\n') {
        // What a caller says stays behind the mark of that.
        let margin = if line.starts_with('┆') { "┆     " } else { MARGIN };
        // Whoever reads may have had enough.
        let _ = print(&mut out, &SafeText::line(line), width, margin);
    }
}

/// Prints one line beside the output: hints and progress.
pub(crate) fn note(text: impl AsRef<str>) {
    let err = std::io::stderr();
    let width = if err.is_terminal() { width() } else { usize::MAX };
    let _ = print(&mut err.lock(), &SafeText::line(text.as_ref()), width, MARGIN);
}

/// Says why the command could not do its work.
pub(crate) fn fail(failure: &Failure) {
    let err = std::io::stderr();
    let width = if err.is_terminal() { width() } else { usize::MAX };
    let mut err = err.lock();
    failure.rows(width).iter().for_each(|row| drop(writeln!(err, "{row}")));
}

/// Prints text that has several lines beside the output.
pub(crate) fn note_lines(text: impl AsRef<str>) {
    let mut err = std::io::stderr().lock();
    for line in SafeText::lines(text.as_ref()) {
        let _ = writeln!(err, "{line}");
    }
}

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) {
    print_json(serde_json::to_string_pretty(value));
}

/// Prints one JSON document on one line.
pub(crate) fn json_line(value: &impl Serialize) {
    print_json(serde_json::to_string(value));
}

fn print_json(text: Result<String, serde_json::Error>) {
    let mut out = std::io::stdout().lock();
    if let Ok(text) = text {
        let _ = writeln!(out, "{}", escape_hidden(&text));
    }
    let _ = out.flush();
}

/// Writes bytes as they are.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Whether output goes to a terminal.
pub(crate) fn output_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether a question can be asked and answered: a person sees one and types into the other.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal; what was typed, without blanks around it.
pub(crate) fn ask(question: &str) -> String {
    {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{} ", SafeText::line(question));
        let _ = err.flush();
    }
    let mut answer = String::new();
    // An unreadable answer is no answer.
    let _ = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}

/// JSON text with everything that would not be seen written as an escape. It is the same JSON: such characters occur
/// only inside strings.
fn escape_hidden(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_a_terminal_hides_nothing_and_stays_the_same_json() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{9b}31m", "\u{e0041}", "\u{1b}", "é\n", "漢"] });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escape_hidden(&text);
        assert!(escaped.chars().all(|c| c == '\n' || !is_hidden(c)), "{escaped:?}");
        assert!(escaped.contains("漢") && escaped.contains("\\u202e"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
