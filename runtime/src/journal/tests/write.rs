//! Writing: order, durability, durations, closing, and what other programs make of the files.

use super::*;
use crate::journal::verify::Status;
use std::time::Duration;

#[tokio::test]
async fn what_is_appended_is_there_in_order_live_and_read_back() {
    let place = Place::new();
    let (journal, opened) = place.try_open().unwrap();
    assert_eq!(opened, Opened { created: true, cut_bytes: 0, records: 1 });
    for n in 0..5 {
        assert_eq!(journal.append(plain(&format!("n{n}"))).await.unwrap(), n + 1);
    }
    assert_eq!(journal.append(sealing()).await.unwrap(), 6);
    let live = journal.events().pull(0, 100);
    assert_eq!(live.len(), 7);
    assert_eq!(journal.events().pull(2, 2).iter().map(|e| e.seq).collect::<Vec<_>>(), [2, 3]);
    assert!(journal.events().pull(99, 5).is_empty());
    // Read while the writer has it open.
    assert_eq!(read(&place.dir()).unwrap(), live);
    journal.close().await.unwrap();
    let read = read(&place.dir()).unwrap();
    assert_eq!(read.len(), 8);
    assert_eq!(read[..7], live[..]);
    assert_eq!(text_of(&read[3]), "n2");
    assert_eq!(read[6].call, Some(call()));

    let report = place.verify();
    assert_eq!(report.status, Status::Unanchored, "{report:?}");
    assert_eq!((report.records, report.sealed, report.unsealed, report.torn_bytes), (8, 8, 0, 0));
    assert!(report.is_intact());
    assert!(report.origin.unwrap().starts_with("stockade.local/"));
}

#[tokio::test]
async fn a_journal_goes_on_where_it_was_left() {
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("first")).await.unwrap();
    journal.close().await.unwrap();
    let (journal, opened) = place.try_open().unwrap();
    assert_eq!(opened, Opened { created: false, cut_bytes: 0, records: 3 });
    assert_eq!(journal.events().len(), 3, "the list begins with what was there");
    assert_eq!(journal.append(plain("second")).await.unwrap(), 3);
    journal.close().await.unwrap();
    assert_eq!(read(&place.dir()).unwrap().len(), 5);
    assert!(place.verify().is_intact());
}

#[tokio::test]
async fn closing_refuses_what_comes_later_and_lets_go_at_once() {
    let place = Place::new();
    let journal = place.open();
    let events = journal.events();
    journal.close().await.unwrap();
    journal.close().await.unwrap();
    assert!(matches!(journal.append(plain("late")).await, Err(JournalError::Closed)));
    assert_eq!(events.changed(2).await, None, "waiters learn that no more comes");
    assert_eq!(events.changed(1).await, Some(2));
    let _next = place.open();
}

#[tokio::test]
async fn a_second_writer_is_told_who_has_it_and_dropping_lets_go() {
    let place = Place::new();
    let journal = place.open();
    match place.try_open() {
        Err(JournalError::Busy { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    journal.append_soon(plain("kept")).await.unwrap();
    drop(journal);
    let journal = place.open();
    assert_eq!(text_of(&journal.events().pull(1, 1)[0]), "kept");
}

#[tokio::test]
async fn waiters_wake_when_a_record_comes() {
    let place = Place::new();
    let journal = place.open();
    let events = journal.events();
    let waiter = tokio::spawn(async move { events.changed(1).await });
    journal.append_soon(plain("wake")).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_appenders_get_every_number_once_and_keep_their_own_order() {
    let place = Place::new();
    let journal = place.open();
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let mut seqs = Vec::new();
                for n in 0..50 {
                    let entry = plain(&format!("{task}:{n}"));
                    let seq = if n % 3 == 0 { journal.append(entry).await } else { journal.append_soon(entry).await };
                    seqs.push(seq.unwrap());
                }
                seqs
            })
        })
        .collect();
    let mut all = Vec::new();
    for (task, seqs) in tasks.into_iter().enumerate() {
        let seqs = seqs.await.unwrap();
        assert!(seqs.is_sorted(), "{seqs:?}");
        for (n, seq) in seqs.iter().enumerate() {
            let there = &journal.events().pull(*seq, 1)[0];
            assert_eq!((there.seq, text_of(there)), (*seq, format!("{task}:{n}").as_str()));
        }
        all.extend(seqs);
    }
    all.sort_unstable();
    assert_eq!(all, (1..=800).collect::<Vec<_>>());
    journal.close().await.unwrap();
    let report = place.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.unsealed), (802, 0));
}

