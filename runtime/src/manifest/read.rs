//! Strict reading of TOML: every key is asked for by name, every value has a place, and no fault ends the reading.

use super::fault::{Fault, FaultKind, Source, nearest};
use std::cell::RefCell;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Spot<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// One file being read, and the faults found in it so far.
#[derive(Debug)]
pub(crate) struct Reader<'s> {
    source: &'s Source,
    faults: RefCell<Vec<Fault>>,
    /// Whether the text had syntax faults: what is absent then may only be unreadable.
    broken: bool,
}

impl<'s> Reader<'s> {
    /// Parses a file; syntax faults are kept and reading goes on with what could be read.
    pub(crate) fn parse(source: &'s Source) -> (Self, toml::Spanned<DeTable<'s>>) {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        let faults: Vec<Fault> = errors
            .iter()
            .map(|error| {
                let span = error.span().unwrap_or(0..0);
                let hint = if error.message().contains("duplicate key") {
                    "remove one of the two"
                } else {
                    "see https://toml.io for the syntax"
                };
                source.fault(&span, FaultKind::Syntax, format!("not valid TOML: {}", error.message()), hint)
            })
            .collect();
        let broken = !faults.is_empty();
        (Self { source, faults: RefCell::new(faults), broken }, table)
    }

    /// Notes a fault.
    pub(crate) fn fault(&self, span: &Range<usize>, kind: FaultKind, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.borrow_mut().push(self.source.fault(span, kind, what, hint));
    }

    /// Notes a fault about something the format has and this version does not build.
    pub(crate) fn unsupported(&self, span: &Range<usize>, what: &str, hint: impl Into<String>) {
        self.fault(span, FaultKind::Unsupported, format!("{what} is not supported by this version"), hint);
    }

    /// Notes a fault about a value of the right type.
    pub(crate) fn value(&self, span: &Range<usize>, what: impl Into<String>, hint: impl Into<String>) {
        self.fault(span, FaultKind::Value, what, hint);
    }

    /// How many faults there are so far.
    pub(crate) fn count(&self) -> usize {
        self.faults.borrow().len()
    }

    /// All faults. Those that only follow from a syntax fault on the same line are left out.
    pub(crate) fn into_faults(self) -> Vec<Fault> {
        let faults = self.faults.into_inner();
        let broken: Vec<u32> =
            faults.iter().filter(|fault| fault.kind == FaultKind::Syntax).map(|fault| fault.line).collect();
        faults
            .into_iter()
            .filter(|fault| {
                fault.kind == FaultKind::Syntax
                    || !(broken.contains(&fault.line) || fault.kind == FaultKind::Missing && !broken.is_empty())
            })
            .collect()
    }
}

/// One table being read. Every key that is asked for is known; [`Table::finish`] refuses the others.
#[derive(Debug)]
pub(crate) struct Table<'r> {
    pub(crate) reader: &'r Reader<'r>,
    entries: &'r DeTable<'r>,
    /// Dotted path from the file's root; empty for the root.
    path: String,
    /// Where the table is named.
    pub(crate) span: Range<usize>,
    known: RefCell<Vec<String>>,
}

impl<'r> Table<'r> {
    pub(crate) fn root(reader: &'r Reader<'r>, entries: &'r DeTable<'r>) -> Self {
        Self { reader, entries, path: String::new(), span: 0..0, known: RefCell::default() }
    }

    /// `tool.name` for the key `name` of the table `tool`.
    pub(crate) fn name_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The table's own dotted path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A key's value as it stands; the key is known from now on.
    pub(crate) fn raw(&self, key: &str) -> Option<Spot<&'r DeValue<'r>>> {
        self.known.borrow_mut().push(key.to_owned());
        let (_, value) = self.entries.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some(Spot { value: value.get_ref(), span: value.span() })
    }

