//! A journal that somebody was at.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use stockade_protocol::event::{Event, EventEnvelope, RunEvent, RunOutcome, TurnEvent};
use stockade_protocol::ids::{Principal, RunId};
use stockade_protocol::request::Origin;
use stockade_protocol::time::Timestamp;
use stockade_runtime::journal::{self, Entry, Journal, verify};
use stockade_runtime::ports::Ports;
use stockade_runtime::redact::Redactor;
use tempfile::TempDir;

/// The files of a journal that are evidence.
const FILES: [&str; 3] = ["records.jsonl", "checkpoints", "journal.pub"];

/// A journal as it was written: a few runs, some sealed at once, closed cleanly.
struct Whole {
    folder: TempDir,
    events: Vec<Arc<EventEnvelope>>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let folder = private();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    tokio.block_on(write(folder.path()));
    let events = journal::read(&folder.path().join("journal")).expect("an untouched journal is read");
    assert!(events.len() > 15, "{}", events.len());
    Whole { folder, events }
});

fn private() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    folder
}

async fn write(place: &Path) {
    let count = AtomicU8::new(0);
    let ports = Ports::new(|| Timestamp(1_800_000_000_000), move || [count.fetch_add(1, Ordering::SeqCst); 16]);
    let (journal, _) = Journal::open(&place.join("journal"), &place.join("key"), Redactor::standard(), ports)
        .expect("a journal can be made");
    for number in 0..6 {
        let run = Some(RunId::from_bits([number; 16]));
        let entry = |event| Entry { run, session: None, call: None, event };
        let begun = RunEvent::Started {
            title: format!("run {number}").into(),
            principal: Principal::agent("fuzz"),
            origin: Origin::Loop,
        };
        let said = TurnEvent::Prompted { text: format!("one \u{1b}[31m of {number}\n\"quoted\"").into() };
        let ended = RunEvent::Ended { outcome: RunOutcome::Done, answer: None, reason: None };
        for event in [Event::Run(begun), Event::Turn(said), Event::Run(ended)] {
            journal.append(entry(event)).await.expect("a record is written");
        }
    }
    journal.close().await.expect("the journal is closed");
}

/// Edits of a whole journal, six bytes each: which file, what to do, where (of 65,536), how much, and a byte. What a
/// verified journal calls sealed is what was written.
pub(crate) fn journal(bytes: &[u8]) {
    let copy = private();
    let place = copy.path().join("journal");
    fs::create_dir(&place).expect("a directory can be made");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut files = FILES.map(|name| fs::read(WHOLE.folder.path().join("journal").join(name)).unwrap_or_default());
    for edit in bytes.chunks_exact(6).take(16) {
        let [which, what, high, low, much, byte] = *edit else { continue };
        let Some(file) = files.get_mut(usize::from(which) % 3) else { continue };
        change(file, what, usize::from(high) << 8 | usize::from(low), usize::from(much), byte);
    }
    for (name, content) in FILES.iter().zip(&files) {
        fs::write(place.join(name), content).expect("a file can be written");
    }
    let report = verify::verify(&place);
    if !report.is_intact() {
        assert!(!report.faults.is_empty(), "a journal that is not intact has no fault");
        return;
    }
    let read = journal::read(&place).expect("what verifies is read");
    let sealed = usize::try_from(report.sealed).unwrap_or(usize::MAX);
    assert!(sealed <= read.len() && read.get(..sealed) == WHOLE.events.get(..sealed), "sealed records are others");
}

fn change(file: &mut Vec<u8>, what: u8, place: usize, much: usize, byte: u8) {
    if file.is_empty() {
        return;
    }
    let at = place * file.len() / 65_536;
    let end = (at + much).min(file.len());
    match what % 6 {
        0 => {
            if let Some(old) = file.get_mut(at) {
                *old ^= byte;
            }
        }
        1 => file.truncate(at),
        2 => drop(file.drain(at..end)),
        3 => {
            let again: Vec<u8> = file.get(at..end).unwrap_or_default().to_vec();
            drop(file.splice(end..end, again));
        }
        4 => drop(file.splice(at..at, std::iter::repeat_n(byte, much))),
        _ => {
            // Whole lines trade places.
            let mut lines: Vec<Vec<u8>> = file.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let (one, other) = (place % lines.len(), usize::from(byte) % lines.len());
            lines.swap(one, other);
            *file = lines.concat();
        }
    }
}

/// A signed note, and before the first NUL the key it should be signed with; without a NUL, the key of the journal
/// above. A believed note is believed again, and names a size that the journal had.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let place = WHOLE.folder.path().join("journal");
    let own = || fs::read_to_string(place.join("journal.pub")).unwrap_or_default();
    let (key, note) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (String::from_utf8_lossy(&bytes[..at]).into_owned(), &bytes[at + 1..]),
        None => (own(), bytes),
    };
    let read = verify::open_checkpoint(note, &key);
    assert_eq!(read, verify::open_checkpoint(note, &key), "one note has one reading");
    if let (Ok((size, _)), true) = (read, key == own()) {
        assert!(size <= WHOLE.events.len() as u64, "nobody signed this");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_copy_is_intact_and_a_changed_one_is_not() {
        let place = WHOLE.folder.path().join("journal");
        let report = verify::verify(&place);
        assert!(report.is_intact(), "{report:?}");
        assert_eq!(report.sealed, WHOLE.events.len() as u64);
        let copy = private();
        for name in FILES {
            fs::copy(place.join(name), copy.path().join(name)).unwrap();
        }
        assert!(verify::verify(copy.path()).is_intact());
        let mut records = fs::read(copy.path().join("records.jsonl")).unwrap();
        change(&mut records, 0, 0x4000, 0, 1);
        fs::write(copy.path().join("records.jsonl"), records).unwrap();
        assert!(!verify::verify(copy.path()).is_intact());
    }

    #[test]
    fn a_note_by_the_key_it_names_is_believed() {
        let seed = include_bytes!("../corpus/checkpoint/own-name");
        let at = seed.iter().position(|byte| *byte == 0).unwrap();
        let read = verify::open_checkpoint(&seed[at + 1..], std::str::from_utf8(&seed[..at]).unwrap());
        assert_eq!(read.map(|(size, _)| size), Ok(19));
    }
}
