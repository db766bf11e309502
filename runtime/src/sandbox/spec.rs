//! What a worker is: everything the launcher needs, as plain data, checked before and behind the process border.
//!
//! The program writes the canonical bytes of a [`WorkerSpec`] into a sealed memory file; the launcher hashes what it
//! received and refuses when the digest is another. Both sides run [`WorkerSpec::validate`].

use super::profile::Profile;
use crate::canon::{self, CanonError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use stockade_protocol::contract::WorkerLimits;
use stockade_protocol::digest::Digest;
use stockade_protocol::limits::GRANT_INPUTS;

/// The version of [`WorkerSpec`] this build writes and reads.
pub const SPEC_VERSION: u32 = 1;
/// The directory inside a worker that holds its inputs and its output.
pub const WORK: &str = "/work";
/// The private scratch directory inside a worker.
pub const TMP: &str = "/tmp";

/// Longest single argument or variable, bytes: the kernel's own bound, less the terminating zero.
const ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// Most bytes of argv and environment together.
const STRINGS_BYTES: usize = 1024 * 1024;
/// Longest path below the working directory, bytes.
const PATH_BYTES: usize = 1024;
/// Longest component of such a path, bytes: the kernel's own bound.
const COMPONENT_BYTES: usize = 255;

/// The whole description of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// [`SPEC_VERSION`].
    pub version: u32,
    /// What process lists show of it, 1 to 64 of `A-Z a-z 0-9 . _ -`; nothing secret.
    pub label: String,
    /// Literal argv. A first element without a slash is looked up in the environment's `PATH`, or in the system
    /// directories when there is none.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited and nothing is added.
    pub environment: BTreeMap<String, String>,
    /// Working directory inside: `/work`, `/tmp`, or a directory of an input below `/work`.
    pub cwd: String,
    /// A terminal or pipes.
    pub stdio: Stdio,
    /// Files to read, in the order of the descriptors that come with the specification.
    pub inputs: Vec<InputSpec>,
    /// The one file it may leave.
    pub output: Option<OutputSpec>,
    /// Resource bounds.
    pub limits: WorkerLimits,
    /// Which rules confine it. The runtime only ever builds [`Profile::standard`].
    pub profile: Profile,
}

/// What the worker's standard streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stdio {
    /// One terminal of its own, echo off, input noncanonical (source: seed on interactive terminals).
    Pty {
        /// Columns at first.
        columns: u16,
        /// Rows at first.
        rows: u16,
    },
    /// Three pipes.
    Pipes,
}

/// A file the worker may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Where, relative to `/work`: no empty, `.` or `..` component.
    pub path: String,
    /// Exact size, bytes.
    pub bytes: u64,
    /// SHA-256 of the content, checked again while it is copied in.
    pub sha256: Digest,
}

/// The file the worker may write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// Where, relative to `/work`, under the same rules as an input.
    pub path: String,
    /// Most bytes it can hold; the file system it lies in has room for no more, rounded up to a page.
    pub max_bytes: u64,
}

