//! Tools: strict ToolClad manifests, and the step from an untrusted request to a valid call.
//!
//! A manifest is the operator's word on what may be run and with which values. It is read once, whole, and either
//! every file of the project loads or none does: all faults are reported together. What the public format has and this
//! version does not build is refused by name, never skipped. Nothing a caller sends chooses a program, an option that the
//! manifest does not show, or a file that it does not declare.

mod args;
mod argv;
mod call;
mod command;
mod fault;
mod files;
mod info;
mod load;
mod output;
mod pattern;
mod read;
mod schema;
mod session;
mod types;

#[cfg(test)]
mod tests;

pub use args::{ArgSpec, ArgType, Unfit, hygiene};
pub use argv::{ArgvTemplate, Piece, WordError, words};
pub use call::{COMMAND_ARGUMENT, Callable, CedarNames, Mode, Oneshot, ValidCall, ValidEffect};
pub use fault::{Fault, FaultKind, Faults};
pub(crate) use fault::{Source, nearest};
pub use files::{FileEntry, FileRequest, FilesystemSpec};
pub use output::{Interpreted, OutputError, OutputFormat, OutputSpec, interpret};
pub use pattern::{Pattern, PatternError};
pub use schema::{Schema, SchemaError};
pub use session::{CommandSpec, Sanitize, SessionSpec, line_hygiene};

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use stockade_protocol::digest::Digest;
use stockade_protocol::limits::{PROJECT_FILE_BYTES, PROJECT_FILES};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::{ToolCallRequest, ToolInfo};

/// Directory of the manifests, below the project.
const TOOLS: &str = "tools";
/// The project's own argument types.
const TYPES: &str = "toolclad.toml";
/// How a manifest's name ends.
const SUFFIX: &str = ".clad.toml";

/// Every callable tool of a project.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    callables: BTreeMap<String, Callable>,
    digest: Option<Digest>,
}

impl ToolSet {
    /// Reads `tools/*.clad.toml` and `toolclad.toml` below `root`. A missing directory is an empty set.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(root: &Path) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let mut sources = Vec::new();
        let mut types_source = None;
        match read_file(root, TYPES) {
            Ok(Some(source)) => types_source = Some(source),
            Ok(None) => {}
            Err(fault) => faults.push(fault),
        }
        for file in list_files(root, TOOLS, SUFFIX, &mut faults) {
            match read_file(root, &file) {
                Ok(Some(source)) => sources.push(source),
                Ok(None) => faults.push(gone(&file)),
                Err(fault) => faults.push(fault),
            }
        }
        let (set, more) = Self::assemble(types_source.as_ref(), &sources);
        faults.extend(more);
        Faults::none_or(faults)?;
        Ok(set)
    }

    fn assemble(types_source: Option<&Source>, sources: &[Source]) -> (Self, Vec<Fault>) {
        let (types, mut faults) = types_source.map(load::load_types).unwrap_or_default();
        let types_digest = types_source.map(|source| Digest::of(&source.text));
        let mut set = Self::default();
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        let mut whole = String::new();
        for source in sources {
            let digest = manifest_digest(&source.text, types_digest);
            whole.push_str(&format!("{}\n{digest}\n", source.file));
            let loaded = load::load_manifest(source, digest, &types);
            faults.extend(loaded.faults);
            if let Some((name, line, column)) = loaded.tool {
                if let Some(first) = places.get(&name) {
                    faults.push(Fault {
                        file: source.file.clone(),
                        line,
                        column,
                        kind: FaultKind::Value,
                        what: format!("the tool {name} is declared a second time; the first is in {first}"),
                        hint: "rename one of the two".to_owned(),
                    });
                    continue;
                }
                places.insert(name, source.file.clone());
            }
            set.callables.extend(loaded.callables.into_iter().map(|callable| (callable.name.clone(), callable)));
        }
        set.digest = Some(Digest::of(whole));
        (set, faults)
    }

    /// Names of all callables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.callables.keys().map(String::as_str)
    }

    /// All callables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Callable> {
        self.callables.values()
    }

    /// What callers may know, sorted by name.
    #[must_use]
    pub fn infos(&self) -> Vec<ToolInfo> {
        self.callables.values().map(Callable::info).collect()
    }

    /// A callable by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Callable> {
        self.callables.get(name)
    }

    /// Finds the callable of a request and validates the request against it.
    ///
    /// # Errors
    /// A refusal with code `invalid` and authority manifest.
    pub fn validate(&self, request: &ToolCallRequest) -> Result<(&Callable, ValidCall), Refusal> {
        let Some(callable) = self.get(&request.tool) else {
            let shown: String = request.tool.chars().take(64).collect();
            let next = fault::nearest(&shown, self.names()).map_or_else(
                || "`stockade tools list` shows the tools of this project".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            let reason = format!("there is no tool named {shown}");
            return Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason).by_rule("tool").next(next));
        };
        callable.validate(request).map(|call| (callable, call))
    }

    /// Digest over all manifests' names and bytes and the project's types.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest.unwrap_or_else(|| Digest::of(""))
    }
}

