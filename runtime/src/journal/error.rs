//! What can go wrong with a journal.

use crate::canon::CanonError;
use std::path::{Path, PathBuf};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// A journal could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another program has it open for writing.
    #[error("the journal in {} is in use by {}", dir.display(), .pid.map_or_else(|| "another program".to_owned(), |pid| format!("process {pid}")))]
    Busy {
        /// The journal.
        dir: PathBuf,
        /// The process, when it could be read.
        pid: Option<u32>,
    },
    /// A file could not be used.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, with the path.
        what: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A directory or file is not as only its owner could have left it.
    #[error("{} is not safe to use: {why}", path.display())]
    Place {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key file cannot be used.
    #[error("the journal key {} cannot be used: {why}", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key file is not the one that must sign next.
    #[error("the journal's key is {expected}, but the key file holds {found}")]
    WrongKey {
        /// Public key that the journal goes on with, hex.
        expected: String,
        /// Public key of the key file, hex.
        found: String,
    },
    /// The journal does not verify. It is not opened for writing, nor read as if it did.
    #[error("the journal does not verify: {}{what} ({file})", .record.map_or_else(String::new, |record| format!("record {record}: ")))]
    Tampered {
        /// The file.
        file: String,
        /// The record, by position, when one can be named.
        record: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// There is no journal, or none that this version reads.
    #[error("{} holds no journal that this version can read: {why}", dir.display())]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A record holds an event this version does not know.
    #[error("record {record} cannot be read by this version: {what}")]
    Event {
        /// The record.
        record: u64,
        /// What is wrong.
        what: String,
    },
    /// The record is too large.
    #[error("a record of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The event has no canonical form.
    #[error("the event cannot be recorded: {0}")]
    Canon(#[from] CanonError),
    /// Redaction left something that is no event: nothing was recorded.
    #[error("the event cannot be recorded: with its secrets replaced it is no longer an event ({0})")]
    Redaction(String),
    /// An earlier write failed. What is on disk is unknown until the next start, so nothing more is accepted.
    #[error("the journal stopped accepting records: {why}")]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// It was closed.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(super) fn none(dir: &Path) -> Self {
        Self::Unreadable { dir: dir.to_owned(), why: "it has no records".to_owned() }
    }

    /// What to do next.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "close that program, or work through it",
            Self::Io { .. } => "check the disk and the permissions of the state directory",
            Self::Place { .. } => "fix its owner and mode, or move it away",
            Self::Key { .. } => "mend or restore the key file; without its key a journal is only read",
            Self::WrongKey { .. } => "restore the right key file; without its key a journal is only read",
            Self::Tampered { .. } => "keep it as evidence: move its directory away, and a new one is begun",
            Self::Unreadable { .. } => "name the directory of a journal, or none for the project's own",
            Self::Event { .. } => "use the version that wrote it",
            Self::TooLarge { .. } | Self::Canon(_) | Self::Redaction(_) => {
                "make what is to be recorded smaller or simpler"
            }
            Self::Poisoned { .. } => "free the disk or repair it, then start again",
            Self::Closed => "start again",
        }
    }

    /// The refusal of a call that cannot be journaled.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal::new(RefusalCode::Unavailable, Authority::Journal, self.to_string()).next(self.next())
    }
}
