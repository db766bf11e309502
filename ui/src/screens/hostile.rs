//! Whatever a field of an event holds, no hidden character reaches the screen and no cell outside its place changes.

use crate::bench::Bench;
use crate::fixture::{Script, drop_card, ending, run, session, story};
use crossterm::event::KeyCode;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use serde_json::Value;
use std::sync::Arc;
use stockade_protocol::card::Field;
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::request::Origin;
use stockade_protocol::text::is_hidden;

/// Escapes, controls, bidirectional marks, fillers, tags, wide and combining characters, and our own signs.
const NASTY: &str = "\u{1b}[2J|\u{1b}]0;x\u{7}|\u{1b}]8;;u\u{1b}\\|\u{1b}]52;c;eA==\u{7}|\u{8}\u{8}|\r|\n|\u{9b}31m|\u{202e}|\u{2066}|\u{200b}|\u{feff}|\u{ad}|\u{115f}|\u{3164}|\u{e0041}|\u{fe0f}|\u{200d}|漢|🙂|e\u{301}\u{301}|│|┆|─|⚠|\u{2028}|\u{85}|\u{0}|\u{7f}|\u{600}|\u{1f1e6}|🏽|    |\t";

fn nasty() -> impl Strategy<Value = String> {
    let pieces: Vec<String> = NASTY.split('|').map(str::to_owned).collect();
    let piece = prop_oneof![3 => proptest::sample::select(pieces), 1 => any::<String>(), 1 => "[a-z ]{0,12}"];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Puts `text` into every string of an event that may hold anything.
fn poisoned(event: &EventEnvelope, text: &str) -> EventEnvelope {
    let mut value = serde_json::to_value(event).expect("an event");
    let mut paths = Vec::new();
    strings(&value, String::new(), &mut paths);
    for path in paths {
        let Some(Value::String(old)) = value.pointer(&path).cloned() else { continue };
        if let Some(place) = value.pointer_mut(&path) {
            *place = Value::String(format!("{old}{text}"));
        }
        // Ids, digests, types and states can hold nothing else; they stay as they were.
        if serde_json::from_value::<EventEnvelope>(value.clone()).is_err()
            && let Some(place) = value.pointer_mut(&path)
        {
            *place = Value::String(old);
        }
    }
    serde_json::from_value(value).expect("an event")
}

fn strings(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::String(_) => paths.push(path),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, v)| strings(v, format!("{path}/{at}"), paths)),
        Value::Object(fields) => fields.iter().for_each(|(key, v)| strings(v, format!("{path}/{key}"), paths)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hidden(buffer: &Buffer) -> Option<String> {
    let bad = |symbol: &str| symbol.chars().any(|c| is_hidden(c) || c.is_control());
    buffer
        .content
        .iter()
        .map(ratatui::buffer::Cell::symbol)
        .find(|symbol| bad(symbol))
        .map(|symbol| format!("{symbol:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn nothing_hidden_reaches_a_cell(text in nasty()) {
        let mut script = story();
        let half = script.events.len();
        ending(&mut script);
        let events: Vec<_> = script.events.iter().map(|event| Arc::new(poisoned(event, &text))).collect();
        for size in [(40, 10), (80, 24), (120, 34)] {
            let mut bench = Bench::new(size);
            bench.read(&events[..half]);
            for keys in ["", "w", "  ", "wr", "\u{202e}x", "q", "s", "j", "m", "?", "r", "/x"] {
                bench.keys(keys);
                prop_assert_eq!(hidden(&bench.buffer()), None, "{:?} {}", size, bench.text());
                if keys != "wr" && keys != " " && keys != "w" && keys != "  " {
                    bench.press(KeyCode::Esc).press(KeyCode::Esc);
                }
            }
            let mut bench = Bench::new(size);
            bench.read(&events);
            prop_assert_eq!(hidden(&bench.keys("sj").buffer()), None);
        }
    }

    #[test]
    fn a_card_stays_in_its_rectangle(text in nasty()) {
        let mut card = drop_card();
        card.title.push_str(&text);
        card.warnings.push(text.clone());
        card.facts.push(Field::many(format!("x{text}"), vec![text.clone(), text.clone()]));
        card.claims.push(Field::one("reason", text.clone()));
        for size in [(80, 24), (250, 70)] {
            let mut hostile = Bench::seeing(&super::unread::one(card.clone()), size);
            let mut tame = Bench::seeing(&super::unread::one(drop_card()), size);
            let (hostile_at, tame_at) = (place(hostile.keys("w")), place(tame.keys("w")));
            let body = hostile.screen.layout().body;
            // The journal quotes the title in the record of the question.
            let quotes: Vec<bool> = tame.text().split('\n').map(|line| line.contains("approval.asked")).collect();
            let quoted = |at: Position| quotes.get(usize::from(at.y)).copied().unwrap_or(false);
            let covered = |at: Position| hostile_at.contains(at) || tame_at.contains(at);
            let outside = |at: Position| body.contains(at) && !covered(at) && !quoted(at);
            let changed = changes(&hostile.buffer(), &tame.buffer(), outside);
            prop_assert_eq!(changed, Vec::<Position>::new(), "{}", hostile.text());
        }
    }

    #[test]
    fn a_row_stays_in_its_row(text in nasty()) {
        let script = |text: &str| {
            let mut script = Script::new();
            script.started().run_started(1, text, "a", Origin::Loop).opened(1, 1, text);
            script.run_started(2, "second", "b", Origin::Loop);
            script
        };
        let mut benches = [Bench::seeing(&script("tame"), (120, 34)), Bench::seeing(&script(&text), (120, 34))];
        let [tame, hostile] = &mut benches;
        // The run's row and the session's in the tree, the terminal's border, and their records in the journal.
        let rows: Vec<u16> = (0..34).filter(|y| tame_row(tame, *y)).collect();
        let changed = changes(&tame.buffer(), &hostile.buffer(), |at| !rows.contains(&at.y));
        prop_assert_eq!(changed, Vec::<Position>::new(), "{}", hostile.text());
    }
}

fn tame_row(bench: &Bench, y: u16) -> bool {
    bench.text().lines().nth(usize::from(y)).is_some_and(|line| line.contains("tame"))
}

fn place(bench: &Bench) -> Rect {
    bench.screen.layout().card.map(|card| card.area).expect("a card")
}

fn changes(one: &Buffer, other: &Buffer, looked_at: impl Fn(Position) -> bool) -> Vec<Position> {
    one.area.positions().filter(|at| looked_at(*at) && one[*at] != other[*at]).collect()
}

#[test]
fn what_a_terminal_prints_stays_in_its_pane() {
    let bytes: &[&[u8]] = &[
        b"\x1b[2J\x1b[1;1Hgone",
        b"\x1b]0;owned\x07\x1b]52;c;eA==\x07",
        b"\x1b[?1049h\x1b[?1000h\x1b[6n\x1b[c",
        b"\x1b[999;999Hx\x1b[999A\x1b[999Dy",
        b"\x9b2J\xc2\x9b31m",
        "\u{202e}\u{200b}\u{feff}漢字".as_bytes(),
        b"\x1bP unterminated",
    ];
    for bytes in bytes {
        let script = |bytes: &[u8]| {
            let mut script = Script::new();
            script.started().run_started(1, "a", "a", Origin::Loop).opened(1, 1, "bash").output(1, 1, bytes);
            script
        };
        let tame = Bench::seeing(&script(b"tame"), (120, 34));
        let hostile = Bench::seeing(&script(bytes), (120, 34));
        let layout = hostile.screen.layout();
        let pane = layout.panes.iter().find(|pane| pane.id == crate::model::PaneId::Terminal(session(1)));
        let inside = crate::view::frame::inner(pane.expect("a terminal").area);
        let changed = changes(&tame.buffer(), &hostile.buffer(), |at| !inside.contains(at));
        assert_eq!(changed, [], "{}", hostile.text());
        assert_eq!(hidden(&hostile.buffer()), None);
        assert_eq!(hostile.screen.projection().run(run(1)).map(|run| run.calls), Some(0));
    }
}
