//! Callers that go away, change their minds and come all at once. Whatever they do, the journal tells one order of
//! events, nothing starts after a cancel was acknowledged, and nothing is left open.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{CallEvent, Event, EventSource as _, RunEvent, SessionEvent};
use stockade_protocol::ids::RunId;
use stockade_protocol::limits;
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::request::ToolCallRequest;
use stockade_protocol::result::{CallResult, Removal};
use stockade_runtime::Runtime;
use stockade_runtime::control::{Caller, Serve as _};
use support::{
    PATIENCE, Yard, agent, call, code, decide, event, events, line, open_run, order, pending, person, records, refusal,
    request,
};
use tokio::task::JoinHandle;

/// A program that closes its output and works on.
const QUIET: &str = r#"
[tool]
name = "quiet"
version = "1.0.0"
description = "Says nothing and goes on"
binary = "sh"
allow_interpreter = true
timeout_seconds = 60

[command]
exec = ["/bin/sh", "bin/quiet.sh"]

[filesystem]
read = ["bin/quiet.sh"]
"#;

fn spawned(runtime: &Runtime, caller: &Caller, run: Option<RunId>, request: ToolCallRequest) -> JoinHandle<CallResult> {
    let (runtime, caller) = (runtime.clone(), caller.clone());
    tokio::spawn(async move { call(&runtime, &caller, run, request).await })
}

/// Drives a future for so many polls and then drops it.
struct Polled<F>(Pin<Box<F>>, usize);

impl<F: Future> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 == 0 {
            return Poll::Ready(None);
        }
        self.1 -= 1;
        match self.0.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.1 == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    Polled(Box::pin(future), polls).await
}

