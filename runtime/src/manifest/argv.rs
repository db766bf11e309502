//! Argv: one element of `exec` is one element of the argv, whatever the values in it; and the reading of a startup
//! line into literal words.

use std::collections::BTreeMap;
use stockade_protocol::limits::ARGV_ELEMENT_BYTES;

/// A part of an argv element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text of the manifest.
    Text(String),
    /// The value of an argument or a command default.
    Value(String),
}

/// The `exec` array, compiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArgvTemplate {
    slots: Vec<Vec<Piece>>,
    /// Before which slot `--` goes.
    fence: Option<usize>,
}

/// A fault in one element of `exec`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceholderError {
    /// A `{` without its `}`.
    #[error("an opening brace is not closed")]
    Open,
    /// A `}` without its `{`.
    #[error("a closing brace closes nothing")]
    Close,
    /// Braces around something that is no name.
    #[error("`{{{0}}}` is not a placeholder")]
    Name(String),
}

/// Whether a word can name an argument.
pub(crate) fn is_name(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && word.len() <= 64
}

/// Reads one element: `{name}` is a placeholder, `{{` and `}}` are braces.
pub(crate) fn pieces(element: &str) -> Result<Vec<Piece>, PlaceholderError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut chars = element.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.next_if_eq(&c).is_some() => text.push(c),
            '}' => return Err(PlaceholderError::Close),
            '{' => {
                let mut name = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(c) if c != '{' => name.push(c),
                        _ => return Err(PlaceholderError::Open),
                    }
                }
                if !is_name(name.split_once(':').map_or(name.as_str(), |(kind, _)| kind)) {
                    return Err(PlaceholderError::Name(name));
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Value(name));
            }
            c => text.push(c),
        }
    }
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

impl ArgvTemplate {
    /// A template of compiled elements; with `fence`, `--` goes before the first element that is solely one of
    /// `arguments`.
    pub(crate) fn new(slots: Vec<Vec<Piece>>, fence: bool, is_argument: impl Fn(&str) -> bool) -> Self {
        let fence = fence
            .then(|| slots.iter().position(|slot| matches!(slot.as_slice(), [Piece::Value(name)] if is_argument(name))))
            .flatten();
        Self { slots, fence }
    }

    /// Number of elements of every argv it builds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() + usize::from(self.fence.is_some())
    }

    /// Whether it builds empty argvs; a loaded manifest's never does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Builds the argv. A value that is absent is the empty text and keeps its place.
    ///
    /// # Errors
    /// The number of the first element that would be longer than the kernel takes.
    pub fn build(
        &self,
        arguments: &BTreeMap<String, String>,
        defaults: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, usize> {
        let mut argv = Vec::with_capacity(self.len());
        for (at, slot) in self.slots.iter().enumerate() {
            if self.fence == Some(at) {
                argv.push("--".to_owned());
            }
            let mut element = String::new();
            for piece in slot {
                element.push_str(match piece {
                    Piece::Text(text) => text,
                    Piece::Value(name) => arguments.get(name).or_else(|| defaults.get(name)).map_or("", String::as_str),
                });
            }
            if element.len() > ARGV_ELEMENT_BYTES {
                return Err(argv.len());
            }
            argv.push(element);
        }
        Ok(argv)
    }
}

/// A startup line that is not literal words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// A quote without its end.
    #[error("a {0} quote is not closed")]
    Quote(&'static str),
    /// A backslash at the end.
    #[error("it ends in a backslash that escapes nothing")]
    Backslash,
    /// A character that only a shell would read.
    #[error("the character {0:?} outside quotes means something to a shell only, and no shell reads this line")]
    Shell(char),
    /// A control character.
    #[error("it holds the control character U+{0:04X}")]
    Control(u32),
}

/// Reads a line into words as a POSIX shell would split it: blanks separate, `'…'` is literal, in `"…"` a backslash
/// escapes `"`, `\`, `$` and a backquote, elsewhere it escapes anything. Nothing is expanded: what would be, unquoted, is an error.
///
/// # Errors
/// When a quote or escape is open, or a control or shell character stands outside quotes.
pub fn words(line: &str) -> Result<Vec<String>, WordError> {
    if let Some(c) = line.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(WordError::Control(u32::from(c)));
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(WordError::Quote("single")),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next().ok_or(WordError::Backslash)?),
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' => return Err(WordError::Shell(c)),
            '#' | '~' if word.is_none() => return Err(WordError::Shell(c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordError> {
    loop {
        match chars.next().ok_or(WordError::Quote("double"))? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(WordError::Quote("double"))? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c @ ('$' | '`') => return Err(WordError::Shell(c)),
            c => word.push(c),
        }
    }
}

/// Programs that run text given to them, by the base name of their first argv element.
const INTERPRETERS: &[&str] = &[
    "ash", "awk", "bash", "bun", "busybox", "csh", "dash", "deno", "env", "eval", "expect", "fish", "gawk", "ksh",
    "lua", "mawk", "nawk", "node", "nodejs", "perl", "php", "rbash", "ruby", "sh", "tclsh", "tcsh", "xargs", "zsh",
];

/// Whether a base name is an interpreter's, with or without a version at its end: `python3.12`, `lua5.4`.
pub(crate) fn is_interpreter(base: &str) -> bool {
    let bare = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    base.starts_with("python") || INTERPRETERS.contains(&base) || INTERPRETERS.contains(&bare)
}

/// The part of a program's path after its last slash.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}
