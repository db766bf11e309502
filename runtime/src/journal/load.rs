//! Reads a whole journal directory: the one place that knows what belongs in it and what a crash may have left.

use super::chain::Chain;
use super::error::JournalError;
use super::files::{self, CHECKPOINTS, Dir, LOCK, PUBLIC_KEY, RECORDS, TORN};
use super::note::{self, Checkpoint, NoteKey, Signed};
use super::record::{self, Record};
use super::rotation::{Change, Keys};
use super::verify::Fault;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{Event, JournalEvent};
use stockade_protocol::limits::RECORD_BYTES;

/// What every origin begins with; the journal's id follows.
pub(super) const ORIGIN: &str = "stockade.local/";

/// Bytes at the end of a file that a crash left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    /// The file.
    pub(super) file: &'static str,
    /// Where they begin.
    pub(super) offset: u64,
    /// How many they are.
    pub(super) bytes: u64,
}

/// A journal as it lies on disk.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) keys: Option<Keys>,
    pub(super) chain: Chain,
    /// Records covered by the last good checkpoint.
    pub(super) sealed: u64,
    /// The checkpoint over a rotation that the old key has not signed yet.
    pub(super) owed: Option<Checkpoint>,
    pub(super) torn: Vec<Torn>,
    /// Files with cut bytes that no record names: a crash came between keeping and recording them.
    pub(super) unrecorded: Vec<String>,
    pub(super) faults: Vec<Fault>,
    /// How many checkpoints there are.
    pub(super) checkpoints: usize,
}