/// Digest of one manifest: its bytes and the types it may refer to.
fn manifest_digest(text: &str, types: Option<Digest>) -> Digest {
    let types = types.map_or_else(|| "none".to_owned(), |digest| digest.to_string());
    Digest::of(format!("manifest {}\ntypes {types}\n", Digest::of(text)))
}

fn gone(file: &str) -> Fault {
    Fault::whole(file, FaultKind::Unreadable, "the file vanished while it was read", "try again")
}

/// Paths, relative to `root` and sorted, of the files in `directory` whose names end in `suffix`.
pub(crate) fn list_files(root: &Path, directory: &str, suffix: &str, faults: &mut Vec<Fault>) -> Vec<String> {
    let unreadable = |error: &std::io::Error| {
        let hint = "make it a directory that you may read, or remove it";
        Fault::whole(directory, FaultKind::Unreadable, format!("cannot read the directory: {error}"), hint)
    };
    let entries = match fs::read_dir(root.join(directory)) {
        Ok(entries) => entries,
        // A dangling link is there, although nothing is found behind it.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(root.join(directory)).is_err() =>
        {
            return Vec::new();
        }
        Err(error) => {
            faults.push(unreadable(&error));
            return Vec::new();
        }
    };
    let mut files = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => {
                let name = entry.file_name();
                match name.to_str() {
                    Some(name) if name.ends_with(suffix) => files.push(format!("{directory}/{name}")),
                    Some(_) => {}
                    None if name.to_string_lossy().ends_with(suffix) => {
                        let file = format!("{directory}/{}", name.to_string_lossy());
                        faults.push(Fault::whole(
                            file,
                            FaultKind::Unreadable,
                            "the file's name is not UTF-8",
                            "rename it",
                        ));
                    }
                    None => {}
                }
            }
            Err(error) => faults.push(unreadable(&error)),
        }
    }
    if files.len() > PROJECT_FILES {
        let what = format!("the directory holds {} files: at most {PROJECT_FILES} are read", files.len());
        faults.push(Fault::whole(directory, FaultKind::Value, what, "remove some"));
        files.clear();
    }
    files.sort();
    files
}

/// Reads one regular, bounded UTF-8 file; `None` when there is none.
pub(crate) fn read_file(root: &Path, file: &str) -> Result<Option<Source>, Fault> {
    let fault = |what: String, hint: &str| Err(Fault::whole(file, FaultKind::Unreadable, what, hint));
    let path = root.join(file);
    match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => {
            return fault("not a regular file".to_owned(), "put a file there, or remove it");
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return if fs::symlink_metadata(&path).is_ok() {
                fault("a symbolic link that leads nowhere".to_owned(), "correct or remove the link")
            } else {
                Ok(None)
            };
        }
        Err(error) => return fault(format!("cannot be read: {error}"), "check its permissions"),
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(&path).and_then(|opened| opened.take(PROJECT_FILE_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return fault(format!("cannot be read: {error}"), "check its permissions");
    }
    if bytes.len() as u64 > PROJECT_FILE_BYTES {
        return fault(format!("larger than {} KiB", PROJECT_FILE_BYTES / 1024), "shorten it");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Source { file: file.to_owned(), text })),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes().get(..at).unwrap_or_default()).into_owned();
            let source = Source { file: file.to_owned(), text };
            Err(source.fault(&(at..at), FaultKind::Syntax, "not UTF-8 from here on", "save the file as UTF-8"))
        }
    }
}
