//! Drives a call along its path and journals every step. The result it returns is the one that was journaled.

use super::dispatch::Bounds;
use super::{Call, Facts, Freeze, Verdict, World};
use crate::canon;
use crate::journal::Entry;
use crate::policy::Judgement;
use crate::session::Slot;
use std::sync::Arc;
use stockade_protocol::command::Reply;
use stockade_protocol::event::{CallEvent, Event};
use stockade_protocol::ids::{CallId, Principal, RunId};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::{Origin, ToolCallRequest};
use stockade_protocol::result::CallResult;
use tokio::sync::watch;
use tokio::time::Instant;

/// A call as its channel brings it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: CallId,
    pub(crate) run: RunId,
    pub(crate) principal: Principal,
    pub(crate) origin: Origin,
    pub(crate) request: ToolCallRequest,
}

impl Asked {
    fn facts(self, world: &World) -> Facts {
        Facts {
            id: self.id,
            run: self.run,
            principal: self.principal,
            origin: self.origin,
            environment: Arc::clone(&world.environment),
            request: self.request,
        }
    }
}

/// When and why to give up: the run's deadline, and cancels of run and caller.
#[derive(Debug, Clone)]
pub(crate) struct Cancelled {
    pub(crate) run_deadline: Instant,
    /// Set to the reason when the run or the call is cancelled.
    pub(crate) signals: Vec<watch::Receiver<Option<Refusal>>>,
}

impl Cancelled {
    /// Resolves when the call must be given up.
    pub(crate) async fn wait(&self) -> Refusal {
        let mut signals = self.signals.clone();
        let any = async {
            let waits = signals.iter_mut().map(|signal| {
                Box::pin(async move {
                    match signal.wait_for(Option::is_some).await {
                        Ok(refusal) => refusal.clone().unwrap_or_else(caller_gone),
                        // The sender is dropped by a caller that went away.
                        Err(_) => caller_gone(),
                    }
                })
            });
            first(waits.collect()).await
        };
        tokio::select! {
            refusal = any => refusal,
            () = tokio::time::sleep_until(self.run_deadline) => {
                Refusal::new(RefusalCode::Timeout, Authority::Clock, "the run reached its deadline")
            }
        }
    }

    /// Why the call must be given up, if it must be by now.
    pub(crate) fn now(&self) -> Option<Refusal> {
        if Instant::now() >= self.run_deadline {
            return Some(Refusal::new(RefusalCode::Timeout, Authority::Clock, "the run reached its deadline"));
        }
        self.signals.iter().find_map(|signal| {
            if signal.has_changed().is_err() {
                return Some(signal.borrow().clone().unwrap_or_else(caller_gone));
            }
            signal.borrow().clone()
        })
    }
}

fn caller_gone() -> Refusal {
    Refusal::new(RefusalCode::Cancelled, Authority::Person, "the caller went away or cancelled")
}

