//! The streaming verifier: records go in one by one, faults come out by position.
//!
//! It is cheap to clone, so a caller can go on from any record as often as it likes.

use super::record::{NO_RECORD, Record};
use super::tree::Tree;
use sha2::{Digest as _, Sha256};

/// Most faults that are listed; more are only counted.
const LISTED: usize = 1000;

/// Something is wrong with one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFault {
    /// The record, by its position in the file.
    pub(super) record: u64,
    /// What is wrong.
    pub(super) what: String,
}

/// The state after some records.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// The journal's id, from its first record.
    journal: Option<String>,
    /// Records so far.
    count: u64,
    /// The number the next record must have.
    next: u64,
    /// SHA-256 of the last record, hex.
    last: [u8; 64],
    tree: Tree,
    /// The last record's link to its predecessor is broken, and it is not decided yet which of the two was changed.
    undecided: bool,
    /// Records up to here are vouched for by a checkpoint.
    vouched: u64,
    faults: Vec<RecordFault>,
    unlisted: u64,
}

impl Chain {
    /// Before the first record. Without a journal's id, that of the first record is expected of all.
    pub(super) fn new(journal: Option<&str>) -> Self {
        Self {
            journal: journal.map(ToOwned::to_owned),
            count: 0,
            next: 0,
            last: NO_RECORD,
            tree: Tree::default(),
            undecided: false,
            vouched: 0,
            faults: Vec::new(),
            unlisted: 0,
        }
    }

    /// Takes the next line, without its end, and what [`super::record::parse`] made of it.
    pub(super) fn feed(&mut self, line: &[u8], parsed: &Result<Record<'_>, String>) {
        let at = self.count;
        match parsed {
            Err(what) => {
                self.settle(false);
                self.fault(at, what);
                self.next += 1;
            }
            Ok(record) => {
                let links = record.prev.as_bytes() == self.last;
                self.settle(!links);
                let due = self.next;
                let faulted = self.check(at, record);
                // A record with the wrong number and the right link had its number changed; with the wrong link too,
                // it is another record, and numbering goes on from whichever is further.
                self.next =
                    if links { due } else { due.max(record.seq) }.saturating_add(u64::from(links || record.seq >= due));
                // A record already found at fault explains the broken link behind it.
                self.undecided = !links && !faulted && !self.is_fault(at.wrapping_sub(1));
            }
        }
        self.last = hex(Sha256::digest(line).into());
        self.tree.push(line);
        self.count += 1;
    }

    /// Takes a line that the writer has just composed.
    pub(super) fn append(&mut self, line: &[u8]) {
        self.last = hex(Sha256::digest(line).into());
        self.tree.push(line);
        self.count += 1;
        self.next = self.count;
    }

    /// Checks what does not depend on the link; returns whether there was a fault.
    fn check(&mut self, at: u64, record: &Record<'_>) -> bool {
        let journal = self.journal.get_or_insert_with(|| record.journal.to_owned());
        if journal != record.journal {
            let what = format!("it belongs to the journal {}", record.journal);
            self.fault(at, &what);
            return true;
        }
        if record.seq != self.next {
            let story = if record.seq > self.next { "records before it are missing" } else { "it is there again" };
            let what = format!("it is numbered {}, but {} was due: {story}", record.seq, self.next);
            self.fault(at, &what);
            return true;
        }
        if at == 0 && record.prev.as_bytes() != NO_RECORD {
            self.fault(at, "it names a record before the first");
            return true;
        }
        if at == 0 && record.kind != "journal.created" {
            self.fault(at, "a journal begins with journal.created");
            return true;
        }
        false
    }

    /// Decides which side of a broken link was changed, once the link after it is known to be broken too or not.
    fn settle(&mut self, next_is_broken: bool) {
        if !std::mem::take(&mut self.undecided) {
            return;
        }
        let this = self.count.saturating_sub(1);
        let before = this.saturating_sub(1);
        if next_is_broken || self.vouched > before {
            self.fault(this, "its link to the record before it is broken: it was changed");
        } else {
            self.fault(before, "the record after it does not link to it: it was changed, or the next one was");
        }
    }

    fn is_fault(&self, record: u64) -> bool {
        self.faults.last().is_some_and(|fault| fault.record == record)
    }

    fn fault(&mut self, record: u64, what: &str) {
        if self.faults.len() < LISTED {
            self.faults.push(RecordFault { record, what: what.to_owned() });
        } else {
            self.unlisted += 1;
        }
    }

    /// A checkpoint over exactly the records so far was found right.
    pub(super) fn vouch(&mut self) {
        self.vouched = self.count;
    }

    /// Ends the stream: decides what is still undecided.
    pub(super) fn finish(&mut self) {
        self.settle(false);
    }

    /// Records so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether a broken link or another fault was found so far.
    pub(super) const fn is_intact(&self) -> bool {
        self.faults.is_empty() && !self.undecided
    }

    /// The faults so far, in the order found.
    pub(super) fn faults(&self) -> &[RecordFault] {
        &self.faults
    }

    /// How many more faults there are than are listed.
    pub(super) const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// The journal's id.
    pub(super) fn journal(&self) -> Option<&str> {
        self.journal.as_deref()
    }

    /// SHA-256 of the last record, hex.
    pub(super) const fn last(&self) -> &[u8; 64] {
        &self.last
    }

    /// The tree over the records so far.
    pub(super) const fn tree(&self) -> &Tree {
        &self.tree
    }
}

fn hex(hash: [u8; 32]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(hash) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    text
}
