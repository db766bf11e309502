//! Sudden death: the program, its supervisor, a launcher, the first process of a worker's namespaces, or all of them are
//! killed at random moments of a live session. No process stays, the next start says what it found, the journal verifies, publications are accounted for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use stockade_protocol::event::{Event, EventSource as _, GrantEvent, RunEvent, RuntimeEvent};
use stockade_protocol::ids::RunId;
use support::Yard;

/// Times each victim is killed.
const TIMES: u32 = 50;
/// Tries at the most: a random moment may come after the session's end.
const TRIES: u32 = 3 * TIMES;
/// Tries in one project.
const BATCH: u32 = 5;
/// How long anything of the run may stay.
const LEFT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Program,
    Supervisor,
    Launcher,
    Init,
    All,
}

/// The processes of stockade that serve this project, without the program itself. A worker's first process has its
/// launcher's arguments and, once it has been named, a name of its own; what the worker starts dies with it.
fn processes(yard: &Yard) -> Vec<(i32, Victim)> {
    let what = |pid: i32, line: &str| {
        if line.contains("__supervisor") {
            return Some(Victim::Supervisor);
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let first = name.trim_end() == "stockade-init";
        line.contains("__launch").then_some(if first { Victim::Init } else { Victim::Launcher })
    };
    let all = support::helpers(yard, &yard.root()).into_iter();
    all.filter_map(|(pid, line)| Some((pid, what(pid, &line)?))).collect()
}

/// Whether there was anything to kill: it may be gone already.
fn kill(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).is_ok()
}

/// A small generator, so that a failure can be repeated with its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn start(yard: &Yard) -> Child {
    let mut command = yard.program();
    command.args(["run", "please", "--agent", "busy", "--headless"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn until(what: &str, patience: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < end, "{what} within {patience:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

async fn accounted(yard: &Yard, seen: &mut u64, context: &str) {
    let runtime = yard.try_start().await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let events = runtime.events().pull(*seen, usize::MAX);
    let mut open: BTreeSet<RunId> = BTreeSet::new();
    let (mut published, mut found) = (false, false);
    for envelope in &events {
        match &envelope.event {
            Event::Run(RunEvent::Started { .. }) => open.extend(envelope.run),
            Event::Run(RunEvent::Ended { .. }) => open.retain(|run| Some(*run) != envelope.run),
            Event::Grant(GrantEvent::Published { .. }) => published = true,
            Event::Grant(GrantEvent::Reconciled { state, .. }) => {
                assert_ne!(state, "in_doubt", "{context}");
                published = state == "published";
            }
            Event::Runtime(RuntimeEvent::Found { removed_workers, .. }) => {
                found = true;
                assert_eq!(*removed_workers, 0, "{context}: something was left for the next start to remove");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{context}: runs without an end: {open:?}");
    let interrupted = events.iter().any(|envelope| {
        matches!(&envelope.event, Event::Run(RunEvent::Ended { outcome, .. }) if *outcome == stockade_protocol::event::RunOutcome::Interrupted)
    });
    assert_eq!(interrupted, found, "{context}: the next start says what it found");
    let there = yard.root().join("out/result.txt").exists();
    assert_eq!(there, published, "{context}: the file is there exactly when the journal says so");
    runtime.stop().await.unwrap();
    *seen = runtime.events().len();
    support::verified(runtime.journal_path());
    if there {
        fs::remove_file(yard.root().join("out/result.txt")).unwrap();
    }
}

/// One victim, until it was killed `TIMES` times. A fresh project now and then keeps the journals short.
async fn dies(victim: Victim) {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let mut random = Random(seed);
    let counts = [("talk.say", "count 2000"), ("talk.say", "where"), ("talk.say", "count 2000")];
    let agent = support::script(&[("Working.", &counts), ("Saving.", &[("talk.save", "save")]), ("Done.", &[])]);
    let (mut killed, mut tries) = (0, 0);
    while killed < TIMES {
        let yard = Yard::new();
        let save = "human_approval = true\nfinalize = true";
        yard.write("tools/talk.clad.toml", &support::TALK.replace(save, "finalize = true"));
        yard.write("agents/busy.toml", &agent);
        yard.trust();
        let mut seen = 0;
        for _ in 0..BATCH {
            assert!(tries < TRIES, "{victim:?}: only {killed} of {TRIES} times there was anything to kill");
            tries += 1;
            let context = format!("{victim:?} {tries}, seed {seed}");
            let mut program = start(&yard);
            let mut ended = None;
            // From the launch on; its worker's first process is there a moment later.
            let begun = if victim == Victim::Init { Victim::Init } else { Victim::Launcher };
            until("a session starts", Duration::from_secs(30), || {
                ended = program.try_wait().unwrap();
                ended.is_some() || processes(&yard).iter().any(|(_, what)| *what == begun)
            });
            // On a machine that stood still meanwhile the run may be over; it must then have ended well.
            assert!(ended.is_none_or(|status| status.success()), "{context}: {ended:?}");
            std::thread::sleep(Duration::from_micros(random.below(300_000)));
            let own = i32::try_from(program.id()).unwrap();
            let found = processes(&yard);
            let own = program.try_wait().unwrap().is_none().then_some((own, Victim::Program));
            let victims = own.into_iter().chain(found).filter(|(_, what)| victim == Victim::All || *what == victim);
            let hit = victims.filter(|(pid, _)| kill(*pid)).count();
            killed += u32::from(hit > 0);
            let began = Instant::now();
            // Without its workers the program must end by itself: its run cannot go on.
            until("the program ends", Duration::from_secs(30), || program.try_wait().unwrap().is_some());
            let left = LEFT.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
            until(&format!("{context}: no process is left"), left, || processes(&yard).is_empty());
            accounted(&yard, &mut seen, &context).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_programs_death_and_everything_is_accounted_for() {
    dies(Victim::Program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_supervisors_death_and_everything_is_accounted_for() {
    dies(Victim::Supervisor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_a_launchers_death_and_everything_is_accounted_for() {
    dies(Victim::Launcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_death_of_a_workers_first_process_and_everything_is_accounted_for() {
    dies(Victim::Init).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_death_of_all_at_once_and_everything_is_accounted_for() {
    dies(Victim::All).await;
}
