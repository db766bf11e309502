//! Following one run to its end, from its events.

use super::history;
use crate::exit::{Exit, Failure, of_run};
use crate::link::Link;
use crate::receipt::{self, Decided};
use crate::signals::asked_to_end;
use crate::terminal;
use serde_json::{Value, json};
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event, EventEnvelope, RunEvent, RunOutcome, TurnEvent};
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::receipt::Decision;
use stockade_protocol::result::{CallResult, CreatedFile};
use stockade_runtime::approval::ApproverKey;

/// Longest wait for one more event.
const WAIT: Duration = Duration::from_secs(20);

/// What is done while a run is followed.
#[derive(Debug)]
pub(crate) struct Following<'a> {
    /// Say what happens, line by line.
    pub(crate) aloud: bool,
    /// Approves every call of the run; only the demo has one.
    pub(crate) approver: Option<&'a ApproverKey>,
    /// How long its receipts may be used, milliseconds.
    pub(crate) life_ms: u64,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) run: RunId,
    pub(crate) outcome: RunOutcome,
    pub(crate) answer: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) results: Vec<CallResult>,
}

impl Ended {
    /// The status of the whole.
    pub(crate) fn exit(&self) -> Exit {
        let refusals = self.results.iter().filter_map(|result| result.refusal.as_ref());
        of_run(self.outcome, refusals.map(|refusal| refusal.code))
    }

    /// The status of a run in which every call is to succeed: that of the first that did not.
    pub(crate) fn strict_exit(&self) -> Exit {
        let refused = self.results.iter().find_map(|result| result.refusal.as_ref());
        refused.map_or_else(|| self.exit(), |refusal| refusal.code.into())
    }

    /// Each call: tool, outcome, contract digest.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.results
            .iter()
            .map(|result| {
                json!({
                    "tool": result.tool, "outcome": result.outcome(), "contract_digest": result.contract_digest,
                    "refusal": result.refusal,
                })
            })
            .collect()
    }

    /// Every file that was published.
    pub(crate) fn created_files(&self) -> Vec<CreatedFile> {
        self.results.iter().flat_map(|result| result.created_files.clone()).collect()
    }
}

/// Starts an agent and follows its run. `None` when the person interrupted it; it is ended then.
pub(crate) async fn agent(
    link: &Link,
    agent: &str,
    prompt: &str,
    following: &Following<'_>,
) -> Result<Option<Ended>, Failure> {
    let from = link.status().await?.records;
    let command = Command::StartRun { agent: agent.to_owned(), prompt: prompt.to_owned() };
    let Reply::Started { run } = link.ask(command).await? else { return Err(Failure::out_of_place()) };
    tokio::select! {
        ended = follow(link, run, from, following) => ended.map(Some),
        () = asked_to_end() => {
            link.ask(Command::EndRun { run }).await?;
            Ok(None)
        }
    }
}

async fn follow(link: &Link, run: RunId, mut from: u64, following: &Following<'_>) -> Result<Ended, Failure> {
    let mut results = Vec::new();
    loop {
        for envelope in link.events(from, WAIT).await? {
            from = envelope.seq + 1;
            if envelope.run != Some(run) {
                continue;
            }
            if following.aloud {
                tell(&envelope);
            }
            match &envelope.event {
                Event::Call(CallEvent::Finished { result }) => results.push((**result).clone()),
                Event::Approval(ApprovalEvent::Asked { contract, shown, .. }) => {
                    if let Some((key, call)) = following.approver.zip(envelope.call) {
                        approve(link, key, call, (*contract, *shown), following.life_ms).await?;
                    }
                }
                Event::Run(RunEvent::Ended { outcome, answer, reason }) => {
                    let text = |text: &Option<stockade_protocol::text::Untrusted>| {
                        text.as_ref().map(|text| text.raw().to_owned())
                    };
                    return Ok(Ended { run, outcome: *outcome, answer: text(answer), reason: text(reason), results });
                }
                _ => {}
            }
        }
    }
}

async fn approve(
    link: &Link,
    key: &ApproverKey,
    call: CallId,
    (contract, shown): (Digest, Digest),
    life_ms: u64,
) -> Result<(), Failure> {
    let decided = Decided { call, contract, shown, decision: Decision::Approve, reason: None };
    let receipt = receipt::sign(key, decided, life_ms)?;
    link.ask(Command::Decide { receipt }).await.map(drop)
}

/// Says what a person who only reads lines wants to know.
fn tell(envelope: &EventEnvelope) {
    match &envelope.event {
        Event::Turn(TurnEvent::ModelReplied { text, .. }) if !text.raw().is_empty() => {
            // Every line of it is marked as the agent's: none can pass for one of stockade's own.
            text.raw().lines().for_each(|line| terminal::say(format!("agent: {line}")));
        }
        Event::Call(CallEvent::Finished { result }) => {
            let what = result.refusal.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string);
            terminal::say(format!("call {}: {what}", result.tool));
            for file in &result.created_files {
                terminal::say(format!("published {} ({} bytes)", file.host_path, file.bytes));
            }
        }
        Event::Approval(ApprovalEvent::Asked { .. }) => {
            let call = envelope.call.map_or_else(String::new, |call| call.to_string());
            terminal::say(format!("waiting for a person: {}", history::summary(&envelope.event)));
            terminal::say(format!("  answer it: stockade approvals approve {call}"));
        }
        Event::Approval(_) | Event::Run(RunEvent::Ended { .. }) => {
            terminal::say(format!("{}: {}", history::kind(&envelope.event), history::summary(&envelope.event)));
        }
        _ => {}
    }
}