#[tokio::test]
async fn checkpoints_follow_what_must_be_sealed_and_every_so_many_records() {
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("a")).await.unwrap();
    let copy = place.crashed();
    assert_eq!((copy.verify().sealed, copy.verify().unsealed), (1, 1));
    journal.append(sealing()).await.unwrap();
    // The seal is the next thing after the answer; closing an empty queue waits for it.
    journal.append(plain("b")).await.unwrap();
    let copy = place.crashed();
    assert_eq!((copy.verify().sealed, copy.verify().unsealed), (3, 1));
    for n in 0..1100 {
        journal.append_soon(plain(&n.to_string())).await.unwrap();
    }
    journal.append(plain("c")).await.unwrap();
    let sealed = place.crashed().verify().sealed;
    assert!(sealed >= 1027, "{sealed}");
    journal.close().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_is_accepted_by_a_note_reader_that_is_not_ours() {
    use signed_note::{Note, StandardVerifier, VerifierList};
    let place = Place::new();
    let journal = place.open();
    journal.append(sealing()).await.unwrap();
    journal.close().await.unwrap();
    let vkey = String::from_utf8(place.bytes("journal.pub")).unwrap();
    let verifier = StandardVerifier::new(vkey.trim_end()).unwrap();
    let file = place.bytes("checkpoints");
    let (notes, rest) = note::split(&file);
    assert!(rest.is_empty());
    assert!(notes.len() >= 3);
    for bytes in &notes {
        let note = Note::from_bytes(bytes).unwrap();
        let (verified, unverified) = note.verify(&VerifierList::new(vec![Box::new(verifier.clone())])).unwrap();
        assert_eq!((verified.len(), unverified.len()), (1, 0));
        let (size, _root) = verify::open_checkpoint(bytes, &vkey).unwrap();
        assert_eq!(std::str::from_utf8(note.text()).unwrap().lines().nth(1).unwrap(), size.to_string());
    }
    let forged = String::from_utf8(notes[0].to_vec()).unwrap().replacen("\n1\n", "\n2\n", 1);
    let note = Note::from_bytes(forged.as_bytes()).unwrap();
    assert!(note.verify(&VerifierList::new(vec![Box::new(verifier)])).is_err());
}

#[tokio::test]
async fn the_root_in_the_last_checkpoint_is_that_of_the_stored_lines() {
    // By hand: leaf and node hashes over the lines as they lie on disk.
    use sha2::{Digest as _, Sha256};
    let place = Place::new();
    let journal = place.open();
    journal.append(plain("x")).await.unwrap();
    journal.close().await.unwrap();
    let records = place.bytes("records.jsonl");
    let leaf = |line: &[u8]| Sha256::new().chain_update([0]).chain_update(line.strip_suffix(b"\n").unwrap()).finalize();
    let node = |l: &[u8], r: &[u8]| Sha256::new().chain_update([1]).chain_update(l).chain_update(r).finalize();
    let lines = lines(&records);
    assert_eq!(lines.len(), 3);
    let root = node(&node(&leaf(lines[0]), &leaf(lines[1])), &leaf(lines[2]));
    let file = place.bytes("checkpoints");
    let last = *note::split(&file).0.last().unwrap();
    let (size, found) =
        verify::open_checkpoint(last, std::str::from_utf8(&place.bytes("journal.pub")).unwrap()).unwrap();
    assert_eq!((size, &found[..]), (3, &root[..]));
}

#[tokio::test]
async fn too_large_a_record_is_refused_and_harms_nothing() {
    let place = Place::new();
    let journal = place.open();
    let large = "x".repeat(RECORD_BYTES + 1);
    assert!(matches!(journal.append(plain(&large)).await, Err(JournalError::TooLarge { .. })));
    // The body alone fits, the record does not.
    let nearly = "x".repeat(RECORD_BYTES - 60);
    assert!(matches!(journal.append(plain(&nearly)).await, Err(JournalError::TooLarge { .. })));
    let fits = "x".repeat(RECORD_BYTES - 1000);
    assert_eq!(journal.append(plain(&fits)).await.unwrap(), 1);
    journal.close().await.unwrap();
    assert!(place.verify().is_intact());
}

#[tokio::test]
async fn an_event_without_canonical_form_is_refused_and_harms_nothing() {
    let place = Place::new();
    let journal = place.open();
    let event = stockade_protocol::event::RunEvent::Ended {
        outcome: stockade_protocol::event::RunOutcome::Done,
        answer: None,
        reason: None,
    };
    let bad = stockade_protocol::event::JournalEvent::Recovered {
        file: String::new(),
        kept: String::new(),
        cut_bytes: u64::MAX,
        cut_sha256: stockade_protocol::digest::Digest::of(b""),
    };
    assert!(matches!(journal.append(Event::Journal(bad).into()).await, Err(JournalError::Canon(_))));
    journal.append(Event::Run(event).into()).await.unwrap();
    journal.close().await.unwrap();
    assert_eq!(place.verify().records, 3);
}