/// What the caller does with each record: position, line, record.
pub(super) type OnRecord<'a> = &'a mut dyn FnMut(u64, &Record<'_>);

/// Reads and checks everything in `dir`.
///
/// Checkpoints are read before records: a writer makes records durable first, so a journal that is being written
/// never looks as if records were missing.
pub(super) fn load(dir: &Dir, on_record: OnRecord<'_>) -> Result<Loaded, JournalError> {
    let mut loader = Loader::default();
    loader.public_key(dir)?;
    loader.checkpoints(dir)?;
    loader.records(dir, on_record)?;
    loader.names(dir)?;
    Ok(loader.finish())
}

#[derive(Debug, Default)]
struct Loader {
    keys: Option<Keys>,
    /// Where each begins in its file, and what it says.
    checkpoints: Vec<(usize, Signed)>,
    /// How many of them were compared with the tree.
    compared: usize,
    sealed: u64,
    owed: Option<Checkpoint>,
    /// Checkpoints that no known key has signed: where they begin and how many records they are over.
    by_nobody: Vec<(usize, u64)>,
    /// Checkpoints whose root is not that of the records: the first and last record they speak for.
    wrong_roots: Vec<(u64, u64)>,
    chain: Option<Chain>,
    torn: Vec<Torn>,
    recovered: BTreeMap<String, Digest>,
    unrecorded: Vec<String>,
    faults: Vec<Fault>,
}

impl Loader {
    fn fault(&mut self, file: &str, record: Option<u64>, what: impl Into<String>) {
        self.faults.push(Fault { file: file.to_owned(), record, what: what.into() });
    }

    fn public_key(&mut self, dir: &Dir) -> Result<(), JournalError> {
        let Some(mut file) = dir.read(PUBLIC_KEY)? else {
            self.fault(PUBLIC_KEY, None, "it is missing");
            return Ok(());
        };
        let mut text = Vec::new();
        file.by_ref().take(1024).read_to_end(&mut text).map_err(JournalError::io("read the public key"))?;
        self.keys = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.strip_suffix('\n'))
            .and_then(|line| NoteKey::from_text(line).filter(|key| key.to_text() == line))
            .map(Keys::new);
        if self.keys.is_none() {
            self.fault(PUBLIC_KEY, None, "it is not one line with a public key");
        }
        Ok(())
    }

    /// Which key must have signed a checkpoint is known when the records before it were read.
    fn checkpoints(&mut self, dir: &Dir) -> Result<(), JournalError> {
        let bytes = dir.read_all(CHECKPOINTS)?;
        let Some(origin) = self.keys.as_ref().map(|keys| keys.name().to_owned()) else { return Ok(()) };
        let (notes, rest) = note::split(&bytes);
        let mut offset = 0;
        for note in notes {
            match Signed::read(note, &origin) {
                Ok(next)
                    if self
                        .checkpoints
                        .last()
                        .is_some_and(|(_, last)| last.checkpoint.size >= next.checkpoint.size) =>
                {
                    self.bad_checkpoint(offset, "a checkpoint is there again or out of order");
                }
                Ok(next) => self.checkpoints.push((offset, next)),
                Err(what) => self.bad_checkpoint(offset, what),
            }
            offset += note.len() + 1;
        }
        if rest.is_empty() {
            return Ok(());
        }
        if note::is_torn(rest, &origin) {
            self.torn.push(Torn { file: CHECKPOINTS, offset: offset as u64, bytes: rest.len() as u64 });
        } else {
            self.bad_checkpoint(offset, "what follows is no checkpoint");
        }
        Ok(())
    }

    fn bad_checkpoint(&mut self, offset: usize, what: &str) {
        self.fault(CHECKPOINTS, None, format!("byte {offset}: {what}"));
    }

    fn records(&mut self, dir: &Dir, on_record: OnRecord<'_>) -> Result<(), JournalError> {
        let journal = self.keys.as_ref().and_then(|keys| keys.name().strip_prefix(ORIGIN));
        let mut chain = Chain::new(journal);
        let last = self.checkpoints.last().map_or(0, |(_, last)| last.checkpoint.size);
        // Set at the first bad line after the last checkpoint: the state before it, and where it began. If nothing
        // but bad lines follows, the crash tore them; otherwise the line is a fault like any other.
        let mut tear: Option<(Chain, u64)> = None;
        let mut offset = 0;
        let mut lines = Lines::open(dir)?;
        while let Some(line) = lines.next()? {
            let at = chain.count();
            let whole = line.strip_suffix(b"\n");
            let parsed = record::parse(whole.unwrap_or(line));
            let good = whole.is_some() && parsed.is_ok();
            if !good && at >= last && tear.is_none() && chain.is_intact() {
                tear = Some((chain.clone(), offset));
            } else if good {
                tear = None;
            }
            chain.feed(whole.unwrap_or(line), &parsed);
            if let Ok(record) = &parsed
                && good
            {
                self.meaning(at, record, &chain);
                on_record(at, record);
            }
            if whole.is_none() && tear.is_none() {
                self.fault(RECORDS, Some(at), "its line has no end");
            }
            if tear.is_none() {
                self.compare(&mut chain);
            }
            offset += line.len() as u64;
        }
        if let Some((before, start)) = tear {
            self.torn.push(Torn { file: RECORDS, offset: start, bytes: offset - start });
            chain = before;
        }
        self.chain = Some(chain);
        Ok(())
    }

    /// Compares the tree with the checkpoint of its size, if there is one.
    fn compare(&mut self, chain: &mut Chain) {
        while let Some((offset, signed)) = self.checkpoints.get(self.compared).cloned()
            && signed.checkpoint.size <= chain.count()
        {
            self.compared += 1;
            let Checkpoint { size, root } = signed.checkpoint;
            if !self.is_signed(offset, &signed) || size != chain.count() {
                continue;
            }
            if let Some(owed) = self.owed.take_if(|owed| owed.size <= size)
                && owed.size != size
            {
                let what = format!("byte {offset}: the old key's checkpoint over the rotation is missing before it");
                self.fault(CHECKPOINTS, Some(owed.size.saturating_sub(1)), what);
            }
            if root == chain.tree().root() {
                self.sealed = size;
                chain.vouch();
            } else {
                self.wrong_roots.push((self.sealed, size.saturating_sub(1)));
            }
        }
    }

    /// Whether the key that was in force for it has signed a checkpoint.
    fn is_signed(&mut self, offset: usize, signed: &Signed) -> bool {
        let Some(keys) = &self.keys else { return false };
        let size = signed.checkpoint.size;
        let due = keys.of_size(size);
        if signed.is_by(due) {
            return true;
        }
        if signed.id == due.id() {
            self.bad_checkpoint(offset, "the key's signature is wrong");
        } else if let Some(what) = keys.other(size, signed.id) {
            self.bad_checkpoint(offset, what);
        } else {
            self.by_nobody.push((offset, size));
        }
        false
    }

    /// What the verifier must know of three kinds of record: the keys, and the files with cut bytes. The record is the
    /// last of the chain.
    fn meaning(&mut self, at: u64, record: &Record<'_>, chain: &Chain) {
        if !matches!(record.kind, "journal.created" | "journal.recovered" | "journal.key_rotated") {
            return;
        }
        match record.envelope().map(|envelope| envelope.event) {
            Ok(Event::Journal(JournalEvent::Created { format, key })) => {
                let origin = format!("{ORIGIN}{}", record.journal);
                let first = self.keys.as_ref().map(Keys::first);
                let pinned = first.map(|pinned| (pinned.name() == origin, pinned.hex() == key));
                if at != 0 || format != record::VERSION {
                    self.fault(RECORDS, Some(at), "it creates a journal again, or one of another format");
                } else if pinned.is_some_and(|(name, _)| !name) {
                    self.fault(PUBLIC_KEY, Some(at), "the public key is that of another journal");
                } else if pinned.is_some_and(|(_, key)| !key) {
                    self.fault(PUBLIC_KEY, Some(at), "the public key is not the one the first record names");
                }
            }
            Ok(Event::Journal(JournalEvent::KeyRotated { old, new, old_signature, new_signature })) => {
                let change =
                    Change { old: &old, new: &new, old_signature: &old_signature, new_signature: &new_signature };
                if let Some(Err(what)) = self.keys.as_mut().map(|keys| keys.rotate(at, record, &change)) {
                    self.fault(RECORDS, Some(at), what);
                }
                let seal = Checkpoint { size: chain.count(), root: chain.tree().root() };
                self.owed.get_or_insert(seal);
            }
            Ok(Event::Journal(JournalEvent::Recovered { kept, cut_sha256, .. })) => {
                self.recovered.insert(kept, cut_sha256);
            }
            Ok(_) => {}
            Err(what) => self.fault(RECORDS, Some(at), what),
        }
    }

    /// Every name in the directory must be accounted for.
    fn names(&mut self, dir: &Dir) -> Result<(), JournalError> {
        let names = dir.names()?;
        for (kept, digest) in std::mem::take(&mut self.recovered) {
            if !names.contains(&kept) {
                self.fault(&kept, None, "a record says that cut bytes are kept in it, but it is missing");
            } else if Digest::of(dir.read_all(&kept)?) != digest {
                self.fault(&kept, None, "the cut bytes in it are not those that were recorded");
            }
            self.recovered.insert(kept, digest);
        }
        for name in names {
            let known =
                [RECORDS, CHECKPOINTS, PUBLIC_KEY, LOCK].contains(&name.as_str()) || files::is_unfinished(&name);
            if known || self.recovered.contains_key(&name) {
                continue;
            }
            if name.starts_with(TORN) {
                self.unrecorded.push(name);
            } else {
                self.fault(&name, None, "it is no file of a journal");
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Loaded {
        let mut chain = self.chain.take().unwrap_or_else(|| Chain::new(None));
        chain.finish();
        let count = chain.count();
        let beyond: Vec<_> = self.checkpoints.get(self.compared..).unwrap_or_default().to_vec();
        let beyond: Vec<u64> = beyond
            .iter()
            .filter(|(offset, signed)| self.is_signed(*offset, signed))
            .map(|(_, signed)| signed.checkpoint.size)
            .collect();
        let mut faults: Vec<Fault> = chain
            .faults()
            .iter()
            .map(|fault| Fault { file: RECORDS.to_owned(), record: Some(fault.record), what: fault.what.clone() })
            .collect();
        let first_fault = faults.iter().filter_map(|fault| fault.record).min();
        // A record that was changed need not be said again to mean something wrong.
        let named: BTreeSet<Option<u64>> = faults.iter().map(|fault| fault.record).collect();
        faults.extend(self.faults.drain(..).filter(|fault| fault.file != RECORDS || !named.contains(&fault.record)));
        for (first, last) in self.wrong_roots {
            // A record already named explains every root after it.
            if first_fault.is_some_and(|fault| fault <= last) {
                continue;
            }
            let what = if first == last {
                "it is not the record that the checkpoint over it was signed for".to_owned()
            } else {
                format!(
                    "the checkpoint over records {first} to {last} was signed for others: either the last of them was changed, or several and their links with them"
                )
            };
            faults.push(Fault { file: RECORDS.to_owned(), record: Some(last), what });
        }
        if let Some(size) = beyond.last() {
            let what = format!("a checkpoint covers {size} records, but only {count} are there: the last are missing");
            faults.push(Fault { file: RECORDS.to_owned(), record: Some(count), what });
        }
        for (offset, size) in self.by_nobody {
            // A record that is changed or missing may be the one that brought the key.
            let explained = faults.iter().any(|fault| fault.file == RECORDS && fault.record < Some(size));
            if !explained {
                let what = format!("byte {offset}: it is signed by no key of this journal");
                faults.push(Fault { file: CHECKPOINTS.to_owned(), record: None, what });
            }
        }
        if chain.unlisted() > 0 {
            let what = format!("{} more records are at fault", chain.unlisted());
            faults.push(Fault { file: RECORDS.to_owned(), record: None, what });
        }
        Loaded {
            keys: self.keys,
            chain,
            sealed: self.sealed,
            owed: self.owed,
            torn: self.torn,
            unrecorded: self.unrecorded,
            faults,
            checkpoints: self.checkpoints.len(),
        }
    }
}

/// The lines of the records file, each with its end, in bounded memory.
struct Lines {
    reader: Option<BufReader<std::fs::File>>,
    line: Vec<u8>,
}

impl Lines {
    /// Longest line that is read at once: a record and what surrounds it. A longer one comes in pieces, none a record.
    const LONGEST: u64 = RECORD_BYTES as u64 + 2;

    fn open(dir: &Dir) -> Result<Self, JournalError> {
        let reader = dir.read(RECORDS)?.map(|file| BufReader::with_capacity(256 * 1024, file));
        Ok(Self { reader, line: Vec::new() })
    }

    fn next(&mut self) -> Result<Option<&[u8]>, JournalError> {
        self.line.clear();
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let read = reader
            .take(Self::LONGEST)
            .read_until(b'\n', &mut self.line)
            .map_err(JournalError::io("read the journal's records"))?;
        Ok((read > 0).then_some(&self.line))
    }
}
