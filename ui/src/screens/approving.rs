//! Which presses decide, and what.

use super::unread::one;
use crate::bench::Bench;
use crate::fixture::{Script, argv_card, call, card, drop_card, me, run, session, story};
use crate::io::{Effect, Input};
use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use stockade_protocol::card::{Card, Field};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{ApprovalEvent, Event, SessionEvent};
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_protocol::time::Timestamp;

/// Two cards that wait, the first for call 5 and the second for call 6.
fn two() -> Script {
    let mut script = one(drop_card());
    script.requested(2, None, 6, "report.save").asked(2, None, 6, "report.save", card("save report.csv", ""));
    script
}

fn decided(bench: &Bench) -> Vec<(stockade_protocol::ids::CallId, Decision)> {
    let of = |effect: &Effect| match effect {
        Effect::Decide { call, decision, .. } => Some((*call, *decision)),
        _ => None,
    };
    bench.effects.iter().filter_map(of).collect()
}

#[test]
fn a_card_that_was_read_and_armed_is_approved_with_what_was_drawn() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    assert!(bench.keys("w").text().contains("armed in 1.0 s"));
    assert!(bench.wait(600).text().contains("armed in 0.4 s"));
    assert!(bench.wait(600).text().contains("[A] approve once  armed"));
    bench.keys("A");
    let expected = Effect::Decide {
        id: 1,
        call: call(5),
        contract: Digest::of("psql.drop_old"),
        shown: drop_card().digest(),
        decision: Decision::Approve,
        reason: None,
    };
    assert_eq!(bench.decisions(), [&expected]);
    assert!(bench.text().contains("signing and sending"), "{}", bench.text());
}

#[test]
fn no_key_decides_in_the_moments_after_a_card_appears() {
    for after in [0, 20, 300] {
        for keys in ["yy", "\n\n", "A", "n", "nn", "rx\n", "AA", "y\nA"] {
            // Focus is elsewhere: nothing moves by itself.
            let mut bench = Bench::seeing(&story(), (80, 24));
            let before = bench.text();
            bench.wait(after).keys(keys.replace('r', "").as_str());
            assert_eq!(decided(&bench), [], "{keys:?} after {after} ms, unfocused");
            assert!(!before.contains("APPROVE?"));
            // The card was opened that long ago.
            let mut bench = Bench::seeing(&story(), (80, 24));
            bench.keys("w").wait(after).keys(keys);
            assert_eq!(decided(&bench), [], "{keys:?} after {after} ms");
            assert!(bench.text().contains("APPROVE?"), "{}", bench.text());
        }
    }
}

#[test]
fn keys_begin_the_wait_anew_and_go_nowhere_else() {
    let mut bench = Bench::seeing(&story(), (80, 24));
    bench.keys("w").wait(900).keys("q").wait(900);
    let text = bench.text();
    assert!(text.contains("armed in 0.1 s") && text.contains("no key went anywhere else"), "{text}");
    assert!(!text.contains("Quit?"));
    bench.keys("A");
    assert_eq!(decided(&bench), []);
    assert!(bench.text().contains("too soon and was dropped"));
    bench.wait(1_100).keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
}

#[test]
fn a_card_is_armed_by_being_written_not_by_time() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    // The terminal is stuck: the card was computed and never written.
    bench.screen.update(Input::Key(crossterm::event::KeyEvent::new(KeyCode::Char('w'), KeyModifiers::NONE)));
    for second in 1..10 {
        bench.screen.update(Input::Tick(Timestamp(bench.now + second * 1_000)));
        let effects =
            bench.screen.update(Input::Key(crossterm::event::KeyEvent::new(KeyCode::Char('A'), KeyModifiers::SHIFT)));
        assert_eq!(effects, []);
    }
    bench.now += 10_000;
    bench.frame();
    bench.keys("A");
    assert_eq!(decided(&bench), []);
    bench.wait(1_100).keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
}

#[test]
fn the_key_works_only_once_a_frame_that_offers_it_was_written() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w");
    // The countdown was written and nothing since: the person still reads "armed in 1.0 s".
    bench.now += 1_500;
    bench.screen.update(Input::Tick(Timestamp(bench.now)));
    bench.keys("A");
    assert_eq!(decided(&bench), []);
    bench.wait(1_200).keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
}

