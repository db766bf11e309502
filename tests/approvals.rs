//! Approvals, publication and what can go stale, on the real boundary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::sync::Arc;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event};
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::result::{Execution, FilePublication, Removal};
use stockade_runtime::Runtime;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::Serve as _;
use support::{Yard, agent, call, code, end_run, events, line, open_run, pending, person, refusal};

fn waiting(
    runtime: &Runtime,
    run: stockade_protocol::ids::RunId,
    command: &'static str,
) -> tokio::task::JoinHandle<stockade_protocol::result::CallResult> {
    let runtime = runtime.clone();
    let tool = if command == "save" { "talk.save" } else { "talk.ask" };
    tokio::spawn(async move { call(&runtime, &person(), Some(run), line(tool, command)).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_finalizing_line_publishes_exactly_what_was_staged() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let work = waiting(&runtime, run, "save");
    let asked = pending(&runtime, 1).await.remove(0);
    assert!(!yard.root().join("out/result.txt").exists());
    let receipt = yard.receipt(&asked, Decision::Approve, None);
    assert_eq!(runtime.command(&person(), Command::Decide { receipt }).await, Reply::Done {});
    let result = work.await.unwrap();
    assert_eq!(result.refusal, None, "{result:?}");
    assert_eq!((result.execution, result.session_closed), (Execution::SessionFinalized, true));
    assert_eq!((result.file_publication, result.removal), (FilePublication::Published, Some(Removal::Confirmed)));
    let file = &result.created_files[0];
    assert_eq!((file.path.as_str(), file.bytes), ("out/result.txt", 6));
    assert_eq!(fs::read(&file.host_path).unwrap(), b"saved\n");
    assert_eq!(file.sha256, stockade_protocol::digest::Digest::of("saved\n"));
    end_run(&runtime, &person(), run).await;
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_carries_its_reason_and_touches_only_its_call() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let work = waiting(&runtime, run, "risky one");
    let asked = pending(&runtime, 1).await.remove(0);
    let receipt = yard.receipt(&asked, Decision::Reject, Some("use the staging bucket"));
    runtime.command(&person(), Command::Decide { receipt }).await;
    let result = work.await.unwrap();
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Rejected), Authority::Person));
    assert_eq!(refusal(&result).reason, "use the staging bucket");
    assert_eq!(result.execution, Execution::NotStarted);
    let other = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
    assert_eq!(other.refusal, None);
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobodys_answer_is_recorded_as_expired_and_never_as_a_persons() {
    let yard = Yard::new();
    yard.configure(1, 60);
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let result = call(&runtime, &person(), Some(run), line("talk.ask", "risky one")).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Expired), Authority::Clock));
    let all = events(&runtime);
    assert!(
        all.iter().any(|event| matches!(event, Event::Approval(ApprovalEvent::Expired { why }) if why == "no-answer"))
    );
    assert!(!all.iter().any(|event| matches!(event, Event::Approval(ApprovalEvent::Decided { .. }))));
    assert!(!all.iter().any(|event| matches!(event, Event::Call(CallEvent::Recorded { .. }))));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_receipt_used_a_hundred_times_at_once_runs_one_call() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    // Several calls that would do exactly the same wait: the receipt is over what happens, so it could serve any of
    // them, and it must serve one.
    let works: Vec<_> = (0..4).map(|_| waiting(&runtime, run, "risky one")).collect();
    let asked = pending(&runtime, 4).await;
    let receipt = yard.receipt(&asked[0], Decision::Approve, None);
    let uses: Vec<_> = (0..100)
        .map(|_| {
            let (runtime, receipt) = (runtime.clone(), receipt.clone());
            tokio::spawn(async move { runtime.command(&person(), Command::Decide { receipt }).await })
        })
        .collect();
    let mut accepted = 0;
    for answer in uses {
        match answer.await.unwrap() {
            Reply::Done {} => accepted += 1,
            Reply::Refused { refusal } => assert_eq!(refusal.code, RefusalCode::Stale, "{refusal}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(accepted, 1);
    for waiting in pending(&runtime, 3).await {
        let receipt = yard.receipt(&waiting, Decision::Reject, None);
        assert_eq!(runtime.command(&person(), Command::Decide { receipt }).await, Reply::Done {});
    }
    let mut ran = 0;
    for work in works {
        ran += usize::from(work.await.unwrap().refusal.is_none());
    }
    assert_eq!(ran, 1);
    let recorded =
        events(&runtime).iter().filter(|event| matches!(event, Event::Call(CallEvent::Recorded { .. }))).count();
    assert_eq!(recorded, 1);
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_for_something_else_is_refused_with_both_digests() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let one = waiting(&runtime, run, "risky one");
    let first = pending(&runtime, 1).await.remove(0);
    let two = waiting(&runtime, run, "risky two");
    let second = pending(&runtime, 2).await.into_iter().find(|asked| asked.call != first.call).unwrap();

    let mut crossed = first.clone();
    crossed.contract = second.contract;
    let refused =
        runtime.command(&person(), Command::Decide { receipt: yard.receipt(&crossed, Decision::Approve, None) }).await;
    let Reply::Refused { refusal: mismatch } = refused else { panic!("{refused:?}") };
    assert_eq!(mismatch.code, RefusalCode::Stale);
    assert!(mismatch.reason.contains("binding mismatch"), "{mismatch}");
    assert!(
        mismatch.reason.contains(&first.contract.to_string()) && mismatch.reason.contains(&second.contract.to_string())
    );

    let mut unseen = first.clone();
    unseen.card.facts.clear();
    let refused =
        runtime.command(&person(), Command::Decide { receipt: yard.receipt(&unseen, Decision::Approve, None) }).await;
    assert!(
        matches!(&refused, Reply::Refused { refusal } if refusal.reason.contains("binding mismatch: the text")),
        "{refused:?}"
    );

    let stranger = ApproverKey::ephemeral("tester");
    let refused = runtime
        .command(&person(), Command::Decide { receipt: yard.receipt_by(&stranger, &first, Decision::Approve, None) })
        .await;
    assert!(matches!(&refused, Reply::Refused { refusal } if refusal.code == RefusalCode::Invalid), "{refused:?}");

    let mut forged = yard.receipt(&first, Decision::Reject, None);
    forged.body.decision = Decision::Approve;
    let refused = runtime.command(&person(), Command::Decide { receipt: forged }).await;
    assert!(matches!(&refused, Reply::Refused { refusal } if refusal.reason.contains("signature")), "{refused:?}");

    let mut late = yard.receipt(&first, Decision::Approve, None).body;
    late.time = stockade_protocol::time::Timestamp(1);
    late.expires = stockade_protocol::time::Timestamp(2);
    let refused = runtime.command(&person(), Command::Decide { receipt: yard.approver.sign(late).unwrap() }).await;
    assert!(matches!(&refused, Reply::Refused { refusal } if refusal.code == RefusalCode::Expired), "{refused:?}");

    let by_agent = runtime
        .command(&agent("one", 11), Command::Decide { receipt: yard.receipt(&first, Decision::Approve, None) })
        .await;
    assert!(matches!(&by_agent, Reply::Refused { refusal } if refusal.code == RefusalCode::Denied), "{by_agent:?}");

    // The control: the same person's receipt over what was shown is taken.
    assert_eq!(
        runtime.command(&person(), Command::Decide { receipt: yard.receipt(&first, Decision::Approve, None) }).await,
        Reply::Done {}
    );
    assert_eq!(one.await.unwrap().output, "did one\r\n");
    assert_eq!(
        runtime.command(&person(), Command::Decide { receipt: yard.receipt(&second, Decision::Approve, None) }).await,
        Reply::Done {}
    );
    assert_eq!(two.await.unwrap().output, "did two\r\n");
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_after_approval_is_stale_and_the_approval_void() {
    type Change = fn(&Yard);
    let changes: [(&str, Change); 4] = [
        ("a policy", |yard| yard.write("policies/all.cedar", "forbid (principal, action, resource);\n")),
        ("a manifest", |yard| yard.write("tools/talk.clad.toml", &support::TALK.replace("1.0.0", "1.0.1"))),
        ("an input", |yard| yard.write("data/in.txt", "other\n")),
        ("the target", |yard| yard.write("out/result.txt", "mine\n")),
    ];
    for (what, change) in changes {
        let yard = Yard::new();
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let work = waiting(&runtime, run, "save");
        let asked = pending(&runtime, 1).await.remove(0);
        change(&yard);
        let receipt = yard.receipt(&asked, Decision::Approve, None);
        runtime.command(&person(), Command::Decide { receipt }).await;
        let result = work.await.unwrap();
        assert_eq!(
            (code(&result), result.execution),
            (Some(RefusalCode::Stale), Execution::NotStarted),
            "{what}: {result:?}"
        );
        let all = events(&runtime);
        assert!(all.iter().any(|event| matches!(event, Event::Approval(ApprovalEvent::Void { .. }))), "{what}");
        assert!(!all.iter().any(|event| matches!(event, Event::Call(CallEvent::Recorded { .. }))), "{what}");
        runtime.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_call_is_never_run_by_a_late_approval() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let caller = agent("one", 11);
    let run = open_run(&runtime, &caller).await;
    let work = {
        let (runtime, caller) = (runtime.clone(), caller.clone());
        tokio::spawn(async move { call(&runtime, &caller, Some(run), line("talk.ask", "risky one")).await })
    };
    let asked = pending(&runtime, 1).await.remove(0);
    runtime.caller_gone(&caller).await;
    assert_eq!(code(&work.await.unwrap()), Some(RefusalCode::Cancelled));
    let late =
        runtime.command(&person(), Command::Decide { receipt: yard.receipt(&asked, Decision::Approve, None) }).await;
    assert!(matches!(&late, Reply::Refused { refusal } if refusal.code == RefusalCode::Stale), "{late:?}");
    assert!(!events(&runtime).iter().any(|event| matches!(event, Event::Call(CallEvent::Recorded { .. }))));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_without_the_finalizing_line_discards_the_output_and_says_so() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let first = call(&runtime, &person(), Some(run), line("talk.say", "size")).await;
    assert_eq!(first.file_publication, FilePublication::Pending);
    end_run(&runtime, &person(), run).await;
    let ended = events(&runtime).into_iter().find_map(|event| match event {
        Event::Run(stockade_protocol::event::RunEvent::Ended { outcome, reason, .. }) => Some((outcome, reason)),
        _ => None,
    });
    let (outcome, reason) = ended.unwrap();
    assert_eq!(outcome, stockade_protocol::event::RunOutcome::Failed);
    assert!(reason.unwrap().raw().contains("without publishing"));
    assert!(!yard.root().join("out/result.txt").exists());
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_denies_by_default_and_says_what_is_missing() {
    let yard = Yard::new();
    fs::remove_file(yard.root().join("policies/all.cedar")).unwrap();
    let runtime = yard.start().await;
    let result = call(&runtime, &person(), None, support::request("count", &[])).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Denied), Authority::Policy));
    assert_eq!(result.execution, Execution::NotStarted);
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_invocation_id_never_runs_twice() {
    let yard = Arc::new(Yard::new());
    let runtime = yard.start().await;
    let mut request = support::request("count", &[]);
    request.invocation_id = Some("once".to_owned());
    let first = call(&runtime, &person(), None, request.clone()).await;
    let second = call(&runtime, &person(), None, request.clone()).await;
    assert_eq!(first, second, "a repeat returns the recorded result");
    let mut other = support::line("talk.say", "size");
    other.invocation_id = Some("once".to_owned());
    assert_eq!(code(&call(&runtime, &person(), None, other).await), Some(RefusalCode::Invalid));
    let dispatched = |runtime: &Runtime| {
        events(runtime).iter().filter(|event| matches!(event, Event::Call(CallEvent::Dispatched { .. }))).count()
    };
    assert_eq!(dispatched(&runtime), 1);
    runtime.stop().await.unwrap();
    drop(runtime);
    let again = yard.start().await;
    assert_eq!(call(&again, &person(), None, request).await, first, "also after a restart");
    assert_eq!(dispatched(&again), 1);
    again.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_a_reason_is_shown_recorded_and_signed_only_as_its_mark() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let work = {
        let runtime = runtime.clone();
        let mut request = line("talk.save", "save");
        request.reason = Some("as told: password = hunter2222".to_owned());
        tokio::spawn(async move { call(&runtime, &person(), Some(run), request).await })
    };
    let asked = pending(&runtime, 1).await.remove(0);
    assert_eq!(asked.card.digest(), asked.shown);
    assert!(asked.card.text().contains("password = [redacted:password]"), "{}", asked.card.text());
    let recorded = events(&runtime).into_iter().find_map(|event| match event {
        Event::Approval(ApprovalEvent::Asked { card, shown, .. }) => Some((card, shown)),
        _ => None,
    });
    assert_eq!(recorded, Some((asked.card.clone(), asked.shown)), "what is recorded is what is shown");
    // An answer whose reason holds a secret would not be kept as it was signed.
    let receipt = yard.receipt(&asked, Decision::Reject, Some("token=abcdefghij"));
    let reply = runtime.command(&person(), Command::Decide { receipt }).await;
    let Reply::Refused { refusal } = reply else { panic!("{reply:?}") };
    assert_eq!(refusal.code, RefusalCode::Invalid);
    let receipt = yard.receipt(&asked, Decision::Approve, None);
    assert_eq!(runtime.command(&person(), Command::Decide { receipt }).await, Reply::Done {});
    assert_eq!(work.await.unwrap().refusal, None);
    let journal = fs::read_to_string(runtime.journal_path().join("records.jsonl")).unwrap();
    assert!(!journal.contains("hunter2222") && !journal.contains("abcdefghij"));
    end_run(&runtime, &person(), run).await;
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_or_changed_project_is_not_started() {
    use stockade_runtime::StartError;
    use stockade_runtime::project::{Environment, Project};
    let yard = Yard::new();
    let options = || stockade_runtime::Options {
        environment: Environment::Development,
        executable: env!("CARGO_BIN_EXE_stockade").into(),
        approvers: Vec::new(),
        person: stockade_protocol::ids::Principal::person("tester"),
        ports: stockade_runtime::ports::Ports::system(),
    };
    let places = yard.places();
    let start = || Runtime::start(Project::open(&yard.root()).unwrap(), &places, options());
    assert!(matches!(start().await, Err(StartError::Untrusted { .. })));
    yard.trust();
    let runtime = start().await.unwrap();
    runtime.stop().await.unwrap();
    drop(runtime);
    yard.write("policies/more.cedar", "permit (principal, action, resource);\n");
    assert!(matches!(start().await, Err(StartError::Untrusted { .. })));
}
