//! The journal: what happened, in order, in bytes that can be checked by others.
//!
//! One journal a project, one writer a journal. A record is one line of canonical JSON, hashed exactly as stored,
//! linked to the record before it and a leaf of a Merkle tree; signed checkpoints over that tree are in the public
//! C2SP format. `docs/journal-format.md` describes the bytes.
//!
//! Invariants: only the writer thread appends; only redacted bytes reach it; [`Journal::append`] returns only when the
//! record is durable; after the first failed write nothing is accepted; a journal with a fault is never opened for
//! writing.

mod chain;
mod error;
mod events;
mod files;
mod key;
mod load;
mod note;
mod open;
mod output;
mod prepare;
mod record;
mod rotation;
mod scan;
mod tree;
pub mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use events::JournalEvents;
pub use output::OutputStream;

use crate::ports::Ports;
use crate::redact::Redactor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use stockade_protocol::event::{Event, EventEnvelope};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::limits::{JOURNAL_QUEUE, JOURNAL_QUEUE_BYTES, RECORD_BYTES};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use writer::{Message, Prepared};

/// What is to be recorded: an event and what it belongs to. The writer adds the number, the time and the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// What happened.
    pub event: Event,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self { run: None, session: None, call: None, event }
    }
}

/// What was found when a journal was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Whether it was made now.
    pub created: bool,
    /// Bytes that a crash had torn and that were cut now; each cut is a `journal.recovered` record.
    pub cut_bytes: u64,
    /// Records in it now, those written by opening included.
    pub records: u64,
}

/// A journal open for writing. Clones are handles to the same writer; the journal is let go when the last is dropped.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Option<mpsc::Sender<Message>>>,
    room: Arc<Semaphore>,
    redactor: Redactor,
    events: JournalEvents,
    failure: watch::Receiver<Option<String>>,
    dir: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without a clean close nothing more is written, but what was promised within 20 ms is made durable, and the
        // lock is free when this returns.
        drop(self.queue.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Journal {
    /// Opens the journal in the directory `dir`, or makes it. `key` is the file of its private key, which must lie
    /// outside `dir`; it is made when the journal is. Everything that is there is verified first. Blocks on the disk.
    ///
    /// # Errors
    /// [`JournalError::Busy`] when another writer has it; [`JournalError::Tampered`] when it does not verify;
    /// [`JournalError::Key`] and [`JournalError::WrongKey`] when the key cannot be used; others when the disk fails.
    pub fn open(dir: &Path, key: &Path, redactor: Redactor, ports: Ports) -> Result<(Self, Opened), JournalError> {
        let (writer, events, opened) = open::open(dir, key, &ports)?;
        let failure = writer.poison.subscribe();
        drop(ports);
        let (queue, receiver) = mpsc::channel(JOURNAL_QUEUE);
        let timer = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(JournalError::io("start the journal's writer"))?;
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || timer.block_on(writer.serve(receiver)))
            .map_err(JournalError::io("start the journal's writer"))?;
        let shared = Shared {
            queue: Mutex::new(Some(queue)),
            room: Arc::new(Semaphore::new(JOURNAL_QUEUE_BYTES)),
            redactor,
            events,
            failure,
            dir: dir.to_owned(),
            thread: Mutex::new(Some(thread)),
        };
        Ok((Self { shared: Arc::new(shared) }, opened))
    }

    /// Records an entry. When this returns, the record is durable; the number is its position.
    ///
    /// The entry is recorded also when this future is dropped after it was queued.
    ///
    /// # Errors
    /// When the entry is too large or has no canonical form (nothing was recorded), when an earlier write failed, or
    /// when this one did: it may or may not be on disk then, and no later one is accepted.
    pub async fn append(&self, entry: Entry) -> Result<u64, JournalError> {
        let prepared = prepare::prepare(entry, &self.shared.redactor)?;
        self.send(prepared, true).await
    }

    /// Records an entry in the same order as [`Self::append`], but returns when it is written; it is durable with the
    /// next group, 20 ms later at the latest. Waits for room, drops nothing.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_soon(&self, entry: Entry) -> Result<u64, JournalError> {
        let prepared = prepare::prepare(entry, &self.shared.redactor)?;
        self.send(prepared, false).await
    }

    /// As [`Self::append_soon`], for terminal output that a [`OutputStream`] has redacted.
    async fn append_redacted(&self, entry: Entry) -> Result<u64, JournalError> {
        self.send(prepare::as_it_is(entry)?, false).await
    }

    async fn send(&self, prepared: Prepared, durable: bool) -> Result<u64, JournalError> {
        let bytes = prepared.body.len();
        if bytes > RECORD_BYTES {
            return Err(JournalError::TooLarge { bytes, limit: RECORD_BYTES });
        }
        let permits = u32::try_from(bytes.max(1)).unwrap_or(u32::MAX);
        let room =
            self.shared.room.clone().acquire_many_owned(permits).await.map_err(|_closed| JournalError::Closed)?;
        let (ack, answer) = oneshot::channel();
        let message = Message::Append { prepared: Box::new(prepared), durable, ack, room };
        self.queue()?.send(message).await.map_err(|_gone| JournalError::Closed)?;
        answer.await.map_err(|_gone| JournalError::Closed)?
    }

    fn queue(&self) -> Result<mpsc::Sender<Message>, JournalError> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(JournalError::Closed)
    }

    /// A stream for the terminal output of one session.
    #[must_use]
    pub fn output(&self, run: RunId, session: SessionId) -> OutputStream {
        OutputStream::new(self.clone(), run, session, self.shared.redactor.stream())
    }

    /// The redactor that every record goes through. Redact with it what is hashed or signed before it is recorded.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }

    /// Every record so far and to come.
    #[must_use]
    pub fn events(&self) -> JournalEvents {
        self.shared.events.clone()
    }

    /// Why it stopped accepting records, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<JournalError> {
        self.shared.failure.borrow().clone().map(|why| JournalError::Poisoned { why })
    }

    /// Resolves when it stops accepting records because it could not be written, and never otherwise. Waiting does not
    /// keep it open.
    pub fn failed(&self) -> impl Future<Output = JournalError> + Send + use<> {
        let mut failure = self.shared.failure.clone();
        async move {
            let why = match failure.wait_for(Option::is_some).await {
                Ok(why) => why.clone(),
                Err(_closed) => None,
            };
            match why {
                Some(why) => JournalError::Poisoned { why },
                None => std::future::pending().await,
            }
        }
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Records `journal.closed`, seals everything and lets the journal go. Entries queued before are recorded; later
    /// ones fail. Closing again does nothing.
    ///
    /// # Errors
    /// When the last records could not be made durable and sealed.
    pub async fn close(&self) -> Result<(), JournalError> {
        let Some(queue) = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let (ack, answer) = oneshot::channel();
        queue.send(Message::Close { ack }).await.map_err(|_gone| JournalError::Closed)?;
        answer.await.map_err(|_gone| JournalError::Closed)?
    }
}