#[test]
fn a_digest_that_is_not_that_of_what_waits_is_never_sent() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w").wait(1_200);
    let desk = bench.screen.desk.as_mut().expect("a card");
    let shown = std::mem::replace(&mut desk.shown, Digest::of("another card"));
    bench.keys("A").wait(1_200).keys("n");
    assert_eq!(decided(&bench), []);
    assert!(bench.text().contains("no longer what is asked"), "{}", bench.text());
    bench.screen.desk.as_mut().expect("a card").shown = shown;
    bench.wait(1_200).keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
}

#[test]
fn one_press_decides_one_call() {
    let mut script = two();
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    assert!(bench.keys("w").wait(1_200).text().contains("1 of 2"));
    bench.keys("AA");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
    // The answer is in the journal: the next card comes up, armed anew.
    script.at(Some(run(2)), None, None).decided(5, "psql.drop_old", &drop_card(), Decision::Approve, None);
    bench.read(&script.events[known..]);
    let text = bench.text();
    assert!(text.contains("1 of 1") && text.contains("save report.csv"), "{text}");
    bench.keys("A").wait(300).keys("A");
    assert_eq!(decided(&bench).len(), 1);
    bench.wait(1_200).keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve), (call(6), Decision::Approve)]);
}

#[test]
fn a_held_refuse_key_decides_one_call() {
    let mut script = two();
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.keys("w").wait(700).keys("n");
    script.at(Some(run(2)), None, None).decided(5, "psql.drop_old", &drop_card(), Decision::Reject, None);
    bench.read(&script.events[known..]);
    for _ in 0..60 {
        bench.wait(33).keys("n");
    }
    assert_eq!(decided(&bench), [(call(5), Decision::Reject)]);
    bench.wait(600).keys("n");
    assert_eq!(decided(&bench).len(), 2);
}

#[test]
fn a_resize_begins_anew_and_what_was_seen_counts_no_more() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w").wait(1_200);
    assert!(bench.text().contains("approve once  armed"));
    bench.resize((90, 24)).keys("A");
    assert_eq!(decided(&bench), []);
    assert!(bench.wait(1_200).text().contains("approve once  armed"));
    // Smaller than the card: its end has to come onto the screen again.
    bench.resize((80, 16));
    assert!(bench.wait(1_500).text().contains("characters seen"), "{}", bench.text());
    bench.keys("A");
    assert_eq!(decided(&bench), []);
}

#[test]
fn another_request_changes_neither_the_card_nor_what_is_decided() {
    let mut script = one(drop_card());
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.keys("w").wait(1_200);
    script.requested(2, None, 6, "report.save").asked(2, None, 6, "report.save", card("rm -rf /", ""));
    for event in &script.events[known..] {
        bench.screen.apply(event);
    }
    bench.keys("A");
    assert_eq!(decided(&bench), [(call(5), Decision::Approve)]);
    assert!(!bench.text().contains("rm -rf"));
}

use crate::io::Screen as _;

#[test]
fn a_card_that_changed_is_not_decided_and_says_so() {
    let mut script = one(drop_card());
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.keys("w").wait(1_200);
    script.asked(2, None, 5, "psql.drop_old", card("DROP TABLE customers", "cleanup"));
    bench.screen.apply(&script.events[known]);
    bench.keys("A");
    assert_eq!(decided(&bench), []);
    let text = bench.text();
    assert!(text.contains("DROP TABLE customers"), "{text}");
    bench.wait(1_200).keys("A");
    let Some(Effect::Decide { shown, .. }) = bench.effects.last() else { panic!("decided") };
    assert_eq!(*shown, card("DROP TABLE customers", "cleanup").digest());
}

#[test]
fn what_was_answered_elsewhere_expired_or_ended_is_not_decided() {
    let expired = Event::Approval(ApprovalEvent::Expired { why: "no-answer".into() });
    let mut elsewhere = one(drop_card());
    let known = elsewhere.events.len();
    let mut over = elsewhere.clone();
    elsewhere.decided(5, "psql.drop_old", &drop_card(), Decision::Reject, None);
    over.push(expired);
    for (script, words) in [(elsewhere, "already refused by ada"), (over, "expired: nobody decided it")] {
        let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
        bench.keys("w").wait(1_200);
        for event in &script.events[known..] {
            bench.screen.apply(event);
        }
        bench.keys("A").wait(1_200).keys("An");
        assert_eq!(decided(&bench), []);
        let text = bench.text();
        assert!(text.contains(words) && text.contains("nothing was decided"), "{text}");
    }
}

