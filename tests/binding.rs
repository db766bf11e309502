//! What an approval, a session and a publication are bound to, on the real boundary: one run, one principal, the files
//! and rules as they were, a worker that is gone, an output that was written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use stockade_protocol::command::{Command, Pending, Reply};
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event, GrantEvent};
use stockade_protocol::ids::RunId;
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::result::{CallResult, Execution, FilePublication, Removal};
use stockade_runtime::control::{Caller, Serve as _};
use stockade_runtime::ports::Ports;
use stockade_runtime::project::{Environment, Project};
use stockade_runtime::{Options, Runtime};
use support::{Yard, agent, call, code, events, line, open_run, pending, person, refusal, request};

fn asking(runtime: &Runtime, caller: &Caller, run: RunId, tool: &'static str) -> tokio::task::JoinHandle<CallResult> {
    let (runtime, caller) = (runtime.clone(), caller.clone());
    let command = if tool == "talk.save" { "save" } else { "risky one" };
    tokio::spawn(async move { call(&runtime, &caller, Some(run), line(tool, command)).await })
}

async fn decide(yard: &Yard, runtime: &Runtime, asked: &Pending, decision: Decision) -> Reply {
    let receipt = yard.receipt(asked, decision, None);
    runtime.command(&person(), Command::Decide { receipt }).await
}

