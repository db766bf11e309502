//! The bytes are a promise: a journal that lies in the repository must verify, read, and come out of the writer again.

use super::*;
use stockade_protocol::event::{ApprovalEvent, JournalEvent, RunEvent, RunOutcome};
use stockade_protocol::ids::Principal;
use stockade_protocol::request::Origin;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/journals/small")
}

/// Writes the journal of the fixture into `place`.
async fn again(place: &Place) {
    std::fs::write(place.key(), format!("{}\n", "42".repeat(32))).unwrap();
    std::fs::set_permissions(place.key(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let clock = AtomicU64::new(1_764_500_000_000);
    let ports = Ports::new(move || Timestamp(clock.fetch_add(250, Ordering::Relaxed)), || [0x5a; 16]);
    let (journal, _) = Journal::open(&place.dir(), &place.key(), Redactor::standard(), ports).unwrap();
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
async fn the_journal_in_the_repository_verifies_reads_and_is_what_the_writer_makes() {
    let report = verify::verify(&fixture());
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.sealed), (8, 8));
    let records = read(&fixture()).unwrap();
    assert_eq!(text_of(&records[2]), "export TOKEN=[redacted:secret]");
    assert_eq!(records[7].event, Event::Journal(JournalEvent::Closed {}));

    let place = Place::new();
    again(&place).await;
    for name in ["records.jsonl", "checkpoints", "journal.pub"] {
        let (made, kept) = (place.bytes(name), std::fs::read(fixture().join(name)).unwrap());
        assert_eq!(String::from_utf8(made).unwrap(), String::from_utf8(kept).unwrap(), "{name}");
    }
}

#[test]
fn the_journal_in_the_documentation_is_the_one_in_the_repository() {
    let text = std::fs::read_to_string(fixture().join("../../../docs/journal-format.md")).unwrap();
    for name in ["records.jsonl", "checkpoints", "journal.pub"] {
        let file = std::fs::read_to_string(fixture().join(name)).unwrap();
        let quoted = text.lines().filter(|line| file.lines().any(|kept| kept == *line && kept.len() > 40)).count();
        assert!(quoted > 0, "{name} is not quoted as it is");
    }
}
