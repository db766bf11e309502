//! The built-in loop with a scripted agent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{Event, EventSource as _, RunEvent, RunOutcome, TurnEvent};
use stockade_protocol::receipt::Decision;
use stockade_runtime::control::Serve as _;
use stockade_runtime::run::{Message, project};
use stockade_runtime::{Runtime, canon};
use support::{Yard, event, pending, person};

async fn start(yard: &Yard) -> Runtime {
    let looks = [("talk.say", "where"), ("talk.ask", "risky one"), ("talk.say", "echo still here")];
    let agent = [("Let me look.", &looks[..]), ("Saving.", &[("talk.save", "save")]), ("Done: out/result.txt", &[])];
    yard.write("agents/helper.toml", &support::script(&agent));
    let runtime = yard.start().await;
    let command = Command::StartRun { agent: "helper".to_owned(), prompt: "please".to_owned() };
    assert!(matches!(runtime.command(&person(), command).await, Reply::Started { .. }));
    runtime
}

async fn decide(yard: &Yard, runtime: &Runtime, decision: Decision, reason: Option<&str>) {
    let asked = pending(runtime, 1).await.remove(0);
    let receipt = yard.receipt(&asked, decision, reason);
    assert_eq!(runtime.command(&person(), Command::Decide { receipt }).await, Reply::Done {});
}

async fn ended(runtime: &Runtime) -> (RunOutcome, Option<String>) {
    let mut end = None;
    event(runtime, |envelope| match &envelope.event {
        Event::Run(RunEvent::Ended { outcome, answer, .. }) => {
            end = Some((*outcome, answer.as_ref().map(|answer| answer.raw().to_owned())));
            true
        }
        _ => false,
    })
    .await;
    end.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scripted_agent_works_is_refused_once_and_publishes() {
    let yard = Yard::new();
    let runtime = start(&yard).await;
    decide(&yard, &runtime, Decision::Reject, Some("use the staging bucket")).await;
    decide(&yard, &runtime, Decision::Approve, None).await;
    assert_eq!(ended(&runtime).await, (RunOutcome::Done, Some("Done: out/result.txt".to_owned())));
    assert_eq!(std::fs::read(yard.root().join("out/result.txt")).unwrap(), b"saved\n");

    // The refusal reached the model whole, and the calls beside it went on.
    let events = runtime.events().pull(0, usize::MAX);
    let run = events.iter().find_map(|event| event.run).unwrap();
    let messages = project(&events, run, &[]).messages;
    let told: Vec<(&str, &str)> = messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { outcome, text, .. } => Some((outcome.as_str(), text.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], ("done", "/work\r\nhello\r\n"));
    assert_eq!(told[1].0, "rejected");
    assert!(told[1].1.contains("use the staging bucket"), "{}", told[1].1);
    assert_eq!(told[2], ("done", "still here\r\n"));
    assert!(told[3].1.contains("published out/result.txt"), "{}", told[3].1);
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_to_the_model_is_the_projection_of_the_records_before_it() {
    let yard = Yard::new();
    let runtime = start(&yard).await;
    decide(&yard, &runtime, Decision::Approve, None).await;
    decide(&yard, &runtime, Decision::Approve, None).await;
    ended(&runtime).await;
    runtime.stop().await.unwrap();
    let journal = runtime.journal_path().to_owned();
    drop(runtime);
    // From the file, not from memory.
    let events = stockade_runtime::journal::read(&journal).unwrap();
    let mut requests = 0;
    for (at, envelope) in events.iter().enumerate() {
        let Event::Turn(TurnEvent::ModelRequested { request, messages, .. }) = &envelope.event else { continue };
        let tools = ["count", "talk.ask", "talk.hang", "talk.save", "talk.say"].map(ToOwned::to_owned);
        let projected = project(&events[..at], envelope.run.unwrap(), &tools);
        assert_eq!(canon::digest(&projected).unwrap(), *request);
        assert_eq!(projected.messages.len(), *messages as usize);
        requests += 1;
    }
    assert_eq!(requests, 3);
}
