//! Which runs there are, whose they are, and how they end.

use super::Worked;
use crate::call::{Cancelled, World};
use crate::journal::Entry;
use crate::session::Control;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use stockade_protocol::event::{Event, RunEvent, RunOutcome};
use stockade_protocol::ids::{Principal, RunId};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_protocol::result::Removal;
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest wait for a run's calls and sessions to end once they were told to: a worker that is just being started, and
/// the confirmed removal of one that does not want to go, fit in.
const END: Duration = Duration::from_secs(30);
/// Connections that ended lately, by number: what they had still asked for comes too late.
const GONE: usize = 1024;

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) principal: Principal,
    /// The connection it belongs to; `None` for agents of the built-in loop.
    pub(crate) connection: Option<u64>,
    pub(crate) deadline: Instant,
    cancel: watch::Sender<Option<Refusal>>,
    work: watch::Sender<Work>,
    /// Whether its end is journaled. Held while its start or its end is being journaled.
    ended: tokio::sync::Mutex<bool>,
}

/// What is at work in a run.
#[derive(Debug, Default)]
struct Work {
    /// Calls and loops.
    count: usize,
    /// Whether the run is ending: nothing more begins.
    closed: bool,
}

impl Run {
    /// What tells a call of this run to give up.
    pub(crate) fn cancelled(&self) -> Cancelled {
        Cancelled { run_deadline: self.deadline, signals: vec![self.cancel.subscribe()] }
    }

    /// Marks work in the run; the run's end waits for it. `None` when the run is ending.
    pub(crate) fn busy(self: &Arc<Self>) -> Option<Busy> {
        let open = self.work.send_if_modified(|work| {
            work.count += usize::from(!work.closed);
            !work.closed
        });
        open.then(|| Busy(Arc::clone(self)))
    }

    /// Tells everything in the run to give up.
    pub(crate) fn cancel(&self, refusal: Refusal) {
        self.cancel.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(refusal);
            }
            first
        });
    }
}

/// See [`Run::busy`].
#[derive(Debug)]
pub(crate) struct Busy(Arc<Run>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.work.send_modify(|work| work.count = work.count.saturating_sub(1));
    }
}

/// The runs of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, Arc<Run>>,
    gone: VecDeque<u64>,
    /// Whether the runtime is stopping.
    closed: bool,
}

impl Runs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run and journals it. At its deadline it is ended.
    ///
    /// # Errors
    /// `limit` when too many are open, `cancelled` when its connection or the runtime is ending, or the journal's
    /// refusal.
    pub(crate) async fn open(
        self: &Arc<Self>,
        world: &Arc<World>,
        principal: Principal,
        origin: Origin,
        connection: Option<u64>,
        title: &str,
        deadline: Duration,
    ) -> Result<Arc<Run>, Refusal> {
        let id = RunId::from_bits(world.ports.random());
        let title: String = title.chars().take(200).collect();
        let event = Event::Run(RunEvent::Started { title: title.into(), principal: principal.clone(), origin });
        let run = Arc::new(Run {
            id,
            principal,
            connection,
            deadline: Instant::now() + deadline,
            cancel: watch::channel(None).0,
            work: watch::channel(Work::default()).0,
            ended: tokio::sync::Mutex::new(false),
        });
        // Whoever ends it meanwhile waits until its start is journaled.
        let mut ended = run.ended.lock().await;
        self.enter(&run)?;
        let started = world.journal.append(Entry { run: Some(id), session: None, call: None, event }).await;
        if let Err(error) = started {
            *ended = true;
            self.lock().runs.remove(&id);
            return Err(error.refusal());
        }
        drop(ended);
        tokio::spawn(at_deadline(Arc::downgrade(&run), Arc::downgrade(self), Arc::downgrade(world)));
        Ok(run)
    }

    fn enter(&self, run: &Arc<Run>) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.closed || run.connection.is_some_and(|connection| state.gone.contains(&connection)) {
            return Err(Refusal::new(
                RefusalCode::Cancelled,
                Authority::Person,
                "stockade or the caller has gone away",
            ));
        }
        if state.runs.len() >= limits::REMEMBERED_RUNS {
            let reason = format!("{} runs are open, the most there may be", limits::REMEMBERED_RUNS);
            return Err(Refusal::new(RefusalCode::Limit, Authority::Tier, reason).next("End one"));
        }
        state.runs.insert(run.id, Arc::clone(run));
        Ok(())
    }

    /// A run, if it is the asker's. Unknown and foreign ids give the same answer.
    pub(crate) fn owned(&self, id: RunId, principal: &Principal, connection: u64) -> Option<Arc<Run>> {
        self.find(id).filter(|run| run.principal == *principal && run.connection == Some(connection))
    }

    /// A run, for persons.
    pub(crate) fn find(&self, id: RunId) -> Option<Arc<Run>> {
        self.lock().runs.get(&id).cloned()
    }

    /// The runs of a connection that has ended. It opens no more.
    pub(crate) fn abandon(&self, connection: u64) -> Vec<Arc<Run>> {
        let mut state = self.lock();
        // Callers in the same process share the number 0 and stay.
        if connection != 0 {
            state.gone.push_back(connection);
            if state.gone.len() > GONE {
                state.gone.pop_front();
            }
        }
        state.runs.values().filter(|run| run.connection == Some(connection)).cloned().collect()
    }

    /// All runs.
    pub(crate) fn open_now(&self) -> Vec<Arc<Run>> {
        self.lock().runs.values().cloned().collect()
    }

    /// All runs. No more are opened.
    pub(crate) fn close(&self) -> Vec<Arc<Run>> {
        let mut state = self.lock();
        state.closed = true;
        state.runs.values().cloned().collect()
    }

    /// Ends a run: what is at work in it gives up, its sessions' workers are removed, the end is journaled. A session
    /// that could not be removed, or that discarded its declared output, turns success into failure and clears the
    /// answer. A run that ended by deadline stays a timeout when its cleanup succeeded.
    ///
    /// An end that has begun goes on when this future is dropped.
    pub(crate) async fn end(self: &Arc<Self>, run: &Arc<Run>, world: &Arc<World>, worked: Worked) {
        let (runs, run, world) = (Arc::clone(self), Arc::clone(run), Arc::clone(world));
        let ending = tokio::spawn(async move { runs.finish(&run, &world, worked).await });
        // It fails only with the program.
        drop(ending.await);
    }

    /// Ends several runs at once, for one reason.
    pub(crate) async fn end_all(self: &Arc<Self>, ended: Vec<Arc<Run>>, world: &Arc<World>, reason: &str) {
        let worked = || Worked { outcome: RunOutcome::Cancelled, answer: None, reason: Some(reason.to_owned()) };
        let mut ends = tokio::task::JoinSet::new();
        for run in ended {
            let (runs, world, worked) = (Arc::clone(self), Arc::clone(world), worked());
            ends.spawn(async move { runs.end(&run, &world, worked).await });
        }
        while ends.join_next().await.is_some() {}
    }

    async fn finish(&self, run: &Arc<Run>, world: &World, worked: Worked) {
        let mut ended = run.ended.lock().await;
        if *ended {
            return;
        }
        *ended = true;
        run.cancel(give_up(&worked));
        run.work.send_modify(|work| work.closed = true);
        let mut work = run.work.subscribe();
        let idle = tokio::time::timeout(END, work.wait_for(|work| work.count == 0)).await.is_ok();
        let mut faults = close_sessions(run.id, world).await;
        if !idle {
            faults.push("a call of it did not end in time".to_owned());
        }
        let mut worked = worked;
        if let Some(fault) = faults.into_iter().next() {
            worked.answer = None;
            if worked.outcome == RunOutcome::Done {
                worked.outcome = RunOutcome::Failed;
                worked.reason = Some(fault);
            }
        }
        let event = Event::Run(RunEvent::Ended {
            outcome: worked.outcome,
            answer: worked.answer.map(Into::into),
            reason: worked.reason.map(Into::into),
        });
        // A journal that cannot take the end leaves the run open; the next start settles it.
        drop(world.journal.append(Entry { run: Some(run.id), session: None, call: None, event }).await);
        world.sessions.forget(run.id);
        self.lock().runs.remove(&run.id);
    }
}