    /// Where a key's name stands.
    pub(crate) fn key_span(&self, key: &str) -> Range<usize> {
        self.entries
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)
            .map_or(self.span.clone(), |(name, _)| name.span())
    }

    fn wrong(&self, key: &str, wanted: &str, spot: &Spot<&DeValue<'_>>) {
        self.reader.fault(
            &spot.span,
            FaultKind::WrongType,
            format!("`{}` must be {wanted}, not {}", self.name_of(key), kind_of(spot.value)),
            "",
        );
    }

    /// A string.
    pub(crate) fn string(&self, key: &str) -> Option<Spot<String>> {
        let spot = self.raw(key)?;
        if let DeValue::String(text) = spot.value {
            return Some(Spot { value: text.to_string(), span: spot.span });
        }
        self.wrong(key, "a string", &spot);
        None
    }

    /// A boolean.
    pub(crate) fn boolean(&self, key: &str) -> Option<Spot<bool>> {
        let spot = self.raw(key)?;
        if let DeValue::Boolean(value) = spot.value {
            return Some(Spot { value: *value, span: spot.span });
        }
        self.wrong(key, "true or false", &spot);
        None
    }

    /// An integer.
    pub(crate) fn integer(&self, key: &str) -> Option<Spot<i64>> {
        let spot = self.raw(key)?;
        if let DeValue::Integer(digits) = spot.value {
            if let Ok(value) = i64::from_str_radix(digits.as_str(), digits.radix()) {
                return Some(Spot { value, span: spot.span });
            }
            self.reader.value(&spot.span, format!("`{}` is beyond 64 bits", self.name_of(key)), "");
            return None;
        }
        self.wrong(key, "an integer", &spot);
        None
    }

    /// An integer within bounds, or the default when the key is absent or faulty.
    pub(crate) fn bounded(&self, key: &str, default: u64, bounds: std::ops::RangeInclusive<u64>) -> u64 {
        let Some(spot) = self.integer(key) else { return default };
        match u64::try_from(spot.value) {
            Ok(value) if bounds.contains(&value) => value,
            _ => {
                self.reader.value(
                    &spot.span,
                    format!("`{}` must be between {} and {}", self.name_of(key), bounds.start(), bounds.end()),
                    format!("leave it out for {default}"),
                );
                default
            }
        }
    }

    /// A list of strings.
    pub(crate) fn strings(&self, key: &str) -> Option<Spot<Vec<Spot<String>>>> {
        let spot = self.raw(key)?;
        let DeValue::Array(items) = spot.value else {
            self.wrong(key, "a list of strings", &spot);
            return None;
        };
        let mut strings = Vec::new();
        for item in items.iter() {
            let inner = Spot { value: item.get_ref(), span: item.span() };
            match inner.value {
                DeValue::String(text) => strings.push(Spot { value: text.to_string(), span: inner.span }),
                _ => self.wrong(key, "a list of strings", &inner),
            }
        }
        Some(Spot { value: strings, span: spot.span })
    }

    /// A table.
    pub(crate) fn table(&self, key: &str) -> Option<Table<'r>> {
        let spot = self.raw(key)?;
        let DeValue::Table(entries) = spot.value else {
            self.wrong(key, "a table", &spot);
            return None;
        };
        Some(Table {
            reader: self.reader,
            entries,
            path: self.name_of(key),
            span: self.key_span(key),
            known: RefCell::default(),
        })
    }

    /// Every entry as a table of its own, sorted by name; entries that are none are faults.
    pub(crate) fn tables(&self) -> Vec<(String, Table<'r>)> {
        let names: Vec<String> = self.entries.keys().map(|name| name.get_ref().to_string()).collect();
        names.into_iter().filter_map(|name| self.table(&name).map(|table| (name, table))).collect()
    }

    /// Every entry as it stands, sorted by name; all keys are known from now on.
    pub(crate) fn values(&self) -> Vec<(String, Spot<&'r DeValue<'r>>)> {
        let names: Vec<String> = self.entries.keys().map(|name| name.get_ref().to_string()).collect();
        names.into_iter().filter_map(|name| self.raw(&name).map(|value| (name, value))).collect()
    }

    /// A required key was absent.
    pub(crate) fn missing(&self, key: &str, hint: impl Into<String>) {
        // After a syntax fault the key may be there, in the part that could not be read.
        if !self.reader.broken {
            let what = format!("`{}` is missing", self.name_of(key));
            self.reader.fault(&self.span, FaultKind::Missing, what, hint);
        }
    }

    /// A required string.
    pub(crate) fn required_string(&self, key: &str, hint: &str) -> Option<Spot<String>> {
        let string = self.string(key);
        if string.is_none() && self.entries.keys().all(|name| name.get_ref().as_ref() != key) {
            self.missing(key, hint);
        }
        string
    }

    /// Whether the key is there; it is known from now on.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Refuses keys that the format has and this version does not build.
    pub(crate) fn refuse(&self, keys: &[(&str, &str)]) -> bool {
        let mut refused = false;
        for (key, hint) in keys {
            if self.raw(key).is_some() {
                let name = self.name_of(key);
                let what = if matches!(self.raw(key).map(|spot| spot.value), Some(DeValue::Table(_))) {
                    format!("the table [{name}]")
                } else {
                    format!("the key `{name}`")
                };
                self.reader.unsupported(&self.key_span(key), &what, *hint);
                refused = true;
            }
        }
        refused
    }

    /// Refuses every key that nobody asked for.
    pub(crate) fn finish(self) {
        let known = self.known.borrow();
        for name in self.entries.keys() {
            let key = name.get_ref().as_ref();
            if known.iter().any(|known| known == key) {
                continue;
            }
            let hint = nearest(key, known.iter().map(String::as_str))
                .map_or_else(|| hint_of_known(&known), |near| format!("did you mean `{near}`?"));
            let place = if self.path.is_empty() { "the file".to_owned() } else { format!("[{}]", self.path) };
            self.reader.fault(&name.span(), FaultKind::UnknownKey, format!("unknown key `{key}` in {place}"), hint);
        }
    }
}

fn hint_of_known(known: &[String]) -> String {
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    format!("known here: {}", names.join(", "))
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
