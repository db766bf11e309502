//! Live view and replay are one.

use crate::bench::{Bench, options};
use crate::fixture::{Script, ending, run, story};
use crate::io::Mode;
use crossterm::event::KeyCode;
use ratatui::buffer::Buffer;

fn whole() -> Script {
    let mut script = story();
    ending(&mut script);
    script
}

/// Everything but the footer, whose keys differ.
fn screen(bench: &Bench) -> Buffer {
    let mut buffer = bench.buffer();
    let width = usize::from(buffer.area.width);
    buffer.content.truncate(width * usize::from(buffer.area.height - 1));
    buffer.area.height -= 1;
    buffer
}

/// A recording at its first event, the time line hidden.
fn recording(script: &Script, size: (u16, u16)) -> Bench {
    let mut bench = Bench::with(size, options(Mode::Replay { run: None }));
    bench.read(&script.events).keys("h");
    bench
}

#[test]
fn the_same_journal_live_and_by_replay_gives_the_same_screen_after_every_event() {
    let script = whole();
    for size in [(80, 24), (120, 40)] {
        for views in ["", "s", "j", "m", "t", "sj"] {
            let mut replay = recording(&script, size);
            replay.keys(views);
            for chunk in [1, 7, script.events.len()] {
                replay.press(KeyCode::Home);
                let mut live = Bench::new(size);
                live.keys(views);
                let mut seen = 0;
                for events in script.events.chunks(chunk) {
                    live.read(events);
                    seen += events.len();
                    while replay.screen.replay.as_ref().map(|replay| replay.cursor) != Some(seen) {
                        replay.press(KeyCode::Right);
                    }
                    let at = format!("{views:?} {size:?} after {seen} events in chunks of {chunk}");
                    if screen(&live) != screen(&replay) {
                        assert_eq!(crate::bench::text(&screen(&live)), crate::bench::text(&screen(&replay)), "{at}");
                        panic!("styles differ: {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_step_back_shows_what_a_step_on_showed() {
    let script = whole();
    let mut replay = recording(&script, (80, 24));
    replay.press(KeyCode::Home);
    let mut forth = vec![screen(&replay)];
    for _ in 1..script.events.len() {
        forth.push(screen(replay.press(KeyCode::Right)));
    }
    for expected in forth.iter().rev().skip(1) {
        assert_eq!(&screen(replay.press(KeyCode::Left)), expected);
    }
}

#[test]
fn calls_the_ends_and_words_are_found() {
    let mut replay = Bench::with((120, 40), options(Mode::Replay { run: None }));
    replay.read(&whole().events);
    let cursor = |bench: &Bench| bench.screen.replay.as_ref().map_or(0, |replay| replay.cursor);
    assert_eq!(cursor(&replay), 1);
    replay.press(KeyCode::End);
    assert_eq!(cursor(&replay), whole().events.len());
    replay.press(KeyCode::Home).keys("]");
    assert!(replay.text().contains("call.finished"), "{}", replay.text());
    let first = cursor(&replay);
    replay.keys("]]");
    assert!(cursor(&replay) > first);
    replay.keys("[[");
    assert_eq!(cursor(&replay), first);
    replay.keys("/reports.cedar:40\n");
    assert!(replay.text().contains("forbidden by reports.cedar:40"), "{}", replay.text());
    assert!(replay.keys("/no such thing\n").text().contains("no record holds no such thing"));
}

#[test]
fn a_recording_plays_by_its_own_clock_and_decides_nothing() {
    let mut replay = Bench::with((120, 40), options(Mode::Replay { run: None }));
    replay.read(&whole().events).keys("++++ ");
    replay.wait(120_000);
    assert!(replay.text().contains("paused") && replay.text().contains("event 71 of 71"), "{}", replay.text());
    // Back to where a call waits: the card is shown as it was, and no key answers it.
    replay.keys("/asks to run psql\n");
    let text = replay.keys("w").wait(2_000).text();
    assert!(text.contains("DROP TABLE invoices_2019") && text.contains("a recording: nothing is decided"), "{text}");
    replay.keys("A").wait(1_200).keys("nAr");
    assert!(replay.effects.is_empty(), "{:?}", replay.effects);
}

#[test]
fn one_run_is_replayed_from_its_first_event_to_its_last() {
    let mut replay = Bench::with((120, 40), options(Mode::Replay { run: Some(run(3)) }));
    replay.read(&whole().events);
    assert!(replay.text().contains("replay docs-review"), "{}", replay.text());
    assert!(replay.text().contains("event 1 of 2"), "{}", replay.text());
    assert!(replay.press(KeyCode::End).text().contains("run.ended"));
}

#[test]
fn replay_of_what_is_live_returns_to_it() {
    let mut bench = Bench::seeing(&story(), (120, 40));
    let live = bench.text();
    let text = bench.keys("r").press(KeyCode::Home).text();
    assert!(text.contains("replay everything") && text.contains("2 waiting now, r returns"), "{text}");
    assert_eq!(bench.keys("r").text(), live);
}

#[test]
fn the_list_counts_every_record() {
    let script = whole();
    let bench = Bench::seeing(&script, (120, 40));
    assert!(bench.text().contains(&format!("Journal {} records", script.events.len())), "{}", bench.text());
    assert!(bench.text().contains("of terminals not listed"));
    let mut bench = Bench::seeing(&script, (120, 40));
    assert!(bench.keys("jf").text().contains("all listed"), "{}", bench.text());
}
