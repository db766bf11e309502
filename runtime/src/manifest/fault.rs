//! Faults of files that people write: what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;
use stockade_protocol::text::SafeText;

/// What kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The file cannot be read.
    Unreadable,
    /// The text is not of its language.
    Syntax,
    /// A key that the format does not have.
    UnknownKey,
    /// A required key or table is absent.
    Missing,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that breaks a rule.
    Value,
    /// Something the format has and this version of stockade does not build yet.
    Unsupported,
}

/// One fault of one file.
///
/// `what` and `hint` may quote the file: [`fmt::Display`] makes both safe to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path relative to the project.
    pub file: String,
    /// Line, from 1; 0 when the fault has no place inside the file.
    pub line: u32,
    /// Column in characters, from 1; 0 when the fault has no place inside the file.
    pub column: u32,
    /// What kind of fault.
    pub kind: FaultKind,
    /// What is wrong, one sentence without its full stop.
    pub what: String,
    /// What to do about it; empty when `what` says it all.
    pub hint: String,
}

impl Fault {
    /// A fault of a whole file.
    #[must_use]
    pub fn whole(file: impl Into<String>, kind: FaultKind, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, kind, what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SafeText::line(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", SafeText::line(&self.what))?;
        if !self.hint.is_empty() {
            write!(f, " (hint: {})", SafeText::line(&self.hint))?;
        }
        Ok(())
    }
}

/// Every fault of every file that was looked at, in the order of files and places. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// The faults as an error when there are any.
    ///
    /// # Errors
    /// When `faults` is not empty.
    pub fn none_or(mut faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by(|a, b| (&a.file, a.line, a.column, a.kind).cmp(&(&b.file, b.line, b.column, b.kind)));
        faults.dedup();
        Err(Self(faults))
    }

    /// A single fault.
    #[must_use]
    pub fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// The faults.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }

    /// The faults, taken out.
    #[must_use]
    pub fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// A file's text with its name, for turning offsets into places.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path relative to the project.
    pub(crate) file: String,
    /// The text.
    pub(crate) text: String,
}

impl Source {
    /// Line and column of a byte offset, both from 1; an offset past the end is the end.
    pub(crate) fn place(&self, offset: usize) -> (u32, u32) {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = self.text.get(..end).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// A fault at a span of this file.
    pub(crate) fn fault(
        &self,
        span: &Range<usize>,
        kind: FaultKind,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        let (line, column) = self.place(span.start);
        Fault { file: self.file.clone(), line, column, kind, what: what.into(), hint: hint.into() }
    }
}

/// The candidate nearest to a misspelt word, when one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= ((candidate.chars().count() + 1) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance between two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (j, to) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX - 1);
            let cost = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            next.push(cost);
            diagonal = above;
            left = cost;
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
