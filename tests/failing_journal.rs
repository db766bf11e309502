//! A journal that fails at every write and every sync of a whole piece of work, once each: a disk that is full, takes
//! half, or does not say that it has kept what it was given.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{CallEvent, Event, EventEnvelope, EventSource as _, GrantEvent};
use stockade_protocol::ids::RunId;
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::request::ToolCallRequest;
use stockade_protocol::result::{CallResult, Execution, FilePublication};
use stockade_runtime::Runtime;
use stockade_runtime::control::Serve as _;
use stockade_runtime::journal;
use stockade_runtime::ports::{Ports, Sink, SinkKind};
use stockade_runtime::project::Environment;
use support::{PATIENCE, Yard, call, decide, line, order, person, refusal, request, verified};

/// What the disk does at one of its operations. Each is counted among its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// A write takes nothing.
    Full,
    /// A write takes half.
    Short,
    /// A sync fails, and what it was for is lost.
    Lost,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<(Fault, u64)>,
    failed: bool,
    /// Bytes of records that were written, and that a sync has covered.
    written: u64,
    durable: u64,
}

/// A disk that fails once it is told to.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn ports(&self) -> Ports {
        let disk = self.clone();
        Ports::system().journal_through(move |kind, inner| Box::new(File { disk: disk.clone(), kind, inner }))
    }

    /// The `after`th operation of its kind from now on fails.
    fn fail(&self, fault: Fault, after: u64) {
        self.0.lock().unwrap().fault = Some((fault, after));
    }

    fn failed(&self) -> bool {
        self.0.lock().unwrap().failed
    }

    fn durable(&self) -> u64 {
        self.0.lock().unwrap().durable
    }

    /// The fault, if it is the turn of one of these.
    fn due(&self, faults: &[Fault]) -> Option<Fault> {
        let mut state = self.0.lock().unwrap();
        let (fault, after) = state.fault.filter(|(fault, _)| faults.contains(fault))?;
        state.fault = after.checked_sub(1).map(|after| (fault, after));
        state.failed |= after == 0;
        (after == 0).then_some(fault)
    }
}

struct File {
    disk: Disk,
    kind: SinkKind,
    inner: Box<dyn Sink>,
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.disk.failed(), "nothing is written after a failure");
        let taken = match self.disk.due(&[Fault::Full, Fault::Short]) {
            Some(Fault::Short) => self.inner.write(&bytes[..bytes.len() / 2])?,
            Some(_) => return Err(io::ErrorKind::StorageFull.into()),
            None => self.inner.write(bytes)?,
        };
        if self.kind == SinkKind::Records {
            self.disk.0.lock().unwrap().written += taken as u64;
        }
        Ok(taken)
    }

    fn sync(&mut self) -> io::Result<()> {
        assert!(!self.disk.failed(), "a failed sync is not tried again");
        if self.disk.due(&[Fault::Lost]).is_some() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inner.sync()?;
        if self.kind == SinkKind::Records {
            let mut state = self.disk.0.lock().unwrap();
            state.durable = state.written;
        }
        Ok(())
    }
}

/// A line in a session, a one-shot tool, and a line that a person approves and that publishes a file. Ends early once
/// the journal has failed.
async fn work(yard: &Yard, runtime: &Runtime) -> Vec<CallResult> {
    let Reply::Started { run } = runtime.command(&person(), Command::OpenRun { title: "work".to_owned() }).await else {
        return Vec::new();
    };
    let mut results = Vec::new();
    for request in [line("talk.say", "echo one"), request("count", &[])] {
        results.push(call(runtime, &person(), Some(run), request).await);
    }
    results.push(approved(yard, runtime, run, line("talk.save", "save")).await);
    results
}

/// A call that waits for a person and is approved, if it comes that far.
async fn approved(yard: &Yard, runtime: &Runtime, run: RunId, request: ToolCallRequest) -> CallResult {
    let (runtime, calling) = (runtime.clone(), runtime.clone());
    let mut calling = tokio::spawn(async move { call(&calling, &person(), Some(run), request).await });
    let events = runtime.events();
    loop {
        let seen = events.len();
        let list = runtime.command(&person(), Command::ListApprovals).await;
        if let Reply::Approvals { pending } = list
            && let Some(pending) = pending.first()
        {
            decide(&runtime, yard.receipt(pending, Decision::Approve, None)).await;
            break;
        }
        tokio::select! {
            result = &mut calling => return result.unwrap(),
            _more = events.changed(seen) => {}
        }
    }
    calling.await.unwrap()
}