#[test]
fn nothing_is_decided_after_its_time_and_the_last_half_minute_warns() {
    let mut script = one(drop_card());
    let until = Timestamp(script.time + 60_000);
    script.asked_until(2, None, 5, "psql.drop_old", drop_card(), until);
    let mut bench = Bench::seeing(&script, (100, 24));
    assert!(!bench.text().contains("30 s"));
    bench.wait(35_000);
    assert!(bench.text().contains("expires in under 30 s"), "{}", bench.text());
    assert!(bench.keys("w").wait(1_200).text().contains("⚠ expires in 0:2"), "{}", bench.text());
    bench.wait(40_000).keys("A");
    assert_eq!(decided(&bench), []);
    assert!(bench.text().contains("expired"), "{}", bench.text());
}

#[test]
fn typing_into_a_terminal_decides_nothing_and_loses_no_key() {
    let mut script = story();
    script.at(Some(run(2)), Some(session(3)), None).push(Event::Session(SessionEvent::TakenOver { by: me() }));
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.keys("3\n");
    bench.effects.clear();
    let known = script.events.len();
    let typed = "yes please, 1 2 a n\nA w q r n";
    for (at, c) in typed.chars().enumerate() {
        bench.now += 20;
        bench.keys(&c.to_string());
        if at == 6 {
            script.requested(2, None, 7, "report.save").asked(2, None, 7, "report.save", card("rm -rf /", ""));
            bench.read(&script.events[known..]);
        }
    }
    assert_eq!(decided(&bench), []);
    assert!(!bench.text().contains("APPROVE?"));
    assert!(bench.text().contains("⚠ 3 waiting"), "{}", bench.text());
    assert!(bench.text().contains("Ctrl-] leave"), "{}", bench.text());
    assert_eq!(typed_bytes(&bench), typed.replace('\n', "\r"));
    // Out of the terminal and onto the card: keys in flight are dropped, with a countdown in sight.
    bench.control(']').keys("w");
    assert!(bench.text().contains("armed in 1.0 s"), "{}", bench.text());
    bench.wait(300).keys("n").wait(100).keys("A");
    assert_eq!(decided(&bench), []);
}

fn typed_bytes(bench: &Bench) -> String {
    use base64::Engine as _;
    let mut typed = Vec::new();
    for effect in &bench.effects {
        if let Effect::Send { command: Command::Type { bytes, session: to }, .. } = effect {
            assert_eq!(*to, session(3));
            typed.extend(base64::engine::general_purpose::STANDARD.decode(bytes).expect("base64"));
        }
    }
    String::from_utf8(typed).expect("text")
}

#[test]
fn a_paste_and_the_mouse_decide_nothing_and_say_so() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w").wait(1_200).input(Input::Paste("token\ny\nA\nn\n".into()));
    assert!(bench.text().contains("a paste decides nothing"), "{}", bench.text());
    bench.wait(1_200);
    for y in 0..24 {
        for x in 0..80 {
            let kind = MouseEventKind::Down(MouseButton::Left);
            bench.input(Input::Mouse(MouseEvent { kind, column: x, row: y, modifiers: KeyModifiers::NONE }));
        }
    }
    assert!(bench.text().contains("the mouse decides nothing"), "{}", bench.text());
    assert_eq!(decided(&bench), []);
}

#[test]
fn a_refusal_carries_its_reason() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w").wait(600).keys("ruse the staging A").press(KeyCode::Backspace).keys("bucket");
    bench.input(Input::Paste("\nnow".into())).keys("\n");
    let Some(Effect::Decide { decision, reason, .. }) = bench.effects.last() else { panic!("decided") };
    assert_eq!((*decision, reason.as_deref()), (Decision::Reject, Some("use the staging bucket now")));
}

#[test]
fn an_answer_that_is_not_accepted_is_said_on_the_card() {
    let mut bench = Bench::seeing(&one(drop_card()), (80, 24));
    bench.keys("w").wait(1_200).keys("A");
    let refusal = Refusal::new(RefusalCode::Stale, Authority::Person, "the key is not registered");
    bench.input(Input::Answer { id: 1, reply: Reply::Refused { refusal } });
    let text = bench.text();
    assert!(text.contains("not accepted: stale by person: the key"), "{text}");
    bench.keys("A");
    assert_eq!(decided(&bench).len(), 1, "armed anew");
    bench.wait(1_200).keys("A");
    assert_eq!(decided(&bench).len(), 2);
}

