//! Crashes: a torn end is cut, kept and recorded; anything else that is wrong is not repaired.

use super::*;
use proptest::prelude::*;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::JournalEvent;

/// A journal of eight records, the last three of which are not sealed. It was not closed.
async fn unsealed() -> Place {
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("one")).await.unwrap();
    journal.append(plain("two")).await.unwrap();
    journal.append(plain("three")).await.unwrap();
    journal.append(sealing()).await.unwrap();
    for text in ["four", "five", "six"] {
        journal.append(plain(text)).await.unwrap();
    }
    let crashed = place.crashed();
    let report = crashed.verify();
    assert_eq!((report.records, report.sealed, report.unsealed), (8, 5, 3), "{report:?}");
    crashed
}

/// Opens after a crash; returns how many records of before are there, after checking that what was cut is accounted
/// for and that the journal is whole again.
async fn repaired(place: &Place) -> usize {
    let before: Vec<Vec<u8>> = ["records.jsonl", "checkpoints"].map(|name| place.bytes(name)).into();
    let kept_before = place.file("torn-1").exists();
    let (journal, opened) = place.try_open().unwrap();
    let records = journal.events().pull(0, usize::MAX);
    let cuts: Vec<_> = records
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::Journal(JournalEvent::Recovered { file, kept, cut_bytes, cut_sha256 }) => {
                let bytes = place.bytes(kept);
                assert_eq!((bytes.len() as u64, Digest::of(&bytes)), (*cut_bytes, *cut_sha256));
                Some((file.clone(), bytes))
            }
            _ => None,
        })
        .collect();
    assert_eq!(cuts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>(), opened.cut_bytes);
    for (file, bytes) in &cuts {
        let old = &before[usize::from(file == "checkpoints")];
        assert!(old.ends_with(bytes) || kept_before, "what was kept was there");
    }
    journal.append(plain("after")).await.unwrap();
    journal.close().await.unwrap();
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.unsealed, report.torn_bytes), (0, 0));
    assert_eq!(read(&place.dir()).unwrap().len() as u64, report.records);
    records.len() - cuts.len()
}

#[tokio::test]
async fn an_end_torn_anywhere_after_the_checkpoint_is_cut_and_kept() {
    let whole = unsealed().await;
    let records = whole.bytes("records.jsonl");
    let sealed: usize = lines(&records)[..5].iter().map(|line| line.len()).sum();
    let mut ends = vec![sealed];
    ends.extend(lines(&records)[5..].iter().scan(sealed, |end, line| {
        *end += line.len();
        Some(*end)
    }));
    for cut in (sealed..=records.len()).step_by(17).chain(ends.clone()).chain(ends[1..].iter().map(|end| end - 1)) {
        let place = whole.crashed();
        place.write("records.jsonl", &records[..cut]);
        let kept = ends.iter().filter(|end| **end <= cut).count() - 1;
        let verified = place.verify();
        assert!(verified.is_intact(), "a torn end is no fault: {verified:?}");
        assert_eq!(verified.torn_bytes, (cut - ends[kept]) as u64);
        assert_eq!(repaired(&place).await, 5 + kept, "cut at {cut}");
    }
}

#[tokio::test]
async fn torn_bytes_of_any_kind_are_cut() {
    let whole = unsealed().await;
    let records = whole.bytes("records.jsonl");
    let line = lines(&records)[7].to_vec();
    for tail in [
        b"x".to_vec(),
        b"\n".to_vec(),
        b"{}\n".to_vec(),
        b"{\"body\":{}\n\n\nmore\n".to_vec(),
        vec![0; 5000],
        vec![255; 70],
        [&line[40..], b"half of\n", &line[..90]].concat(),
    ] {
        let place = whole.crashed();
        place.write("records.jsonl", &[&records[..], &tail].concat());
        assert_eq!(repaired(&place).await, 8, "{tail:?}");
    }
}

#[tokio::test]
async fn a_bad_record_with_good_ones_behind_it_is_no_torn_end() {
    let whole = unsealed().await;
    let records = whole.bytes("records.jsonl");
    for (at, change) in [(5, "{"), (6, "x"), (2, "{"), (0, " ")] {
        let place = whole.crashed();
        let mut changed: Vec<Vec<u8>> = lines(&records).into_iter().map(<[u8]>::to_vec).collect();
        changed[at].splice(0..1, change.bytes().chain(*b"?"));
        place.write("records.jsonl", &changed.concat());
        match place.try_open() {
            Err(JournalError::Tampered { record, file, .. }) => {
                assert_eq!((record, file.as_str()), (Some(at as u64), "records.jsonl"));
            }
            other => panic!("{at}: {other:?}"),
        }
        let report = place.verify();
        assert_eq!(report.faults[0].record, Some(at as u64), "{report:?}");
        assert_eq!(place.bytes("records.jsonl"), changed.concat(), "and nothing was touched");
    }
}

