//! Goal: the fold is total, deterministic and bounded. Method: events in every order, more of everything than is kept.

use super::*;
use crate::fixture::{Script, call, card, ending, run, session, story};
use proptest::prelude::*;
use stockade_protocol::event::{Event, EventEnvelope, JournalEvent, RunEvent, RunOutcome, SessionEvent, TurnEvent};
use stockade_protocol::receipt::Decision;
use stockade_protocol::request::Origin;
use stockade_protocol::result::Removal;

fn folded(events: &[std::sync::Arc<EventEnvelope>]) -> Projection {
    let mut projection = Projection::default();
    for event in events {
        projection.apply(event);
    }
    projection
}

fn whole() -> Script {
    let mut script = story();
    ending(&mut script);
    script
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn no_order_of_events_fails_and_every_record_counts(order in Just((0..70_usize).collect::<Vec<_>>()).prop_shuffle(), cut in 0..70_usize) {
        let events = whole().events;
        let shuffled: Vec<_> = order.iter().skip(cut).chain(&order).filter_map(|at| events.get(*at).cloned()).collect();
        let projection = folded(&shuffled);
        prop_assert_eq!(projection.journal.records, shuffled.len() as u64);
        prop_assert_eq!(projection.rows().len(), shuffled.len());
        prop_assert_eq!(format!("{projection:?}"), format!("{:?}", folded(&shuffled)));
    }
}

#[test]
fn a_waiting_call_leaves_the_queue_once_and_its_end_is_remembered() {
    let mut script = story();
    let projection = folded(&script.events);
    let waiting: Vec<_> = projection.waiting().iter().map(|approval| approval.call).collect();
    assert_eq!(waiting, [call(5), call(6)], "oldest first");
    assert!(projection.session_waits(session(2)) && projection.run_waits(run(1)));
    ending(&mut script);
    let projection = folded(&script.events);
    assert_eq!(projection.waiting(), []);
    assert_eq!(projection.approval(call(5)).and_then(|a| a.settled.clone()), Some(Settled::Expired));
    let settled = projection.approval(call(6)).and_then(|a| a.settled.clone());
    assert!(matches!(settled, Some(Settled::Decided { decision: Decision::Approve, .. })), "{settled:?}");
}

#[test]
fn another_key_of_the_journal_is_said_in_words_with_both_keys() {
    let (old, new) = ("ab".repeat(32), "ef".repeat(32));
    let mut script = Script::new();
    script.started();
    script.push(Event::Journal(JournalEvent::KeyRotated {
        old: old.clone(),
        new: new.clone(),
        old_signature: "01".repeat(64),
        new_signature: "02".repeat(64),
    }));
    let projection = folded(&script.events);
    let row = projection.rows().back().unwrap();
    assert_eq!(
        (row.kind, row.subject.as_str(), row.mark),
        ("journal.key_rotated", "journal key replaced", Mark::Person)
    );
    assert_eq!(row.detail, format!("new key {new}, signed by it and by the old key {old}"));
}

#[test]
fn a_run_that_ends_takes_its_questions_with_it_as_nobodys_decision() {
    let mut script = story();
    script.at(Some(run(2)), None, None);
    script.push(Event::Run(RunEvent::Ended { outcome: RunOutcome::Cancelled, answer: None, reason: None }));
    let projection = folded(&script.events);
    assert_eq!(projection.waiting().len(), 1);
    let settled = projection.approval(call(5)).and_then(|a| a.settled.clone());
    assert_eq!(settled, Some(Settled::Ended { outcome: "cancelled" }));
}

#[test]
fn a_runtime_that_starts_anew_settles_what_an_earlier_one_left() {
    let mut script = story();
    script.started();
    let projection = folded(&script.events);
    assert_eq!((projection.running(), projection.open(), projection.waiting().len()), (0, 0, 0));
    let run = projection.run(run(1)).map(|run| run.state);
    assert_eq!(run, Some(RunState::Ended(RunOutcome::Interrupted)));
}

