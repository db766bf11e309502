//! Strict reading of stockade's own TOML files: every fault of a file at once, each with its place and what to do.

use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file, relative to the project.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use stockade_protocol::text::SafeText;
        let (file, what, hint) = (SafeText::line(&self.file), SafeText::line(&self.what), SafeText::line(&self.hint));
        write!(f, "{file}:{}:{}: {what}", self.line, self.column)?;
        if !self.hint.is_empty() {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// Every fault found, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(pub Vec<Fault>);

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

/// The file being read and what was found wrong with it so far.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    faults: Vec<Fault>,
}

/// Where in a file something is.
pub(crate) type Span = Range<usize>;

impl<'a> Reader<'a> {
    /// Parses the text; syntax faults are kept, and whatever could be read is returned.
    pub(crate) fn parse(file: &'a str, text: &'a str) -> (Self, Spanned<DeTable<'a>>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = Self { file, text, faults: Vec::new() };
        for error in errors {
            let message = error.message().trim().replace('\n', ", ");
            reader.fault(&error.span().unwrap_or(0..0), message, "see https://toml.io for the syntax");
        }
        (reader, table)
    }

    /// Notes a fault.
    pub(crate) fn fault(&mut self, span: &Span, what: impl Into<String>, hint: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.faults.push(Fault {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
            what: what.into(),
            hint: hint.into(),
        });
    }

    /// Every key of the table must be known.
    pub(crate) fn only(&mut self, table: &DeTable<'_>, of: &str, known: &[&str]) {
        let unknown: Vec<_> = table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        for key in unknown {
            let what = format!("unknown key `{}`{of}", key.get_ref());
            let hint = match nearest(key.get_ref(), known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.fault(&key.span(), what, hint);
        }
    }

    /// A table by name; wrong types are faults.
    pub(crate) fn table<'t, 'i>(&mut self, parent: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
        let value = parent.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let what = format!("`{key}` is {}, not a table", kind(other));
                self.fault(&value.span(), what, format!("write [{key}]"));
                None
            }
        }
    }

    /// A text by name with its place.
    pub(crate) fn text<'t>(&mut self, table: &'t DeTable<'_>, key: &str) -> Option<(&'t str, Span)> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some((text.as_ref(), value.span())),
            other => {
                self.fault(&value.span(), format!("`{key}` is {}, not text", kind(other)), "put it in quotes");
                None
            }
        }
    }

    /// A whole number by name, within bounds.
    pub(crate) fn number(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        within: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = table.get(key)?;
        let bounds = format!("give a whole number from {} to {}", within.start(), within.end());
        let DeValue::Integer(number) = value.get_ref() else {
            self.fault(&value.span(), format!("`{key}` is {}, not a number", kind(value.get_ref())), bounds);
            return None;
        };
        let read = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        match read.filter(|number| within.contains(number)) {
            Some(number) => Some(number),
            None => {
                self.fault(&value.span(), format!("`{key}` is out of bounds: {}", number.as_str()), bounds);
                None
            }
        }
    }

    /// Ends the reading: the value, or everything that was wrong.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Vec<Fault>> {
        if self.faults.is_empty() { Ok(value) } else { Err(self.faults) }
    }
}

/// What a value is, in words.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The known word that a mistyped one most likely meant.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = |candidate: &&&str| distance(word, candidate) <= 1 + candidate.len() / 5;
    known.iter().filter(near).min_by_key(|candidate| distance(word, candidate)).copied()
}

/// Edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
