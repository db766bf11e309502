//! Another key: the journal goes on with it whatever happens on the way, a reader who knows only the first key can
//! follow, and a rotation that is not exactly one is found.

use super::tamper::{closed, key_of, rotated};
use super::*;
use crate::journal::verify::Status;
use crate::journal::writer::{Prepared, Writer};
use crate::ports::{Sink, SinkKind};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use proptest::prelude::*;
use stockade_protocol::digest::{parse_hex, to_hex};
use stockade_protocol::event::JournalEvent;

/// The public half of a key file.
fn public(path: &Path) -> String {
    to_hex(secret(path).verifying_key().as_bytes())
}

fn secret(path: &Path) -> SigningKey {
    SigningKey::from_bytes(&parse_hex(std::fs::read_to_string(path).unwrap().trim_end()).unwrap())
}

fn hex(key: &SigningKey) -> String {
    to_hex(key.verifying_key().as_bytes())
}

/// A journal of two records that was closed, and a writer on it that does what it is told.
async fn writer() -> (Place, Writer) {
    let place = Place::new();
    place.open().close().await.unwrap();
    let (writer, _, _) = open::open(&place.dir(), &place.key(), &ports()).unwrap();
    (place, writer)
}

fn assert_refused(place: &Place, file: &str, record: Option<u64>, what: &str) {
    let report = place.verify();
    assert_eq!(report.status, Status::Tampered, "{what}");
    let fault = &report.faults[0];
    assert_eq!((fault.file.as_str(), fault.record), (file, record), "{report:?}");
    assert!(fault.what.contains(what), "{what}: {report:?}");
    assert!(matches!(read(&place.dir()), Err(JournalError::Tampered { .. })));
    let before = place.bytes("records.jsonl");
    assert!(matches!(place.try_open(), Err(JournalError::Tampered { .. })));
    assert!(matches!(rotate_key(&place.dir(), &place.key(), &ports()), Err(JournalError::Tampered { .. })));
    assert_eq!(place.bytes("records.jsonl"), before);
    assert!(!place.next_key().exists());
}

#[tokio::test]
async fn a_journal_goes_on_with_the_new_key_and_the_first_one_still_verifies_all_of_it() {
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("before")).await.unwrap();
    journal.close().await.unwrap();
    let (trusted, first) = (place.bytes("journal.pub"), public(&place.key()));

    let one = place.rotate();
    assert_eq!((one.record, &one.old, &one.new), (3, &first, &public(&place.key())));
    assert_ne!(one.old, one.new);
    let (journal, opened) = place.try_open().unwrap();
    assert_eq!(opened, Opened { created: false, cut_bytes: 0, records: 5 });
    journal.append(plain("between")).await.unwrap();
    journal.close().await.unwrap();
    let two = place.rotate();
    assert_eq!((two.record, &two.old, &two.new), (7, &one.new, &public(&place.key())));
    place.open().close().await.unwrap();

    assert_eq!(place.bytes("journal.pub"), trusted, "what a reader trusts stays");
    assert!(!place.next_key().exists());
    assert_eq!(std::fs::metadata(place.key()).unwrap().permissions().mode() & 0o7777, 0o600);
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.unsealed, report.key), (10, 0, Some(first)));
    let later: Vec<_> = report.later_keys.into_iter().map(|later| (later.record, later.key)).collect();
    assert_eq!(later, [(3, one.new), (7, two.new)]);
    assert_eq!(read(&place.dir()).unwrap().len(), 10);
}