#[test]
fn a_card_that_does_not_say_what_runs_cannot_be_approved() {
    let empty = Card { facts: vec![Field::one("runs in", "native")], ..drop_card() };
    let blank = Card { facts: vec![Field::one("command", " \u{200b} ")], ..drop_card() };
    for card in [empty, blank] {
        let mut bench = Bench::seeing(&one(card), (80, 24));
        bench.keys("w").wait(2_000).keys("A");
        assert_eq!(decided(&bench), []);
        let text = bench.text();
        assert!(text.contains("MALFORMED") && text.contains("cannot be approved"), "{text}");
        bench.wait(600).keys("n");
        assert_eq!(decided(&bench), [(call(5), Decision::Reject)]);
    }
}

#[test]
fn a_card_whose_digest_is_not_that_of_its_text_cannot_be_approved() {
    let mut script = one(drop_card());
    script.at(Some(run(2)), None, Some(call(5))).push(Event::Approval(ApprovalEvent::Asked {
        contract: Digest::of("psql.drop_old"),
        card: drop_card(),
        shown: Digest::of("something else"),
        expires: Timestamp(u64::MAX),
    }));
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.keys("w").wait(2_000).keys("A");
    assert_eq!(decided(&bench), []);
    assert!(bench.text().contains("MALFORMED"));
}

#[test]
fn boundaries_between_arguments_are_seen() {
    let shown = |argv: &[&str]| {
        let mut bench = Bench::seeing(&one(argv_card(argv)), (80, 24));
        bench.keys("w").text()
    };
    let joined = shown(&["git", "push --force"]);
    assert!(joined.contains("1 \"push --force\"") && !joined.contains("2 \""), "{joined}");
    let split = shown(&["git", "push", "--force"]);
    assert!(split.contains("1 \"push\"") && split.contains("2 \"--force\""), "{split}");
    // A blank at the end, and every argument after a script's.
    assert!(shown(&["git ", "x"]).contains("0 \"git·\""));
    let shell = shown(&["sh", "-c", "echo ok", "evil-arg0", "payload"]);
    assert!(shell.contains("3 \"evil-arg0\"") && shell.contains("4 \"payload\""), "{shell}");
    assert!(shown(&["only"]).contains("0 \"only\""));
}

#[test]
fn a_forged_line_in_a_file_name_stays_in_its_field() {
    let mut card = drop_card();
    card.facts.push(Field::one("creates", "a\nApproved by policy\nb"));
    let mut bench = Bench::seeing(&one(card), (80, 24));
    let text = bench.keys("w").text();
    assert!(text.contains("creates   a⏎Approved by policy⏎b"), "{text}");
}

#[test]
fn a_new_card_never_takes_focus() {
    for size in [(40, 10), (80, 24), (120, 34)] {
        let mut script = Script::new();
        script.started().run_started(2, "refactor-auth", "client", Origin::Mcp).opened(2, 1, "bash");
        let mut bench = Bench::seeing(&script, size);
        let focus = bench.screen.focused(&bench.screen.layout());
        let known = script.events.len();
        script.requested(2, None, 5, "psql.drop_old").asked(2, None, 5, "psql.drop_old", drop_card());
        bench.read(&script.events[known..]);
        assert_eq!(bench.screen.focused(&bench.screen.layout()), focus);
        let text = bench.text();
        assert!(text.contains("⚠ 1") && !text.contains("APPROVE?"), "{text}");
        assert!(bench.keys("w").text().contains("APPROVE?"));
    }
}

#[test]
fn a_card_put_away_keeps_waiting() {
    let mut bench = Bench::seeing(&two(), (80, 24));
    bench.keys("w").press(KeyCode::Esc);
    assert!(!bench.text().contains("APPROVE?") && bench.text().contains("⚠ 2 waiting"));
    assert!(bench.keys("w").text().contains("1 of 2"));
    assert!(bench.keys("w").text().contains("2 of 2"));
    assert_eq!(decided(&bench), []);
}

#[test]
fn a_journal_that_failed_is_said_at_every_size_and_nothing_is_decided_any_more() {
    for size in [(40, 10), (80, 24), (120, 40)] {
        let mut bench = Bench::seeing(&one(drop_card()), size);
        bench.keys("w").wait(1_200);
        bench.input(Input::Failed("no space left on device".to_owned()));
        bench.wait(5_000).keys("A\n");
        assert_eq!(decided(&bench), [], "{size:?}");
        let text = bench.text();
        assert!(text.contains("everything was ended: no space left"), "{size:?}: {text}");
        if size.0 >= 80 {
            assert!(text.contains("JOURNAL FAILED"), "{size:?}: {text}");
        }
    }
}
