//! The bytes are a promise: a journal that lies in the repository must verify, read, and come out of the writer again.

use super::*;
use stockade_protocol::event::{ApprovalEvent, JournalEvent, RunEvent, RunOutcome};
use stockade_protocol::ids::Principal;
use stockade_protocol::request::Origin;

const FILES: [&str; 3] = ["records.jsonl", "checkpoints", "journal.pub"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/journals").join(name)
}

fn ports_from(start: u64) -> Ports {
    let clock = AtomicU64::new(start);
    Ports::new(move || Timestamp(clock.fetch_add(250, Ordering::Relaxed)), || [0x5a; 16])
}

fn assert_is(place: &Place, name: &str) {
    for file in FILES {
        let (made, kept) = (place.bytes(file), std::fs::read(fixture(name).join(file)).unwrap());
        assert_eq!(String::from_utf8(made).unwrap(), String::from_utf8(kept).unwrap(), "{name}/{file}");
    }
}

/// Writes the journal of the fixture into `place`.
async fn again(place: &Place) {
    std::fs::write(place.key(), format!("{}\n", "42".repeat(32))).unwrap();
    std::fs::set_permissions(place.key(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let (journal, _) =
        Journal::open(&place.dir(), &place.key(), Redactor::standard(), ports_from(1_764_500_000_000)).unwrap();
    let of_run = |event| Entry { run: Some(run()), ..Entry::from(event) };
    let started = RunEvent::Started {
        title: "Größe \u{202e}und\nZeilen".into(),
        principal: Principal::agent("nightly"),
        origin: Origin::Loop,
    };
    journal.append(of_run(Event::Run(started))).await.unwrap();
    journal.append(plain("export TOKEN=abcdefgh12345678")).await.unwrap();
    journal.append(sealing()).await.unwrap();
    let expired = ApprovalEvent::Expired { why: "no-answer".to_owned() };
    journal.append(Entry { call: Some(call()), ..of_run(Event::Approval(expired)) }).await.unwrap();
    let mut output = journal.output(run(), session());
    output.write(b"\x1b[1mready\x1b[0m> ").await.unwrap();
    let ended = RunEvent::Ended { outcome: RunOutcome::Done, answer: None, reason: None };
    journal.append(of_run(Event::Run(ended))).await.unwrap();
    journal.close().await.unwrap();
}

#[tokio::test]
async fn the_journals_in_the_repository_verify_read_and_are_what_the_writer_makes() {
    let report = verify::verify(&fixture("small"));
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.sealed), (8, 8));
    let records = read(&fixture("small")).unwrap();
    assert_eq!(text_of(&records[2]), "export TOKEN=[redacted:secret]");
    assert_eq!(records[7].event, Event::Journal(JournalEvent::Closed {}));

    let place = Place::new();
    again(&place).await;
    assert_is(&place, "small");

    // The same, given another key.
    rotate_key(&place.dir(), &place.key(), &ports_from(1_764_500_100_000)).unwrap();
    assert_is(&place, "rotated");
    let report = verify::verify(&fixture("rotated"));
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.sealed, report.later_keys.len()), (10, 10, 1));
    assert_eq!(read(&fixture("rotated")).unwrap().len(), 10);
}

#[test]
fn the_journals_in_the_documentation_are_those_in_the_repository() {
    let text = std::fs::read_to_string(fixture("small").join("../../../docs/journal-format.md")).unwrap();
    let quoted = |journal: &str, name: &str| {
        let file = std::fs::read_to_string(fixture(journal).join(name)).unwrap();
        text.lines().filter(|line| file.lines().any(|kept| kept == *line && kept.len() > 40)).count()
    };
    for name in FILES {
        assert!(quoted("small", name) > 0, "{name} is not quoted as it is");
    }
    // One record more: the rotation, and the statement that its signatures are over.
    assert_eq!(quoted("rotated", "records.jsonl"), quoted("small", "records.jsonl") + 1);
    let records = read(&fixture("rotated")).unwrap();
    let Event::Journal(JournalEvent::KeyRotated { old, new, .. }) = &records[8].event else {
        panic!("{:?}", records[8])
    };
    let file = std::fs::read(fixture("rotated").join("records.jsonl")).unwrap();
    let prev = record::parse(lines(&file)[8].strip_suffix(b"\n").unwrap()).unwrap().prev.to_owned();
    let statement = rotation::statement(&"5a".repeat(16), 8, &prev, old, new);
    assert!(text.contains(&format!("```\n{statement}\n```\n")), "{statement}");
}