fn recorded(runtime: &Runtime) -> usize {
    events(runtime).iter().filter(|event| matches!(event, Event::Call(CallEvent::Recorded { .. }))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_good_for_one_run_and_one_principal() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let mut works = Vec::new();
    for caller in [agent("one", 11), agent("one", 11), agent("two", 12)] {
        let run = open_run(&runtime, &caller).await;
        works.push((run, asking(&runtime, &caller, run, "talk.ask")));
    }
    let asked = pending(&runtime, 3).await;
    let of = |run: RunId| asked.iter().find(|asked| asked.run == run).unwrap().clone();
    let first = of(works[0].0);
    // The same line of the same tool by the same or another agent is another act when it belongs to another run.
    for (run, _) in &works[1..] {
        let mut crossed = of(*run);
        assert_ne!(crossed.contract, first.contract);
        crossed.contract = first.contract;
        let reply = decide(&yard, &runtime, &crossed, Decision::Approve).await;
        let Reply::Refused { refusal } = reply else { panic!("{reply:?}") };
        assert_eq!(refusal.code, RefusalCode::Stale);
        assert!(refusal.reason.contains("binding mismatch"), "{refusal}");
    }
    assert_eq!(recorded(&runtime), 0);
    assert_eq!(decide(&yard, &runtime, &first, Decision::Approve).await, Reply::Done {});
    let (_, work) = works.remove(0);
    assert_eq!(work.await.unwrap().output, "did one\r\n");
    assert_eq!(recorded(&runtime), 1);
    for (run, work) in works {
        assert_eq!(decide(&yard, &runtime, &of(run), Decision::Reject).await, Reply::Done {});
        assert_eq!(code(&work.await.unwrap()), Some(RefusalCode::Rejected));
    }
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_edited_during_a_run_do_not_apply_to_it_and_stop_its_calls() {
    type Change = fn(&Yard);
    let changes: [(&str, Change); 3] = [
        ("configuration", |yard| yard.configure(19, 60)),
        ("a policy", |yard| yard.write("policies/more.cedar", "permit (principal, action, resource);\n")),
        ("a manifest", |yard| yard.write("tools/count.clad.toml", &support::COUNT.replace("1.0.0", "1.0.1"))),
    ];
    for (what, change) in changes {
        let yard = Yard::new();
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let before = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
        assert_eq!(before.refusal, None, "{what}");
        let session = before.session;
        change(&yard);
        for (run, request) in
            [(Some(run), line("talk.say", "size")), (Some(run), request("count", &[])), (None, request("count", &[]))]
        {
            let after = call(&runtime, &person(), run, request).await;
            assert_eq!((code(&after), after.execution), (Some(RefusalCode::Stale), Execution::NotStarted), "{what}");
            assert!(refusal(&after).reason.contains("changed since the project was opened"), "{what}: {after:?}");
        }
        // The rules as they were are in force again, in the same run and session.
        match what {
            "configuration" => yard.configure(20, 60),
            "a policy" => fs::remove_file(yard.root().join("policies/more.cedar")).unwrap(),
            _ => yard.write("tools/count.clad.toml", support::COUNT),
        }
        let again = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
        assert_eq!((again.refusal.as_ref(), again.session), (None, session), "{what}");
        // A change applies to what is started after it.
        change(&yard);
        runtime.stop().await.unwrap();
        drop(runtime);
        let next = yard.start().await;
        assert_eq!(call(&next, &person(), None, request("count", &[])).await.refusal, None, "{what}");
        next.stop().await.unwrap();
        support::verified(next.journal_path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_changes_under_a_live_session_stops_its_next_line() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let before = call(&runtime, &person(), Some(run), line("talk.say", "where")).await;
    assert_eq!(before.output, "/work\r\nhello\r\n");
    yard.write("data/in.txt", "other\n");
    let after = call(&runtime, &person(), Some(run), line("talk.say", "where")).await;
    assert_eq!((code(&after), after.execution), (Some(RefusalCode::Stale), Execution::NotStarted), "{after:?}");
    // A new run reads the file as it is now.
    let other = open_run(&runtime, &person()).await;
    let fresh = call(&runtime, &person(), Some(other), line("talk.say", "where")).await;
    assert_eq!(fresh.output, "/work\r\nother\r\n");
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_declared_output_is_published_and_only_when_it_was_written() {
    for (script, published) in [
        ("printf 'saved\\n' > out/result.txt; printf 'more\\n' > /tmp/other.txt", true),
        (":", false),
        (": > out/result.txt", false),
        ("printf 'x' > /tmp/result.txt", false),
    ] {
        let yard = Yard::new();
        let save = "printf 'saved\\n' > out/result.txt; printf 'ok\\n'";
        assert!(support::TALK_SH.contains(save));
        yard.write("bin/talk.sh", &support::TALK_SH.replace(save, script));
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let work = asking(&runtime, &person(), run, "talk.save");
        let asked = pending(&runtime, 1).await.remove(0);
        decide(&yard, &runtime, &asked, Decision::Approve).await;
        let result = work.await.unwrap();
        let there: Vec<_> =
            fs::read_dir(yard.root().join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if published {
            assert_eq!((result.refusal.as_ref(), result.created_files.len()), (None, 1), "{script}");
            assert_eq!(there, ["result.txt"], "{script}");
        } else {
            assert_eq!(code(&result), Some(RefusalCode::Unpublished), "{script}: {result:?}");
            assert_ne!(result.file_publication, FilePublication::Published, "{script}");
            assert!(result.created_files.is_empty() && there.is_empty(), "{script}: {there:?}");
        }
        let said = events(&runtime).iter().any(|event| matches!(event, Event::Grant(GrantEvent::Unpublished { .. })));
        assert_eq!(said, !published, "{script}");
        runtime.stop().await.unwrap();
        support::verified(runtime.journal_path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_anybody_who_may_sign_nothing_runs_and_the_record_says_so() {
    let yard = Yard::new();
    yard.configure(1, 60);
    let options = Options {
        environment: Environment::Development,
        executable: env!("CARGO_BIN_EXE_stockade").into(),
        approvers: Vec::new(),
        person: person().principal,
        ports: Ports::system(),
    };
    yard.trust();
    let runtime = Runtime::start(Project::open(&yard.root()).unwrap(), &yard.places(), options).await.unwrap();
    let run = open_run(&runtime, &person()).await;
    let work = asking(&runtime, &person(), run, "talk.ask");
    let asked = pending(&runtime, 1).await.remove(0);
    let reply = decide(&yard, &runtime, &asked, Decision::Approve).await;
    assert!(matches!(&reply, Reply::Refused { .. }), "{reply:?}");
    let result = work.await.unwrap();
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Expired), Authority::Clock));
    let all = events(&runtime);
    let expired = |why: &str| {
        all.iter().any(|event| matches!(event, Event::Approval(ApprovalEvent::Expired { why: said }) if said == why))
    };
    assert!(expired("no-approver") && !expired("no-answer"));
    assert!(!all.iter().any(|event| matches!(event, Event::Approval(ApprovalEvent::Decided { .. }))));
    assert_eq!(recorded(&runtime), 0);
    let control = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
    assert_eq!(control.refusal, None, "what needs no person runs");
    runtime.stop().await.unwrap();
}

/// Processes of stockade that serve this project in a role.
fn processes(yard: &Yard, role: &str) -> Vec<Pid> {
    let state = yard.places().project_state(&yard.root());
    let label = state.file_name().unwrap().to_str().unwrap().to_owned();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).into_owned();
        (line.contains(role) && line.contains(&label)).then_some(Pid::from_raw(pid))
    });
    all.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_supervisor_neither_keeps_a_worker_alive_nor_stands_in_for_its_end() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let work = asking(&runtime, &person(), run, "talk.save");
    let asked = pending(&runtime, 1).await.remove(0);
    let opened = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
    assert_eq!(opened.refusal, None);
    let (frozen, launched) = (processes(&yard, "__supervisor"), processes(&yard, "__launch"));
    assert_eq!(frozen.len(), 1);
    assert!(!launched.is_empty());
    kill(frozen[0], Signal::SIGSTOP).unwrap();
    decide(&yard, &runtime, &asked, Decision::Approve).await;
    let result = work.await.unwrap();
    // The worker's end was seen without the supervisor, and only that made the publication possible.
    assert_eq!((result.refusal.as_ref(), result.removal), (None, Some(Removal::Confirmed)), "{result:?}");
    let first =
        launched.iter().any(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| in_use(&stat)));
    kill(frozen[0], Signal::SIGCONT).unwrap();
    assert!(!first, "a process of the worker was left when its output was published");
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

/// Whether this is the `stat` of a process that is not merely waiting to be reaped.
fn in_use(stat: &str) -> bool {
    !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_argument_of_a_program_is_on_the_card_as_it_will_be_passed() {
    let yard = Yard::new();
    yard.write(
        "tools/wrapped.clad.toml",
        "[tool]\nname = \"wrapped\"\nversion = \"1.0.0\"\ndescription = \"Wraps\"\nbinary = \"sh\"\nallow_interpreter = \
         true\nhuman_approval = true\n[args.payload]\ntype = \"string\"\nposition = 1\nallow_whitespace = true\nrequired = \
         true\ndescription = \"What\"\n[command]\nexec = [\"sh\", \"-c\", \"printf '%s|' \\\"$0\\\" \\\"$@\\\"\", \
         \"evil-arg0 \", \"\", \"{payload}\"]\n",
    );
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let mut contracts = Vec::new();
    for (at, payload) in ["tail a", "tail  a"].into_iter().enumerate() {
        let caller = runtime.clone();
        let work = tokio::spawn(async move {
            call(&caller, &person(), Some(run), request("wrapped", &[("payload", payload)])).await
        });
        let asked = pending(&runtime, 1).await.remove(0);
        let argv = asked.card.facts.iter().find(|fact| fact.label == "argv").unwrap();
        assert_eq!(argv.lines, ["sh", "-c", "printf '%s|' \"$0\" \"$@\"", "evil-arg0 ", "", payload]);
        contracts.push(asked.contract);
        if at == 0 {
            decide(&yard, &runtime, &asked, Decision::Reject).await;
            assert_eq!(code(&work.await.unwrap()), Some(RefusalCode::Rejected));
        } else {
            decide(&yard, &runtime, &asked, Decision::Approve).await;
            assert_eq!(work.await.unwrap().output, format!("evil-arg0 ||{payload}|"));
        }
    }
    assert_ne!(contracts[0], contracts[1], "a blank more or less is another contract");
    runtime.stop().await.unwrap();
}
