//! Dispatch and finalize: the effect, and the result that tells of it.

use super::oneshot::{self, OneshotEnd};
use super::{Call, Dispatched, Facts, Frozen, Plan, Recorded, World};
use crate::journal::Entry;
use crate::manifest::{Callable, interpret};
use crate::session::{self, Answered, Broken, Control, Live, Opening, Slot, Turn, Typed};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use stockade_protocol::contract::Effect;
use stockade_protocol::event::{CallEvent, Enforcement, Event, GrantEvent};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::{CallResult, Execution, FilePublication, Removal};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot as answer;
use tokio::time::Instant;

/// What came of a dispatch.
pub(super) enum Ran {
    /// It did not start.
    Not(Refusal),
    /// A worker of its own ran.
    Oneshot(Box<OneshotEnd>),
    /// A session answered.
    Answered(Answered),
    /// A session did not answer and is closed.
    Broken(Broken),
    /// The keyboard was handed over.
    TookOver,
}

/// What a dispatch must know besides the call: when the run ends and when the caller gives up.
pub(crate) struct Bounds<C> {
    pub(crate) run_deadline: Instant,
    pub(crate) cancelled: C,
}

impl Call<Recorded> {
    /// Starts the worker, or types into the terminal, and waits for the end. This is the only way to an effect.
    pub async fn dispatch(self, world: &World) -> Call<Dispatched> {
        let never = std::future::pending();
        let hour = Instant::now() + Duration::from_secs(3_600);
        self.dispatch_within(world, Bounds { run_deadline: hour, cancelled: never }).await
    }

    /// As [`Self::dispatch`], ended early by a cancel or the run's deadline.
    pub(crate) async fn dispatch_within<C: Future<Output = Refusal>>(
        self,
        world: &World,
        bounds: Bounds<C>,
    ) -> Call<Dispatched> {
        let Self { facts, stage: Recorded { frozen } } = self;
        let ran = match carry_out(&facts, &frozen, world, bounds).await {
            Ok(ran) => ran,
            Err(refusal) => Ran::Not(refusal),
        };
        Call { facts, stage: Dispatched { frozen, ran } }
    }
}

async fn carry_out<C: Future<Output = Refusal>>(
    facts: &Facts,
    frozen: &Frozen,
    world: &World,
    bounds: Bounds<C>,
) -> Result<Ran, Refusal> {
    let deadline = Duration::from_millis(frozen.contract.deadline_ms)
        .min(bounds.run_deadline.saturating_duration_since(Instant::now()));
    match &frozen.plan {
        Plan::Oneshot { callable, spec, files } => {
            let inputs = files.input_fds().map_err(|error| error.refusal())?;
            let mut worker = world.boundary.launch((**spec).clone(), inputs).await.map_err(|error| error.refusal())?;
            if let Err(refusal) = dispatched(facts, None, worker.enforcement.clone(), world).await {
                worker.kill().await;
                return Err(refusal);
            }
            let end = oneshot::attend(worker, &callable.output, deadline, bounds.cancelled, world).await;
            Ok(Ran::Oneshot(Box::new(end)))
        }
        Plan::Session { callable, slot, spec, files } => {
            let Effect::Session { command, finalizes, .. } = &frozen.contract.effect else {
                return Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, "the contract types nothing"));
            };
            let mut cancelled = pin!(bounds.cancelled);
            let live = live(callable, slot, spec, files, world, bounds.run_deadline).await?;
            if let Some(refusal) = already(cancelled.as_mut()).await {
                return Err(refusal);
            }
            dispatched(facts, Some(slot), live.enforcement.clone(), world).await?;
            let (reply, answered) = answer::channel();
            let turn = Turn::default();
            let typed = Typed {
                call: facts.id,
                by: facts.principal.clone(),
                line: command.clone(),
                finalizes: *finalizes,
                deadline,
                turn: turn.clone(),
                reply,
            };
            match live.commands.try_send(typed) {
                Ok(()) => Ok(await_answer(answered, &turn, &live, cancelled).await),
                Err(TrySendError::Closed(_)) => Ok(too_late(live).await),
                Err(TrySendError::Full(_)) => {
                    let reason = "another command of this session is still being answered and one more waits";
                    Err(Refusal::new(RefusalCode::Limit, Authority::Manifest, reason).next("Wait for its answer"))
                }
            }
        }
        Plan::TakeOver { slot, connection } => {
            let live = slot.live().ok_or_else(closed)?;
            dispatched(facts, Some(slot), Enforcement::default(), world).await?;
            let (reply, answered) = answer::channel();
            let control = Control::TakeOver { by: facts.principal.clone(), connection: *connection, reply };
            live.controls.send(control).await.map_err(|_closed| closed())?;
            answered.await.map_err(|_closed| closed())?.map(|()| Ran::TookOver)
        }
    }
}

