//! Tampering: every flipped bit, and every dropped, swapped, repeated or foreign record is found and named.

use super::*;
use crate::journal::chain::Chain;
use crate::journal::note::{Checkpoint, NoteKey, Signed};
use crate::journal::verify::{Report, Status};
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use stockade_protocol::digest::parse_hex;

/// A journal of this many records, closed cleanly, with checkpoints here and there.
pub(super) async fn closed(records: usize) -> Place {
    let place = Place::new();
    fill(&place, records).await;
    place
}

async fn fill(place: &Place, records: usize) {
    let journal = place.open();
    for n in 0..records - 2 {
        let entry = if n % 300 == 299 { sealing() } else { plain(&n.to_string()) };
        journal.append_soon(entry).await.unwrap();
    }
    journal.close().await.unwrap();
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.unsealed), (records as u64, 0));
}

/// As [`closed`], but with another key from the middle on.
pub(super) async fn rotated(records: usize) -> Place {
    let place = Place::new();
    let half = records / 2;
    fill(&place, half).await;
    assert_eq!(place.rotate().record, half as u64);
    let journal = place.open();
    for n in half + 2..records - 1 {
        journal.append_soon(plain(&n.to_string())).await.unwrap();
    }
    journal.close().await.unwrap();
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.unsealed, report.later_keys.len()), (records as u64, 0, 1));
    place
}

pub(super) fn key_of(place: &Place) -> NoteKey {
    NoteKey::from_text(std::str::from_utf8(&place.bytes("journal.pub")).unwrap().trim_end()).unwrap()
}

/// The report on a copy whose records are these.
fn with_records(place: &Place, records: &[&[u8]]) -> Report {
    let copy = place.crashed();
    copy.write("records.jsonl", &records.concat());
    copy.verify()
}

fn assert_named(report: &Report, record: usize) {
    assert_eq!(report.status, Status::Tampered, "{report:?}");
    let first = &report.faults[0];
    assert_eq!((first.record, first.file.as_str()), (Some(record as u64), "records.jsonl"), "{report:?}");
}

/// The whole state before each record, so that a changed one can be checked without going through those before it.
struct Prefixes<'a> {
    lines: Vec<&'a [u8]>,
    before: Vec<Chain>,
    root: [u8; 32],
}

impl<'a> Prefixes<'a> {
    fn of(place: &Place, records: &'a [u8]) -> Self {
        let lines = lines(records);
        let key = key_of(place);
        let file = place.bytes("checkpoints");
        let signed = note::split(&file).0.into_iter().map(|note| Signed::read(note, key.name()).unwrap());
        let sealed: Vec<u64> = signed.map(|signed| signed.checkpoint.size).collect();
        let mut chain = Chain::new(key.name().strip_prefix(load::ORIGIN));
        let mut before = Vec::new();
        for line in &lines {
            if sealed.contains(&chain.count()) {
                chain.vouch();
            }
            before.push(chain.clone());
            feed(&mut chain, line);
        }
        assert!(chain.is_intact());
        Self { lines, before, root: chain.tree().root() }
    }

    /// The record that is named when the bytes of record `at`, line end included, are `changed`.
    fn named(&self, at: usize, changed: &[u8]) -> Option<u64> {
        let mut chain = self.before[at].clone();
        let next = self.lines.get(at + 1).copied().unwrap_or_default();
        let one_line = changed.iter().position(|byte| *byte == b'\n') == Some(changed.len() - 1);
        if one_line {
            feed(&mut chain, changed);
            if chain.faults().is_empty() && !next.is_empty() {
                feed(&mut chain, next);
            }
        } else {
            // The change made or unmade a line end.
            for line in lines(&[changed, next].concat()) {
                feed(&mut chain, line);
            }
        }
        chain.finish();
        let last_of_all = next.is_empty() && chain.tree().root() != self.root;
        chain.faults().first().map(|fault| fault.record).or(last_of_all.then_some(at as u64))
    }
}

fn feed(chain: &mut Chain, line: &[u8]) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    chain.feed(line, &record::parse(line));
}

