//! The `[filesystem]` table: which files a call may read and the one it may create.

use super::args::{ArgType, Unfit};
use super::read::{Spot, Table};
use super::types::Args;
use std::collections::{BTreeMap, BTreeSet};
use stockade_protocol::limits::{GRANT_FILE_BYTES, GRANT_FILE_BYTES_MAX, GRANT_INPUTS, PATH_BYTES};

/// One entry: a literal path, or the whole of an argument's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEntry {
    /// A relative path.
    Literal(String),
    /// The name of an argument.
    Argument(String),
}

/// The declared files. Without the table a worker gets none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesystemSpec {
    /// Inputs, at most [`GRANT_INPUTS`].
    pub read: Vec<FileEntry>,
    /// Outputs, at most one.
    pub create: Vec<FileEntry>,
    /// Largest size of any of them, bytes.
    pub max_file_bytes: u64,
}

impl Default for FilesystemSpec {
    fn default() -> Self {
        Self { read: Vec::new(), create: Vec::new(), max_file_bytes: GRANT_FILE_BYTES }
    }
}

/// What one call asks of the file broker: literal relative paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FileRequest {
    /// Inputs.
    pub read: Vec<String>,
    /// Outputs.
    pub create: Vec<String>,
    /// Largest size of any of them, bytes.
    pub max_file_bytes: u64,
}

/// The rule that a refusal names when no argument is at fault.
const MANIFEST_RULE: &str = "filesystem";

/// Whether a path can be an entry.
pub(crate) fn entry_path(path: &str) -> Result<(), Unfit> {
    let unfit = |why: String| Err(Unfit { why, next: "name one file, relative to the project".to_owned() });
    if path.is_empty() {
        return unfit("the path is empty".to_owned());
    }
    if path.len() > PATH_BYTES {
        return unfit(format!("the path is longer than {PATH_BYTES} bytes"));
    }
    if let Some(c) = path.chars().find(|c| c.is_control() || matches!(c, '{' | '}' | '\\' | ':' | ',')) {
        return unfit(format!("the path holds {c:?}"));
    }
    if path.starts_with('/') {
        return unfit("the path is absolute".to_owned());
    }
    if let Some(part) = path.split('/').find(|part| matches!(*part, "" | "." | "..")) {
        return unfit(format!("the path has the part `{part}`"));
    }
    Ok(())
}

impl FilesystemSpec {
    /// Whether nothing is declared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.create.is_empty()
    }

    /// Names of the arguments that entries refer to.
    pub(crate) fn arguments(&self) -> BTreeSet<&str> {
        self.read
            .iter()
            .chain(&self.create)
            .filter_map(|entry| match entry {
                FileEntry::Argument(name) => Some(name.as_str()),
                FileEntry::Literal(_) => None,
            })
            .collect()
    }

    /// Puts a call's arguments in.
    ///
    /// # Errors
    /// The argument's name and what is wrong, when its value is no path or names a file twice.
    pub fn resolve(&self, arguments: &BTreeMap<String, String>) -> Result<FileRequest, (String, Unfit)> {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut resolve = |entries: &[FileEntry]| {
            entries
                .iter()
                .map(|entry| {
                    let (path, rule) = match entry {
                        FileEntry::Literal(path) => (path.clone(), MANIFEST_RULE),
                        FileEntry::Argument(name) => (arguments.get(name).cloned().unwrap_or_default(), name.as_str()),
                    };
                    entry_path(&path).map_err(|unfit| (rule.to_owned(), unfit))?;
                    if let Some(earlier) = seen.insert(path.clone(), rule.to_owned()) {
                        let why = format!("the file {path} would be granted twice");
                        // Whichever of the two came from the call is what the caller can change.
                        let rule = if rule == MANIFEST_RULE { earlier } else { rule.to_owned() };
                        return Err((rule, Unfit { why, next: "name another file".to_owned() }));
                    }
                    Ok(path)
                })
                .collect::<Result<Vec<String>, _>>()
        };
        Ok(FileRequest {
            read: resolve(&self.read)?,
            create: resolve(&self.create)?,
            max_file_bytes: self.max_file_bytes,
        })
    }
}

/// Reads the table.
pub(crate) fn read(root: &Table<'_>) -> (FilesystemSpec, Option<std::ops::Range<usize>>) {
    let Some(table) = root.table("filesystem") else { return (FilesystemSpec::default(), None) };
    let mut seen = BTreeSet::new();
    let read = entries(&table, "read", GRANT_INPUTS, &mut seen);
    let create = entries(&table, "create", 1, &mut seen);
    let max_file_bytes = table.bounded("max_file_bytes", GRANT_FILE_BYTES, 1..=GRANT_FILE_BYTES_MAX);
    let span = table.span.clone();
    table.finish();
    (FilesystemSpec { read, create, max_file_bytes }, Some(span))
}

fn entries(table: &Table<'_>, key: &str, most: usize, seen: &mut BTreeSet<String>) -> Vec<FileEntry> {
    let Some(list) = table.strings(key) else { return Vec::new() };
    let name = table.name_of(key);
    if list.value.len() > most {
        let what = format!("`{name}` has {} entries: at most {most} can be granted", list.value.len());
        table.reader.value(&list.span, what, "");
    }
    let mut entries = Vec::new();
    for Spot { value, span } in list.value {
        if !seen.insert(value.clone()) {
            table.reader.value(&span, format!("`{name}` names {value} a second time"), "name each file once");
            continue;
        }
        if let Some(argument) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
            && super::argv::is_name(argument)
        {
            entries.push(FileEntry::Argument(argument.to_owned()));
            continue;
        }
        match entry_path(&value) {
            Ok(()) => entries.push(FileEntry::Literal(value)),
            Err(unfit) => table.reader.value(
                &span,
                format!("`{name}`: {}", unfit.why),
                "write a literal path relative to the project, or one whole `{argument}`",
            ),
        }
    }
    entries
}

/// Checks that every argument an entry refers to is there, always has a value, and is of a type that can be a path.
pub(crate) fn check_references(spec: &FilesystemSpec, args: &Args, whose: &str, fault: &mut dyn FnMut(String, String)) {
    for name in spec.arguments() {
        match args.get(name) {
            None => fault(
                format!("`filesystem` refers to the argument {name}, which {whose} does not declare"),
                format!("declare it with type = \"path\", or write a literal path instead of {{{name}}}"),
            ),
            Some(None) => {}
            Some(Some(arg)) if !matches!(arg.kind, ArgType::Path | ArgType::String | ArgType::Enum { .. }) => fault(
                format!("`filesystem` refers to the argument {name}, which is of type {}", arg.kind.word()),
                "use a path, a string or an enum".to_owned(),
            ),
            Some(Some(arg)) if !arg.required && arg.default.is_none() => fault(
                format!("`filesystem` refers to the argument {name}, which may be left out"),
                "set required = true or give it a default".to_owned(),
            ),
            Some(Some(_)) => {}
        }
    }
}