/// The refusal, if the call is cancelled by now.
async fn already<C: Future<Output = Refusal>>(mut cancelled: Pin<&mut C>) -> Option<Refusal> {
    std::future::poll_fn(|context| {
        Poll::Ready(match cancelled.as_mut().poll(context) {
            Poll::Ready(refusal) => Some(refusal),
            Poll::Pending => None,
        })
    })
    .await
}

fn closed() -> Refusal {
    Refusal::new(RefusalCode::Cancelled, Authority::Manifest, "the session is closed")
}

/// The session's actor; the first call of a session starts it.
async fn live(
    callable: &Arc<Callable>,
    slot: &Arc<Slot>,
    spec: &crate::sandbox::WorkerSpec,
    files: &Arc<crate::grant::Prepared>,
    world: &World,
    run_deadline: Instant,
) -> Result<Live, Refusal> {
    let _one = slot.opening.lock().await;
    if let Some(end) = slot.ended() {
        return Err(Refusal::new(
            RefusalCode::Cancelled,
            Authority::Manifest,
            format!("the session is closed ({})", end.why),
        ));
    }
    if let Some(live) = slot.live() {
        return Ok(live);
    }
    let Some((session, _)) = callable.session() else {
        return Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, "the tool has no session"));
    };
    let opening = Opening {
        slot: Arc::clone(slot),
        spec: spec.clone(),
        session: session.clone(),
        files: Arc::clone(files),
        run_deadline,
        room: world.sessions.room()?,
    };
    session::open(opening, &world.boundary, &world.journal, &world.ports).await
}

async fn await_answer(
    mut answered: answer::Receiver<Result<Answered, Broken>>,
    turn: &Turn,
    live: &Live,
    cancelled: Pin<&mut impl Future<Output = Refusal>>,
) -> Ran {
    let told = tokio::select! {
        biased;
        refusal = cancelled => {
            if turn.take_back() {
                return Ran::Not(refusal);
            }
            // The whole session is closed: half a command cannot be taken back.
            drop(live.controls.send(Control::Close { why: "cancelled" }).await);
            return match answered.await {
                Ok(Ok(answered)) => Ran::Answered(answered),
                // What is in doubt stays so, whoever asked for the end.
                Ok(Err(broken)) if broken.refusal.code == RefusalCode::InDoubt => Ran::Broken(broken),
                Ok(Err(broken)) => Ran::Broken(Broken { refusal, ..broken }),
                Err(_) => lost(),
            };
        }
        told = &mut answered => told,
    };
    match told {
        Ok(Ok(answered)) => Ran::Answered(answered),
        Ok(Err(broken)) => Ran::Broken(broken),
        Err(_) => lost(),
    }
}

/// The session ended before it took the line: the call ends as the session did.
async fn too_late(mut live: Live) -> Ran {
    match live.ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone()) {
        Some(end) => Ran::Broken(Broken::untyped(&end, 0)),
        None => lost(),
    }
}

fn lost() -> Ran {
    Ran::Broken(Broken {
        refusal: Refusal::new(RefusalCode::InDoubt, Authority::Tier, "the session went away without an answer")
            .next("A person must look whether the command took effect"),
        typed: true,
        output: String::new(),
        cut: false,
        count: 0,
        removal: Removal::Unconfirmed,
        unpublished: false,
    })
}

