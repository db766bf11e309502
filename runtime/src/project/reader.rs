//! Strict reading of stockade's own TOML files: every fault of a file at once, each with its place and what to do.

use crate::manifest::{Fault, FaultKind, Source, nearest};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file being read and what was found wrong with it so far.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    source: &'a Source,
    faults: Vec<Fault>,
}

/// Where in a file something is.
pub(crate) type Span = Range<usize>;

impl<'a> Reader<'a> {
    /// Parses the text; syntax faults are kept, and whatever could be read is returned.
    pub(crate) fn parse(source: &'a Source) -> (Self, Spanned<DeTable<'a>>) {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        let mut reader = Self { source, faults: Vec::new() };
        for error in errors {
            let message = error.message().trim().replace('\n', ", ");
            reader.note(
                &error.span().unwrap_or(0..0),
                FaultKind::Syntax,
                message,
                "see https://toml.io for the syntax",
            );
        }
        (reader, table)
    }

    fn note(&mut self, span: &Span, kind: FaultKind, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(self.source.fault(span, kind, what, hint));
    }

    /// Notes a value of the right type that breaks a rule.
    pub(crate) fn fault(&mut self, span: &Span, what: impl Into<String>, hint: impl Into<String>) {
        self.note(span, FaultKind::Value, what, hint);
    }

    /// Notes something that is known and not in this version.
    pub(crate) fn unsupported(&mut self, span: &Span, what: impl Into<String>, hint: impl Into<String>) {
        self.note(span, FaultKind::Unsupported, what, hint);
    }

    /// Notes something that is not there.
    pub(crate) fn missing(&mut self, span: &Span, what: impl Into<String>, hint: impl Into<String>) {
        self.note(span, FaultKind::Missing, what, hint);
    }

    /// Notes a value of the wrong type.
    pub(crate) fn wrong_type(&mut self, span: &Span, what: impl Into<String>, hint: impl Into<String>) {
        self.note(span, FaultKind::WrongType, what, hint);
    }

    /// Every key of the table must be known.
    pub(crate) fn only(&mut self, table: &DeTable<'_>, of: &str, known: &[&str]) {
        let unknown: Vec<_> = table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        for key in unknown {
            let what = format!("unknown key `{}`{of}", key.get_ref());
            let hint = match nearest(key.get_ref(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.note(&key.span(), FaultKind::UnknownKey, what, hint);
        }
    }

    /// A table by name; wrong types are faults.
    pub(crate) fn table<'t, 'i>(&mut self, parent: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
        let value = parent.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let what = format!("`{key}` is {}, not a table", kind(other));
                self.wrong_type(&value.span(), what, format!("write [{key}]"));
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
                self.wrong_type(&value.span(), format!("`{key}` is {}, not text", kind(other)), "put it in quotes");
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
            self.wrong_type(&value.span(), format!("`{key}` is {}, not a number", kind(value.get_ref())), bounds);
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
