//! From a request to held files.

use super::candidate::Candidate;
use super::destination::Destination;
use super::error::GrantError;
use super::kernel::Identity;
use super::path::GrantPath;
use super::root::ProjectRoot;
use super::snapshot::Snapshot;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use stockade_protocol::contract::FileContract;
use stockade_protocol::limits::{GRANT_INPUTS, GRANT_TOTAL_BYTES};

/// The files a call asks for. Paths are literal and relative to the project; argument references are already
/// replaced. Nothing asked for means no files at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantRequest {
    /// Files to read, at most 32.
    pub read: Vec<String>,
    /// Files to create, at most one.
    pub create: Vec<String>,
    /// Largest size of any of them, bytes: 1 to 32 MiB.
    pub max_file_bytes: u64,
}

/// The broker.
#[derive(Debug)]
pub struct Grants;

impl Grants {
    /// Turns a request into held files: inputs are copied into sealed memory, the output's directory is opened and
    /// proven able to take the output in one step. Reads from disk; call it where blocking is fine.
    ///
    /// # Errors
    /// When any path is unfit: see [`GrantError`]. Then nothing is held and nothing was changed on disk.
    pub fn prepare(root: &Arc<ProjectRoot>, request: &GrantRequest) -> Result<Prepared, GrantError> {
        let (read, create) = parse(request)?;
        let mut prepared = Prepared { root: Arc::clone(root), inputs: Vec::new(), output: None, limit: 0 };
        if read.is_empty() && create.is_none() {
            return Ok(prepared);
        }
        root.check_place()?;
        prepared.limit = request.max_file_bytes;
        let mut left = GRANT_TOTAL_BYTES;
        for path in read {
            let snapshot = Snapshot::take(root, path, request.max_file_bytes, left)?;
            refuse_second_name(&prepared.inputs, &snapshot)?;
            left = left.saturating_sub(snapshot.bytes());
            prepared.inputs.push(snapshot);
        }
        if let Some(path) = create {
            prepared.output = Some(Arc::new(Destination::prepare(root, path)?));
        }
        Ok(prepared)
    }
}

/// A grant whose files are held: inputs as they were at one moment, the output's directory by its identity.
#[derive(Debug)]
pub struct Prepared {
    root: Arc<ProjectRoot>,
    inputs: Vec<Snapshot>,
    output: Option<Arc<Destination>>,
    limit: u64,
}

impl Prepared {
    /// The grant as a contract holds it.
    #[must_use]
    pub fn contract(&self) -> FileContract {
        FileContract {
            inputs: self.inputs.iter().map(Snapshot::contract).collect(),
            output: self.output.as_ref().map(|output| output.contract()),
            max_file_bytes: self.limit,
        }
    }

    /// Read-only handles on the sealed inputs, in the contract's order. Each has an offset of its own.
    ///
    /// # Errors
    /// When the process is out of handles.
    pub fn input_fds(&self) -> Result<Vec<OwnedFd>, GrantError> {
        self.inputs.iter().map(|input| input.handle(&self.root)).collect()
    }

    /// Whether an output is declared.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Makes sure, right before dispatch, that everything on disk is still as it was prepared: each input the same
    /// file with the same bytes, the output's path leading to the same directory, nothing at the output's place.
    ///
    /// # Errors
    /// [`GrantError::Stale`] when it is not.
    pub fn recheck(&self) -> Result<(), GrantError> {
        let check = || {
            if self.inputs.is_empty() && self.output.is_none() {
                return Ok(());
            }
            self.root.check_place()?;
            self.inputs.iter().try_for_each(|input| input.recheck(&self.root))?;
            self.output.as_ref().map_or(Ok(()), |output| output.recheck(&self.root))
        };
        check().map_err(|error| GrantError::Stale(Box::new(error)))
    }

    /// Takes the worker's private output file, once the worker is known to be gone, and copies its bytes to where
    /// they can be published from. Owner, mode, extended attributes and access lists stay behind.
    ///
    /// # Errors
    /// [`GrantError::Unpublished`] when the tool wrote nothing, too much, or left something that is not a regular
    /// file, or when the copy fails. Then nothing is left on disk.
    #[allow(clippy::needless_pass_by_value, reason = "the worker's file must not outlive the copy")]
    pub fn stage(&self, staged: OwnedFd) -> Result<Candidate, GrantError> {
        let stage = || {
            let output = self.output.as_ref().ok_or(GrantError::NoOutput)?;
            Candidate::stage(Arc::clone(&self.root), Arc::clone(output), &staged, self.limit)
        };
        stage().map_err(|error| GrantError::Unpublished(Box::new(error)))
    }
}

/// Everything that can be judged without looking at the disk.
fn parse(request: &GrantRequest) -> Result<(Vec<GrantPath>, Option<GrantPath>), GrantError> {
    if request.read.len() > GRANT_INPUTS {
        return Err(GrantError::TooManyInputs { count: request.read.len(), limit: GRANT_INPUTS });
    }
    if request.create.len() > 1 {
        return Err(GrantError::TooManyOutputs { count: request.create.len() });
    }
    let any = !request.read.is_empty() || !request.create.is_empty();
    if any && !(1..=GRANT_TOTAL_BYTES).contains(&request.max_file_bytes) {
        return Err(GrantError::Bound { bytes: request.max_file_bytes, limit: GRANT_TOTAL_BYTES });
    }
    let mut all: Vec<GrantPath> = Vec::new();
    for text in request.read.iter().chain(&request.create) {
        let path = GrantPath::parse(text)?;
        if let Some(other) = all.iter().find(|other| other.folded() == path.folded()) {
            return Err(GrantError::Twin { path: path.to_owned_text(), other: other.to_owned_text() });
        }
        all.push(path);
    }
    let create = if request.create.is_empty() { None } else { all.pop() };
    Ok((all, create))
}

/// One file read under two names would be shown as two. Names are compared when they are parsed; this compares what
/// they led to.
pub(super) fn refuse_second_name(taken: &[Snapshot], snapshot: &Snapshot) -> Result<(), GrantError> {
    let same = |identity: Identity| {
        let mine = snapshot.identity();
        identity.device == mine.device && identity.inode == mine.inode
    };
    match taken.iter().find(|other| same(other.identity())) {
        Some(other) => {
            Err(GrantError::Twin { path: snapshot.path().to_owned_text(), other: other.path().to_owned_text() })
        }
        None => Ok(()),
    }
}
