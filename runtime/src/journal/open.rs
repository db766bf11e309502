//! Opening a journal for writing: the lock, the key, the check of everything that is there, and the repair of what a
//! crash tore.

use super::error::JournalError;
use super::events::{self, JournalEvents};
use super::files::{CHECKPOINTS, Dir, PUBLIC_KEY, RECORDS, TORN};
use super::load::{self, Loaded, ORIGIN, Torn};
use super::note::NoteKey;
use super::record;
use super::writer::Writer;
use super::{Opened, key, prepare};
use crate::ports::{Ports, SinkKind};
use ed25519_dalek::SigningKey;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use stockade_protocol::digest::{Digest, to_hex};
use stockade_protocol::event::{EventEnvelope, JournalEvent};

/// Opens or creates the journal in `path` and returns its writer, which has not started yet.
pub(super) fn open(
    path: &Path,
    key_path: &Path,
    ports: &Ports,
) -> Result<(Writer, JournalEvents, Opened), JournalError> {
    let dir = Dir::open_own(path)?;
    let lock = dir.lock()?;
    dir.remove_unfinished()?;
    let mut records = Vec::new();
    let mut unknown = None;
    let loaded = load::load(&dir, &mut |at, record| match record.envelope() {
        Ok(envelope) => records.push(Arc::new(envelope)),
        Err(what) => drop(unknown.get_or_insert((at, what))),
    })?;
    let created = loaded.chain.count() == 0 && loaded.checkpoints == 0;
    check(&loaded, created, unknown)?;
    let cuts = if created { Vec::new() } else { cut(&dir, &loaded)? };
    let secret = key::load(key_path, created, ports)?;
    let (journal, key, next) =
        if created { create(&dir, &loaded, &secret, ports)? } else { existing(&loaded, &secret, key_path, ports)? };
    let (records_file, checkpoints_file) = (dir.append(RECORDS)?, dir.append(CHECKPOINTS)?);
    dir.sync()?;
    let (publisher, events) = events::list(records);
    let mut writer = Writer {
        records: ports.sink(SinkKind::Records, Box::new(records_file)),
        checkpoints: ports.sink(SinkKind::Checkpoints, Box::new(checkpoints_file)),
        secret,
        key,
        journal,
        chain: loaded.chain,
        sealed: loaded.sealed,
        publisher,
        ports: ports.clone(),
        lock,
        poison: tokio::sync::watch::channel(None).0,
        waiting_since: None,
        last_group: 0,
        last_sync: std::time::Duration::ZERO,
    };
    if let Some(next) = next {
        // A crash came while the key was replaced, after that was recorded: the old key signs for the last time.
        if let Some(owed) = &loaded.owed {
            writer.sign(owed)?;
        }
        writer.replace(next)?;
        key::promote_next(key_path)?;
    }
    if created {
        let format = record::VERSION;
        writer.append_now(prepare::of_journal(JournalEvent::Created { format, key: writer.key.hex() })?)?;
    }
    let cut_bytes = cuts.iter().map(|cut| cut.bytes).sum();
    for cut in cuts {
        let Cut { file, kept, bytes: cut_bytes, digest: cut_sha256 } = cut;
        writer.append_now(prepare::of_journal(JournalEvent::Recovered { file, kept, cut_bytes, cut_sha256 })?)?;
    }
    writer.seal()?;
    let records = writer.chain.count();
    Ok((writer, events, Opened { created, cut_bytes, records }))
}

/// Refuses a journal with any fault. One that is being created has no public key yet, or an unfinished one.
fn check(loaded: &Loaded, created: bool, unknown: Option<(u64, String)>) -> Result<(), JournalError> {
    if let Some(fault) = loaded.faults.iter().find(|fault| !(created && fault.file == PUBLIC_KEY)) {
        let (file, record, what) = (fault.file.clone(), fault.record, fault.what.clone());
        return Err(JournalError::Tampered { file, record, what });
    }
    unknown.map_or(Ok(()), |(record, what)| Err(JournalError::Event { record, what }))
}

/// The journal's id, the public key of the private one in the key file, and the key that a rotation went to when the
/// key file still holds the one before it.
type Found = (String, NoteKey, Option<SigningKey>);

/// Finds the keys of a journal that is there. Any that does not belong to it is refused.
fn existing(loaded: &Loaded, secret: &SigningKey, key_path: &Path, ports: &Ports) -> Result<Found, JournalError> {
    let (Some(journal), Some(keys)) = (loaded.chain.journal(), &loaded.keys) else {
        let what = "it is missing".to_owned();
        return Err(JournalError::Tampered { file: PUBLIC_KEY.to_owned(), record: None, what });
    };
    let found = to_hex(secret.verifying_key().as_bytes());
    // The key that must sign next: an old one while it owes the checkpoint over a rotation.
    let due = loaded.owed.as_ref().map_or(keys.current(), |owed| keys.of_size(owed.size));
    if due == keys.current() && due.hex() == found {
        // The file of another key is left from a rotation that was not recorded.
        key::remove_next(key_path)?;
        return Ok((journal.to_owned(), due.clone(), None));
    }
    if let Some(old) = keys.before_current()
        && old.hex() == found
        && (due == old || due == keys.current())
        && let Some(next) = key::load_next(key_path, ports)?
        && to_hex(next.verifying_key().as_bytes()) == keys.current().hex()
    {
        return Ok((journal.to_owned(), old.clone(), Some(next)));
    }
    Err(JournalError::WrongKey { expected: due.hex(), found })
}

