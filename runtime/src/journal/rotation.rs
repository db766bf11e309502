//! Which key signs what: the first from `journal.pub`, each later one from a record that both keys have signed.

use super::load::ORIGIN;
use super::note::NoteKey;
use super::record::Record;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use stockade_protocol::digest::{parse_hex, to_hex};
use stockade_protocol::event::JournalEvent;

/// The purpose, so that nothing else these keys sign can pass for a rotation.
const PURPOSE: &str = "stockade journal key rotation v1";

/// The keys of a journal in the order they came into force. There is always a first.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    first: NoteKey,
    later: Vec<Later>,
}

/// A key that a rotation brought.
#[derive(Debug, Clone)]
struct Later {
    key: NoteKey,
    /// The record of the rotation.
    record: u64,
}

impl Later {
    /// The smallest checkpoint it signs: the one over the rotation itself is still signed by the key before it.
    const fn from(&self) -> u64 {
        self.record + 2
    }
}

impl Keys {
    pub(super) const fn new(first: NoteKey) -> Self {
        Self { first, later: Vec::new() }
    }

    /// The name of all of them: the journal's origin.
    pub(super) fn name(&self) -> &str {
        self.first.name()
    }

    /// The first, from `journal.pub`.
    pub(super) const fn first(&self) -> &NoteKey {
        &self.first
    }

    /// The one that is in force after the last record.
    pub(super) fn current(&self) -> &NoteKey {
        self.later.last().map_or(&self.first, |later| &later.key)
    }

    /// The one that the current one replaced.
    pub(super) fn before_current(&self) -> Option<&NoteKey> {
        let (_, before) = self.later.split_last()?;
        Some(before.last().map_or(&self.first, |later| &later.key))
    }

    /// The one that signs checkpoints of this size.
    pub(super) fn of_size(&self, size: u64) -> &NoteKey {
        self.later.iter().rfind(|later| later.from() <= size).map_or(&self.first, |later| &later.key)
    }

    /// The others, each with the record that brought it.
    pub(super) fn later(&self) -> impl Iterator<Item = (u64, &NoteKey)> {
        self.later.iter().map(|later| (later.record, &later.key))
    }

    fn all(&self) -> impl Iterator<Item = &NoteKey> {
        std::iter::once(&self.first).chain(self.later.iter().map(|later| &later.key))
    }

    /// Why a checkpoint of this size, with this key id, is not signed by the key in force, in words.
    pub(super) fn other(&self, size: u64, id: [u8; 4]) -> Option<&'static str> {
        let found = self.all().position(|key| key.id() == id)?;
        let due = self.all().position(|key| key == self.of_size(size))?;
        match found.cmp(&due) {
            std::cmp::Ordering::Less => Some("it is signed by a key that was given up before"),
            std::cmp::Ordering::Greater => Some("it is signed by a key that is not in force yet"),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// Takes a rotation over. The new key is in force behind it also when something is wrong with it, so that one
    /// fault does not look like many.
    pub(super) fn rotate(&mut self, at: u64, record: &Record<'_>, change: &Change<'_>) -> Result<(), String> {
        let key = parse_hex(change.new).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        let key = key.ok_or("the key it brings is no public key")?;
        let key = NoteKey::new(self.name(), key).ok_or("the journal's name is not one that can sign")?;
        let checked = self.check(record, change, &key);
        self.later.push(Later { key, record: at });
        checked
    }

    fn check(&self, record: &Record<'_>, change: &Change<'_>, new: &NoteKey) -> Result<(), String> {
        let in_force = self.current();
        if change.old != in_force.hex() {
            return Err(format!("it replaces the key {}, but {} is in force", change.old, in_force.hex()));
        }
        if self.all().any(|key| key == new) {
            return Err(format!("the key {} was in force before", change.new));
        }
        let journal = self.name().strip_prefix(ORIGIN).unwrap_or_default();
        let text = statement(journal, record.seq, record.prev, change.old, change.new);
        for (whose, key, signature) in [("old", in_force, change.old_signature), ("new", new, change.new_signature)] {
            let read = parse_hex::<64>(signature).map(|bytes| Signature::from_bytes(&bytes));
            let read = read.ok_or_else(|| format!("the {whose} key's signature of the rotation is malformed"))?;
            if !key.has_signed(text.as_bytes(), &read) {
                return Err(format!("the {whose} key's signature of the rotation is wrong"));
            }
        }
        Ok(())
    }
}

/// What the record of a rotation says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) old_signature: &'a str,
    pub(super) new_signature: &'a str,
}

/// The record of a rotation that comes at `seq`, behind the record with the hash `prev`.
pub(super) fn record(journal: &str, seq: u64, prev: &str, from: &SigningKey, to: &SigningKey) -> JournalEvent {
    let hex = |key: &SigningKey| to_hex(key.verifying_key().as_bytes());
    let (old, new) = (hex(from), hex(to));
    let text = statement(journal, seq, prev, &old, &new);
    let sign = |key: &SigningKey| to_hex(&key.sign(text.as_bytes()).to_bytes());
    JournalEvent::KeyRotated { old_signature: sign(from), new_signature: sign(to), old, new }
}

/// What both keys sign. Without a line end at its end it is the text of no signed note.
pub(super) fn statement(journal: &str, seq: u64, prev: &str, old: &str, new: &str) -> String {
    format!("{PURPOSE}\n{journal}\n{seq}\n{prev}\n{old}\n{new}")
}