/// What the calls of a run that ends are told.
fn give_up(worked: &Worked) -> Refusal {
    let reason = worked.reason.clone().unwrap_or_else(|| "the run was ended".to_owned());
    match worked.outcome {
        RunOutcome::Timeout => Refusal::new(RefusalCode::Timeout, Authority::Clock, reason),
        _ => Refusal::new(RefusalCode::Cancelled, Authority::Person, reason),
    }
}

/// Ends a run at its deadline, also one in which nothing is at work.
async fn at_deadline(run: Weak<Run>, runs: Weak<Runs>, world: Weak<World>) {
    let Some((deadline, mut work)) = run.upgrade().map(|run| (run.deadline, run.work.subscribe())) else { return };
    tokio::select! {
        _ended = work.wait_for(|work| work.closed) => return,
        () = tokio::time::sleep_until(deadline) => {}
    }
    if let (Some(run), Some(runs), Some(world)) = (run.upgrade(), runs.upgrade(), world.upgrade()) {
        let reason = Some("the run reached its deadline".to_owned());
        runs.end(&run, &world, Worked { outcome: RunOutcome::Timeout, answer: None, reason }).await;
    }
}

/// Closes a run's sessions and awaits their removal. What went wrong, one sentence each.
async fn close_sessions(run: RunId, world: &World) -> Vec<String> {
    let mut faults = Vec::new();
    let slots = world.sessions.of_run(run);
    let mut ends = Vec::new();
    for slot in slots {
        let live = slot.live();
        if let Some(live) = &live {
            drop(live.controls.send(Control::Close { why: "run_ended" }).await);
        }
        ends.push((slot, live));
    }
    for (slot, live) in ends {
        let tool = &slot.binding.tool;
        if let Some(mut live) = live {
            match tokio::time::timeout(END, live.ended.wait_for(Option::is_some)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => {
                    faults.push(format!("the session of {tool} went away without an end"));
                    continue;
                }
                Err(_) => {
                    faults.push(format!("the session of {tool} did not end in time"));
                    continue;
                }
            }
        }
        if let Some(end) = slot.ended() {
            if end.removal == Removal::Unconfirmed {
                faults.push(format!("the removal of the worker of {tool} was not confirmed"));
            }
            if end.unpublished {
                faults.push(format!("the session of {tool} ended ({}) without publishing its output", end.why));
            }
        }
    }
    faults
}