/// Begins a journal in an empty directory, or in one where creating it was interrupted before its first record.
fn create(dir: &Dir, loaded: &Loaded, secret: &SigningKey, ports: &Ports) -> Result<Found, JournalError> {
    // Half a first record is all that an interrupted creation can have left.
    for torn in &loaded.torn {
        truncate(dir, torn)?;
    }
    let journal = to_hex(&ports.random());
    let key = NoteKey::new(&format!("{ORIGIN}{journal}"), secret.verifying_key()).ok_or(JournalError::Closed)?;
    dir.put(PUBLIC_KEY, format!("{}\n", key.to_text()).as_bytes(), true)?;
    Ok((journal, key, None))
}

/// Bytes that were cut.
struct Cut {
    file: String,
    kept: String,
    bytes: u64,
    digest: Digest,
}

/// Keeps and cuts torn bytes. They are on disk under their own name before they leave the file they were in; a crash
/// in between leaves a kept file that no record names, which is recorded now.
fn cut(dir: &Dir, loaded: &Loaded) -> Result<Vec<Cut>, JournalError> {
    let mut cuts = Vec::new();
    for kept in &loaded.unrecorded {
        let bytes = dir.read_all(kept)?;
        let repeated = loaded.torn.iter().any(|torn| read_torn(dir, torn).is_ok_and(|torn| torn == bytes));
        if !repeated {
            cuts.push(Cut {
                file: RECORDS.to_owned(),
                kept: kept.clone(),
                bytes: bytes.len() as u64,
                digest: Digest::of(&bytes),
            });
        }
    }
    for torn in &loaded.torn {
        let bytes = read_torn(dir, torn)?;
        let mut same = None;
        for name in &loaded.unrecorded {
            if dir.read_all(name)? == bytes {
                same = Some(name.clone());
            }
        }
        let kept = match same {
            Some(kept) => kept,
            None => keep(dir, &bytes)?,
        };
        truncate(dir, torn)?;
        let digest = Digest::of(&bytes);
        cuts.push(Cut { file: torn.file.to_owned(), kept, bytes: torn.bytes, digest });
    }
    Ok(cuts)
}

/// Writes bytes under the first free name.
fn keep(dir: &Dir, bytes: &[u8]) -> Result<String, JournalError> {
    let names = dir.names()?;
    let name = (1..=u32::MAX).map(|n| format!("{TORN}{n}")).find(|name| !names.contains(name));
    let name =
        name.ok_or_else(|| JournalError::io("name a file for torn bytes")(std::io::ErrorKind::AlreadyExists.into()))?;
    dir.put(&name, bytes, false)?;
    Ok(name)
}

fn read_torn(dir: &Dir, torn: &Torn) -> Result<Vec<u8>, JournalError> {
    let what = format!("read the torn end of {}", torn.file);
    let mut bytes = Vec::new();
    if let Some(mut file) = dir.read(torn.file)? {
        file.seek(SeekFrom::Start(torn.offset))
            .and_then(|_at| file.read_to_end(&mut bytes))
            .map_err(JournalError::io(what))?;
    }
    Ok(bytes)
}

fn truncate(dir: &Dir, torn: &Torn) -> Result<(), JournalError> {
    let file: File = dir.append(torn.file)?;
    file.set_len(torn.offset)
        .and_then(|()| file.sync_all())
        .map_err(JournalError::io(format!("cut the torn end of {}", torn.file)))
}

/// Every record of the journal in `path`, for replay and lists. Nothing is left out: the count is the verified one.
pub(super) fn read(path: &Path) -> Result<Vec<Arc<EventEnvelope>>, JournalError> {
    let dir = Dir::open(path)?;
    let mut records = Vec::new();
    let mut unknown = None;
    let loaded = load::load(&dir, &mut |at, record| match record.envelope() {
        Ok(envelope) => records.push(Arc::new(envelope)),
        Err(what) => drop(unknown.get_or_insert((at, what))),
    })?;
    if loaded.chain.count() == 0 && loaded.checkpoints == 0 && loaded.torn.is_empty() {
        return Err(JournalError::none(path));
    }
    check(&loaded, false, unknown)?;
    if records.len() as u64 != loaded.chain.count() {
        let what = format!("{} records were read, but {} verify", records.len(), loaded.chain.count());
        return Err(JournalError::Tampered { file: RECORDS.to_owned(), record: None, what });
    }
    Ok(records)
}