fn dispatches(runtime: &Runtime) -> usize {
    events(runtime).iter().filter(|event| matches!(event, Event::Call(CallEvent::Dispatched { .. }))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_may_be_dropped_at_any_moment() {
    let yard = Yard::new();
    yard.configure(1, 60);
    let runtime = yard.start().await;
    let one = agent("one", 11);
    let run = open_run(&runtime, &one).await;
    for polls in 1..6 {
        for (run, request) in [
            (None, request("count", &[])),
            (Some(run), line("talk.ask", "risky one")),
            (None, line("talk.say", "size")),
        ] {
            let mut request = request;
            request.invocation_id = Some(format!("{polls} {}", request.tool));
            let command = Command::Call { request: request.clone(), run };
            drop(dropped_after(polls, runtime.command(&one, command)).await);
            // The same id again never runs it twice, and is not told that it was never seen.
            if run.is_none() && request.tool == "count" {
                let again = call(&runtime, &one, None, request).await;
                assert!(code(&again).is_none_or(|code| code != RefusalCode::Invalid), "{again:?}");
            }
        }
    }
    runtime.stop().await.unwrap();
    order::accounted(&records(&runtime));
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_once_a_cancel_is_acknowledged_however_the_approval_comes() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let mut started = 0;
    for round in 0..40_u64 {
        let one = agent("one", 100 + round);
        let run = open_run(&runtime, &one).await;
        let work = spawned(&runtime, &one, Some(run), line("talk.ask", "risky one"));
        let asked = pending(&runtime, 1).await.remove(0);
        let receipt = yard.receipt(&asked, Decision::Approve, None);
        let approving = {
            let runtime = runtime.clone();
            tokio::spawn(async move { decide(&runtime, receipt).await })
        };
        if round % 4 != 0 {
            tokio::time::sleep(std::time::Duration::from_micros(round * 400)).await;
        }
        runtime.caller_gone(&one).await;
        let acknowledged = runtime.events().len();
        let result = work.await.unwrap();
        approving.await.unwrap();
        for late in runtime.events().pull(acknowledged, usize::MAX) {
            assert_ne!(late.run, Some(run), "after the acknowledgement: {late:?}");
        }
        started += usize::from(result.session.is_some());
    }
    assert!(started < 40 || dispatches(&runtime) > 0);
    runtime.stop().await.unwrap();
    order::accounted(&records(&runtime));
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_ended_once_however_often_it_is_ended() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let hung = spawned(&runtime, &me, Some(run), line("talk.hang", "hang"));
    event(&runtime, |envelope| matches!(envelope.event, Event::Session(SessionEvent::Input { .. }))).await;
    // One who asks and does not wait; then two at once.
    assert_eq!(dropped_after(1, runtime.command(&me, Command::EndRun { run })).await, None);
    let (first, second) =
        tokio::join!(runtime.command(&me, Command::EndRun { run }), runtime.command(&me, Command::EndRun { run }));
    for reply in [&first, &second] {
        let unknown = matches!(reply, Reply::Refused { refusal } if refusal.reason.contains("no open run"));
        assert!(*reply == Reply::Done {} || unknown, "{reply:?}");
    }
    order::settled(&records(&runtime));
    assert_eq!(
        (code(&hung.await.unwrap()), runtime.stop().await.unwrap()),
        (Some(RefusalCode::Cancelled), Removal::Confirmed)
    );
    let ends = events(&runtime).iter().filter(|event| matches!(event, Event::Run(RunEvent::Ended { .. }))).count();
    assert_eq!(ends, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_run_comes_after_its_end() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    for _ in 0..10 {
        let run = open_run(&runtime, &me).await;
        let calls: Vec<_> = (0..12)
            .map(|at| {
                let request = if at % 2 == 0 { request("count", &[]) } else { line("talk.say", "size") };
                spawned(&runtime, &me, Some(run), request)
            })
            .collect();
        assert_eq!(runtime.command(&me, Command::EndRun { run }).await, Reply::Done {});
        for call in calls {
            call.await.unwrap();
        }
        order::accounted(&records(&runtime));
    }
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_what_lives_what_waits_and_what_comes_meanwhile() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let mut works = Vec::new();
    for _ in 0..3 {
        let run = open_run(&runtime, &me).await;
        works.push(spawned(&runtime, &me, Some(run), line("talk.ask", "risky one")));
        let run = open_run(&runtime, &me).await;
        works.push(spawned(&runtime, &me, Some(run), line("talk.hang", "hang")));
    }
    pending(&runtime, 3).await;
    let mut typed = 0;
    event(&runtime, |envelope| {
        typed += usize::from(matches!(envelope.event, Event::Session(SessionEvent::Input { .. })));
        typed == 3
    })
    .await;
    let late: Vec<_> = (0..20).map(|_| spawned(&runtime, &me, None, request("count", &[]))).collect();
    assert_eq!(runtime.stop().await.unwrap(), Removal::Confirmed);
    for work in works {
        assert_eq!(code(&work.await.unwrap()), Some(RefusalCode::Cancelled));
    }
    for work in late {
        work.await.unwrap();
    }
    let after = call(&runtime, &me, None, request("count", &[])).await;
    assert!(after.refusal.is_some(), "{after:?}");
    order::accounted(&records(&runtime));
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_closed_its_output_is_cancelled_like_any_other() {
    let yard = Yard::new();
    yard.write("tools/quiet.clad.toml", QUIET);
    yard.write("bin/quiet.sh", "exec >&- 2>&-\nsleep 600\n");
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let work = spawned(&runtime, &me, Some(run), request("quiet", &[]));
    event(&runtime, |envelope| matches!(envelope.event, Event::Call(CallEvent::Dispatched { .. }))).await;
    // Nothing tells when it has closed its output; that it has, is what this is about.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(runtime.command(&me, Command::EndRun { run }).await, Reply::Done {});
    order::settled(&records(&runtime));
    let result = work.await.unwrap();
    assert_eq!((code(&result), result.removal), (Some(RefusalCode::Cancelled), Some(Removal::Confirmed)));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_not_given_twice_to_a_worker_that_closes_its_output() {
    let yard = Yard::new();
    yard.write("tools/quiet.clad.toml", &QUIET.replace("timeout_seconds = 60", "timeout_seconds = 8"));
    yard.write("bin/quiet.sh", "sleep 7\nexec >&- 2>&-\nsleep 600\n");
    let runtime = yard.start().await;
    let result = call(&runtime, &person(), None, request("quiet", &[])).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Timeout), Authority::Clock));
    // Given twice, it would be 15 s.
    assert!(result.duration_ms < 14_000, "{} ms", result.duration_ms);
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_other_files_cannot_lose_a_run_its_session() {
    let yard = Yard::new();
    let tool = support::TALK
        .replace(r#"create = ["out/result.txt"]"#, "")
        .replace(r#"read = ["bin/talk.sh", "data/in.txt"]"#, r#"read = ["bin/talk.sh", "{which}"]"#)
        .replace("finalize = true", "")
        .replace("[session]\n", "[args.which]\nposition = 1\nrequired = true\ntype = \"path\"\n\n[session]\n");
    yard.write("tools/talk.clad.toml", &tool);
    yard.write("data/other.txt", "other\n");
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let asking = |which: &str| request("talk.ask", &[("command", "risky one"), ("which", which)]);
    let works =
        ["data/in.txt", "data/other.txt", "data/in.txt"].map(|which| spawned(&runtime, &me, Some(run), asking(which)));
    let mut answered = 0;
    while answered < 3 {
        for asked in pending(&runtime, 0).await {
            decide(&runtime, yard.receipt(&asked, Decision::Approve, None)).await;
        }
        answered = works.iter().filter(|work| work.is_finished()).count();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut ran = 0;
    for work in works {
        let result = work.await.unwrap();
        ran += usize::from(result.refusal.is_none());
        assert!(
            code(&result).is_none_or(|code| code == RefusalCode::Stale || code == RefusalCode::Limit),
            "{result:?}"
        );
    }
    assert!(ran >= 1);
    assert_eq!(runtime.command(&me, Command::EndRun { run }).await, Reply::Done {});
    order::accounted(&records(&runtime));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_more_live_sessions_than_allowed() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let mut works = Vec::new();
    for _ in 0..limits::LIVE_SESSIONS + 6 {
        let run = open_run(&runtime, &me).await;
        works.push(spawned(&runtime, &me, Some(run), line("talk.ask", "risky one")));
    }
    // All are prepared before the first is opened.
    for asked in pending(&runtime, works.len()).await {
        assert_eq!(decide(&runtime, yard.receipt(&asked, Decision::Approve, None)).await, Reply::Done {});
    }
    let mut refused = 0;
    for work in works {
        let result = work.await.unwrap();
        assert!(code(&result).is_none_or(|code| code == RefusalCode::Limit), "{result:?}");
        refused += usize::from(result.refusal.is_some());
    }
    let opened =
        events(&runtime).iter().filter(|event| matches!(event, Event::Session(SessionEvent::Opened { .. }))).count();
    assert_eq!((opened, refused), (limits::LIVE_SESSIONS, 6));
    runtime.stop().await.unwrap();
    order::accounted(&records(&runtime));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_of_a_run_wait_than_allowed_however_fast_they_come() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let works: Vec<_> = (0..40).map(|_| spawned(&runtime, &me, Some(run), line("talk.ask", "risky one"))).collect();
    let mut refused = 0;
    event(&runtime, |envelope| {
        refused += usize::from(matches!(envelope.event, Event::Call(CallEvent::Finished { .. })));
        refused == 40 - limits::PENDING_APPROVALS_PER_RUN
    })
    .await;
    assert_eq!(pending(&runtime, 1).await.len(), limits::PENDING_APPROVALS_PER_RUN);
    runtime.stop().await.unwrap();
    for work in works {
        let result = work.await.unwrap();
        assert!(matches!(code(&result), Some(RefusalCode::Limit | RefusalCode::Cancelled)), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_invocation_id_used_a_hundred_times_at_once_runs_one_call() {
    let yard = Arc::new(Yard::new());
    let runtime = yard.start().await;
    let (one, two) = (agent("one", 11), agent("two", 12));
    let named = || {
        let mut request = request("count", &[]);
        request.invocation_id = Some("once".to_owned());
        request
    };
    let works: Vec<_> = (0..100).map(|_| spawned(&runtime, &one, None, named())).collect();
    let mut done = 0;
    for work in works {
        let result = work.await.unwrap();
        assert!(code(&result).is_none_or(|code| code == RefusalCode::InDoubt), "{result:?}");
        done += usize::from(result.refusal.is_none());
    }
    assert!(done >= 1);
    assert_eq!(dispatches(&runtime), 1);
    // Another's same id is another id.
    let other = call(&runtime, &two, None, named()).await;
    assert_eq!((other.refusal.as_ref(), dispatches(&runtime)), (None, 2));
    runtime.stop().await.unwrap();
    order::accounted(&records(&runtime));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_takes_along_what_it_was_about_to_open() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    for connection in 1..30 {
        let one = agent("one", connection);
        let opening = {
            let (runtime, one) = (runtime.clone(), one.clone());
            tokio::spawn(async move { runtime.command(&one, Command::OpenRun { title: "late".to_owned() }).await })
        };
        tokio::task::yield_now().await;
        runtime.caller_gone(&one).await;
        tokio::time::timeout(PATIENCE, opening).await.unwrap().unwrap();
    }
    order::settled(&records(&runtime));
    runtime.stop().await.unwrap();
}
