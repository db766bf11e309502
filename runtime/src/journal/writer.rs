//! The one writer: a thread of its own that takes what waits, writes it at once and makes it durable at once.
//!
//! Invariant: nobody is told that a record is durable before the system said so. After the first failure, nothing is
//! accepted any more: what reached the disk is unknown, and only the next start, which reads it, can tell.

use super::chain::Chain;
use super::error::JournalError;
use super::events::Publisher;
use super::note::{Checkpoint, NoteKey};
use super::record::{self, Places, Position};
use super::{prepare, rotation};
use crate::ports::{Ports, Sink};
use ed25519_dalek::SigningKey;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::event::{Event, EventEnvelope, JournalEvent};
use stockade_protocol::limits::{
    CHECKPOINT_RECORDS, JOURNAL_DURABLE_MS, JOURNAL_GROUP_BYTES, JOURNAL_QUEUE, RECORD_BYTES,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::Instant;

/// An entry ready to be written: redacted, and its body in canonical form.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) places: Places,
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
    pub(super) event: Event,
}

type Ack = oneshot::Sender<Result<u64, JournalError>>;

/// What the writer is asked.
#[derive(Debug)]
pub(super) enum Message {
    /// Append an entry.
    Append {
        prepared: Box<Prepared>,
        /// Answer when durable, not already when written.
        durable: bool,
        ack: Ack,
        /// Room in the queue, given back when the entry is written.
        room: OwnedSemaphorePermit,
    },
    /// Write the last record, seal, and let go of the journal.
    Close { ack: oneshot::Sender<Result<(), JournalError>> },
}

/// Everything the writer holds.
pub(super) struct Writer {
    pub(super) records: Box<dyn Sink>,
    pub(super) checkpoints: Box<dyn Sink>,
    pub(super) secret: SigningKey,
    pub(super) key: NoteKey,
    /// The journal's id, 32 hex digits.
    pub(super) journal: String,
    pub(super) chain: Chain,
    /// Records covered by the last checkpoint.
    pub(super) sealed: u64,
    pub(super) publisher: Publisher,
    pub(super) ports: Ports,
    /// Held for as long as this writes.
    pub(super) lock: File,
    /// Why nothing is accepted any more.
    pub(super) poison: watch::Sender<Option<String>>,
    /// When the first record that is not durable yet was written.
    pub(super) waiting_since: Option<Instant>,
    /// How many records were written together last.
    pub(super) last_group: usize,
    /// How long making records durable took last.
    pub(super) last_sync: Duration,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("journal", &self.journal).field("records", &self.chain.count()).finish()
    }
}

/// Records that are written together.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    records: Vec<Arc<EventEnvelope>>,
    written: Vec<(Ack, u64)>,
    durable: Vec<(Ack, u64)>,
    room: Vec<OwnedSemaphorePermit>,
    seals: bool,
}

impl Writer {
    /// Serves the queue until it is closed.
    pub(super) async fn serve(mut self, mut queue: mpsc::Receiver<Message>) {
        loop {
            let message = match self.waiting_since {
                None => queue.recv().await,
                Some(since) => {
                    let due = since + Duration::from_millis(JOURNAL_DURABLE_MS);
                    match tokio::time::timeout_at(due, queue.recv()).await {
                        Ok(message) => message,
                        Err(_elapsed) => {
                            // A failure is kept and met by the next append.
                            let _ = self.sync();
                            continue;
                        }
                    }
                }
            };
            match message {
                None => break,
                Some(message) => {
                    if let Some(done) = self.take(message, &mut queue) {
                        let result = self.close();
                        drop(self);
                        let _ = done.send(result);
                        return;
                    }
                }
            }
        }
        let _ = self.sync();
    }

    /// Takes a message and everything that waits behind it as one group. Returns who waits for the end, if asked to.
    fn take(
        &mut self,
        first: Message,
        queue: &mut mpsc::Receiver<Message>,
    ) -> Option<oneshot::Sender<Result<(), JournalError>>> {
        // Those answered a moment ago may be about to come back. Without a little patience callers fall into two
        // parties that wait for each other's syncs. One who waits alone is never kept: the last group was his alone.
        let began = Instant::now();
        while queue.len() + 1 < self.last_group && began.elapsed() < self.last_sync / 4 {
            std::thread::yield_now();
        }
        let mut group = Group::default();
        let mut next = Some(first);
        let mut close = None;
        while let Some(message) = next {
            match message {
                Message::Append { prepared, durable, ack, room } => {
                    group.room.push(room);
                    match self.add(&mut group, *prepared) {
                        Ok(seq) if durable => group.durable.push((ack, seq)),
                        Ok(seq) => group.written.push((ack, seq)),
                        Err(error) => drop(ack.send(Err(error))),
                    }
                }
                Message::Close { ack } => {
                    close = Some(ack);
                    break;
                }
            }
            let full = group.bytes.len() >= JOURNAL_GROUP_BYTES || group.records.len() >= JOURNAL_QUEUE;
            next = if full { None } else { queue.try_recv().ok() };
        }
        self.last_group = group.records.len();
        self.commit(group);
        close
    }

    /// Composes a record behind those of the group.
    fn add(&mut self, group: &mut Group, prepared: Prepared) -> Result<u64, JournalError> {
        self.check_poison()?;
        let seq = self.chain.count();
        let time = self.ports.now();
        let start = group.bytes.len();
        let position = Position { journal: &self.journal, seq, prev: self.chain.last(), time };
        record::compose(&mut group.bytes, &position, &prepared.places, &prepared.kind, &prepared.body);
        let line = group.bytes.get(start..).unwrap_or_default();
        let bytes = line.len();
        if bytes > RECORD_BYTES {
            group.bytes.truncate(start);
            return Err(JournalError::TooLarge { bytes, limit: RECORD_BYTES });
        }
        self.chain.append(line);
        group.bytes.push(b'\n');
        group.seals |= prepared.event.seals();
        let Places { run, session, call } = prepared.places;
        group.records.push(Arc::new(EventEnvelope { seq, time, run, session, call, event: prepared.event }));
        Ok(seq)
    }