async fn first<F: Future<Output = Refusal> + Unpin>(mut waits: Vec<F>) -> Refusal {
    std::future::poll_fn(move |context| {
        for wait in &mut waits {
            if let std::task::Poll::Ready(refusal) = std::pin::Pin::new(wait).poll(context) {
                return std::task::Poll::Ready(refusal);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// One call, the whole way. Never panics, never returns a result that is not journaled: when the journal cannot take
/// the result, the result says so.
pub(crate) async fn run(asked: Asked, world: &World, cancelled: &Cancelled) -> CallResult {
    let started = Instant::now();
    let (id, run, tool) = (asked.id, asked.run, asked.request.tool.clone());
    let mut result = match proposed(asked, world, cancelled).await {
        Ok(result) => result,
        Err(Stopped { refusal, digest }) => {
            CallResult { contract_digest: digest, ..CallResult::refused(id, run, tool, refusal) }
        }
    };
    result.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    finish(result, world).await
}

async fn finish(result: CallResult, world: &World) -> CallResult {
    // Stripped of its escapes, output may show a secret that the stream could not see.
    let (id, run, tool) = (result.call, result.run, result.tool.clone());
    let result = match world.redactor.redacted(result) {
        Ok((result, _replaced)) => result,
        Err(error) => {
            let reason = format!("the result cannot be recorded: {error}");
            CallResult::refused(id, run, tool, Refusal::new(RefusalCode::InDoubt, Authority::Journal, reason))
        }
    };
    let event = Event::Call(CallEvent::Finished { result: Box::new(result.clone()) });
    let entry = Entry { run: Some(result.run), session: result.session, call: Some(result.call), event };
    match world.journal.append(entry).await {
        Ok(_) => result,
        Err(error) => {
            let mut refusal = error.refusal();
            if result.execution != stockade_protocol::result::Execution::NotStarted {
                refusal.code = RefusalCode::InDoubt;
            }
            CallResult::refused(result.call, result.run, result.tool, refusal)
        }
    }
}

/// Where a call stopped.
struct Stopped {
    refusal: Refusal,
    digest: Option<stockade_protocol::digest::Digest>,
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, digest: None }
    }
}

async fn proposed(mut asked: Asked, world: &World, cancelled: &Cancelled) -> Result<CallResult, Stopped> {
    let bounded = bound(&mut asked.request);
    let requested = CallEvent::Requested {
        request: asked.request.clone(),
        principal: asked.principal.clone(),
        origin: asked.origin,
    };
    note(&asked, requested, world).await?;
    bounded?;
    let call = Call::validate(asked.clone().facts(world), world)?;
    let frozen = call.prepare(world).await?;
    drive(frozen, &asked, world, cancelled).await
}

async fn drive(frozen: Freeze, asked: &Asked, world: &World, cancelled: &Cancelled) -> Result<CallResult, Stopped> {
    let (contract, digest) = frozen.contract();
    let at = |refusal| Stopped { refusal, digest: Some(digest) };
    note(asked, CallEvent::Prepared { contract: Box::new(contract.clone()), digest }, world).await?;
    let judgement = judge(&frozen, world);
    let authorized = CallEvent::Authorized {
        permitted: judgement.permitted,
        policies: judgement.policies.clone(),
        needs_person: judgement.permitted && (frozen.demands_person() || judgement.needs_person),
    };
    note(asked, authorized, world).await.map_err(at)?;
    let approved = match frozen {
        Freeze::Free(call) => match call.authorize(judgement) {
            Verdict::Permit(call) => Ok(call),
            Verdict::Ask(call) => Err(call),
            Verdict::Forbid(refusal) => return Err(at(refusal)),
        },
        Freeze::Attended(call) => Err(call.authorize(judgement).map_err(at)?),
    };
    let approved = match approved {
        Ok(call) => call,
        Err(call) => {
            let receipt = world.approvals.ask(call.question(), cancelled.wait()).await.map_err(at)?;
            call.approve(receipt).map_err(|back| at(back.1))?
        }
    };
    if let Some(refusal) = cancelled.now() {
        return Err(at(refusal));
    }
    let recorded = approved.record(world).await.map_err(at)?;
    if let Some(refusal) = cancelled.now() {
        return Err(at(refusal));
    }
    let bounds = Bounds { run_deadline: cancelled.run_deadline, cancelled: cancelled.wait() };
    let dispatched = recorded.dispatch_within(world, bounds).await;
    Ok(dispatched.finalize(world).await)
}

/// A person takes a live session's keyboard: the same way, from freezing on.
pub(crate) async fn take_over(asked: Asked, slot: Arc<Slot>, world: &World, cancelled: &Cancelled) -> CallResult {
    let (id, run, tool) = (asked.id, asked.run, asked.request.tool.clone());
    let requested = CallEvent::Requested {
        request: asked.request.clone(),
        principal: asked.principal.clone(),
        origin: asked.origin,
    };
    let went = async {
        note(&asked, requested, world).await?;
        let frozen = Call::take_over(asked.clone().facts(world), slot, world)?;
        drive(frozen, &asked, world, cancelled).await
    };
    let result = went.await.unwrap_or_else(|Stopped { refusal, digest }| CallResult {
        contract_digest: digest,
        ..CallResult::refused(id, run, tool, refusal)
    });
    finish(result, world).await
}

/// Judges a call without journaling or running it.
pub(crate) async fn check(asked: Asked, world: &World) -> Result<Reply, Refusal> {
    let mut asked = asked;
    bound(&mut asked.request)?;
    let frozen = Call::validate(asked.facts(world), world)?.prepare(world).await?;
    let (contract, digest) = frozen.contract();
    let text = canon::to_bytes(contract)
        .map_err(|error| Refusal::new(RefusalCode::Invalid, Authority::Manifest, error.to_string()))?;
    let judgement = judge(&frozen, world);
    Ok(Reply::Checked {
        contract: String::from_utf8_lossy(&text).into_owned(),
        digest,
        permitted: judgement.permitted,
        needs_person: judgement.permitted && (frozen.demands_person() || judgement.needs_person),
        policies: judgement.policies,
        refusal: judgement.refusal,
    })
}

fn judge(frozen: &Freeze, world: &World) -> Judgement {
    world.policies.judge(&frozen.question())
}

async fn note(asked: &Asked, event: CallEvent, world: &World) -> Result<(), Refusal> {
    let entry = Entry { run: Some(asked.run), session: None, call: Some(asked.id), event: Event::Call(event) };
    world.journal.append(entry).await.map(drop).map_err(|error| error.refusal())
}

/// Bounds what a caller may send. A request beyond them is cut before it is journaled, and refused.
fn bound(request: &mut ToolCallRequest) -> Result<(), Refusal> {
    let mut over = None;
    let mut cut = |text: &mut String, most: usize, what: &str| {
        if text.len() > most {
            over = Some(format!("{what} is longer than {most} bytes"));
            let mut at = most.min(256);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.truncate(at);
        }
    };
    cut(&mut request.tool, 256, "the tool's name");
    if let Some(id) = &mut request.invocation_id {
        cut(id, limits::INVOCATION_ID_BYTES, "the invocation id");
    }
    if let Some(reason) = &mut request.reason {
        cut(reason, limits::REASON_BYTES, "the reason");
    }
    for value in request.arguments.values_mut() {
        cut(value, limits::ARGUMENT_BYTES, "an argument");
    }
    if request.arguments.len() > limits::ARGUMENTS || request.arguments.keys().any(|name| name.len() > 256) {
        over = Some(format!("there are more than {} arguments or a name is longer than 256 bytes", limits::ARGUMENTS));
        request.arguments.clear();
    }
    match over {
        None => Ok(()),
        Some(reason) => Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason)),
    }
}