#[tokio::test]
async fn a_note_reader_that_is_not_ours_follows_from_the_first_key_alone() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest as _, Sha256};
    use signed_note::{Note, StandardVerifier, Verifier as _, VerifierList};
    let place = rotated(12).await;
    place.rotate();
    let (records, file) = (place.bytes("records.jsonl"), place.bytes("checkpoints"));
    let records = lines(&records);
    let trusted = String::from_utf8(place.bytes("journal.pub")).unwrap();
    let mut verifier = StandardVerifier::new(trusted.trim_end()).unwrap();
    let mut covered = 0;
    let mut followed = 0;
    for bytes in note::split(&file).0 {
        let note = Note::from_bytes(bytes).unwrap();
        let opens = |by: &StandardVerifier| note.verify(&VerifierList::new(vec![Box::new(by.clone())])).is_ok();
        if !opens(&verifier) {
            // The last record that the old key vouches for names the next one. Everything by hand.
            let record: serde_json::Value = serde_json::from_slice(records[covered - 1]).unwrap();
            assert_eq!(record["type"], "journal.key_rotated");
            let (body, member) = (&record["body"], |name: &str| record["body"][name].as_str().unwrap().to_owned());
            let journal = record["journal"].as_str().unwrap();
            let statement = format!(
                "stockade journal key rotation v1\n{journal}\n{}\n{}\n{}\n{}",
                record["seq"],
                record["prev"].as_str().unwrap(),
                member("old"),
                member("new")
            );
            for whose in ["old", "new"] {
                let key = VerifyingKey::from_bytes(&parse_hex(&member(whose)).unwrap()).unwrap();
                let signature = Signature::from_bytes(&parse_hex(&member(&format!("{whose}_signature"))).unwrap());
                key.verify_strict(statement.as_bytes(), &signature).unwrap();
            }
            let typed = [&[1][..], &parse_hex::<32>(&member("new")).unwrap()].concat();
            let id = Sha256::digest([verifier.name().as_bytes(), b"\n", &typed].concat());
            let text = format!("{}+{}+{}", verifier.name(), to_hex(&id[..4]), STANDARD.encode(&typed));
            verifier = StandardVerifier::new(&text).unwrap();
            assert!(opens(&verifier), "{body}");
            followed += 1;
        }
        covered = std::str::from_utf8(note.text()).unwrap().lines().nth(1).unwrap().parse().unwrap();
    }
    assert_eq!((covered, followed), (records.len(), 2));
}

/// `old`, `new`, `old_signature` and `new_signature` of a rotation.
type Said = [String; 4];

fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

fn last(writer: &Writer) -> &str {
    std::str::from_utf8(writer.chain.last()).unwrap()
}

fn said(journal: &str, seq: u64, prev: &str, from: &SigningKey, to: &SigningKey) -> Said {
    match rotation::record(journal, seq, prev, from, to) {
        JournalEvent::KeyRotated { old, new, old_signature, new_signature } => [old, new, old_signature, new_signature],
        other => panic!("{other:?}"),
    }
}

/// A rotation that is right where the writer stands.
fn good(writer: &Writer) -> Said {
    said(&writer.journal, writer.chain.count(), last(writer), &writer.secret, &key(1))
}

/// A stranger's signature over the right statement.
fn strangers(writer: &Writer) -> String {
    let [old, new, ..] = good(writer);
    let text = rotation::statement(&writer.journal, writer.chain.count(), last(writer), &old, &new);
    to_hex(&key(2).sign(text.as_bytes()).to_bytes())
}

