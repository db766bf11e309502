//! Runs: one piece of agent work, or one person's call, from start to end; and the loop that drives an agent.

mod conversation;
mod inference;
mod registry;

pub use conversation::{Message, ModelRequest, project, told};
pub use inference::{Completion, Inference, InferenceError, ModelReply, Scripted, client};
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
        let outcome = match refusal.code {
            RefusalCode::Timeout => RunOutcome::Timeout,
            RefusalCode::Cancelled => RunOutcome::Cancelled,
            _ => RunOutcome::Failed,
        };
        Self { outcome, answer: None, reason: Some(refusal.reason.clone()) }
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
        let reply = tokio::select! {
            reply = inference.complete(&request) => reply,
            refusal = cancelled.wait() => return Worked::given_up(&refusal),
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
            let asked =
                Asked { id: call, run: run.id, principal: run.principal.clone(), origin: Origin::Loop, request };
            let result = crate::call::run(asked, world, &cancelled).await;
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
