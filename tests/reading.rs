//! Whoever reads what happened: on a terminal, through a pipe, or by replay. Hostile text that is in the journal stays
//! text, nothing is left out, and the bytes as they were come only where they were asked for and only into a pipe.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};
use stockade_protocol::text::is_hidden;
use support::Yard;
use support::tui::{Ended, Tui};

/// What attacks a terminal: title, clipboard, a query that types its answer, screen and colours, 8-bit controls, and
/// characters that nobody sees.
const ATTACK: &str =
    "\u{1b}]0;owned\u{7}\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[21t\u{1b}[6n\u{1b}[2J\u{9b}31m\u{202e}gpj\u{200b}x";

/// A project whose tool prints the attack, which the journal then holds several times over.
fn attacked() -> Yard {
    let yard = Yard::new();
    yard.write("data/in.txt", &format!("{ATTACK}\n"));
    let cat = "[tool]\nname = \"cat\"\nversion = \"1.0.0\"\ndescription = \"Prints\"\nbinary = \"cat\"\n[command]\nexec \
               = [\"cat\", \"data/in.txt\"]\n[filesystem]\nread = [\"data/in.txt\"]\n";
    yard.write("tools/cat.clad.toml", cat);
    yard.configure(600, 60);
    yard.trust();
    let (status, shown) = piped(&yard, &["call", "cat", "--raw"]);
    assert_eq!((status, shown.as_str()), (0, format!("{ATTACK}\n").as_str()), "a pipe gets the bytes as they were");
    let (status, _) = piped(&yard, &["call", &format!("no{ATTACK}"), "--reason", ATTACK]);
    assert_eq!(status, 3);
    // A session prints it too: what is replayed then is a terminal's own output.
    let (status, _) = piped(&yard, &["call", "talk.say", "--arg", "command=where"]);
    assert_eq!(status, 0);
    yard
}

fn piped(yard: &Yard, arguments: &[&str]) -> (i32, String) {
    let output = yard.program().args(arguments).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.chars().any(|c| c != '\n' && is_hidden(c)), "{arguments:?}: {err:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn terminal(yard: &Yard, arguments: &[&str]) -> Tui {
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let project = yard.root();
    Tui::start(&[arguments, &["-C", project.to_str().unwrap()]].concat(), &environment, 120, 40)
}

fn on_terminal(yard: &Yard, arguments: &[&str]) -> Ended {
    terminal(yard, arguments).end()
}