async fn dispatched(
    facts: &Facts,
    slot: Option<&Arc<Slot>>,
    enforcement: Enforcement,
    world: &World,
) -> Result<(), Refusal> {
    let entry = Entry {
        run: Some(facts.run),
        session: slot.map(|slot| slot.id),
        call: Some(facts.id),
        event: Event::Call(CallEvent::Dispatched { enforcement }),
    };
    world.journal.append(entry).await.map(drop).map_err(|error| error.refusal())
}

impl Call<Dispatched> {
    /// Publishes declared output and makes the result. It is not returned before it is journaled; the pipeline does.
    pub async fn finalize(self, world: &World) -> CallResult {
        let Self { facts, stage: Dispatched { frozen, ran } } = self;
        let mut result = CallResult {
            contract_digest: Some(frozen.digest),
            ..CallResult::blank(facts.id, facts.run, frozen.contract.tool.clone())
        };
        if let Plan::Session { slot, .. } | Plan::TakeOver { slot, .. } = &frozen.plan {
            result.session = Some(slot.id);
        }
        match ran {
            Ran::Not(refusal) => result.refusal = Some(refusal),
            Ran::TookOver => result.execution = Execution::Executed,
            Ran::Oneshot(end) => finish_oneshot(&mut result, *end, &facts, &frozen, world).await,
            Ran::Answered(answered) => {
                result.execution = Execution::PromptObserved;
                result.output = answered.output;
                result.interaction_count = answered.count;
                let declared = frozen.contract.files.output.is_some();
                result.file_publication = if declared { FilePublication::Pending } else { FilePublication::None };
                if let Some((removal, file)) = answered.finalized {
                    result.execution = Execution::SessionFinalized;
                    result.session_closed = true;
                    result.removal = Some(removal);
                    if let Some(file) = file {
                        result.file_publication = FilePublication::Published;
                        result.created_files = vec![file];
                    }
                }
            }
            Ran::Broken(broken) => {
                result.execution = if broken.typed { Execution::Interrupted } else { Execution::NotStarted };
                result.refusal = Some(broken.refusal);
                result.output = broken.output;
                result.output_truncated = broken.cut;
                result.interaction_count = broken.count;
                result.session_closed = true;
                result.removal = Some(broken.removal);
                if broken.unpublished {
                    result.file_publication = unpublished(result.refusal.as_ref());
                }
            }
        }
        result
    }
}

async fn finish_oneshot(result: &mut CallResult, end: OneshotEnd, facts: &Facts, frozen: &Frozen, world: &World) {
    let Plan::Oneshot { callable, files, .. } = &frozen.plan else { return };
    result.execution = if end.refusal.is_none() { Execution::Executed } else { Execution::Interrupted };
    result.exit_code = end.exit_code;
    result.removal = Some(end.removal);
    result.output_truncated = end.truncated;
    result.refusal = end.refusal;
    if result.refusal.is_none() {
        match interpret(&callable.output, end.stdout.as_bytes()) {
            Ok(read) => result.structured = read.structured,
            Err(error) => result.refusal = Some(error.refusal()),
        }
    }
    result.output = end.stdout;
    result.stderr = end.stderr;
    let Some(staged) = end.staged else { return };
    if result.refusal.is_some() {
        let path = frozen.contract.files.output.as_ref().map(|output| output.path.clone()).unwrap_or_default();
        let reason = "the call did not end as declared".to_owned();
        let event = GrantEvent::Unpublished { path: path.into(), reason };
        let entry = Entry { run: Some(facts.run), session: None, call: Some(facts.id), event: Event::Grant(event) };
        drop(world.journal.append(entry).await);
        result.file_publication = FilePublication::Unpublished;
        return;
    }
    let published =
        super::publish(Arc::clone(files), staged, end.removal, &world.journal, facts.run, None, facts.id).await;
    match published {
        Ok(file) => {
            result.file_publication = FilePublication::Published;
            result.created_files = vec![file];
        }
        Err(refusal) => {
            result.file_publication = unpublished(Some(&refusal));
            result.refusal = Some(refusal);
        }
    }
}

/// What is said of an output that is not known to be published.
fn unpublished(refusal: Option<&Refusal>) -> FilePublication {
    match refusal {
        Some(refusal) if refusal.code == RefusalCode::InDoubt => FilePublication::InDoubt,
        _ => FilePublication::Unpublished,
    }
}
