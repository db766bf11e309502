//! The workbench in a real terminal: the demo from its first key to its last, and every way to leave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::Signal;
use std::fs;
use support::Yard;
use support::tui::Tui;

fn demo(yard: &Yard, columns: u16, rows: u16) -> Tui {
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let folder = yard.root().join("demo");
    Tui::start(&["demo", folder.to_str().unwrap()], &environment, columns, rows)
}

/// Nothing runs any more, so leaving asks nothing.
fn at_rest(screen: &str) -> bool {
    screen.contains("0 runs · 0 sessions") || screen.contains("0● 0⌁")
}

#[test]
fn the_demo_asks_once_publishes_one_file_and_gives_the_terminal_back() {
    let yard = Yard::bare();
    let mut workbench = demo(&yard, 120, 40);
    workbench.sees("1 waiting");
    workbench.sees("waits for you [w]");
    let target = yard.root().join("demo/out/report.csv");
    assert!(!target.exists());
    workbench.answer("A", |screen| screen.contains("0 waiting"));
    workbench.until("the published file", |screen| screen.contains("269 B ✓") && at_rest(screen));
    let published = fs::read_to_string(&target).unwrap();
    assert!(published.starts_with("group,name,orders,units,total\n"));
    workbench.keys("q");
    let ended = workbench.end();
    assert!(ended.status.success(), "{}", ended.text);
    ended.terminal_is_given_back();
    support::verified(&yard.places().journal(&yard.root().join("demo")));
}

#[test]
fn at_80_by_24_the_whole_card_can_be_read_and_approved() {
    let yard = Yard::bare();
    let mut workbench = demo(&yard, 80, 24);
    workbench.sees("1 waiting");
    workbench.keys("w");
    workbench.sees("APPROVE?");
    // Until the end has been seen there is no key to approve with; what is pressed meanwhile decides nothing.
    workbench.sees("characters seen");
    workbench.keys("AA\r\ny");
    for _ in 0..12 {
        workbench.keys("\u{1b}[6~");
    }
    assert!(!yard.root().join("demo/out/report.csv").exists());
    workbench.answer("A", |screen| screen.contains("0 waiting"));
    workbench.until("rest", at_rest);
    workbench.keys("q");
    workbench.end().terminal_is_given_back();
    assert!(yard.root().join("demo/out/report.csv").exists());
}

#[test]
fn a_refused_save_publishes_nothing_and_the_reason_is_in_the_journal() {
    let yard = Yard::bare();
    let mut workbench = demo(&yard, 120, 40);
    workbench.sees("1 waiting");
    workbench.answer("r", |screen| screen.contains("why refused"));
    workbench.keys("not today\r");
    workbench.sees("0 waiting");
    workbench.until("rest", at_rest);
    workbench.keys("q");
    workbench.end().terminal_is_given_back();
    assert!(!yard.root().join("demo/out/report.csv").exists());
    let mut show = yard.program();
    let demo = yard.root().join("demo");
    let shown = show.args(["journal", "show", "-C", demo.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("not today"));
}

#[test]
fn signals_give_the_terminal_back_and_leave_nothing_running() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGINT] {
        let yard = Yard::bare();
        let mut workbench = demo(&yard, 100, 30);
        workbench.sees("1 waiting");
        workbench.signal(signal);
        let ended = workbench.end();
        assert_eq!(ended.status.code(), Some(130), "{signal}: {}", ended.text);
        ended.terminal_is_given_back();
        support::verified(&yard.places().journal(&yard.root().join("demo")));
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_program_and_everything_it_runs() {
    let yard = Yard::bare();
    let folder = yard.root().join("demo");
    let mut workbench = demo(&yard, 100, 30);
    workbench.sees("1 waiting");
    assert!(!support::helpers(&yard, &folder).is_empty(), "a session lives");
    workbench.hang_up();
    assert_eq!(support::helpers(&yard, &folder), []);
    assert!(!folder.join("out/report.csv").exists());
    support::verified(&yard.places().journal(&folder));
    // A recording has nothing that runs, and ends all the same.
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut replay = Tui::start(&["replay", "-C", folder.to_str().unwrap()], &environment, 100, 30);
    replay.sees("replay");
    replay.hang_up();
}

#[test]
fn replay_shows_what_was_there() {
    let yard = Yard::bare();
    let demo = yard.root().join("demo");
    let mut run = yard.program();
    let run = run.args(["demo", demo.to_str().unwrap(), "--headless", "--json", "--approve-all"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut replay = Tui::start(&["replay", "-C", demo.to_str().unwrap()], &environment, 120, 40);
    replay.sees("replay");
    replay.keys("\u{1b}[F");
    replay.until("the last record", |screen| screen.contains("run.ended") || screen.contains("runtime.stopped"));
    replay.keys("q");
    let ended = replay.end();
    assert!(ended.status.success(), "{}", ended.text);
    ended.terminal_is_given_back();
}

/// Sequences that set a colour.
fn coloured(raw: &[u8]) -> bool {
    let text = String::from_utf8_lossy(raw);
    let styles = text.split("\u{1b}[").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    });
    styles.flat_map(|style| style.split(';').map(str::to_owned).collect::<Vec<_>>()).any(|number| {
        number.parse::<u32>().is_ok_and(|number| matches!(number, 30..=38 | 40..=48 | 90..=97 | 100..=107))
    })
}

#[test]
fn without_colours_every_state_is_said_in_text() {
    for (what, extra) in
        [("no colour", &[("NO_COLOR", "1")][..]), ("a vt100", &[("TERM", "vt100"), ("LANG", "C"), ("LC_ALL", "C")])]
    {
        let yard = Yard::bare();
        let environment = yard.environment();
        let mut environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        environment.extend(extra);
        let folder = yard.root().join("demo");
        let mut workbench = Tui::start(&["demo", folder.to_str().unwrap()], &environment, 120, 40);
        workbench.sees("1 waiting");
        workbench.sees("waits for you [w]");
        workbench.keys("w");
        workbench.sees("APPROVE?");
        workbench.until("the countdown or the armed key", |screen| screen.contains("armed"));
        workbench.answer("r", |screen| screen.contains("why refused"));
        workbench.keys("not today\r");
        workbench.sees("0 waiting");
        workbench.until("the end that the refusal gave it", |screen| screen.contains("failed"));
        workbench.until("rest", |screen| screen.contains("0 runs"));
        workbench.keys("q");
        let ended = workbench.end();
        ended.terminal_is_given_back();
        assert!(!coloured(&ended.raw), "{what}: a colour was drawn");
        if what == "a vt100" {
            assert!(ended.raw.is_ascii(), "{what}: more than ASCII was drawn");
        }
    }
    // The control: with colours there are some.
    let yard = Yard::bare();
    let mut workbench = demo(&yard, 120, 40);
    workbench.sees("1 waiting");
    workbench.signal(Signal::SIGTERM);
    assert!(coloured(&workbench.end().raw));
}