#[tokio::test]
async fn a_sealed_record_is_never_cut() {
    let whole = unsealed().await;
    let records = whole.bytes("records.jsonl");
    let sealed: usize = lines(&records)[..5].iter().map(|line| line.len()).sum();
    for cut in [0, 1, sealed / 2, sealed - 200, sealed - 1] {
        let place = whole.crashed();
        place.write("records.jsonl", &records[..cut]);
        assert!(matches!(place.try_open(), Err(JournalError::Tampered { .. })), "cut at {cut}");
        assert!(!place.verify().is_intact());
        assert!(matches!(read(&place.dir()), Err(JournalError::Tampered { .. })));
    }
}

#[tokio::test]
async fn a_checkpoint_torn_anywhere_is_cut_and_kept() {
    let whole = unsealed().await;
    let checkpoints = whole.bytes("checkpoints");
    let last = note::split(&checkpoints).0.last().unwrap().len() + 1;
    let start = checkpoints.len() - last;
    for cut in (start..checkpoints.len()).step_by(7).chain([start, checkpoints.len() - 1, checkpoints.len() - 2]) {
        let place = whole.crashed();
        place.write("checkpoints", &checkpoints[..cut]);
        assert!(place.verify().is_intact());
        assert_eq!(repaired(&place).await, 8, "cut at {cut}");
    }
    // Both torn.
    let place = whole.crashed();
    place.write("checkpoints", &checkpoints[..start + 70]);
    let records = whole.bytes("records.jsonl");
    place.write("records.jsonl", &records[..records.len() - 9]);
    assert_eq!(repaired(&place).await, 7);
    assert!(place.file("torn-1").exists() && place.file("torn-2").exists());
    // Whole but wrong.
    let place = whole.crashed();
    let mut changed = checkpoints.clone();
    changed[start + last - 10] ^= 1;
    place.write("checkpoints", &changed);
    assert!(matches!(place.try_open(), Err(JournalError::Tampered { .. })));
}

#[tokio::test]
async fn a_crash_while_repairing_loses_nothing() {
    let whole = unsealed().await;
    let records = whole.bytes("records.jsonl");
    let (good, torn) = records.split_at(records.len() - 20);
    let start = records.len() - lines(&records)[7].len();
    let torn_bytes = &records[start..good.len()];
    assert_eq!(torn.len(), 20);
    // Kept, not cut yet.
    let place = whole.crashed();
    place.write("records.jsonl", good);
    place.write("torn-1", torn_bytes);
    assert_eq!(repaired(&place).await, 7);
    assert!(!place.file("torn-2").exists(), "kept once");
    // Cut, not recorded yet.
    let place = whole.crashed();
    place.write("records.jsonl", &records[..start]);
    place.write("torn-1", torn_bytes);
    assert!(place.verify().is_intact());
    assert_eq!(repaired(&place).await, 7);
    // Not kept whole yet.
    let place = whole.crashed();
    place.write("records.jsonl", good);
    place.write("torn-1.new", &torn_bytes[..5]);
    assert!(place.verify().is_intact());
    assert_eq!(repaired(&place).await, 7);
    assert!(!place.file("torn-1.new").exists());
    // The next crash gets a file of its own.
    let again = place.crashed();
    again.write("records.jsonl", &[&again.bytes("records.jsonl")[..], b"torn again"].concat());
    let (journal, opened) = again.try_open().unwrap();
    assert_eq!(opened.cut_bytes, 10);
    journal.close().await.unwrap();
    assert_eq!(again.bytes("torn-2"), b"torn again");
    assert!(again.verify().is_intact());
}

