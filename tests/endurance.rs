//! What is left of many calls and sessions, and of a runtime that nobody stopped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;
use stockade_protocol::event::{Event, EventSource as _, GrantEvent, RuntimeEvent};
use stockade_runtime::{Runtime, StartError, journal};
use support::{PATIENCE, Yard, call, end_run, line, open_run, order, pending, person, records, request, verified};

/// What a process holds is counted, so these tests do not run beside each other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What this process has: open files, tasks, and entries in the project's own places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    files: usize,
    tasks: usize,
    entries: usize,
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, |entries| {
        entries.flatten().map(|entry| 1 + if entry.path().is_dir() { count(&entry.path()) } else { 0 }).sum()
    })
}

fn held(yard: &Yard) -> Held {
    Held {
        files: fs::read_dir("/proc/self/fd").unwrap().count(),
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        entries: count(yard.places().state.parent().unwrap()),
    }
}

fn processes(yard: &Yard) -> usize {
    support::helpers(yard, &yard.root()).len()
}

async fn session(runtime: &Runtime) {
    let run = open_run(runtime, &person()).await;
    assert_eq!(call(runtime, &person(), Some(run), line("talk.say", "echo one")).await.refusal, None);
    end_run(runtime, &person(), run).await;
}

/// Waits until something is so: what was told to end ends a moment later.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_and_sessions_leave_no_file_task_process_or_directory_behind() {
    let _alone = ALONE.lock().await;
    let yard = Yard::new();
    let runtime = yard.start().await;
    let round = async |sessions: usize, calls: usize| {
        for _ in 0..sessions {
            session(&runtime).await;
        }
        for _ in 0..calls {
            assert_eq!(call(&runtime, &person(), None, request("count", &[])).await.refusal, None);
        }
    };
    round(2, 2).await;
    let (mut before, mut first) = (held(&yard), processes(&yard));
    until("a first state that stands still", || {
        let now = (held(&yard), processes(&yard));
        let still = now == (before, first);
        (before, first) = now;
        still
    })
    .await;
    round(50, 200).await;
    let mut now = before;
    let gone = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            now = held(&yard);
            if now == before && processes(&yard) == first {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(gone.await.is_ok(), "{before:?} became {now:?}, {first} processes {}", processes(&yard));
    runtime.stop().await.unwrap();
    until("no process is left", || processes(&yard) == 0).await;
}

/// Starts again as soon as what the dropped runtime told to end has ended.
async fn again(yard: &Yard) -> Runtime {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        match yard.try_start().await {
            Ok(runtime) => return runtime,
            Err(error @ (StartError::Busy | StartError::Journal(_) | StartError::Boundary(_))) => {
                assert!(tokio::time::Instant::now() < end, "{error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn found(records: &[std::sync::Arc<stockade_protocol::event::EventEnvelope>]) -> usize {
    records.iter().filter(|record| matches!(record.event, Event::Runtime(RuntimeEvent::Found { .. }))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_is_dropped_removes_its_workers_publishes_nothing_and_leaves_a_journal_that_verifies() {
    let _alone = ALONE.lock().await;
    let yard = Yard::new();
    let runtime = yard.start().await;
    let path = runtime.journal_path().to_owned();
    let run = open_run(&runtime, &person()).await;
    assert_eq!(call(&runtime, &person(), Some(run), line("talk.say", "echo one")).await.refusal, None);
    let waiting = {
        let runtime = runtime.clone();
        tokio::spawn(async move { call(&runtime, &person(), Some(run), line("talk.save", "save")).await })
    };
    pending(&runtime, 1).await;
    let hanging = {
        let runtime = runtime.clone();
        tokio::spawn(async move {
            let run = open_run(&runtime, &person()).await;
            call(&runtime, &person(), Some(run), line("talk.hang", "hang")).await
        })
    };
    let events = runtime.events();
    support::event(&runtime, |envelope| {
        matches!(&envelope.event, Event::Session(stockade_protocol::event::SessionEvent::Input { text, .. }) if text.raw() == "hang")
    })
    .await;
    waiting.abort();
    hanging.abort();
    drop((waiting.await, hanging.await));
    drop(runtime);
    until("the workers are removed", || processes(&yard) == 0).await;
    assert_eq!(fs::read_dir(yard.root().join("out")).unwrap().count(), 0);
    let seen = events.len();

    let next = again(&yard).await;
    let all = records(&next);
    assert!(all.len() as u64 >= seen);
    assert!(!all.iter().any(|record| matches!(record.event, Event::Grant(GrantEvent::Published { .. }))));
    let first = found(&all);
    next.stop().await.unwrap();
    drop(next);
    order::settled(&journal::read(&path).unwrap());
    verified(&path);

    let last = yard.start().await;
    assert_eq!(found(&records(&last)), first, "what was found once is not found again");
    last.stop().await.unwrap();
    verified(&path);
}