#[tokio::test]
async fn every_flipped_bit_of_a_thousand_records_is_found_and_named() {
    let place = rotated(1000).await;
    let records = place.bytes("records.jsonl");
    let prefixes = Prefixes::of(&place, &records);
    assert_eq!(prefixes.lines.len(), 1000);
    let half = |from: usize, to: usize| {
        for at in from..to {
            let mut line = prefixes.lines[at].to_vec();
            for byte in 0..line.len() {
                for bit in 0..8 {
                    line[byte] ^= 1 << bit;
                    let named = prefixes.named(at, &line);
                    assert_eq!(named, Some(at as u64), "byte {byte} bit {bit}: {}", String::from_utf8_lossy(&line));
                    line[byte] ^= 1 << bit;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| half(0, 500));
        half(500, 1000);
    });
}

#[tokio::test]
async fn every_flipped_bit_of_checkpoints_is_found() {
    for place in [closed(6).await, rotated(8).await] {
        let file = place.bytes("checkpoints");
        assert!(note::split(&file).0.len() >= 3);
        for (byte, kept) in file.iter().enumerate() {
            for bit in 0..8 {
                place.change("checkpoints", byte, kept ^ (1 << bit));
                let report = place.verify();
                assert_eq!(report.status, Status::Tampered, "byte {byte} bit {bit}");
                assert!(report.faults.iter().all(|fault| fault.file == "checkpoints"), "{report:?}");
            }
            place.change("checkpoints", byte, *kept);
        }
    }
}

#[tokio::test]
async fn every_flipped_bit_of_the_other_files_is_found() {
    let place = Place::new();
    drop(place.open());
    place.write("records.jsonl", &[&place.bytes("records.jsonl")[..], b"torn"].concat());
    place.open().close().await.unwrap();
    let names: Vec<_> = std::fs::read_dir(place.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(place.verify().is_intact());
    for name in ["journal.pub", "torn-1"] {
        let mut file = place.bytes(name);
        for byte in 0..file.len() {
            for bit in 0..8 {
                file[byte] ^= 1 << bit;
                place.write(name, &file);
                let report = place.verify();
                assert_eq!(report.status, Status::Tampered, "{name} byte {byte} bit {bit}");
                assert!(report.faults.iter().any(|fault| fault.file == name), "{report:?}");
                file[byte] ^= 1 << bit;
            }
        }
        place.write(name, &file);
    }
    // The lock says nothing about what happened.
    place.write("lock", b"whatever");
    assert!(place.verify().is_intact());
}

#[tokio::test]
async fn a_flipped_bit_on_disk_is_named_by_the_verifier_and_keeps_the_journal_shut() {
    for place in [closed(60).await, rotated(60).await] {
        one_flipped_bit(&place);
    }
}

fn one_flipped_bit(place: &Place) {
    let records = place.bytes("records.jsonl");
    let lines = lines(&records);
    let mut offset = 0;
    for (at, line) in lines.iter().enumerate() {
        // One bit in each third of the line, its end included.
        for within in [line.len() / 5, line.len() / 2, line.len() - 70, line.len() - 1] {
            let mut changed = records.clone();
            changed[offset + within] ^= 1;
            place.write("records.jsonl", &changed);
            let report = place.verify();
            assert_named(&report, at);
            // The first record also names the key; without its end a line takes the next with it.
            let more = at == 0 || within == line.len() - 1;
            assert!(report.faults.len() == 1 || more, "one change, one fault: {report:?}");
        }
        assert!(matches!(place.try_open(), Err(JournalError::Tampered { record, .. }) if record == Some(at as u64)));
        assert!(matches!(read(&place.dir()), Err(JournalError::Tampered { .. })));
        offset += line.len();
    }
}

#[tokio::test]
async fn dropped_repeated_and_swapped_records_are_named() {
    for place in [closed(40).await, rotated(40).await] {
        other_orders(&place);
    }
}

fn other_orders(place: &Place) {
    let records = place.bytes("records.jsonl");
    let lines = lines(&records);
    for at in 0..lines.len() {
        let mut dropped = lines.clone();
        dropped.remove(at);
        let report = with_records(place, &dropped);
        assert_named(&report, at);

        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        assert_named(&with_records(place, &repeated), at + 1);

        for other in [at + 1, at + 7] {
            if other < lines.len() {
                let mut swapped = lines.clone();
                swapped.swap(at, other);
                assert_named(&with_records(place, &swapped), at);
            }
        }
        let mut moved = lines.clone();
        let line = moved.remove(at);
        moved.push(line);
        let report = with_records(place, &moved);
        assert!(at + 1 == lines.len() || report.faults[0].record == Some(at as u64), "{report:?}");
    }
    let mut last_repeated = lines.clone();
    last_repeated.push(lines[39]);
    assert_named(&with_records(place, &last_repeated), 40);
}

#[tokio::test]
async fn records_of_another_journal_with_the_same_key_are_foreign() {
    let place = Place::new();
    let other = Place::new();
    fill(&other, 30).await;
    std::fs::copy(other.key(), place.key()).unwrap();
    fill(&place, 30).await;
    let (ours, theirs) = (place.bytes("records.jsonl"), other.bytes("records.jsonl"));
    let (ours, theirs) = (lines(&ours), lines(&theirs));
    for at in 1..30 {
        let mut spliced = ours.clone();
        spliced[at] = theirs[at];
        let report = with_records(&place, &spliced);
        assert_named(&report, at);
        assert!(report.faults[0].what.contains("belongs to the journal"), "{report:?}");
        let tail = [&ours[..at], &theirs[at..]].concat();
        assert_named(&with_records(&place, &tail), at);
    }
    // All of the other's records under our name, or its checkpoints.
    assert!(!with_records(&place, &theirs).is_intact());
    let copy = place.crashed();
    copy.write("checkpoints", &other.bytes("checkpoints"));
    assert!(!copy.verify().is_intact());
    copy.write("checkpoints", &[place.bytes("checkpoints"), other.bytes("checkpoints")].concat());
    assert!(!copy.verify().is_intact());
}

#[tokio::test]
async fn a_fork_does_not_fit_the_checkpoints_of_the_other_branch() {
    let trunk = closed(10).await;
    let (left, right) = (trunk.crashed(), trunk.crashed());
    for (branch, text) in [(&left, "left"), (&right, "right")] {
        let journal = branch.open();
        journal.append(plain(text)).await.unwrap();
        journal.append(sealing()).await.unwrap();
        journal.close().await.unwrap();
        assert!(branch.verify().is_intact());
    }
    let forked = left.crashed();
    forked.write("records.jsonl", &right.bytes("records.jsonl"));
    let report = forked.verify();
    assert_eq!(report.status, Status::Tampered);
    assert!(report.faults[0].record.is_some_and(|record| record >= 10), "{report:?}");
    assert_eq!(report.sealed, 10);
    // Both branches' checkpoints in one file.
    let both = left.crashed();
    let extra = right.bytes("checkpoints")[trunk.bytes("checkpoints").len()..].to_vec();
    both.write("checkpoints", &[left.bytes("checkpoints"), extra].concat());
    assert!(!both.verify().is_intact());
}

/// Writes records anew with one text changed and every link made to fit, as one who knows the format can.
fn rechained(records: &[u8], from: &str, to: &str) -> Vec<u8> {
    use sha2::{Digest as _, Sha256};
    let mut out = Vec::new();
    let mut prev = None;
    for line in lines(records) {
        let text = std::str::from_utf8(line).unwrap().trim_end().replacen(from, to, 1);
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        if let Some(prev) = prev {
            value["prev"] = serde_json::Value::String(prev);
        }
        let leaf = crate::canon::to_bytes(&value).unwrap();
        prev = Some(stockade_protocol::digest::to_hex(&Sha256::digest(&leaf)));
        out.extend(leaf);
        out.push(b'\n');
    }
    out
}

#[tokio::test]
async fn links_made_to_fit_do_not_fit_the_checkpoint_and_past_it_are_called_unsealed() {
    let place = Place::new();
    let journal = place.open();
    for text in ["alpha", "beta"] {
        journal.append(plain(text)).await.unwrap();
    }
    journal.append(sealing()).await.unwrap();
    journal.append(plain("gamma")).await.unwrap();
    journal.append(plain("delta")).await.unwrap();
    let crashed = place.crashed();
    let records = crashed.bytes("records.jsonl");
    assert_eq!(rechained(&records, "alpha", "alpha"), records);

    crashed.write("records.jsonl", &rechained(&records, "alpha", "omega"));
    let report = crashed.verify();
    assert_eq!(report.status, Status::Tampered);
    assert_eq!((report.faults[0].record, report.sealed), (Some(3), 1), "{report:?}");
    assert!(report.faults[0].what.contains("records 1 to 3"), "{report:?}");

    // Past the last checkpoint nothing outside the chain vouches for a record. The report says how many there are.
    crashed.write("records.jsonl", &rechained(&records, "gamma", "omega"));
    let report = crashed.verify();
    assert_eq!((report.status, report.sealed, report.unsealed), (Status::Unanchored, 4, 2), "{report:?}");
    // What breaks the chain there is found all the same.
    crashed.write("records.jsonl", String::from_utf8(records).unwrap().replace("gamma", "omega").as_bytes());
    assert_named(&crashed.verify(), 4);
}

#[tokio::test]
async fn a_cut_below_a_checkpoint_is_found() {
    for place in [closed(20).await, rotated(20).await] {
        let records = place.bytes("records.jsonl");
        let lines = lines(&records);
        for kept in 1..20 {
            let report = with_records(&place, &lines[..kept]);
            assert_named(&report, kept);
            assert!(report.faults[0].what.contains("missing"), "{report:?}");
            assert_eq!(report.faults.len(), 1, "{report:?}");
        }
        let report = with_records(&place, &[]);
        assert_eq!(report.status, Status::Tampered, "{report:?}");
        std::fs::remove_file(place.file("records.jsonl")).unwrap();
        assert_eq!(place.verify().status, Status::Tampered);
    }
}

#[tokio::test]
async fn another_key_is_found_wherever_it_was_put() {
    let place = closed(12).await;
    let secret = SigningKey::from_bytes(&[9; 32]);
    let forger = NoteKey::new(key_of(&place).name(), secret.verifying_key()).unwrap();
    // Every checkpoint signed anew by the forger.
    let mut forged = Vec::new();
    for bytes in note::split(&place.bytes("checkpoints")).0 {
        let checkpoint = Checkpoint::open(bytes, &key_of(&place)).unwrap();
        forged.extend_from_slice((checkpoint.sign(&forger, &secret) + "\n").as_bytes());
    }
    let copy = place.crashed();
    copy.write("checkpoints", &forged);
    assert!(copy.verify().faults.iter().all(|fault| fault.file == "checkpoints"));
    assert_eq!(copy.verify().status, Status::Tampered);
    // And the public key replaced: the first record names the other.
    copy.write("journal.pub", format!("{}\n", forger.to_text()).as_bytes());
    let report = copy.verify();
    assert_eq!((report.status, report.faults[0].file.as_str()), (Status::Tampered, "journal.pub"));
    // And the first record rewritten with all links: only the key itself tells, which the report prints.
    let records = place.bytes("records.jsonl");
    copy.write("records.jsonl", &rechained(&records, &key_of(&place).hex(), &forger.hex()));
    assert_eq!(copy.verify().status, Status::Tampered, "the roots were signed for other records");
    assert_eq!(place.verify().key.unwrap(), key_of(&place).hex());
    let seed = std::fs::read_to_string(place.key()).unwrap();
    let ours = SigningKey::from_bytes(&parse_hex(seed.trim_end()).unwrap());
    assert_eq!(place.verify().key.unwrap(), stockade_protocol::digest::to_hex(ours.verifying_key().as_bytes()));
}

#[tokio::test]
async fn what_does_not_belong_in_the_directory_is_named() {
    let place = closed(5).await;
    place.write("records.jsonl.bak", b"");
    let report = place.verify();
    assert_eq!((report.status, report.faults[0].file.as_str()), (Status::Tampered, "records.jsonl.bak"));
    std::fs::remove_file(place.file("records.jsonl.bak")).unwrap();
    assert!(place.verify().is_intact());
    std::fs::remove_file(place.file("journal.pub")).unwrap();
    assert_eq!(place.verify().status, Status::Tampered);
}

#[tokio::test]
async fn dropped_repeated_and_swapped_checkpoints_are_found_where_that_shows() {
    let place = closed(1000).await;
    let file = place.bytes("checkpoints");
    let notes: Vec<Vec<u8>> = note::split(&file).0.into_iter().map(|note| [note, b"\n"].concat()).collect();
    let report = |notes: &[Vec<u8>]| {
        let copy = place.crashed();
        copy.write("checkpoints", &notes.concat());
        copy.verify()
    };
    for at in 0..notes.len() - 1 {
        let mut swapped = notes.clone();
        swapped.swap(at, at + 1);
        assert_eq!(report(&swapped).status, Status::Tampered);
        let mut repeated = notes.clone();
        repeated.insert(at, notes[at].clone());
        assert_eq!(report(&repeated).status, Status::Tampered);
    }
    // Without its last checkpoints a journal is only less sealed, and says so.
    let shorter = report(&notes[..notes.len() - 1]);
    assert_eq!((shorter.status, shorter.unsealed), (Status::Unanchored, 1));
    assert_eq!(report(&[]).sealed, 0);
}

#[tokio::test]
async fn a_record_that_is_no_event_verifies_but_is_not_read() {
    // The chain is right, the bytes are canonical; a newer version may have written it.
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("known")).await.unwrap();
    let crashed = place.crashed();
    let records = crashed.bytes("records.jsonl");
    crashed.write("records.jsonl", &rechained(&records, "turn.prompted", "turn.sung"));
    assert!(crashed.verify().is_intact());
    assert!(matches!(read(&crashed.dir()), Err(JournalError::Event { record: 1, .. })));
    assert!(matches!(crashed.try_open(), Err(JournalError::Event { record: 1, .. })));
}

#[test]
fn nothing_is_no_journal() {
    let place = Place::new();
    assert_eq!(place.verify().status, Status::Unreadable);
    std::fs::create_dir(place.dir()).unwrap();
    assert_eq!(place.verify().status, Status::Unreadable);
    assert!(matches!(read(&place.dir()), Err(JournalError::Unreadable { .. })));
    std::fs::write(place.file("records.jsonl"), b"").unwrap();
    assert_eq!(place.verify().status, Status::Unreadable);
}

#[test]
fn a_file_of_one_endless_line_is_read_in_bounded_pieces() {
    let place = Place::new();
    std::fs::create_dir(place.dir()).unwrap();
    let file = std::fs::File::create(place.file("records.jsonl")).unwrap();
    file.set_len(3 * RECORD_BYTES as u64).unwrap();
    let report = place.verify();
    assert_eq!(report.records, 0);
    assert_eq!(report.torn_bytes, 3 * RECORD_BYTES as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_change_of_any_bytes_is_found(
        at in any::<prop::sample::Index>(), length in 0..40_usize, with in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let place = tokio::runtime::Runtime::new().unwrap().block_on(closed(8));
        let records = place.bytes("records.jsonl");
        let at = at.index(records.len());
        let mut changed = records.clone();
        changed.splice(at..(at + length).min(records.len()), with);
        prop_assume!(changed != records);
        place.write("records.jsonl", &changed);
        // Added behind the last checkpoint it is a torn end, whose bytes are counted.
        let report = place.verify();
        let only_added = changed.starts_with(&records);
        prop_assert!(report.status == Status::Tampered || only_added && report.torn_bytes + report.unsealed > 0, "{:?}", report);
    }

    #[test]
    fn arbitrary_files_do_not_panic(records in proptest::collection::vec(any::<u8>(), 0..300), checkpoints in proptest::collection::vec(any::<u8>(), 0..300), key in proptest::collection::vec(any::<u8>(), 0..200)) {
        let place = Place::new();
        std::fs::create_dir(place.dir()).unwrap();
        place.write("records.jsonl", &records);
        place.write("checkpoints", &checkpoints);
        place.write("journal.pub", &key);
        let report = place.verify();
        prop_assert!(report.status != Status::Unanchored || report.records == 0);
    }
}
