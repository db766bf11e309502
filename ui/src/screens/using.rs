//! Focus, terminals, questions, the mouse.

use crate::bench::Bench;
use crate::fixture::{Script, me, run, session, story};
use crate::io::{Effect, Input, Screen as _};
use crate::model::PaneId;
use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{Event, SessionEvent};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_protocol::result::Removal;

fn sent(bench: &Bench) -> Vec<Command> {
    let of = |effect: &Effect| match effect {
        Effect::Send { command, .. } => Some(command.clone()),
        _ => None,
    };
    bench.effects.iter().filter_map(of).collect()
}

fn click(bench: &mut Bench, x: u16, y: u16) {
    mouse(bench, MouseEventKind::Down(MouseButton::Left), x, y);
}

fn mouse(bench: &mut Bench, kind: MouseEventKind, column: u16, row: u16) {
    bench.input(Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
}

/// One run with one terminal that has printed two hundred lines.
fn scrolling() -> Script {
    let mut script = Script::new();
    script.started().run_started(1, "long", "a", Origin::Loop).opened(1, 1, "bash");
    let lines: String = (0..200).map(|n| format!("line {n}\r\n")).collect();
    script.output(1, 1, lines.as_bytes());
    script
}

#[test]
fn terminals_on_the_screen_are_given_its_size_once() {
    let mut bench = Bench::seeing(&scrolling(), (80, 24));
    assert_eq!(sent(&bench), [Command::Resize { session: session(1), columns: 78, rows: 20 }]);
    bench.wait(200_000).keys("z");
    assert_eq!(sent(&bench).len(), 1);
    bench.resize((100, 30));
    assert_eq!(sent(&bench).last(), Some(&Command::Resize { session: session(1), columns: 98, rows: 26 }));
    // However small the screen, never under what a terminal can be.
    for size in [(1, 1), (2, 3), (3, 4), (4, 5), (20, 3)] {
        bench.resize(size);
        bench.text();
    }
    for command in sent(&bench) {
        let Command::Resize { columns, rows, .. } = command else { panic!("{command:?}") };
        assert!(columns >= 2 && rows >= 1, "{columns}x{rows}");
    }
}

#[test]
fn a_terminal_scrolls_inside_and_stays_where_it_was_put() {
    let mut script = scrolling();
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    assert!(bench.text().contains("line 199"));
    bench.press(KeyCode::Enter).press(KeyCode::PageUp).press(KeyCode::PageUp);
    let text = bench.text();
    assert!(!text.contains("line 199") && text.contains("lines below, End goes there"), "{text}");
    let first = text.lines().nth(2).map(str::to_owned);
    script.output(1, 1, b"more\r\nand more\r\n");
    bench.read(&script.events[known..]);
    assert_eq!(bench.text().lines().nth(2).map(str::to_owned), first);
    assert!(bench.press(KeyCode::Home).text().contains("line 0"));
    assert!(bench.press(KeyCode::End).text().contains("and more"));
    assert!(bench.keys("y").text().contains("k asks for the keyboard"));
    assert!(bench.press(KeyCode::Esc).text().contains("w waiting"));
}

#[test]
fn the_keyboard_is_asked_for_used_and_given_back() {
    let mut script = scrolling();
    let mut known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.effects.clear();
    bench.press(KeyCode::Enter).keys("ls k");
    assert_eq!(sent(&bench), [Command::TakeOver { session: session(1) }]);
    script.at(Some(run(1)), Some(session(1)), None).push(Event::Session(SessionEvent::TakenOver { by: me() }));
    bench.read(&script.events[known..]);
    known = script.events.len();
    assert!(bench.text().contains("yours"), "{}", bench.text());
    assert_eq!(bench.screen.focused_session(), Some(session(1)));
    bench.effects.clear();
    bench.keys("q\n").control('c').press(KeyCode::Esc).input(Input::Paste("a\nb".into()));
    let typed: Vec<String> = sent(&bench).iter().map(|command| format!("{command:?}")).collect();
    assert_eq!(typed.len(), 5, "{typed:?}");
    for (command, base64) in typed.iter().zip(["cQ==", "DQ==", "Aw==", "Gw==", "YQ1i"]) {
        assert!(command.starts_with("Type") && command.contains(base64), "{command}");
    }
    bench.effects.clear();
    bench.control(']').keys("k");
    assert_eq!(sent(&bench), [Command::HandBack { session: session(1) }]);
    script.push(Event::Session(SessionEvent::HandedBack { by: me() }));
    bench.read(&script.events[known..]);
    assert_eq!(bench.screen.focused_session(), None);
    bench.effects.clear();
    bench.press(KeyCode::Enter).keys("ls -l");
    assert_eq!(sent(&bench), []);
}

#[test]
fn another_persons_keyboard_is_not_typed_into() {
    let mut script = scrolling();
    let by = stockade_protocol::ids::Principal::person("bob");
    script.at(Some(run(1)), Some(session(1)), None).push(Event::Session(SessionEvent::TakenOver { by }));
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.effects.clear();
    bench.press(KeyCode::Enter).keys("ls\n");
    assert_eq!(sent(&bench), []);
    assert!(bench.text().contains("taken over by bob"), "{}", bench.text());
}

#[test]
fn a_refused_takeover_says_why() {
    let mut bench = Bench::seeing(&scrolling(), (80, 24));
    bench.keys("k");
    let id = bench.effects.iter().rev().find_map(|effect| match effect {
        Effect::Send { id, command: Command::TakeOver { .. } } => Some(*id),
        _ => None,
    });
    let refusal = Refusal::new(RefusalCode::Denied, Authority::Policy, "no policy permits it");
    bench.input(Input::Answer { id: id.expect("asked"), reply: Reply::Refused { refusal } });
    assert!(bench.text().contains("was not given: denied by policy"), "{}", bench.text());
}

#[test]
fn quitting_names_what_is_lost_and_keeps_it_by_default() {
    let mut bench = Bench::seeing(&story(), (80, 24));
    let text = bench.keys("q").text();
    for words in ["2 running runs", "3 live terminals", "2 waiting calls", "1 staged file", "[n] keep everything"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('n')] {
        assert!(!bench.press(key).text().contains("Quit?"));
        bench.keys("q");
    }
    bench.keys("y");
    assert!(!bench.effects.contains(&Effect::Quit));
    bench.keys("Y");
    assert!(bench.effects.contains(&Effect::Quit));
    let mut script = Script::new();
    let mut idle = Bench::seeing(script.started(), (80, 24));
    idle.keys("q");
    assert!(idle.effects.contains(&Effect::Quit), "nothing is lost, nothing is asked");
}

#[test]
fn ending_a_session_or_run_asks_first() {
    let mut bench = Bench::seeing(&story(), (120, 34));
    bench.effects.clear();
    let text = bench.keys("1x").text();
    assert!(text.contains("End this session?") && text.contains("1 staged file"), "{text}");
    bench.keys("n").keys("x").keys("Y");
    assert_eq!(sent(&bench), [Command::CloseSession { session: session(1) }]);
    bench.effects.clear();
    bench.keys("s").press(KeyCode::Home).keys("x");
    assert!(bench.text().contains("End this run?"), "{}", bench.text());
    bench.keys("Y");
    assert_eq!(sent(&bench), [Command::EndRun { run: run(1) }]);
}

#[test]
fn the_mouse_focuses_selects_and_scrolls() {
    let mut bench = Bench::seeing(&story(), (120, 34));
    click(&mut bench, 60, 12);
    assert_eq!(bench.screen.focus, Some(PaneId::Terminal(session(2))));
    click(&mut bench, 5, 5);
    assert_eq!(bench.screen.focus, Some(PaneId::Runs));
    assert!(bench.text().contains("4/6") || bench.text().contains("5/6"), "{}", bench.text());
    let mut bench = Bench::seeing(&scrolling(), (80, 24));
    mouse(&mut bench, MouseEventKind::ScrollUp, 10, 10);
    assert!(bench.text().contains("3 lines below"), "{}", bench.text());
    mouse(&mut bench, MouseEventKind::ScrollDown, 10, 10);
    assert!(!bench.text().contains("lines below"));
}

#[test]
fn tabs_numbers_and_the_tree_lead_to_terminals() {
    let mut bench = Bench::seeing(&story(), (80, 24));
    assert!(bench.keys("3").text().contains("cargo test"));
    assert!(bench.keys("9").text().contains("there is no terminal 9"));
    click(&mut bench, 18, 1);
    assert!(bench.text().contains("psql (16.4)"), "{}", bench.text());
    bench.keys("s").press(KeyCode::Home).press(KeyCode::Down).press(KeyCode::Enter);
    assert!(bench.text().contains("1 204 orders"), "{}", bench.text());
    assert_eq!(bench.screen.focus, Some(PaneId::Terminal(session(1))));
}

#[test]
fn enter_leads_into_a_terminal_from_every_pane_whose_footer_says_so() {
    for size in [(80, 24), (120, 34)] {
        for key in ["j", "g", "m"] {
            let mut bench = Bench::seeing(&story(), size);
            bench.keys("3").keys(key);
            while bench.screen.focus == Some(PaneId::Terminal(session(3))) {
                bench.keys(key);
            }
            assert!(bench.text().contains("⏎ enter"), "{key} at {size:?}:\n{}", bench.text());
            bench.press(KeyCode::Enter);
            assert_eq!(bench.screen.focus, Some(PaneId::Terminal(session(3))), "{key} at {size:?}");
            assert!(bench.text().contains("Esc leave") && bench.text().contains("cargo test"), "{}", bench.text());
        }
    }
    let mut empty = Bench::seeing(Script::new().started(), (120, 34));
    empty.keys("j").press(KeyCode::Enter);
    assert!(empty.text().contains("no terminal is open"));
}

#[test]
fn an_ended_terminal_keeps_its_place_and_its_last_screen() {
    let mut script = scrolling();
    let known = script.events.len();
    let mut bench = Bench::seeing(&script, (80, 24));
    bench.press(KeyCode::Enter);
    let why = SessionEvent::Closed { why: "idle".into(), removal: Removal::Unconfirmed };
    script.at(Some(run(1)), Some(session(1)), None).push(Event::Session(why));
    bench.read(&script.events[known..]);
    let text = bench.text();
    assert!(text.contains("line 199") && text.contains("ended: idle, removal unconfirmed"), "{text}");
    bench.effects.clear();
    assert!(bench.keys("k").text().contains("has ended"));
    assert_eq!(sent(&bench), []);
}

#[test]
fn every_size_is_drawn_without_fault() {
    for width in (1..=131).step_by(13) {
        for height in [1, 2, 3, 4, 5, 6, 8, 11, 12, 15, 20, 33, 40] {
            for views in ["", "w", "sj", "m", "q", "?", "r", "z", "rw"] {
                let mut bench = Bench::seeing(&one_of_each(), (width, height));
                bench.keys(views);
                assert_eq!(bench.text().split('\n').count(), usize::from(height), "{width}x{height} {views}");
            }
        }
    }
}

fn one_of_each() -> Script {
    let mut script = super::unread::one(crate::fixture::drop_card());
    script.opened(2, 1, "bash").output(2, 1, b"hello\r\n");
    script
}

#[test]
fn an_idle_screen_sleeps() {
    let mut script = Script::new();
    let bench = Bench::seeing(script.started(), (80, 24));
    let wake = bench.screen.wake().map_or(0, |at| at.0 - bench.now);
    assert!(wake > 1_000, "woken after {wake} ms");
    let revision = bench.screen.revision();
    let mut bench = bench;
    bench.wait(wake - 1);
    assert_eq!(bench.screen.revision(), revision);
}
