//! Opening a journal for writing: the lock, the key, the check of everything that is there, and the repair of what a
//! crash tore.

use super::error::JournalError;
use super::events::{self, JournalEvents};
use super::files::{CHECKPOINTS, Dir, PUBLIC_KEY, RECORDS, Sink, TORN};
use super::load::{self, Loaded, ORIGIN, Torn};
use super::note::NoteKey;
use super::record::{self, Places};
use super::writer::{Prepared, Writer};
use super::{Opened, key};
use crate::canon;
use crate::ports::Ports;
use ed25519_dalek::SigningKey;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use stockade_protocol::digest::{Digest, to_hex};
use stockade_protocol::event::{Event, EventEnvelope, JournalEvent};

/// Opens or creates the journal in `path` and returns its writer, which has not started yet.
pub(super) fn open(
    path: &Path,
    key_path: &Path,
    ports: &Ports,
    wrap: impl FnOnce(Box<dyn Sink>, Box<dyn Sink>) -> (Box<dyn Sink>, Box<dyn Sink>),
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
    let (journal, key) = if created { create(&dir, &loaded, &secret, ports)? } else { existing(&loaded, &secret)? };
    let (records_file, checkpoints_file) = (dir.append(RECORDS)?, dir.append(CHECKPOINTS)?);
    dir.sync()?;
    let (records_sink, checkpoints_sink) = wrap(Box::new(records_file), Box::new(checkpoints_file));
    let (publisher, events) = events::list(records);
    let mut writer = Writer {
        records: records_sink,
        checkpoints: checkpoints_sink,
        secret,
        key,
        journal,
        chain: loaded.chain,
        sealed: loaded.sealed,
        publisher,
        ports: ports.clone(),
        lock,
        poison: None,
        waiting_since: None,
        last_group: 0,
        last_sync: std::time::Duration::ZERO,
    };
    if created {
        let format = record::VERSION;
        writer.append_now(prepare(JournalEvent::Created { format, key: writer.key.hex() })?)?;
    }
    let cut_bytes = cuts.iter().map(|cut| cut.bytes).sum();
    for cut in cuts {
        let Cut { file, kept, bytes: cut_bytes, digest: cut_sha256 } = cut;
        writer.append_now(prepare(JournalEvent::Recovered { file, kept, cut_bytes, cut_sha256 })?)?;
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

/// The journal's id and public key, when the private key fits them.
fn existing(loaded: &Loaded, secret: &SigningKey) -> Result<(String, NoteKey), JournalError> {
    let found = to_hex(secret.verifying_key().as_bytes());
    match (loaded.chain.journal(), &loaded.key) {
        (Some(journal), Some(key)) if key.hex() == found => Ok((journal.to_owned(), key.clone())),
        (_, Some(key)) => Err(JournalError::WrongKey { expected: key.hex(), found }),
        (_, None) => {
            Err(JournalError::Tampered { file: PUBLIC_KEY.to_owned(), record: None, what: "it is missing".to_owned() })
        }
    }
}

/// Begins a journal in an empty directory, or in one where creating it was interrupted before its first record.
fn create(dir: &Dir, loaded: &Loaded, secret: &SigningKey, ports: &Ports) -> Result<(String, NoteKey), JournalError> {
    // Half a first record is all that an interrupted creation can have left.
    for torn in &loaded.torn {
        truncate(dir, torn)?;
    }
    let journal = to_hex(&ports.random());
    let key = NoteKey::new(&format!("{ORIGIN}{journal}"), secret.verifying_key()).ok_or(JournalError::Closed)?;
    dir.put(PUBLIC_KEY, format!("{}\n", key.to_text()).as_bytes(), true)?;
    Ok((journal, key))
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

/// An entry about the journal itself: it holds nothing to redact.
fn prepare(event: JournalEvent) -> Result<Prepared, JournalError> {
    let event = Event::Journal(event);
    let value = serde_json::to_value(&event).map_err(|error| canon::CanonError::Shape(error.to_string()))?;
    let kind = value.get("type").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let body = canon::to_bytes(value.get("body").unwrap_or(&serde_json::Value::Null))?;
    Ok(Prepared { places: Places::default(), kind, body, event })
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
        let why = "there is none".to_owned();
        return Err(JournalError::Unreadable { dir: path.to_owned(), why });
    }
    check(&loaded, false, unknown)?;
    if records.len() as u64 != loaded.chain.count() {
        let what = format!("{} records were read, but {} verify", records.len(), loaded.chain.count());
        return Err(JournalError::Tampered { file: RECORDS.to_owned(), record: None, what });
    }
    Ok(records)
}