#[test]
fn a_session_goes_through_its_states() {
    let mut script = Script::new();
    script.started().run_started(1, "a", "a", Origin::Loop);
    let word = |script: &Script| folded(&script.events).session(session(1)).map(Session::word);
    script.opened(1, 1, "report");
    assert_eq!(word(&script), Some("starting"));
    script.push(Event::Session(SessionEvent::Ready {}));
    assert_eq!(word(&script), Some("ready"));
    script.requested(1, Some(1), 1, "report.query").dispatched("report.query");
    assert_eq!(word(&script), Some("busy"));
    script.finished("report.query", "", None);
    assert_eq!(word(&script), Some("ready"));
    script.push(Event::Session(SessionEvent::TakenOver { by: crate::fixture::me() }));
    assert_eq!(word(&script), Some("taken over"));
    script.push(Event::Session(SessionEvent::HandedBack { by: crate::fixture::me() }));
    assert!(folded(&script.events).session(session(1)).is_some_and(|s| s.touched && s.interactions == 1));
    script.push(Event::Session(SessionEvent::Closed { why: "finalized".into(), removal: Removal::Confirmed }));
    assert_eq!(word(&script), Some("closed"));
}

#[test]
fn files_are_followed_from_declaration_to_publication() {
    let mut script = story();
    let states = |script: &Script| -> Vec<FileState> {
        folded(&script.events).files().iter().map(|file| file.state.clone()).collect()
    };
    assert_eq!(states(&script), [FileState::Snapshot, FileState::Staged]);
    ending(&mut script);
    assert_eq!(states(&script), [FileState::Snapshot, FileState::Published]);
    let projection = folded(&script.events);
    assert_eq!(projection.files()[1].bytes, Some(3_140));
}

#[test]
fn the_seal_is_counted_from_the_last_outcome() {
    let mut script = Script::new();
    script.started();
    let facts = |script: &Script| folded(&script.events).journal;
    assert_eq!(facts(&script).unsealed, 0);
    script.run_started(1, "a", "a", Origin::Loop).requested(1, None, 1, "wordcount");
    assert_eq!(facts(&script).unsealed, 2);
    script.requested(1, None, 1, "wordcount").finished("wordcount", "", None);
    assert_eq!(facts(&script).unsealed, 0);
    assert!(facts(&script).sealed.is_some() && !facts(&script).closed);
    assert!(facts(&whole()).closed);
}

#[test]
fn nothing_grows_without_bound_and_what_falls_out_is_counted() {
    let mut script = Script::new();
    script.started();
    for n in 0..=255_u8 {
        script.run_started(n, "run", "a", Origin::Loop).opened(n, n, "bash").output(n, n, b"x");
        script.push(Event::Session(SessionEvent::Closed { why: "idle".into(), removal: Removal::Confirmed }));
        script.requested(n, None, n, "wordcount").asked(n, None, n, "wordcount", card("ls", ""));
        script.push(Event::Approval(stockade_protocol::event::ApprovalEvent::Expired { why: "no-answer".into() }));
    }
    script.at(Some(run(1)), None, None);
    for _ in 0..6_000 {
        script.push(Event::Turn(TurnEvent::Prompted { text: "x".repeat(20_000).into() }));
    }
    let projection = folded(&script.events);
    assert!(projection.rows().len() == ROWS && projection.journal.records == script.events.len() as u64);
    assert!(projection.rows().iter().all(|row| row.detail.len() <= 240));
    let run = projection.run(run(1)).expect("the run");
    assert_eq!((run.talk.len(), run.dropped), (MESSAGES, 6_001 - MESSAGES));
    assert!(run.talk.iter().all(|said| said.text.text.raw().len() <= 8 * 1024));
    assert_eq!(run.talk.back().map(|said| said.text.omitted), Some(20_000 - 8 * 1024));
    assert!(projection.settled.len() <= SETTLED && projection.waiting().is_empty());
    let screens = projection.sessions().iter().filter(|session| session.pane.is_some()).count();
    assert_eq!(screens, CLOSED_SCREENS);
}
