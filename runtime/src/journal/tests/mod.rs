//! Tests of the whole journal: what is written is found again, and what is changed is found out.

mod golden;
mod recover;
mod rotate;
mod sink;
mod tamper;
mod write;

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{CallEvent, EventSource as _, SessionEvent, TurnEvent};
use stockade_protocol::time::Timestamp;
use tempfile::TempDir;

/// A place for a journal and its key.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { root }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("journal")
    }

    fn key(&self) -> PathBuf {
        self.root.path().join("journal.key")
    }

    /// Where the next key waits during a rotation.
    fn next_key(&self) -> PathBuf {
        self.root.path().join("journal.key.next")
    }

    fn rotate(&self) -> Rotated {
        rotate_key(&self.dir(), &self.key(), &ports()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap_or_default()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.file(name), bytes).unwrap();
    }

    fn try_open(&self) -> Result<(Journal, Opened), JournalError> {
        Journal::open(&self.dir(), &self.key(), Redactor::standard(), ports())
    }

    fn open(&self) -> Journal {
        self.try_open().unwrap().0
    }

    /// Changes one byte where it lies: much faster than writing the file anew.
    fn change(&self, name: &str, at: usize, byte: u8) {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().write(true).open(self.file(name)).unwrap();
        assert_eq!(file.write_at(&[byte], at as u64).unwrap(), 1);
    }

    /// A copy of the journal as it is on disk now, as a crash would leave it.
    fn crashed(&self) -> Self {
        let copy = Self::new();
        std::fs::create_dir(copy.dir()).unwrap();
        std::fs::set_permissions(copy.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
        for name in std::fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().file_name()) {
            let name = name.to_str().unwrap().to_owned();
            copy.write(&name, &self.bytes(&name));
            std::fs::set_permissions(copy.file(&name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        std::fs::copy(self.key(), copy.key()).unwrap();
        if self.next_key().exists() {
            std::fs::copy(self.next_key(), copy.next_key()).unwrap();
        }
        copy
    }

    fn verify(&self) -> verify::Report {
        verify::verify(&self.dir())
    }
}

/// A clock that ticks at every look, and random bits that differ between places.
fn ports() -> Ports {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let clock = AtomicU64::new(1_700_000_000_000);
    Ports::new(
        move || Timestamp(clock.fetch_add(1, Ordering::Relaxed)),
        || {
            let mut bits = [7; 16];
            bits[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            bits
        },
    )
}

fn run() -> RunId {
    RunId::from_bits([0x11; 16])
}

fn session() -> SessionId {
    SessionId::from_bits([0x22; 16])
}

fn call() -> CallId {
    CallId::from_bits([0x33; 16])
}

/// An entry after which no checkpoint follows.
fn plain(text: &str) -> Entry {
    Entry { run: Some(run()), ..Event::Turn(TurnEvent::Prompted { text: text.into() }).into() }
}

/// An entry after which a checkpoint follows.
fn sealing() -> Entry {
    let event = CallEvent::Recorded { digest: Digest::of(b"a contract"), receipt: None };
    Entry { call: Some(call()), run: Some(run()), ..Event::Call(event).into() }
}

fn text_of(envelope: &EventEnvelope) -> &str {
    match &envelope.event {
        Event::Turn(TurnEvent::Prompted { text }) => text.raw(),
        other => panic!("{other:?}"),
    }
}

/// The lines of the records file, each with its end.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}
