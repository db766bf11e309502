//! Files that calls read and create.

use super::Clipped;
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::time::Timestamp;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// A read-only snapshot for a worker.
    Snapshot,
    /// Declared as output; nothing of it exists yet.
    Declared,
    /// Staged, private to its worker.
    Staged,
    /// About to be published.
    Publishing,
    /// Published.
    Published,
    /// Discarded, and why.
    Unpublished(String),
    /// Settled by a later start: `published`, `discarded` or `in_doubt`.
    Settled(String),
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Path relative to the project.
    pub path: Clipped,
    /// What became of it.
    pub state: FileState,
    /// Size, when known.
    pub bytes: Option<u64>,
    /// Digest of its bytes, when known.
    pub sha256: Option<Digest>,
    /// The run that asked.
    pub run: Option<RunId>,
    /// The call that asked last.
    pub call: Option<CallId>,
    /// When it changed last.
    pub time: Timestamp,
}

impl FileRow {
    /// Whether it is read, not created.
    #[must_use]
    pub const fn is_input(&self) -> bool {
        matches!(self.state, FileState::Snapshot)
    }
}
