//! Without colour, without Unicode: everything still says what it is.

use crate::bench::{Bench, options};
use crate::fixture::{Script, ending, story};
use crate::io::{Mode, Options};
use crate::theme::ColorMode;
use crossterm::event::KeyCode;
use ratatui::style::Color;

fn plain(script: &Script, size: (u16, u16), ascii: bool) -> Bench {
    let options = Options { color: ColorMode::None, ascii, ..options(Mode::Live) };
    let mut bench = Bench::with(size, options);
    bench.read(&script.events);
    bench
}

fn whole() -> Script {
    let mut script = story();
    ending(&mut script);
    script
}

#[test]
fn states_differ_in_words_or_marks() {
    let text = plain(&story(), (120, 34), false).text();
    for words in ["⚠ waiting", "✓ done", "starting", "⚠ 2 waiting", "native", "net none", "staged", "⚠ approval.asked"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    let text = plain(&whole(), (120, 40), false).text();
    for words in ["✗ cancelled", "ended: finalized", "removal unconfirmed", "0 waiting", "journal ✓", "3.1 kB ✓"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn no_colour_is_drawn_when_there_is_none() {
    for keys in ["", "w", "q", "m", "?", "r"] {
        let mut bench = plain(&story(), (120, 34), false);
        let buffer = bench.keys(keys).buffer();
        for cell in &buffer.content {
            assert!(cell.fg == Color::Reset && cell.bg == Color::Reset, "{keys:?}: {cell:?}");
        }
    }
}

#[test]
fn focus_and_the_steps_of_arming_are_seen_without_colour() {
    let mut bench = plain(&story(), (120, 34), false);
    let mut seen = vec![bench.text()];
    for _ in 0..4 {
        let text = bench.press(KeyCode::Tab).text();
        assert!(!seen.contains(&text), "focus moved and nothing shows it");
        seen.push(text);
    }
    let mut bench = plain(&story(), (80, 24), false);
    let mut steps = vec![bench.keys("w").text()];
    for _ in 0..4 {
        steps.push(bench.wait(260).text());
    }
    for (at, step) in steps.iter().enumerate() {
        assert!(!steps[..at].contains(step), "{step}");
    }
}

#[test]
fn ascii_is_all_there_is_when_asked_for() {
    let mut script = whole();
    script.output(2, 2, "é 漢 🙂 ─│┌\r\n".as_bytes());
    for keys in ["", "w", "q", "m", "?", "r", "sj"] {
        for script in [&story(), &script] {
            let mut bench = plain(script, (120, 34), true);
            let text = bench.keys(keys).text();
            assert!(text.is_ascii(), "{keys:?}: {text}");
        }
    }
    let text = plain(&story(), (120, 34), true).keys("w").text();
    assert!(text.contains("APPROVE?") && text.contains(": reason"), "{text}");
}