/// What became of a journal's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The record that says so.
    pub record: u64,
    /// Public key that was in force before, 64 hex digits.
    pub old: String,
    /// Public key in force now, 64 hex digits.
    pub new: String,
}

/// Gives the journal in `dir` another key, made now; the private key in the file `key` is replaced. Everything is
/// verified first. However this is interrupted, the journal opens again, with the one key or the other. Blocks on the
/// disk.
///
/// # Errors
/// [`JournalError::Unreadable`] when there is no journal; others as [`Journal::open`], [`JournalError::Busy`] among them.
pub fn rotate_key(dir: &Path, key: &Path, ports: &Ports) -> Result<Rotated, JournalError> {
    if !exists(dir) {
        return Err(JournalError::none(dir));
    }
    let (mut writer, _, _) = open::open(dir, key, ports)?;
    let old = writer.key.hex();
    let next = key::make_next(key, ports)?;
    let record = writer.rotate(next)?;
    key::promote_next(key)?;
    writer.close()?;
    Ok(Rotated { record, old, new: writer.key.hex() })
}

/// Whether a journal was begun in `dir`. Says nothing about whether it can be read.
#[must_use]
pub fn exists(dir: &Path) -> bool {
    // What cannot be looked at may be one: reading it says why.
    let missing =
        |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let has = |name: &str| !missing(&dir.join(name));
    !missing(dir) && (has(files::RECORDS) || has(files::CHECKPOINTS))
}

/// Every record of the journal in `dir`, for replay and lists, also while it is being written. The journal is verified
/// first and nothing is left out.
///
/// # Errors
/// [`JournalError::Tampered`] when it does not verify, [`JournalError::Event`] when it holds an event that this
/// version does not know, [`JournalError::Unreadable`] when there is none.
pub fn read(dir: &Path) -> Result<Vec<Arc<EventEnvelope>>, JournalError> {
    if !exists(dir) {
        return Err(JournalError::none(dir));
    }
    open::read(dir)
}