#[tokio::test]
async fn a_crash_at_any_moment_of_creation_leaves_what_can_be_opened() {
    let place = Place::new();
    let journal = place.open();
    let created = place.crashed();
    drop(journal);
    let records = created.bytes("records.jsonl");
    let checkpoints = created.bytes("checkpoints");
    assert_eq!(lines(&records).len(), 1);
    let crash = |records: Option<&[u8]>, checkpoints: Option<&[u8]>, public: bool, key: bool| {
        let place = created.crashed();
        for (name, bytes) in [("records.jsonl", records), ("checkpoints", checkpoints)] {
            match bytes {
                Some(bytes) => place.write(name, bytes),
                None => std::fs::remove_file(place.file(name)).unwrap(),
            }
        }
        if !public {
            std::fs::remove_file(place.file("journal.pub")).unwrap();
        }
        if !key {
            std::fs::remove_file(place.key()).unwrap();
        }
        place
    };
    let mut places =
        vec![crash(None, None, false, false), crash(None, None, false, true), crash(None, None, true, true)];
    for cut in (0..records.len()).step_by(40) {
        places.push(crash(Some(&records[..cut]), Some(b""), true, true));
    }
    for cut in (0..checkpoints.len()).step_by(40) {
        places.push(crash(Some(&records), Some(&checkpoints[..cut]), true, true));
    }
    for place in places {
        let (journal, _) = place.try_open().unwrap();
        journal.append(plain("first")).await.unwrap();
        journal.close().await.unwrap();
        let report = place.verify();
        assert!(report.is_intact(), "{report:?}");
        assert!(report.records >= 3);
    }
    // A whole first record without the public key is no interrupted creation.
    assert!(matches!(crash(Some(&records), None, false, true).try_open(), Err(JournalError::Tampered { .. })));
    assert!(matches!(crash(None, Some(&checkpoints), true, true).try_open(), Err(JournalError::Tampered { .. })));
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_a_prefix_that_holds_everything_acknowledged() {
    let place = Place::new();
    let (ports, log) = super::sink::logged();
    let (journal, _) = Journal::open(&place.dir(), &place.key(), Redactor::standard(), ports).unwrap();
    for n in 0..12 {
        let entry = if n % 4 == 3 { sealing() } else { plain(&format!("{n}")) };
        if n % 3 == 0 { journal.append_soon(entry).await } else { journal.append(entry).await }.unwrap();
    }
    journal.close().await.unwrap();
    let all = read(&place.dir()).unwrap();
    let writes = log.writes();
    assert!(writes.len() > 12);
    let (mut records, mut checkpoints) = (Vec::new(), Vec::new());
    for (to_records, bytes) in writes {
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let crashed = place.crashed();
            let torn = &bytes[..cut];
            crashed.write("records.jsonl", &[&records[..], if to_records { torn } else { b"" }].concat());
            crashed.write("checkpoints", &[&checkpoints[..], if to_records { b"" } else { torn }].concat());
            if records.is_empty() {
                // Creation, tested on its own.
                continue;
            }
            let whole = lines(&records).len();
            let (journal, _) = crashed.try_open().unwrap();
            assert_eq!(journal.events().pull(0, whole), all[..whole], "everything written before is there");
            journal.close().await.unwrap();
            let report = crashed.verify();
            assert!(report.is_intact(), "{report:?}");
        }
        if to_records { records.extend(bytes) } else { checkpoints.extend(bytes) }
    }
    assert_eq!(records, place.bytes("records.jsonl"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_truncation_recovers_a_prefix_or_is_refused(cut in any::<prop::sample::Index>(), garbage in proptest::collection::vec(any::<u8>(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = unsealed().await;
            let all = read(&place.dir()).unwrap();
            let records = place.bytes("records.jsonl");
            let sealed: usize = lines(&records)[..5].iter().map(|line| line.len()).sum();
            let cut = cut.index(records.len() + 1);
            place.write("records.jsonl", &[&records[..cut], &garbage].concat());
            match place.try_open() {
                Ok((journal, _)) => {
                    assert!(cut >= sealed || [&records[..cut], &garbage].concat().starts_with(&records[..sealed]));
                    let kept = journal.events().pull(0, 8);
                    let kept: Vec<_> = kept.into_iter().take_while(|e| !matches!(e.event, Event::Journal(JournalEvent::Recovered { .. }))).collect();
                    assert!(all.starts_with(&kept));
                    let whole = lines(&records).iter().scan(0, |end, line| { *end += line.len(); Some(*end) }).filter(|end| *end <= cut).count();
                    assert!(kept.len() >= whole);
                    journal.close().await.unwrap();
                    assert!(place.verify().is_intact());
                }
                Err(JournalError::Tampered { .. }) => assert!(cut < sealed),
                Err(other) => panic!("{other:?}"),
            }
        });
    }
}
