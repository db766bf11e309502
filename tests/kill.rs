//! Kills at random moments: of the program, the supervisor, the launcher, the namespace's first process, and of all at
//! once.
//!
//! Goal: whatever is killed with SIGKILL, within five seconds no process of the run is left, and where the program
//! lives on it says that removal was confirmed. Method: a host program holds a live session whose worker has
//! descendants that ignore every polite signal; each process of the run carries the run's label among its arguments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Kills of each kind.
const ROUNDS: u64 = 50;
/// How long anything may be left.
const GONE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Program,
    Supervisor,
    Launcher,
    Init,
    Worker,
}

/// Every process of a run, by its label.
fn processes(label: &str) -> Vec<(Pid, Role)> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter_map(|process: i32| {
        let arguments = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        let mut arguments = arguments.split(|byte| *byte == 0).skip(1);
        let first = arguments.next()?;
        if first != label.as_bytes() && !arguments.any(|argument| argument == label.as_bytes()) {
            return None;
        }
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        if rest.trim_start().starts_with(['Z', 'X']) {
            return None;
        }
        let role = match first {
            b"live" => Role::Program,
            b"__supervisor" => Role::Supervisor,
            // The first process is a fork of the launcher and, before it is named, looks like one.
            b"__launch" if name == "stockade-init" => Role::Init,
            b"__launch" => Role::Launcher,
            _ => Role::Worker,
        };
        Some((Pid::from_raw(process), role))
    })
    .collect()
}

struct Run {
    program: Child,
    output: BufReader<ChildStdout>,
    label: String,
}

impl Run {
    fn start(state: &Path, label: &str) -> Self {
        let mut program = Command::new(host())
            .arg("live")
            .arg(state)
            .arg(label)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(program.stdout.take().unwrap());
        Self { program, output, label: label.to_owned() }
    }

    /// The rest of the first line of the program's output that begins with a word; empty at its end.
    fn line(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return String::new();
            }
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Waits until no process of the run is left; panics with those that are.
    fn await_nothing(&mut self, what: &str) {
        let since = Instant::now();
        loop {
            // A child that has ended is collected, or it would be seen for as long as this test runs.
            let _ = self.program.try_wait();
            let left = processes(&self.label);
            if left.is_empty() {
                return;
            }
            assert!(since.elapsed() < GONE, "{what}: still there after {GONE:?}: {left:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Only matters when an assertion failed.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn host() -> PathBuf {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/host");
    assert!(path.exists(), "{} is not built: run `cargo build --examples` or plain `cargo test`", path.display());
    path
}

/// Numbers that differ from round to round and from run to run, printed with a failure so that it can be looked into.
fn delay(round: u64) -> Duration {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let mixed = (u64::from(seed) ^ (round << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    Duration::from_micros(mixed % 60_000)
}

/// Kills by role at random moments, and returns how often there was anything of each role to kill.
fn rounds(name: &str, victims: &[Role], confirmed: bool) {
    let state = tempfile::tempdir().unwrap();
    let label = format!("kill-{name}-{}", std::process::id());
    let mut killed = 0;
    for round in 0..ROUNDS {
        let mut run = Run::start(state.path(), &label);
        // Every second round from the moment the boundary stands, so that launches are hit too; else in live talk.
        let word = if round % 2 == 0 { "found" } else { "live" };
        let found = run.line(word);
        assert!(round % 2 == 1 || found == "0", "something was left of round {round} before: {found}");
        let delay = delay(round);
        std::thread::sleep(delay);
        let mut hit = 0;
        for (process, role) in processes(&label) {
            if victims.contains(&role) && kill(process, Signal::SIGKILL).is_ok() {
                hit += 1;
            }
        }
        killed += u64::from(hit > 0);
        let what = format!("{name}, round {round}, {delay:?} after {word:?}");
        if hit > 0 && confirmed {
            // The program lives, and says how its worker ended, or that it never began.
            let end = run.line("ended ");
            assert!(end == "None" || end.contains("removal: Confirmed"), "{what}: {end}");
        } else if hit == 0 {
            let _ = run.program.kill();
        }
        run.await_nothing(&what);
    }
    assert!(killed * 10 >= ROUNDS * 8, "{name}: only {killed} of {ROUNDS} rounds found something to kill");
}

#[test]
fn killing_the_program_leaves_nothing() {
    rounds("program", &[Role::Program], false);
}

#[test]
fn killing_the_supervisor_leaves_nothing() {
    rounds("supervisor", &[Role::Supervisor], true);
}

#[test]
fn killing_the_launcher_leaves_nothing() {
    rounds("launcher", &[Role::Launcher], true);
}

#[test]
fn killing_the_first_process_leaves_nothing() {
    rounds("init", &[Role::Init], true);
}

#[test]
fn killing_all_at_once_leaves_nothing() {
    rounds("all", &[Role::Program, Role::Supervisor, Role::Launcher, Role::Init], false);
}

/// Positive control of the search, and the start after it: processes that cannot react to anything are left, are
/// found, and are removed by the next start, which says how many workers it found.
#[test]
fn the_next_start_removes_what_was_frozen_and_says_so() {
    let state = tempfile::tempdir().unwrap();
    let label = format!("kill-frozen-{}", std::process::id());
    let mut first = Run::start(state.path(), &label);
    assert_eq!(first.line("found"), "0");
    first.line("live");
    let frozen = [Role::Supervisor, Role::Launcher, Role::Init];
    for (process, _) in processes(&label).into_iter().filter(|(_, role)| frozen.contains(role)) {
        kill(process, Signal::SIGSTOP).unwrap();
    }
    first.program.kill().unwrap();
    first.program.wait().unwrap();
    let left = processes(&label);
    for role in frozen {
        assert!(left.iter().any(|(_, found)| *found == role), "{role:?} is not among {left:?}");
    }
    let mut second = Run::start(state.path(), &label);
    assert_eq!(second.line("found"), "1");
    let old = left.iter().map(|(process, _)| *process).collect::<Vec<_>>();
    assert!(processes(&label).iter().all(|(process, _)| !old.contains(process)));
    second.line("live");
    second.program.kill().unwrap();
    second.await_nothing("after the second start");
}
