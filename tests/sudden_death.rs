//! Sudden death: the program, its supervisor, a launcher, or all of them are killed at random moments of a live
//! session. No process stays, the next start says what it found, the journal verifies, publications are accounted for.

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
/// Times in one project.
const BATCH: u32 = 5;
/// How long anything of the run may stay.
const LEFT: Duration = Duration::from_secs(5);

const AGENT: &str = r#"
provider = "scripted"

[[turn]]
say = "Working."
[[turn.call]]
tool = "talk.say"
arguments = { command = "count 2000" }
[[turn.call]]
tool = "talk.say"
arguments = { command = "where" }
[[turn.call]]
tool = "talk.say"
arguments = { command = "count 2000" }

[[turn]]
say = "Saving."
[[turn.call]]
tool = "talk.save"
arguments = { command = "save" }

[[turn]]
say = "Done."
"#;

#[derive(Debug, Clone, Copy)]
enum Victim {
    Program,
    Supervisor,
    Launcher,
    All,
}

/// Processes of stockade that serve this project, by what they were started as. A worker's first process has its
/// launcher's arguments; everything the worker starts dies with it.
fn processes(label: &str, role: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(role) && line.contains(label) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

fn kill(pid: i32) {
    // It may be gone already: that is what is wanted.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
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

/// One victim, `TIMES` times. A fresh project now and then keeps the journals short.
async fn dies(victim: Victim) {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let mut random = Random(seed);
    for batch in 0..TIMES / BATCH {
        let yard = Yard::new();
        let save = "human_approval = true\nfinalize = true";
        yard.write("tools/talk.clad.toml", &support::TALK.replace(save, "finalize = true"));
        yard.write("agents/busy.toml", AGENT);
        yard.trust();
        let label = yard.places().project_state(&yard.root()).file_name().unwrap().to_str().unwrap().to_owned();
        let mut seen = 0;
        for time in 0..BATCH {
            let context = format!("{victim:?} {}, seed {seed}", batch * BATCH + time);
            let mut program = start(&yard);
            let mut ended = None;
            until("a session starts", Duration::from_secs(30), || {
                ended = program.try_wait().unwrap();
                ended.is_some() || !processes(&label, "__launch").is_empty()
            });
            // On a machine that stood still meanwhile the run may be over; it must then have ended well.
            assert!(ended.is_none_or(|status| status.success()), "{context}: {ended:?}");
            std::thread::sleep(Duration::from_micros(random.below(300_000)));
            let own = i32::try_from(program.id()).unwrap();
            let (supervisors, launchers) = (processes(&label, "__supervisor"), processes(&label, "__launch"));
            match victim {
                Victim::Program => kill(own),
                Victim::Supervisor => supervisors.iter().copied().for_each(kill),
                Victim::Launcher => launchers.first().copied().into_iter().for_each(kill),
                Victim::All => std::iter::once(own).chain(supervisors).chain(launchers).for_each(kill),
            }
            let killed = Instant::now();
            // Without its workers the program must end by itself: its run cannot go on.
            until("the program ends", Duration::from_secs(30), || program.try_wait().unwrap().is_some());
            let left = LEFT.saturating_sub(killed.elapsed()).max(Duration::from_secs(1));
            until(&format!("{context}: no process is left"), left, || processes(&label, "__").is_empty());
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
async fn nothing_survives_the_death_of_all_at_once_and_everything_is_accounted_for() {
    dies(Victim::All).await;
}
