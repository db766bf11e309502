//! Drives a call along its path and journals every step. The result it returns is the one that was journaled.

use super::dispatch::Bounds;
use super::{Call, Facts, Freeze, Verdict, World};
use crate::canon;
use crate::journal::Entry;
use crate::policy::Judgement;
use crate::redact::Redactor;
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
    /// Set when the request is beyond what a caller may send: it was cut, and is refused once it is journaled.
    over: Option<Refusal>,
}

impl Asked {
    /// A request by its channel, cut to what may be journaled.
    pub(crate) fn new(
        id: CallId,
        run: RunId,
        principal: Principal,
        origin: Origin,
        request: ToolCallRequest,
        redactor: &Redactor,
    ) -> Self {
        let mut request = request;
        let over = bound(&mut request, &principal, redactor).err();
        Self { id, run, principal, origin, request, over }
    }

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

/// One call, the whole way, and the position of the record of its end. Never returns a result that is not the one in
/// that record: when the journal cannot take it, the result says so, and there is no position.
pub(crate) async fn run(asked: Asked, world: &World, cancelled: &Cancelled) -> (CallResult, Option<u64>) {
    let started = Instant::now();
    let (id, run, tool) = (asked.id, asked.run, asked.request.tool.clone());
    let mut result = match proposed(asked, world, cancelled).await {
        Ok(result) => result,
        Err(Stopped { refusal, digest }) => {
            CallResult { contract_digest: digest, ..CallResult::refused(id, run, tool, refusal) }
        }
    };
    result.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    super::finish(result, world).await
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

async fn proposed(asked: Asked, world: &World, cancelled: &Cancelled) -> Result<CallResult, Stopped> {
    let requested = CallEvent::Requested {
        request: asked.request.clone(),
        principal: asked.principal.clone(),
        origin: asked.origin,
    };
    note(&asked, requested, world).await?;
    if let Some(refusal) = asked.over {
        return Err(refusal.into());
    }
    if let Some(refusal) = cancelled.now() {
        return Err(refusal.into());
    }
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
            let question = call.question(&world.redactor).map_err(at)?;
            let receipt = world.approvals.ask(question, cancelled.wait()).await.map_err(at)?;
            call.approve(receipt).map_err(|back| at(back.1))?
        }
    };
    if let Some(refusal) = cancelled.now() {
        approved.abandon(&refusal, world).await.map_err(at)?;
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
pub(crate) async fn take_over(
    asked: Asked,
    slot: Arc<Slot>,
    connection: u64,
    world: &World,
    cancelled: &Cancelled,
) -> CallResult {
    let (id, run, tool) = (asked.id, asked.run, asked.request.tool.clone());
    let requested = CallEvent::Requested {
        request: asked.request.clone(),
        principal: asked.principal.clone(),
        origin: asked.origin,
    };
    let went = async {
        note(&asked, requested, world).await?;
        let frozen = Call::take_over(asked.clone().facts(world), slot, connection, world)?;
        drive(frozen, &asked, world, cancelled).await
    };
    let result = went.await.unwrap_or_else(|Stopped { refusal, digest }| CallResult {
        contract_digest: digest,
        ..CallResult::refused(id, run, tool, refusal)
    });
    super::finish(result, world).await.0
}

/// Judges a call without journaling or running it.
pub(crate) async fn check(asked: Asked, world: &World) -> Result<Reply, Refusal> {
    if let Some(refusal) = asked.over {
        return Err(refusal);
    }
    let run = asked.run;
    let checked = checked(asked, world).await;
    // The run was made up for this question, and with it the place of a session.
    world.sessions.forget(run);
    checked
}

async fn checked(asked: Asked, world: &World) -> Result<Reply, Refusal> {
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

/// Journals a step that has no effect. Nothing waits for the disk here: whatever comes of the call, its intent, its
/// question or its end, is recorded behind this step and is waited for.
async fn note(asked: &Asked, event: CallEvent, world: &World) -> Result<(), Refusal> {
    let entry = Entry { run: Some(asked.run), session: None, call: Some(asked.id), event: Event::Call(event) };
    world.journal.append_soon(entry).await.map(drop).map_err(|error| error.refusal())
}

/// Bounds what a caller may send. A request beyond them is cut before it is journaled, and refused.
fn bound(request: &mut ToolCallRequest, principal: &Principal, redactor: &Redactor) -> Result<(), Refusal> {
    let mut over = None;
    let mut cut = |text: &mut String, most: usize, what: &str| {
        if text.len() > most {
            over = Some((format!("{what} is longer than {most} bytes"), "Send less"));
            let mut at = most.min(256);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.truncate(at);
        }
    };
    cut(&mut request.tool, 256, "the tool's name");
    if let Some(reason) = &mut request.reason {
        cut(reason, limits::REASON_BYTES, "the reason");
    }
    for value in request.arguments.values_mut() {
        cut(value, limits::ARGUMENT_BYTES, "an argument");
    }
    if request.arguments.len() > limits::ARGUMENTS || request.arguments.keys().any(|name| name.len() > 256) {
        let reason = format!("there are more than {} arguments or a name is longer than 256 bytes", limits::ARGUMENTS);
        over = Some((reason, "Send only declared arguments"));
        request.arguments.clear();
    }
    if request.arguments.values().map(String::len).sum::<usize>() > limits::ARGUMENTS_BYTES {
        over = Some((format!("the arguments are longer than {} bytes together", limits::ARGUMENTS_BYTES), "Send less"));
        request.arguments.clear();
    }
    // An id that the journal would not hold as it is would be free again after the next start.
    let kept = |text: &str| !redactor.text(text).1;
    if let Some(id) = &request.invocation_id {
        let fits = (1..=limits::INVOCATION_ID_BYTES).contains(&id.len());
        if !fits {
            let reason = format!("the invocation id is empty or longer than {} bytes", limits::INVOCATION_ID_BYTES);
            over = Some((reason, "Send a short unique id, or none"));
        } else if !kept(id) || !kept(&principal.name) {
            let reason = "the invocation id or the caller's name looks like a secret, which is not kept";
            over = Some((reason.to_owned(), "Use another id, or none"));
        }
        if over.is_some() {
            request.invocation_id = None;
        }
    }
    match over {
        None => Ok(()),
        Some((reason, next)) => Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason).next(next)),
    }
}
