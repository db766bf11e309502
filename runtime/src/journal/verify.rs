//! Verification: what a journal proves, and what is wrong with it.

use super::error::JournalError;
use super::files::Dir;
use super::load::{self, Loaded};
use super::note::{Checkpoint, NoteKey};
use super::rotation::Keys;
use serde::Serialize;
use std::path::Path;

/// What verification came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Intact as far as its own checkpoints go. Nothing outside it says that these are the latest.
    Unanchored,
    /// Something in it was changed, dropped, moved or added.
    Tampered,
    /// It is not a journal that this version reads.
    Unreadable,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file it is in. A name from disk: draw through `SafeText`.
    pub file: String,
    /// The record, by position from 0, when one can be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// What is wrong. May quote what is on disk: draw through `SafeText`.
    pub what: String,
}

/// A key that replaced the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaterKey {
    /// The record that says so, signed by both.
    pub record: u64,
    /// The public key, 64 hex digits.
    pub key: String,
}

/// A report on one journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What it came to.
    pub status: Status,
    /// Records that are there.
    pub records: u64,
    /// Records covered by the last checkpoint: no change to them goes unfound.
    pub sealed: u64,
    /// Records after it: a change to them that keeps the chain whole would not be found.
    pub unsealed: u64,
    /// Bytes at the ends of files that a crash left, or that are being written now. The next start cuts and records
    /// them.
    pub torn_bytes: u64,
    /// Everything that is wrong, the records' faults first.
    pub faults: Vec<Fault>,
    /// The first public key, 64 hex digits. A forger can sign all of a journal anew, but not with this key: compare it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The keys that replaced it, one after the other. Whoever holds one that was given up can only have forked the
    /// journal before that: compare the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later_keys: Vec<LaterKey>,
    /// The journal's name in its checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.status == Status::Unanchored
    }

    fn unreadable(dir: &Path, what: impl Into<String>) -> Self {
        Self {
            status: Status::Unreadable,
            records: 0,
            sealed: 0,
            unsealed: 0,
            torn_bytes: 0,
            faults: vec![Fault { file: dir.display().to_string(), record: None, what: what.into() }],
            key: None,
            later_keys: Vec::new(),
            origin: None,
        }
    }
}

/// Verifies the journal in `dir`, also while it is being written. Reads only; needs no key but the public one in it.
#[must_use]
pub fn verify(dir: &Path) -> Report {
    if !super::exists(dir) {
        return Report::unreadable(dir, "there is no journal here");
    }
    let loaded = Dir::open(dir).and_then(|opened| load::load(&opened, &mut |_, _| {}));
    match loaded {
        Ok(loaded) if loaded.chain.count() == 0 && loaded.checkpoints == 0 && loaded.torn.is_empty() => {
            Report::unreadable(dir, "there is no journal here")
        }
        Ok(loaded) => report(&loaded),
        Err(JournalError::Io { what, source }) => Report::unreadable(dir, format!("cannot {what}: {source}")),
        Err(error) => Report::unreadable(dir, error.to_string()),
    }
}

pub(super) fn report(loaded: &Loaded) -> Report {
    let records = loaded.chain.count();
    let later = loaded.keys.iter().flat_map(Keys::later);
    Report {
        status: if loaded.faults.is_empty() { Status::Unanchored } else { Status::Tampered },
        records,
        sealed: loaded.sealed,
        unsealed: records.saturating_sub(loaded.sealed),
        torn_bytes: loaded.torn.iter().map(|torn| torn.bytes).sum(),
        faults: loaded.faults.clone(),
        key: loaded.keys.as_ref().map(|keys| keys.first().hex()),
        later_keys: later.map(|(record, key)| LaterKey { record, key: key.hex() }).collect(),
        origin: loaded.keys.as_ref().map(|keys| keys.name().to_owned()),
    }
}

/// Reads a checkpoint that is signed with the public key in its text form (`name+id+key`), other signatures ignored:
/// the size and root it speaks for, or why it is not to be believed.
///
/// # Errors
/// When the key or the note is malformed, or the note is not signed by the key.
pub fn open_checkpoint(note: &[u8], public_key: &str) -> Result<(u64, [u8; 32]), String> {
    let key = NoteKey::from_text(public_key.trim_end()).ok_or("the public key is malformed")?;
    Checkpoint::open(note, &key).map(|checkpoint| (checkpoint.size, checkpoint.root)).map_err(str::to_owned)
}