    /// Writes a group, makes it durable when it must be, tells those who wait, and seals when it asks for it.
    fn commit(&mut self, group: Group) {
        if group.records.is_empty() {
            return;
        }
        if let Err(error) = self.write(&group.bytes) {
            let failed = group.written.into_iter().chain(group.durable);
            failed.for_each(|(ack, _)| drop(ack.send(Err(again(&error)))));
            return;
        }
        self.waiting_since.get_or_insert_with(Instant::now);
        self.publisher.publish(group.records);
        group.written.into_iter().for_each(|(ack, seq)| drop(ack.send(Ok(seq))));
        drop(group.room);
        let seal = group.seals || self.chain.count() - self.sealed >= CHECKPOINT_RECORDS;
        let overdue = self.waiting_since.is_some_and(|since| since.elapsed().as_millis() >= JOURNAL_DURABLE_MS.into());
        if !seal && !overdue && group.durable.is_empty() {
            return;
        }
        let result = self.sync();
        for (ack, seq) in group.durable {
            let _ = ack.send(result.as_ref().map(|()| seq).map_err(again));
        }
        // A record is durable before it is sealed, so those who wait need not wait for the seal. It is still the very
        // next thing on disk; should it fail, nothing is accepted any more.
        if seal && result.is_ok() {
            let _ = self.seal();
        }
    }

    fn check_poison(&self) -> Result<(), JournalError> {
        self.poison.borrow().as_ref().map_or(Ok(()), |why| Err(JournalError::Poisoned { why: why.clone() }))
    }

    fn poison(&mut self, why: String) -> JournalError {
        self.waiting_since = None;
        self.poison.send_if_modified(|poison| {
            let first = poison.is_none();
            poison.get_or_insert(why);
            first
        });
        JournalError::Poisoned { why: self.poison.borrow().clone().unwrap_or_default() }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.check_poison()?;
        match self.records.write(bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(count) => Err(self.poison(format!("only {count} of {} bytes could be written", bytes.len()))),
            Err(error) => Err(self.poison(format!("writing failed: {error}"))),
        }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.check_poison()?;
        if self.waiting_since.take().is_none() {
            return Ok(());
        }
        let began = Instant::now();
        if let Err(error) = self.records.sync() {
            return Err(self.poison(format!("making records durable failed: {error}")));
        }
        self.last_sync = began.elapsed();
        Ok(())
    }

    /// Signs a checkpoint over all records, which must be durable, and makes it durable.
    pub(super) fn seal(&mut self) -> Result<(), JournalError> {
        self.sync()?;
        let size = self.chain.count();
        if size == self.sealed {
            return Ok(());
        }
        self.sign(&Checkpoint { size, root: self.chain.tree().root() })
    }

    /// Signs a checkpoint and makes it durable.
    pub(super) fn sign(&mut self, checkpoint: &Checkpoint) -> Result<(), JournalError> {
        self.check_poison()?;
        let note = checkpoint.sign(&self.key, &self.secret) + "\n";
        let result = match self.checkpoints.write(note.as_bytes()) {
            Ok(count) if count == note.len() => self.checkpoints.sync(),
            Ok(_) => Err(std::io::ErrorKind::WriteZero.into()),
            Err(error) => Err(error),
        };
        result.map_err(|error| self.poison(format!("writing a checkpoint failed: {error}")))?;
        self.sealed = checkpoint.size;
        Ok(())
    }

    /// Records that another key comes into force, seals that with the old one, and goes on with the new one, which must
    /// be durable. Returns the record's position.
    pub(super) fn rotate(&mut self, next: SigningKey) -> Result<u64, JournalError> {
        self.seal()?;
        let prev = std::str::from_utf8(self.chain.last()).unwrap_or_default();
        let event = rotation::record(&self.journal, self.chain.count(), prev, &self.secret, &next);
        let seq = self.append_now(prepare::of_journal(event)?)?;
        self.replace(next)?;
        Ok(seq)
    }

    /// Signs with another key from now on.
    pub(super) fn replace(&mut self, next: SigningKey) -> Result<(), JournalError> {
        self.key = NoteKey::new(self.key.name(), next.verifying_key()).ok_or(JournalError::Closed)?;
        self.secret = next;
        Ok(())
    }

    /// Appends one record, durable and sealed, outside the queue.
    pub(super) fn append_now(&mut self, prepared: Prepared) -> Result<u64, JournalError> {
        let mut group = Group::default();
        let seq = self.add(&mut group, prepared)?;
        self.write(&group.bytes)?;
        self.waiting_since = Some(Instant::now());
        self.sync()?;
        self.publisher.publish(group.records);
        self.seal()?;
        Ok(seq)
    }

    /// Seals what is there, writes the last record and seals it too. Two checkpoints, so that a change to either the
    /// last record or one before it can be told apart.
    pub(super) fn close(&mut self) -> Result<(), JournalError> {
        self.seal()?;
        self.append_now(prepare::of_journal(JournalEvent::Closed {})?)?;
        self.lock.set_len(0).map_err(JournalError::io("clear the journal's lock"))
    }
}

/// The same failure for another who waits.
fn again(error: &JournalError) -> JournalError {
    match error {
        JournalError::Poisoned { why } => JournalError::Poisoned { why: why.clone() },
        other => JournalError::Poisoned { why: other.to_string() },
    }
}