#[tokio::test]
async fn a_rotation_that_is_not_signed_by_both_for_this_place_is_named() {
    const OLD: &str = "the old key's signature of the rotation is wrong";
    const NEW: &str = "the new key's signature of the rotation is wrong";
    type Case = (fn(&Writer, &mut Said), &'static str);
    let cases: [Case; 14] = [
        (|writer, said| said[2] = strangers(writer), OLD),
        (|writer, said| said[3] = strangers(writer), NEW),
        (|_, said| said.swap(2, 3), OLD),
        (|_, said| said[3] = said[2].clone(), NEW),
        (|_, said| said[2].clear(), "the old key's signature of the rotation is malformed"),
        (|_, said| said[3].truncate(64), "the new key's signature of the rotation is malformed"),
        (|_, said| said[3].make_ascii_uppercase(), "the new key's signature of the rotation is malformed"),
        // Another new key under both signatures, and another old one.
        (|_, said| said[1] = hex(&key(2)), OLD),
        (|writer, said| *said = self::said(&writer.journal, 3, last(writer), &key(2), &key(1)), "is in force"),
        (|_, said| said[1] = "zz".repeat(32), "is no public key"),
        (|writer, said| *said = self::said(&writer.journal, 3, last(writer), &writer.secret, &writer.secret), "before"),
        // Good signatures for another place: another position, another past, another journal.
        (|writer, said| *said = self::said(&writer.journal, 4, last(writer), &writer.secret, &key(1)), OLD),
        (|writer, said| *said = self::said(&writer.journal, 3, &"0".repeat(64), &writer.secret, &key(1)), OLD),
        (|writer, said| *said = self::said(&"0".repeat(32), 3, last(writer), &writer.secret, &key(1)), OLD),
    ];
    for (change, what) in cases {
        let (place, mut writer) = writer().await;
        writer.append_now(prepare::of_journal(JournalEvent::Closed {}).unwrap()).unwrap();
        let mut said = good(&writer);
        change(&writer, &mut said);
        let [old, new, old_signature, new_signature] = said;
        let event = JournalEvent::KeyRotated { old, new, old_signature, new_signature };
        // Chain and checkpoint are right; only the rotation is not.
        assert_eq!(writer.append_now(prepare::of_journal(event).unwrap()).unwrap(), 3);
        drop(writer);
        assert_refused(&place, "records.jsonl", Some(3), what);
    }
}

#[tokio::test]
async fn a_rotation_without_one_of_its_signatures_is_named() {
    for missing in ["old", "new", "old_signature", "new_signature"] {
        let (place, mut writer) = writer().await;
        let [old, new, old_signature, new_signature] = good(&writer);
        let event = JournalEvent::KeyRotated { old, new, old_signature, new_signature };
        let Prepared { places, kind, body, event } = prepare::of_journal(event).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        value.as_object_mut().unwrap().remove(missing).unwrap();
        let body = crate::canon::to_bytes(&value).unwrap();
        writer.append_now(Prepared { places, kind, body, event }).unwrap();
        drop(writer);
        assert_refused(&place, "records.jsonl", Some(2), missing);
    }
}

#[tokio::test]
async fn a_checkpoint_by_a_key_that_is_not_in_force_is_named() {
    let closed = || prepare::of_journal(JournalEvent::Closed {}).unwrap();
    let begins = |place: &Place, from_end: usize| {
        let file = place.bytes("checkpoints");
        let tail: usize = note::split(&file).0.iter().rev().take(from_end).map(|note| note.len() + 1).sum();
        format!("byte {}: ", file.len() - tail)
    };
    // By the old key after the rotation.
    let (place, mut old) = writer().await;
    let given_up = old.secret.clone();
    old.rotate(key(1)).unwrap();
    old.append_now(closed()).unwrap();
    assert!(place.verify().is_intact());
    old.replace(given_up).unwrap();
    old.append_now(closed()).unwrap();
    drop(old);
    let what = begins(&place, 1) + "it is signed by a key that was given up before";
    assert_refused(&place, "checkpoints", None, &what);

    // By the new key over the rotation itself, which only the old one can vouch for.
    let (place, mut new) = writer().await;
    let event = rotation::record(&new.journal, 2, last(&new), &new.secret, &key(1));
    new.replace(key(1)).unwrap();
    new.append_now(prepare::of_journal(event).unwrap()).unwrap();
    new.append_now(closed()).unwrap();
    drop(new);
    let what = begins(&place, 2) + "it is signed by a key that is not in force yet";
    assert_refused(&place, "checkpoints", None, &what);

    // By nobody's key.
    let (place, mut stranger) = writer().await;
    stranger.rotate(key(1)).unwrap();
    stranger.replace(key(2)).unwrap();
    stranger.append_now(closed()).unwrap();
    drop(stranger);
    let what = begins(&place, 1) + "it is signed by no key of this journal";
    assert_refused(&place, "checkpoints", None, &what);
}

#[tokio::test]
async fn the_old_keys_checkpoint_over_a_rotation_cannot_be_left_out() {
    let place = rotated(8).await;
    let file = place.bytes("checkpoints");
    let notes = note::split(&file).0;
    let name = key_of(&place).name().to_owned();
    let over = |note: &[u8]| note::Signed::read(note, &name).unwrap().checkpoint.size;
    let seal = notes.iter().position(|note| over(note) == 5).unwrap();
    assert!(notes.len() > seal + 1);
    let without: Vec<u8> = notes
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != seal)
        .flat_map(|(_, note)| [note, &b"\n"[..]].concat())
        .collect();
    place.write("checkpoints", &without);
    assert_refused(&place, "checkpoints", Some(4), "the old key's checkpoint over the rotation is missing");
    // With all behind it left out too, the journal is only less sealed, and only the old key could seal it.
    let before: Vec<u8> = notes[..seal].iter().flat_map(|note| [note, &b"\n"[..]].concat()).collect();
    place.write("checkpoints", &before);
    let report = place.verify();
    assert_eq!((report.status, report.sealed, report.unsealed), (Status::Unanchored, 4, 4));
    let new = public(&place.key());
    match place.try_open() {
        Err(JournalError::WrongKey { expected, found }) => assert_eq!((Some(expected), found), (report.key, new)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_flipped_bit_of_a_rotation_is_named() {
    let place = rotated(8).await;
    let records = place.bytes("records.jsonl");
    let at = lines(&records)[..4].iter().map(|line| line.len()).sum::<usize>();
    let end = at + lines(&records)[4].len();
    for (byte, kept) in records.iter().enumerate().take(end).skip(at) {
        for bit in 0..8 {
            place.change("records.jsonl", byte, kept ^ (1 << bit));
            let report = place.verify();
            assert_eq!(report.status, Status::Tampered);
            let ours = |fault: &verify::Fault| fault.file == "records.jsonl" && fault.record >= Some(4);
            assert_eq!(report.faults[0].record, Some(4), "byte {byte} bit {bit}: {report:?}");
            assert!(report.faults.iter().all(ours), "one change does not look like many: {report:?}");
        }
        place.change("records.jsonl", byte, *kept);
    }
}

/// What lies on disk at one moment.
struct Shot {
    place: Place,
    what: String,
}

/// Keeps what a crash would have left, before and after each write, with parts of it, and after each sync.
struct Watched {
    inner: Box<dyn Sink>,
    name: &'static str,
    of: Arc<Place>,
    shots: Arc<Mutex<Vec<Shot>>>,
}

impl Watched {
    fn shot(&self, what: &str, more: &[u8]) {
        let place = self.of.crashed();
        place.write(self.name, &[&place.bytes(self.name)[..], more].concat());
        self.shots.lock().unwrap().push(Shot { place, what: format!("{} {what}", self.name) });
    }
}

impl Sink for Watched {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            self.shot(&format!("{cut} of {} bytes written", bytes.len()), &bytes[..cut]);
        }
        let taken = self.inner.write(bytes);
        self.shot("written", b"");
        taken
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.inner.sync()?;
        self.shot("durable", b"");
        Ok(())
    }
}

#[tokio::test]
async fn a_crash_at_any_moment_of_a_rotation_leaves_a_journal_that_opens_with_one_of_the_keys() {
    let place = Arc::new(Place::new());
    let journal = place.open();
    journal.append(plain("before")).await.unwrap();
    drop(journal);
    let all = read(&place.dir()).unwrap();
    let shots = Arc::new(Mutex::new(Vec::new()));
    let before = place.crashed();
    let rotated = {
        let (of, shots) = (place.clone(), shots.clone());
        let watch = move |kind, inner| -> Box<dyn Sink> {
            let name = if kind == SinkKind::Records { "records.jsonl" } else { "checkpoints" };
            Box::new(Watched { inner, name, of: of.clone(), shots: shots.clone() })
        };
        rotate_key(&place.dir(), &place.key(), &ports().journal_through(watch)).unwrap()
    };
    let mut shots = std::mem::take(&mut *shots.lock().unwrap());
    assert!(shots.len() > 20, "{}", shots.len());
    let of = |shots: &[Shot], key: &str, next: bool| {
        shots.iter().filter(|shot| public(&shot.place.key()) == key && shot.place.next_key().exists() == next).count()
    };
    assert!(of(&shots, &rotated.old, false) > 0 && of(&shots, &rotated.old, true) > 10);
    assert!(of(&shots, &rotated.new, false) > 5);
    for shot in &shots {
        let named = String::from_utf8_lossy(&shot.place.bytes("records.jsonl")).contains("journal.key_rotated");
        assert!(
            !named || of(std::slice::from_ref(shot), &rotated.old, false) == 0,
            "{}: recorded before it was kept",
            shot.what
        );
    }
    // While the next key is written, and where nothing but that was done.
    for (name, bytes) in [("journal.key.next.new", &b"0123"[..]), ("journal.key.next.new", b"")] {
        let place = before.crashed();
        std::fs::write(place.root.path().join(name), bytes).unwrap();
        shots.push(Shot { place, what: name.to_owned() });
    }
    for Shot { place, what } in shots {
        let lines_before = place.bytes("records.jsonl");
        let recorded = lines(&lines_before)
            .iter()
            .any(|line| line.ends_with(b"\n") && String::from_utf8_lossy(line).contains("\"journal.key_rotated\""));
        assert!(place.verify().is_intact(), "{what}: {:?}", place.verify());
        let (journal, _) = place.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(journal.events().pull(0, all.len()), all, "{what}");
        let now = public(&place.key());
        assert_eq!(&now, if recorded { &rotated.new } else { &rotated.old }, "{what}");
        assert!(!place.next_key().exists(), "{what}");
        let opened = place.crashed().verify();
        assert!(opened.is_intact() && opened.unsealed == 0, "{what}: {opened:?}");
        journal.append(plain("after")).await.unwrap();
        journal.close().await.unwrap();
        let again = place.rotate();
        assert_eq!(again.old, now);
        let report = place.verify();
        assert!(report.is_intact(), "{what}: {report:?}");
        assert_eq!((report.unsealed, report.later_keys.len()), (0, 1 + usize::from(recorded)), "{what}");
        assert_eq!(std::fs::read_dir(place.root.path()).unwrap().count(), 2, "{what}");
    }
}

#[tokio::test]
async fn what_is_in_use_missing_or_damaged_is_not_given_another_key() {
    let place = Place::new();
    assert!(matches!(rotate_key(&place.dir(), &place.key(), &ports()), Err(JournalError::Unreadable { .. })));
    assert!(!place.dir().exists() && !place.key().exists());
    let journal = place.open();
    let before = (place.bytes("records.jsonl"), std::fs::read(place.key()).unwrap());
    match rotate_key(&place.dir(), &place.key(), &ports()) {
        Err(JournalError::Busy { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    assert_eq!((place.bytes("records.jsonl"), std::fs::read(place.key()).unwrap()), before);
    assert!(!place.next_key().exists());
    journal.close().await.unwrap();
    std::fs::set_permissions(place.key(), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(rotate_key(&place.dir(), &place.key(), &ports()), Err(JournalError::Key { .. })));
    assert!(!place.next_key().exists());
}

#[tokio::test]
async fn who_has_a_key_that_was_given_up_cannot_go_on_and_a_fork_from_before_shows_another_key() {
    let place = closed(6).await;
    let thief = place.crashed();
    let real = place.rotate();
    // Behind the rotation the stolen key is good for nothing.
    let kept = std::fs::read(place.key()).unwrap();
    std::fs::copy(thief.key(), place.key()).unwrap();
    match place.try_open() {
        Err(JournalError::WrongKey { expected, found }) => assert_eq!((expected, found), (real.new.clone(), real.old)),
        other => panic!("{other:?}"),
    }
    std::fs::write(place.key(), kept).unwrap();
    // Before it, it can do all that its owner could. Only the key in force tells, which the report names.
    let forged = thief.rotate();
    let (ours, theirs) = (place.verify(), thief.verify());
    assert!(ours.is_intact() && theirs.is_intact());
    assert_eq!(ours.key, theirs.key);
    assert_eq!(ours.later_keys.last().unwrap().key, real.new);
    assert_eq!(theirs.later_keys.last().unwrap().key, forged.new);
    assert_ne!(forged.new, real.new);
}

/// What somebody does with a journal.
#[derive(Debug, Clone, Copy)]
enum Act {
    Plain,
    Sealing,
    Reopen,
    Crash,
    Rotate,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_course_of_a_journal_with_rotations_verifies_and_is_read_whole(
        acts in proptest::collection::vec(
            prop_oneof![Just(Act::Plain), Just(Act::Sealing), Just(Act::Reopen), Just(Act::Crash), Just(Act::Rotate)], 1..14,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let (mut place, mut keys, mut written) = (Place::new(), Vec::new(), 0);
        let mut journal = Some(place.open());
        let first = public(&place.key());
        for act in acts {
            let open = journal.take().unwrap();
            match act {
                Act::Plain => drop(runtime.block_on(open.append(plain("x"))).unwrap()),
                Act::Sealing => drop(runtime.block_on(open.append(sealing())).unwrap()),
                Act::Reopen | Act::Rotate => runtime.block_on(open.close()).unwrap(),
                Act::Crash => place = place.crashed(),
            }
            written += usize::from(matches!(act, Act::Plain | Act::Sealing));
            drop(open);
            if matches!(act, Act::Rotate) {
                keys.push(place.rotate().new);
            }
            journal = Some(place.open());
        }
        drop(journal);
        let report = place.verify();
        prop_assert!(report.is_intact(), "{:?}", report);
        prop_assert_eq!(report.key.unwrap(), first);
        prop_assert_eq!(report.later_keys.into_iter().map(|later| later.key).collect::<Vec<_>>(), keys);
        let read = read(&place.dir()).unwrap();
        let ours = read.iter().filter(|envelope| !matches!(envelope.event, Event::Journal(_))).count();
        prop_assert_eq!((read.len() as u64, ours), (report.records, written));
    }
}
