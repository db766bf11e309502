//! A workbench whose terminals are flooded without end, and one in which nothing happens.
//!
//! Goal: while programs print as fast as they can, every key has its effect on the screen, what is kept is bounded and
//! what was cut is told with its bound; and nothing is written while nothing changes. Method: one session after another
//! floods until it meets its bound, for as long as keys are pressed; between any two of them more has been printed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stockade_protocol::limits::TRANSCRIPT_BYTES;
use support::Yard;
use support::tui::Tui;

const FLOOD: &str = r#"
[tool]
name = "flood"
version = "1.0.0"
description = "Prints without end"
binary = "sh"
mode = "session"
allow_interpreter = true
timeout_seconds = 60

[session]
startup_command = "/bin/sh bin/flood.sh"
ready_pattern = "flood> "

[session.commands.go]
pattern = "go"
description = "Begins"

[filesystem]
read = ["bin/flood.sh"]
"#;

const FLOOD_SH: &str = "printf 'flood> '\nread -r line\nyes\n";

/// Bytes that the program reads from a terminal at once.
const READ: usize = 64 * 1024;

/// More that must have been printed between two keys, as the journal has it, bytes.
const BETWEEN: u64 = 3 * 512 * 1024;

/// Most that one flood may leave in the journal: the transcript as base64, the same again as the call's result with its
/// line ends escaped, and what is read at once beyond the bound.
const JOURNALED: u64 = 16 * 1024 * 1024;

/// Most memory of the program before the first flood and for each, KiB: it holds what the journal holds.
const MEMORY: u64 = 192 * 1024;
const MEMORY_EACH: u64 = 32 * 1024;

fn workbench(yard: &Yard, arguments: &[&str]) -> Tui {
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Tui::start(arguments, &environment, 120, 40)
}

/// The size of everything in the journal's directory.
fn journaled(yard: &Yard) -> u64 {
    let files = fs::read_dir(yard.places().journal(&yard.root())).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |found| found.len())).sum()
}

/// The most memory that a process ever had, KiB.
fn peak(pid: nix::unistd::Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Floods one session after the other until told to stop; the results of the calls.
fn flood(yard: &Yard, stop: &AtomicBool) -> Vec<Value> {
    let mut results = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let ended = yard.program().args(["call", "flood.go", "--arg", "command=go", "--json"]).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
        results.push(serde_json::from_slice(&ended.stdout).unwrap());
    }
    results
}

/// Ends the flood, also when an assertion failed.
struct Stop<'f>(&'f AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_flood_of_terminals_leaves_every_key_its_effect_and_everything_its_bound() {
    let yard = Yard::new();
    yard.write("tools/flood.clad.toml", FLOOD);
    yard.write("bin/flood.sh", FLOOD_SH);
    yard.trust();
    let root = yard.root();
    let mut workbench = workbench(&yard, &[root.to_str().unwrap()]);
    workbench.sees("no terminal is open");
    let stop = AtomicBool::new(false);
    let results = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(&yard, &stop));
        let until_here = Stop(&stop);
        workbench.until("the flood in its pane", |screen| screen.lines().filter(|row| row.contains("│y ")).count() > 5);
        // What is pressed, what it is to bring about, and words that are on the screen then, or are not.
        let keys = [
            ("?", "the help", true, "Everywhere"),
            ("\u{1b}", "no help any more", false, "Everywhere"),
            ("\t", "the journal's keys", true, "f filter"),
            ("\r", "the terminal's inner keys", true, "Esc leave"),
            ("\u{1b}[5~", "what scrolled by", true, "below, End goes there"),
            ("\u{1b}[F", "the end again", false, "below, End goes there"),
            ("\u{1b}", "the terminal's outer keys", true, "enter"),
            ("j", "the journal's keys again", true, "f filter"),
            ("j", "no journal", false, "Journal"),
            ("j", "the journal again", true, "Journal"),
        ];
        for (key, effect, there, words) in keys {
            let before = journaled(&yard);
            workbench.keys(key);
            workbench.until(effect, |screen| screen.contains(words) == there);
            let end = Instant::now() + support::PATIENCE;
            while journaled(&yard) < before + BETWEEN {
                assert!(Instant::now() < end, "the flood has stopped before {effect}");
                workbench.written_in(Duration::from_millis(10));
            }
        }
        drop(until_here);
        flooding.join().unwrap()
    });
    workbench.until("the end of all", at_rest);
    let bound = format!("the session printed more than {TRANSCRIPT_BYTES} bytes");
    workbench.sees(&bound);
    for result in &results {
        let refusal = &result["refusal"];
        assert_eq!((&refusal["code"], &refusal["authority"]), (&"limit".into(), &"manifest".into()), "{refusal}");
        assert_eq!(refusal["reason"], bound);
        assert_eq!((&result["output_truncated"], &result["removal"]), (&true.into(), &"confirmed".into()));
        let kept = result["output"].as_str().unwrap();
        assert!((TRANSCRIPT_BYTES / 2..=TRANSCRIPT_BYTES + READ).contains(&kept.len()), "{} bytes", kept.len());
    }
    let floods = results.len() as u64;
    assert!(floods > 0);
    let (kept, most) = (journaled(&yard), JOURNALED * floods + 1024 * 1024);
    assert!(kept < most, "{kept} bytes of journal after {floods} floods");
    let (peak, most) = (peak(workbench.pid()), MEMORY + MEMORY_EACH * floods);
    assert!(peak < most, "{peak} KiB of memory after {floods} floods");
    workbench.keys("q");
    let ended = workbench.end();
    assert!(ended.status.success(), "{}", ended.text);
    ended.terminal_is_given_back();
    support::verified(&yard.places().journal(&root));
}

/// Nothing runs any more, so leaving asks nothing.
fn at_rest(screen: &str) -> bool {
    screen.contains("0 runs · 0 sessions")
}

/// Whether the clock on the screen changes within the next seconds.
fn minute_ends_within(window: Duration) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() % 60 + window.as_secs() >= 60
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    const WINDOW: Duration = Duration::from_secs(4);
    let yard = Yard::bare();
    let folder = yard.root().join("demo");
    // A run, a live terminal and a call that waits: everything that could tick is there.
    let mut workbench = workbench(&yard, &["demo", folder.to_str().unwrap()]);
    workbench.sees("waits for you [w]");
    let end = Instant::now() + support::PATIENCE + Duration::from_secs(60);
    // What is due is drawn first. The screen has a clock that shows minutes, and that is something that changes.
    while workbench.written_in(Duration::from_millis(500)) > 0 || minute_ends_within(WINDOW + WINDOW) {
        assert!(Instant::now() < end, "it never comes to rest:\n{}", workbench.text());
    }
    let before = processor(workbench.pid());
    let written = workbench.written_in(WINDOW);
    assert_eq!(written, 0, "\n{}", workbench.text());
    let spent = processor(workbench.pid()) - before;
    assert!(spent < WINDOW / 10, "{spent:?} of processor time in {WINDOW:?}");
    // The control: something changes, and is written.
    workbench.keys("?");
    workbench.sees("Everywhere");
    workbench.signal(nix::sys::signal::Signal::SIGTERM);
    workbench.end().terminal_is_given_back();
}

/// Processor time of a process so far.
fn processor(pid: nix::unistd::Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    let a_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap();
    Duration::from_millis(ticks * 1_000 / u64::try_from(a_second).unwrap())
}