/// The call that waits for a person, once there is one.
fn waiting(yard: &Yard) -> String {
    let end = Instant::now() + support::PATIENCE;
    loop {
        let (_, listed) = piped(yard, &["approvals", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        if let Some(call) = listed[0]["call"].as_str() {
            return call.to_owned();
        }
        assert!(Instant::now() < end, "nothing came to wait");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_the_journal_holds_is_shown_and_never_acted_on() {
    let yard = attacked();
    let (_, runs) = piped(&yard, &["runs", "list", "--json"]);
    let runs: Value = serde_json::from_str(&runs).unwrap();
    let mut asking = yard.program();
    asking.args(["call", "talk.ask", "--arg", "command=risky thing", "--reason", ATTACK]);
    let mut asking = asking.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let call = waiting(&yard);
    let runs: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["journal", "show"],
        vec!["journal", "show", "--json"],
        vec!["journal", "tail", "-n", "1000"],
        vec!["journal", "tail", "-n", "1000", "--json"],
        vec!["journal", "verify"],
        vec!["runs", "list"],
        vec!["runs", "list", "--json"],
        vec!["sessions", "list"],
        vec!["approvals", "list"],
        vec!["approvals", "list", "--json"],
        vec!["approvals", "show", &call],
        vec!["approvals", "show", &call, "--json"],
    ];
    for run in &runs {
        commands.push(vec!["runs", "show", run]);
        commands.push(vec!["runs", "show", run, "--json"]);
    }
    let mut seen = 0;
    for arguments in &commands {
        let (status, shown) = piped(&yard, arguments);
        assert_eq!(status, 0, "{arguments:?}: {shown}");
        let hidden: Vec<char> = shown.chars().filter(|c| *c != '\n' && is_hidden(*c)).collect();
        assert!(hidden.is_empty(), "{arguments:?}: {hidden:?}");
        let ended = on_terminal(&yard, arguments);
        assert!(ended.status.success(), "{arguments:?}: {}", ended.text);
        let raw = String::from_utf8(ended.raw).unwrap();
        let hidden: Vec<char> = raw.chars().filter(|c| !matches!(c, '\n' | '\r') && is_hidden(*c)).collect();
        assert!(hidden.is_empty(), "{arguments:?} on a terminal: {hidden:?}");
        let marks = ["\\u{202E}gpj\\u{200B}x", "\\u202egpj\\u200bx"];
        seen += usize::from(marks.iter().any(|mark| shown.contains(mark) && raw.contains(mark)));
    }
    assert!(seen >= 4, "the attack was in what {seen} commands showed");
    let (status, _) = piped(&yard, &["approvals", "deny", &call, "--reason", "no"]);
    assert_eq!((status, asking.wait().unwrap().code()), (0, Some(4)));
}

#[test]
fn the_bytes_as_they_were_never_go_to_a_terminal() {
    let yard = attacked();
    let (_, before) = piped(&yard, &["journal", "show", "--json"]);
    let refused = on_terminal(&yard, &["call", "cat", "--raw"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("--raw is refused on a terminal"), "{}", refused.text);
    assert!(!refused.raw.contains(&0x1b));
    let (_, after) = piped(&yard, &["journal", "show", "--json"]);
    assert_eq!(before, after, "what is refused so runs nothing");
    let shown = on_terminal(&yard, &["call", "cat"]);
    assert!(shown.status.success() && shown.text.contains("\\u{001B}]0;owned"), "{}", shown.text);
    assert!(!shown.raw.contains(&0x1b));
}

#[test]
fn replay_draws_into_its_panes_and_hands_nothing_on() {
    let yard = attacked();
    let mut replay = terminal(&yard, &["replay"]);
    replay.sees("replay");
    // Every record on the way to the last, so that each is drawn at least once.
    for _ in 0..80 {
        replay.keys("\u{1b}[C");
    }
    replay.keys("\u{1b}[F");
    replay.until("the last record", |screen| screen.contains("runtime.stopped"));
    replay.keys("q");
    let ended = replay.end();
    assert!(ended.status.success(), "{}", ended.text);
    ended.terminal_is_given_back();
    let raw = String::from_utf8(ended.raw).unwrap();
    for attack in ["\u{1b}]0;", "\u{1b}]52;", "\u{1b}[21t", "\u{1b}[6n", "\u{9b}", "\u{202e}", "\u{200b}", "owned\u{7}"]
    {
        assert!(!raw.contains(attack), "{attack:?} reached the terminal");
    }
}

#[test]
fn every_view_counts_as_many_records_as_were_verified() {
    let yard = attacked();
    let (_, report) = piped(&yard, &["journal", "verify", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let records = usize::try_from(report["records"].as_u64().unwrap()).unwrap();
    assert!(records > 20, "{report}");
    assert_eq!(report["sealed"], report["records"], "a clean end seals everything");
    for arguments in [&["journal", "show"][..], &["journal", "show", "--json"], &["journal", "tail", "-n", "100000"]] {
        assert_eq!(piped(&yard, arguments).1.lines().count(), records, "{arguments:?}");
    }
    // Every record of a run is in what shows that run; the others belong to none.
    let (_, all) = piped(&yard, &["journal", "show", "--json"]);
    let all: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, record) in all.iter().enumerate() {
        assert_eq!(record["seq"].as_u64(), Some(at as u64));
    }
    let (_, runs) = piped(&yard, &["runs", "list", "--json"]);
    let runs: Value = serde_json::from_str(&runs).unwrap();
    let mut shown = all.iter().filter(|record| record["run"].is_null()).count();
    for run in runs.as_array().unwrap() {
        let (_, run) = piped(&yard, &["runs", "show", run["run"].as_str().unwrap(), "--json"]);
        let run: Value = serde_json::from_str(&run).unwrap();
        shown += run["events"].as_array().unwrap().len();
    }
    assert_eq!(shown, records);
}

#[test]
fn every_shell_gets_completions() {
    let yard = Yard::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, text) = piped(&yard, &["completions", shell]);
        assert_eq!(status, 0, "{shell}");
        for word in ["approvals", "journal", "replay", "--json"] {
            let bare = word.trim_start_matches('-');
            assert!(text.contains(bare), "{shell} does not complete {word}");
        }
    }
    assert_eq!(piped(&yard, &["completions", "nosuch"]).0, 2);
}

#[test]
fn a_mistyped_command_is_told_as_such() {
    let yard = Yard::bare();
    let told = |word: &str| {
        let output = yard.program().arg(word).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = told("journla");
    assert!(status == Some(2) && text.contains("journla is neither a command nor a folder"), "{text}");
    let (status, text) = told(".");
    assert!(status == Some(2) && text.contains("needs a terminal"), "a folder is one: {text}");
}