/// Waits until no session is live, without asking for anything else.
async fn no_session_is_left(runtime: &Runtime) {
    let ending = async {
        loop {
            let Reply::Sessions { sessions } = runtime.command(&person(), Command::ListSessions).await else {
                panic!()
            };
            if sessions.is_empty() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ending).await.expect("the sessions end by themselves");
}

/// How many launchers and first processes of this project's workers there are.
fn workers(yard: &Yard) -> usize {
    support::helpers(yard, &yard.root()).iter().filter(|(_, line)| line.contains("__launch")).count()
}

/// The calls whose intent is in these records, and the results.
fn told(records: &[Arc<EventEnvelope>]) -> (BTreeSet<String>, Vec<CallResult>) {
    let recorded = records.iter().filter(|record| matches!(record.event, Event::Call(CallEvent::Recorded { .. })));
    let finished = records.iter().filter_map(|record| match &record.event {
        Event::Call(CallEvent::Finished { result }) => Some((**result).clone()),
        _ => None,
    });
    (recorded.filter_map(|record| record.call).map(|call| call.to_string()).collect(), finished.collect())
}

/// What the disk kept: all that was written, or, where a sync failed, nothing that no sync has covered.
fn lose(journal: &Path, fault: Fault, disk: &Disk) {
    if fault == Fault::Lost {
        let records = fs::OpenOptions::new().write(true).open(journal.join("records.jsonl")).unwrap();
        records.set_len(disk.durable()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_fails_at_any_step_lets_nothing_run_unrecorded_nor_succeed_unrecorded() {
    let mut kinds = tokio::task::JoinSet::new();
    for fault in [Fault::Full, Fault::Short, Fault::Lost] {
        kinds.spawn(async move {
            let mut steps = 0;
            while failing(fault, steps).await {
                steps += 1;
            }
            assert!(steps > 15, "{fault:?}: only {steps} steps were there to fail at");
        });
    }
    kinds.join_all().await;
}

/// The whole work with the disk failing at one step. `false` when there was no such step any more.
async fn failing(fault: Fault, after: u64) -> bool {
    let what = format!("{fault:?} at {after}");
    let yard = Yard::new();
    let disk = Disk::default();
    let runtime = yard.try_start_as(Environment::Development, disk.ports()).await.unwrap();
    disk.fail(fault, after);
    let results = tokio::time::timeout(PATIENCE, work(&yard, &runtime)).await.unwrap_or_else(|_| panic!("{what}"));
    if disk.failed() {
        no_session_is_left(&runtime).await;
        assert_eq!(workers(&yard), 0, "{what}: workers without a session");
        let late = call(&runtime, &person(), None, request("count", &[])).await;
        assert_eq!(refusal(&late).authority, Authority::Journal, "{what}: {late:?}");
    } else {
        assert!(results.iter().all(|result| result.refusal.is_none()), "{what}: {results:#?}");
    }
    // The last seal comes after the last answer, and stopping writes too.
    let stopped = runtime.stop().await.is_ok();
    assert_eq!(stopped, !disk.failed(), "{what}: a journal that failed is not closed as if it had not");
    if stopped {
        return false;
    }
    let journal = runtime.journal_path().to_owned();
    assert_eq!(workers(&yard), 0, "{what}: workers after the stop");
    drop(runtime);
    lose(&journal, fault, &disk);

    let published = yard.root().join("out/result.txt").exists();
    let next = yard.start().await;
    let records = support::records(&next);
    let (recorded, finished) = told(&records);
    for result in &results {
        if result.execution != Execution::NotStarted {
            assert!(recorded.contains(&result.call.to_string()), "{what}: ran without its intent: {result:#?}");
        }
        let journaled = finished.contains(result);
        assert!(result.refusal.is_some() || journaled, "{what}: told and not journaled: {result:#?}");
        let unknown = support::code(result) == Some(RefusalCode::InDoubt);
        assert!(journaled || unknown || result.execution == Execution::NotStarted, "{what}: {result:#?}");
        if result.execution == Execution::NotStarted {
            assert!(result.output.is_empty() && result.created_files.is_empty(), "{what}: {result:#?}");
        }
    }
    let said = results.last().filter(|result| result.tool == "talk.save").map(|result| result.file_publication);
    if published {
        assert!(matches!(said, Some(FilePublication::Published | FilePublication::InDoubt)), "{what}: {said:?}");
    } else {
        assert_ne!(said, Some(FilePublication::Published), "{what}");
    }
    let known = records.iter().any(|record| match &record.event {
        Event::Grant(GrantEvent::Published { .. }) => true,
        Event::Grant(GrantEvent::Reconciled { state, .. }) => state == "published",
        _ => false,
    });
    assert_eq!(known, published, "{what}: what the journal says of the file");
    assert!(fs::read_dir(yard.root().join("out")).unwrap().count() <= usize::from(published), "{what}: leftovers");
    next.stop().await.unwrap();
    verified(&journal);
    order::settled(&journal::read(&journal).unwrap());
    true
}

/// Keeps its session and types into it for as long as it may.
fn busy(yard: &Yard) {
    let calls = [("talk.say", "count 20")];
    let mut turns = vec![("More.", &calls[..]); 15];
    turns.push(("Done.", &[]));
    yard.write("agents/busy.toml", &support::script(&turns));
}

/// The real program with the real kernel: its journal lies on a disk of its own that is soon full. Only root mounts one;
/// for anybody else a file that may not grow further takes its place.
#[test]
fn a_full_disk_ends_the_work_and_the_program_says_so() {
    let yard = Yard::new();
    busy(&yard);
    let state = yard.places().state.parent().unwrap().to_owned();
    fs::create_dir_all(&state).unwrap();
    let digest = stockade_runtime::project::Project::open(&yard.root()).unwrap().digest();
    let (enter, full): (&[&str], &str) = if nix::unistd::geteuid().is_root() {
        (&["unshare", "--mount"], "mount -t tmpfs -o size=64k,mode=700 none \"$2\"")
    } else {
        (&["env"], "trap '' XFSZ && ulimit -f 128")
    };
    let script = format!(
        "{full} && \"$1\" trust --digest \"$3\" . && \"$1\" run go --agent busy --headless; code=$?; \
         \"$1\" journal verify; echo verify $?; exit $code"
    );
    let mut command = std::process::Command::new(enter[0]);
    command.args(&enter[1..]).args(["sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_stockade")]).arg(&state);
    command.arg(digest.to_string()).current_dir(yard.root());
    command.env_clear().envs(yard.environment()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("the journal stopped accepting records"), "{said}");
    assert_eq!(output.status.code(), Some(5), "{said}");
    // What was recorded until then is still evidence.
    assert!(said.contains("verify 0"), "{said}");
    assert_eq!(workers(&yard), 0, "{said}");
}