#[tokio::test]
async fn secrets_are_replaced_in_the_store_and_on_the_screen_alike() {
    let place = Place::new();
    let journal = place.open();
    journal.redactor().learn("db", b"correct horse").unwrap();
    journal.append(plain("password = hunter2222 and correct horse")).await.unwrap();
    journal.close().await.unwrap();
    let stored = String::from_utf8(place.bytes("records.jsonl")).unwrap();
    assert!(!stored.contains("hunter2222") && !stored.contains("correct horse"), "{stored}");
    assert_eq!(text_of(&journal.events().pull(1, 1)[0]), "password = [redacted:password] and [redacted:db]");
    assert_eq!(read(&place.dir()).unwrap(), journal.events().pull(0, 10));
}

#[tokio::test]
async fn terminal_output_is_redacted_across_pieces_and_shown_as_recorded() {
    let place = Place::new();
    let journal = place.open();
    let mut output = journal.output(run(), session());
    let mut shown = Vec::new();
    assert_eq!(output.write(b"report> ").await.unwrap(), b"report> ", "a prompt is not delayed");
    for piece in [&b"key ghp_abcdefghij"[..], b"klmnopqrstuvwxyz", b"0123456789 done\n", b"password: hun"] {
        shown.extend(output.write(piece).await.unwrap());
    }
    assert_eq!(output.held(), 3);
    shown.extend(output.flush().await.unwrap());
    shown.extend(output.write(&[0, 255, 27, b'x']).await.unwrap());
    journal.close().await.unwrap();
    assert_eq!(shown, b"key ghp_[redacted:github-token] done\npassword: hun\0\xff\x1bx");
    let mut recorded = Vec::new();
    let mut marked = 0;
    for envelope in read(&place.dir()).unwrap() {
        if let Event::Session(SessionEvent::Output { bytes, redacted }) = &envelope.event {
            use base64::Engine as _;
            recorded.extend(base64::engine::general_purpose::STANDARD.decode(bytes).unwrap());
            marked += u32::from(*redacted);
            assert_eq!((envelope.run, envelope.session), (Some(run()), Some(session())));
        }
    }
    assert_eq!(recorded, [b"report> ", &shown[..]].concat());
    assert_eq!(marked, 1);
}

#[tokio::test]
async fn output_that_did_not_come_through_a_stream_is_redacted_too() {
    use base64::Engine as _;
    let place = Place::new();
    let journal = place.open();
    let engine = base64::engine::general_purpose::STANDARD;
    let event = SessionEvent::Output { bytes: engine.encode("token=abcdefghij"), redacted: false };
    journal.append(Event::Session(event).into()).await.unwrap();
    let there = &journal.events().pull(1, 1)[0].event;
    let Event::Session(SessionEvent::Output { bytes, redacted: true }) = there else { panic!("{there:?}") };
    assert_eq!(engine.decode(bytes).unwrap(), b"token=[redacted:secret]");
}

#[tokio::test]
async fn large_output_is_split() {
    let place = Place::new();
    let journal = place.open();
    let mut output = journal.output(run(), session());
    let bytes = vec![b'.'; 3 * stockade_protocol::limits::OUTPUT_CHUNK_BYTES + 5];
    assert_eq!(output.write(&bytes).await.unwrap().len(), bytes.len());
    assert_eq!(journal.events().len(), 5);
}

#[tokio::test]
async fn the_places_of_a_journal_must_be_its_owners_alone() {
    let place = Place::new();
    place.open().close().await.unwrap();
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(place.try_open(), Err(JournalError::Place { .. })));
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let _open = place.open();

    let linked = Place::new();
    std::os::unix::fs::symlink(place.dir(), linked.dir()).unwrap();
    assert!(linked.try_open().is_err());

    let planted = Place::new();
    std::fs::create_dir(planted.dir()).unwrap();
    std::fs::set_permissions(planted.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("/dev/null", planted.file("records.jsonl")).unwrap();
    assert!(planted.try_open().is_err());
}

#[tokio::test]
async fn another_key_does_not_open_it_nor_is_a_lost_one_made_anew() {
    let place = Place::new();
    place.open().close().await.unwrap();
    let other = Place::new();
    other.open().close().await.unwrap();
    let kept = std::fs::read(place.key()).unwrap();
    std::fs::copy(other.key(), place.key()).unwrap();
    assert!(matches!(place.try_open(), Err(JournalError::WrongKey { .. })));
    std::fs::remove_file(place.key()).unwrap();
    assert!(matches!(place.try_open(), Err(JournalError::Key { .. })));
    assert!(!place.key().exists());
    std::fs::write(place.key(), kept).unwrap();
    std::fs::set_permissions(place.key(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let _open = place.open();
}

#[tokio::test]
async fn what_was_appended_soon_is_durable_soon_without_more_traffic() {
    // The last clone's drop would sync as well; here the sync must come by itself.
    let place = Place::new();
    let (ports, log) = super::sink::logged();
    let (journal, _) = Journal::open(&place.dir(), &place.key(), Redactor::standard(), ports).unwrap();
    let before = log.syncs();
    journal.append_soon(plain("soon")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), log.wait_for_syncs(before + 1)).await.unwrap();
}
