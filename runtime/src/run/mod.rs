//! Runs: one piece of agent work, or one person's call, from start to end; and the loop that drives an agent.

mod conversation;
mod inference;
mod invocations;
mod registry;

pub use conversation::{Message, ModelRequest, project, told};
pub use inference::{Completion, Inference, InferenceError, ModelReply, Scripted, client};
pub(crate) use invocations::{Claim, Invocations, Key, Known, asked};
pub(crate) use registry::{Run, Runs};

use crate::call::{Asked, Cancelled, World};
use crate::canon;
use crate::journal::Entry;
use crate::project::Agent;
use std::sync::Arc;
use stockade_protocol::event::{Event, EventSource as _, ProposedCall, RunOutcome, TurnEvent};
use stockade_protocol::ids::CallId;
use stockade_protocol::refusal::{Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_protocol::result::CallResult;

/// How an agent's work ended.
#[derive(Debug)]
pub(crate) struct Worked {
    pub(crate) outcome: RunOutcome,
    pub(crate) answer: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Worked {
    fn failed(reason: impl Into<String>) -> Self {
        Self { outcome: RunOutcome::Failed, answer: None, reason: Some(reason.into()) }
    }

    fn given_up(refusal: &Refusal) -> Self {
        Self { outcome: outcome(refusal), answer: None, reason: Some(refusal.reason.clone()) }
    }

    /// The end of a run that is one call.
    pub(crate) fn of_call(result: &CallResult) -> Self {
        let outcome = result.refusal.as_ref().map_or(RunOutcome::Done, outcome);
        Self { outcome, answer: None, reason: result.refusal.as_ref().map(ToString::to_string) }
    }
}

const fn outcome(refusal: &Refusal) -> RunOutcome {
    match refusal.code {
        RefusalCode::Timeout => RunOutcome::Timeout,
        RefusalCode::Cancelled => RunOutcome::Cancelled,
        _ => RunOutcome::Failed,
    }
}

/// Observe, reason, act, until the model proposes nothing more, its turns are used up, or the run is given up.
/// Calls of one turn run in order; a refused call reaches the model as that call's result and touches no other.
pub(crate) async fn work(
    agent: &Agent,
    inference: &dyn Inference,
    prompt: String,
    run: &Run,
    world: &Arc<World>,
    cancelled: Cancelled,
) -> Worked {
    let entry = |event| Entry { run: Some(run.id), session: None, call: None, event: Event::Turn(event) };
    if let Err(error) = world.journal.append(entry(TurnEvent::Prompted { text: prompt.into() })).await {
        return Worked::failed(error.to_string());
    }
    let tools: Vec<String> = world.tools.names().map(ToOwned::to_owned).collect();
    let events = world.journal.events();
    for _ in 0..agent.max_turns {
        if let Some(refusal) = cancelled.now() {
            return Worked::given_up(&refusal);
        }
        // Built from the journal and nothing else: what is not recorded cannot reach a model.
        let request = project(&events.pull(0, usize::MAX), run.id, &tools);
        let requested = canon::digest(&request).map(|digest| TurnEvent::ModelRequested {
            model: inference.model(),
            messages: u32::try_from(request.messages.len()).unwrap_or(u32::MAX),
            request: digest,
        });
        let requested = match requested {
            Ok(requested) => requested,
            Err(error) => return Worked::failed(error.to_string()),
        };
        if let Err(error) = world.journal.append(entry(requested)).await {
            return Worked::failed(error.to_string());
        }
        // A model that answers at once must not win against a cancel that was there before it.
        let reply = tokio::select! {
            biased;
            refusal = cancelled.wait() => return Worked::given_up(&refusal),
            reply = inference.complete(&request) => reply,
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Worked::failed(error.to_string()),
        };
        let calls: Vec<ProposedCall> = reply
            .calls
            .into_iter()
            .map(|request| ProposedCall { call: CallId::from_bits(world.ports.random()), request })
            .collect();
        let replied = TurnEvent::ModelReplied { text: reply.text.clone().into(), calls: calls.clone() };
        if let Err(error) = world.journal.append(entry(replied)).await {
            return Worked::failed(error.to_string());
        }
        if calls.is_empty() {
            return Worked { outcome: RunOutcome::Done, answer: Some(reply.text), reason: None };
        }
        for ProposedCall { call, request } in calls {
            let asked = Asked::new(call, run.id, run.principal.clone(), Origin::Loop, request, &world.redactor);
            let (result, _) = crate::call::run(asked, world, &cancelled).await;
            if let Some(refusal) = &result.refusal {
                // An effect that may have happened is for a person to look at before anything more is done.
                if refusal.code == RefusalCode::InDoubt {
                    return Worked::failed(format!("the effect of a call is in doubt: {}", refusal.reason));
                }
            }
        }
    }
    let reason = format!("the agent used up its {} turns", agent.max_turns);
    Worked { outcome: RunOutcome::Timeout, answer: None, reason: Some(reason) }
}