/// Why a specification is refused. Nothing has run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Written by another version of stockade.
    #[error("it has version {0}, this stockade speaks version {SPEC_VERSION}: use one build for both sides")]
    Version(u32),
    /// The label is not short plain ASCII.
    #[error("the label {0:?} is not 1 to 64 of A-Z a-z 0-9 . _ -")]
    Label(String),
    /// No argv, or an argument the kernel would not take.
    #[error("argv is refused: {0}")]
    Argv(&'static str),
    /// A variable the kernel would not take.
    #[error("the variable {name:?} is refused: {why}")]
    Environment {
        /// Its name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A path that is not plainly below its directory.
    #[error("the path {path:?} is refused: {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A limit outside its range.
    #[error("the limit {0} is out of range")]
    Limit(&'static str),
    /// More inputs than a grant may have, or not as many descriptors as inputs.
    #[error("{inputs} inputs and {descriptors} descriptors: they must be equal and at most {GRANT_INPUTS}")]
    Inputs {
        /// Inputs named.
        inputs: usize,
        /// Descriptors given.
        descriptors: usize,
    },
    /// The profile names no such set of rules.
    #[error("the profile is of version {0}, which this stockade does not know")]
    Profile(u32),
    /// It has no canonical form.
    #[error("it has no canonical form: {0}")]
    Canon(#[from] CanonError),
    /// The bytes are not a specification.
    #[error("its bytes are not a specification: {0}")]
    Shape(String),
    /// The launcher received other bytes than were sent.
    #[error("its bytes hash to {found}, but {expected} was announced")]
    Digest {
        /// What was announced.
        expected: Digest,
        /// What arrived.
        found: Digest,
    },
}

impl WorkerSpec {
    /// A specification with the standard profile, no files, no environment, and `/work` as working directory.
    #[must_use]
    pub fn new(label: impl Into<String>, argv: Vec<String>, stdio: Stdio, limits: WorkerLimits) -> Self {
        Self {
            version: SPEC_VERSION,
            label: label.into(),
            argv,
            environment: BTreeMap::new(),
            cwd: WORK.to_owned(),
            stdio,
            inputs: Vec::new(),
            output: None,
            limits,
            profile: Profile::standard(),
        }
    }

    /// Checks everything that can be checked without a kernel.
    ///
    /// # Errors
    /// The first fault found.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.version != SPEC_VERSION {
            return Err(SpecError::Version(self.version));
        }
        check_label(&self.label)?;
        self.profile.validate()?;
        self.validate_strings()?;
        self.validate_files()?;
        self.validate_limits()
    }

    fn validate_strings(&self) -> Result<(), SpecError> {
        let Some(program) = self.argv.first() else { return Err(SpecError::Argv("it is empty")) };
        if program.is_empty() {
            return Err(SpecError::Argv("the program's name is empty"));
        }
        let mut total = 0;
        for argument in &self.argv {
            if argument.contains('\0') {
                return Err(SpecError::Argv("an argument holds a zero byte"));
            }
            if argument.len() > ARGUMENT_BYTES {
                return Err(SpecError::Argv("an argument is longer than 128 KiB"));
            }
            total += argument.len() + 1;
        }
        for (name, value) in &self.environment {
            let refuse = |why| Err(SpecError::Environment { name: name.clone(), why });
            if name.is_empty() || name.contains(['=', '\0']) {
                return refuse("a name is not empty and holds no = or zero byte");
            }
            if value.contains('\0') {
                return refuse("its value holds a zero byte");
            }
            if name.len() + value.len() + 1 > ARGUMENT_BYTES {
                return refuse("it is longer than 128 KiB");
            }
            total += name.len() + value.len() + 2;
        }
        if total > STRINGS_BYTES {
            return Err(SpecError::Argv("argv and environment together are longer than 1 MiB"));
        }
        Ok(())
    }

    fn validate_files(&self) -> Result<(), SpecError> {
        if self.inputs.len() > GRANT_INPUTS {
            return Err(SpecError::Inputs { inputs: self.inputs.len(), descriptors: self.inputs.len() });
        }
        let paths = self.inputs.iter().map(|input| &input.path).chain(self.output.iter().map(|output| &output.path));
        let mut files = BTreeSet::new();
        let mut directories = BTreeSet::new();
        for path in paths {
            check_relative(path)?;
            if !files.insert(path.clone()) {
                return Err(SpecError::Path { path: path.clone(), why: "it is named twice" });
            }
            directories.extend(path.match_indices('/').filter_map(|(at, _)| path.get(..at)).map(str::to_owned));
        }
        if let Some(path) = files.intersection(&directories).next() {
            return Err(SpecError::Path { path: path.clone(), why: "it is a file and the directory of another" });
        }
        let below = self.cwd.strip_prefix(WORK).and_then(|rest| rest.strip_prefix('/'));
        if self.cwd != WORK && self.cwd != TMP && !below.is_some_and(|rest| directories.contains(rest)) {
            return Err(SpecError::Path {
                path: self.cwd.clone(),
                why: "the working directory is /work, /tmp or a directory of an input",
            });
        }
        Ok(())
    }

    fn validate_limits(&self) -> Result<(), SpecError> {
        let limits = &self.limits;
        let checks: [(&'static str, u64, u64, u64); 7] = [
            ("processes", limits.processes, 1, 4096),
            ("open_files", limits.open_files, 8, 65_536),
            ("file_bytes", limits.file_bytes, 1, 1 << 40),
            ("address_space_bytes", limits.address_space_bytes, 16 << 20, 1 << 46),
            ("cpu_seconds", limits.cpu_seconds, 1, 1 << 24),
            ("tmp_bytes", limits.tmp_bytes, 4096, 1 << 36),
            ("output.max_bytes", self.output.as_ref().map_or(1, |output| output.max_bytes), 1, 1 << 36),
        ];
        for (name, value, least, most) in checks {
            if !(least..=most).contains(&value) {
                return Err(SpecError::Limit(name));
            }
        }
        if self.inputs.iter().any(|input| input.bytes > 1 << 36) {
            return Err(SpecError::Limit("input.bytes"));
        }
        if let Stdio::Pty { columns, rows } = self.stdio
            && (columns == 0 || rows == 0)
        {
            return Err(SpecError::Limit("terminal size"));
        }
        Ok(())
    }

    /// The bytes that are sent to the launcher.
    ///
    /// # Errors
    /// When a number is too large for canonical JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SpecError> {
        Ok(canon::to_bytes(self)?)
    }

    /// Reads the bytes a launcher received, after hashing them.
    ///
    /// # Errors
    /// When they hash to another digest than announced, are no specification, or describe a refused one.
    pub fn from_bytes(bytes: &[u8], expected: Digest) -> Result<Self, SpecError> {
        let found = Digest::of(bytes);
        if found != expected {
            return Err(SpecError::Digest { expected, found });
        }
        let spec: Self = serde_json::from_slice(bytes).map_err(|error| SpecError::Shape(error.to_string()))?;
        spec.validate()?;
        Ok(spec)
    }
}

/// Whether a text may stand in a process list: 1 to 64 of `A-Z a-z 0-9 . _ -`.
pub(super) fn check_label(label: &str) -> Result<(), SpecError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if label.is_empty() || label.len() > 64 || !label.chars().all(plain) {
        return Err(SpecError::Label(label.chars().take(80).collect()));
    }
    Ok(())
}

/// Whether a path is plainly below its directory.
fn check_relative(path: &str) -> Result<(), SpecError> {
    let refuse = |why| Err(SpecError::Path { path: path.chars().take(PATH_BYTES).collect(), why });
    if path.is_empty() || path.len() > PATH_BYTES {
        return refuse("a path has 1 to 1024 bytes");
    }
    if path.contains('\0') {
        return refuse("it holds a zero byte");
    }
    for component in path.split('/') {
        match component {
            "" => return refuse("it is absolute or has an empty component"),
            "." | ".." => return refuse("it has a . or .. component"),
            _ if component.len() > COMPONENT_BYTES => return refuse("a component is longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
