//! Which runs there are, whose they are, and how they end.

use super::Worked;
use crate::call::{Cancelled, World};
use crate::journal::Entry;
use crate::session::Control;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockade_protocol::event::{Event, RunEvent, RunOutcome};
use stockade_protocol::ids::{Principal, RunId};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_protocol::result::Removal;
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest wait for a run's calls and sessions to end once they were told to.
const END: Duration = Duration::from_secs(15);

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) principal: Principal,
    /// The connection it belongs to; `None` for agents of the built-in loop.
    pub(crate) connection: Option<u64>,
    pub(crate) deadline: Instant,
    cancel: watch::Sender<Option<Refusal>>,
    /// How many calls and loops are at work in it.
    busy: watch::Sender<usize>,
    ended: tokio::sync::Mutex<bool>,
}

impl Run {
    /// What tells a call of this run to give up.
    pub(crate) fn cancelled(&self) -> Cancelled {
        Cancelled { run_deadline: self.deadline, signals: vec![self.cancel.subscribe()] }
    }

    /// Marks work in the run; the run's end waits for it.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy(Arc::clone(self))
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
        self.0.busy.send_modify(|count| *count -= 1);
    }
}

/// The runs of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Mutex<BTreeMap<RunId, Arc<Run>>>,
}

impl Runs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run and journals it.
    ///
    /// # Errors
    /// `limit` when too many are open, or the journal's refusal.
    pub(crate) async fn open(
        &self,
        world: &World,
        principal: Principal,
        origin: Origin,
        connection: Option<u64>,
        title: &str,
        deadline: Duration,
    ) -> Result<Arc<Run>, Refusal> {
        if self.lock().len() >= limits::REMEMBERED_RUNS {
            let reason = format!("{} runs are open, the most there may be", limits::REMEMBERED_RUNS);
            return Err(Refusal::new(RefusalCode::Limit, Authority::Tier, reason).next("End one"));
        }
        let id = RunId::from_bits(world.ports.random());
        let title: String = title.chars().take(200).collect();
        let event = Event::Run(RunEvent::Started { title: title.into(), principal: principal.clone(), origin });
        world
            .journal
            .append(Entry { run: Some(id), session: None, call: None, event })
            .await
            .map_err(|error| error.refusal())?;
        let run = Arc::new(Run {
            id,
            principal,
            connection,
            deadline: Instant::now() + deadline,
            cancel: watch::channel(None).0,
            busy: watch::channel(0).0,
            ended: tokio::sync::Mutex::new(false),
        });
        self.lock().insert(id, Arc::clone(&run));
        Ok(run)
    }

    /// A run, if it is the asker's. Unknown and foreign ids give the same answer.
    pub(crate) fn owned(&self, id: RunId, principal: &Principal, connection: u64) -> Option<Arc<Run>> {
        self.find(id).filter(|run| run.principal == *principal && run.connection == Some(connection))
    }

    /// A run, for persons.
    pub(crate) fn find(&self, id: RunId) -> Option<Arc<Run>> {
        self.lock().get(&id).cloned()
    }

    /// All runs, or those of one connection.
    pub(crate) fn of(&self, connection: Option<u64>) -> Vec<Arc<Run>> {
        let of = |run: &&Arc<Run>| connection.is_none() || run.connection == connection;
        self.lock().values().filter(of).cloned().collect()
    }

    /// Ends a run: what is at work in it gives up, its sessions' workers are removed, the end is journaled. A session
    /// that could not be removed, or that discarded its declared output, turns success into failure and clears the
    /// answer. A run that ended by deadline stays a timeout when its cleanup succeeded.
    pub(crate) async fn end(&self, run: &Arc<Run>, world: &World, worked: Worked) {
        let mut ended = run.ended.lock().await;
        if *ended {
            return;
        }
        *ended = true;
        run.cancel(Refusal::new(RefusalCode::Cancelled, Authority::Person, "the run has ended"));
        let mut busy = run.busy.subscribe();
        // Whatever does not give up in time is cut off with its session below.
        drop(tokio::time::timeout(END, busy.wait_for(|count| *count == 0)).await);
        let faults = close_sessions(run.id, world).await;
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
        self.lock().remove(&run.id);
    }
}

/// Closes a run's sessions and awaits their removal. What went wrong, one sentence each.
async fn close_sessions(run: RunId, world: &World) -> Vec<String> {
    let mut faults = Vec::new();
    for slot in world.sessions.of_run(run) {
        if let Some(mut live) = slot.live() {
            drop(live.controls.send(Control::Close { why: "run_ended" }).await);
            let ended = tokio::time::timeout(END, live.ended.wait_for(Option::is_some)).await;
            if ended.is_err() {
                faults.push(format!("the session of {} did not end in time", slot.binding.tool));
                continue;
            }
        }
        if let Some(end) = slot.ended() {
            if end.removal == Removal::Unconfirmed {
                faults.push(format!("the removal of the worker of {} was not confirmed", slot.binding.tool));
            }
            if end.unpublished {
                faults.push(format!(
                    "the session of {} ended ({}) without publishing its output",
                    slot.binding.tool, end.why
                ));
            }
        }
    }
    faults
}
