//! Sessions: live terminals of session tools, each owned by one actor.
//!
//! A session belongs to one principal in one run and to one frozen set of files, manifest and configuration. It is
//! found by those, never by an id that a caller supplies. Only a recorded call can type into it, or a person whose
//! take-over was itself a recorded call.

mod actor;
mod ansi;
mod prompt;

pub(crate) use actor::{Answered, Broken, Control, Opening, SessionEnd, Turn, Typed, open};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockade_protocol::command::SessionInfo;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::Enforcement;
use stockade_protocol::ids::{Principal, RunId, SessionId};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::Removal;
use stockade_protocol::time::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// What a session is bound to. A call whose binding differs never reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) run: RunId,
    pub(crate) principal: Principal,
    /// The session tool, without its command.
    pub(crate) tool: String,
    /// Digest over manifest, policy, configuration and profile.
    pub(crate) context: Digest,
    /// Digest over the file contract.
    pub(crate) files: Digest,
}

/// One session's place in the registry, from the first call that names it until its run ends.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    pub(crate) binding: Binding,
    /// The callable whose call made the place.
    pub(crate) callable: String,
    state: Mutex<State>,
    /// Calls that are being judged or wait for a person: meanwhile the session is not idle.
    holds: AtomicU32,
    /// Whether a person has typed into it.
    touched: AtomicBool,
    pub(crate) interactions: AtomicU32,
    /// Only one call at a time opens the worker.
    pub(crate) opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum State {
    Reserved,
    Live(Live),
    Ended(SessionEnd),
}

/// The way to a live session's actor.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) commands: mpsc::Sender<Typed>,
    pub(crate) controls: mpsc::Sender<Control>,
    pub(crate) ended: watch::Receiver<Option<SessionEnd>>,
    pub(crate) deadline: Timestamp,
    pub(crate) enforcement: Enforcement,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor, when the session is live.
    pub(crate) fn live(&self) -> Option<Live> {
        match &*self.lock() {
            State::Live(live) => Some(live.clone()),
            State::Reserved | State::Ended(_) => None,
        }
    }

    /// How it ended, when it has.
    pub(crate) fn ended(&self) -> Option<SessionEnd> {
        match &*self.lock() {
            State::Ended(end) => Some(end.clone()),
            State::Reserved | State::Live(_) => None,
        }
    }

    /// Says how the session is reached, before its actor begins. `false` when its run has ended meanwhile.
    pub(crate) fn set_live(&self, live: Live) -> bool {
        let mut state = self.lock();
        let open = matches!(*state, State::Reserved);
        if open {
            *state = State::Live(live);
        }
        open
    }

    pub(crate) fn set_ended(&self, end: SessionEnd) {
        *self.lock() = State::Ended(end);
    }

    /// A place that was never opened is closed for good.
    fn retire(&self) {
        let mut state = self.lock();
        if matches!(*state, State::Reserved) {
            let refusal = Refusal::new(RefusalCode::Cancelled, Authority::Person, "the run has ended");
            let why = "run_ended".to_owned();
            *state = State::Ended(SessionEnd { why, refusal, removal: Removal::Confirmed, unpublished: false });
        }
    }

    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::SeqCst);
    }

    /// The state as policy sees it: `new`, `open`, `touched` or `closed`.
    pub(crate) fn policy_state(&self) -> &'static str {
        match &*self.lock() {
            State::Reserved => "new",
            State::Live(_) if self.touched.load(Ordering::SeqCst) => "touched",
            State::Live(_) => "open",
            State::Ended(_) => "closed",
        }
    }

    /// Keeps the session from idling out until the hold is dropped.
    fn hold(self: &Arc<Self>) -> Hold {
        self.holds.fetch_add(1, Ordering::SeqCst);
        Hold(Arc::clone(self))
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }
}

/// See [`Slot::hold`].
#[derive(Debug)]
pub(crate) struct Hold(Arc<Slot>);

impl Hold {
    /// The session.
    pub(crate) const fn slot(&self) -> &Arc<Slot> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}

fn full() -> Refusal {
    let reason = format!("{} sessions are live, the most there may be", limits::LIVE_SESSIONS);
    Refusal::new(RefusalCode::Limit, Authority::Tier, reason).next("Close one")
}

/// All sessions of a runtime. Its lock is never held over input or output.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<BTreeMap<SessionId, Arc<Slot>>>,
    /// Room for live sessions.
    room: Arc<Semaphore>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { slots: Mutex::default(), room: Arc::new(Semaphore::new(limits::LIVE_SESSIONS)) }
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session for a binding: the one it has, or a place for a new one, held for the call that asks.
    ///
    /// # Errors
    /// `stale` when the run's session of this tool has other files or another context, `limit` when it has ended or too
    /// many are live. Nothing is restarted in silence.
    pub(crate) fn slot(&self, binding: Binding, callable: &str, fresh: SessionId) -> Result<Hold, Refusal> {
        let mut slots = self.lock();
        let known = slots
            .values()
            .find(|slot| {
                let bound = &slot.binding;
                bound.run == binding.run && bound.principal == binding.principal && bound.tool == binding.tool
            })
            .cloned();
        if let Some(slot) = known {
            if let Some(end) = slot.ended() {
                return Err(Refusal::new(
                    RefusalCode::Limit,
                    Authority::Manifest,
                    format!("this run's session of {} is closed ({}) and is not restarted", binding.tool, end.why),
                )
                .next("Start a new run"));
            }
            if slot.binding == binding {
                return Ok(slot.hold());
            }
            // A place that another call still has in mind is as good as live: that call would open it.
            if slot.live().is_some() || slot.is_held() {
                let what = if slot.binding.files == binding.files { "context" } else { "files" };
                return Err(Refusal::new(
                    RefusalCode::Stale,
                    Authority::Grant,
                    format!("this run's session of {} was bound to other {what}", binding.tool),
                )
                .next("Start a new run to use the new ones"));
            }
            slots.remove(&slot.id);
        }
        if self.room.available_permits() == 0 {
            return Err(full());
        }
        let slot = Arc::new(Slot {
            id: fresh,
            binding,
            callable: callable.to_owned(),
            state: Mutex::new(State::Reserved),
            holds: AtomicU32::new(0),
            touched: AtomicBool::new(false),
            interactions: AtomicU32::new(0),
            opening: tokio::sync::Mutex::new(()),
        });
        slots.insert(fresh, Arc::clone(&slot));
        Ok(slot.hold())
    }

    /// Room for one more live session, until the permit is dropped.
    ///
    /// # Errors
    /// `limit` when there is none.
    pub(crate) fn room(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_full| full())
    }

    /// A session by id, for persons. Unknown and closed ids give the same answer.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Slot>> {
        self.lock().get(&id).filter(|slot| slot.live().is_some()).cloned()
    }

    /// The sessions of a run.
    pub(crate) fn of_run(&self, run: RunId) -> Vec<Arc<Slot>> {
        self.lock().values().filter(|slot| slot.binding.run == run).cloned().collect()
    }

    /// Forgets a run that has ended. A place that was not opened by now never is.
    pub(crate) fn forget(&self, run: RunId) {
        self.lock().retain(|_, slot| {
            let other = slot.binding.run != run;
            if !other {
                slot.retire();
            }
            other
        });
    }

    /// Tells every session to end, without waiting for it.
    pub(crate) fn close_all(&self) {
        for slot in self.lock().values() {
            if let Some(live) = slot.live() {
                // One whose queue is full is busy; it ends with its supervisor.
                drop(live.controls.try_send(Control::Close { why: "dropped" }));
            }
        }
    }

    /// Gives back the keyboards that persons of a connection that has ended still have.
    pub(crate) async fn release(&self, connection: u64) {
        let all: Vec<Live> = self.lock().values().filter_map(|slot| slot.live()).collect();
        for live in all {
            // A session that has ended has no keyboard.
            drop(live.controls.send(Control::Release { connection }).await);
        }
    }

    /// Live sessions, for lists.
    pub(crate) fn infos(&self) -> Vec<SessionInfo> {
        let slots = self.lock();
        let mut infos: Vec<SessionInfo> = slots
            .values()
            .filter_map(|slot| {
                let live = slot.live()?;
                Some(SessionInfo {
                    session: slot.id,
                    run: slot.binding.run,
                    tool: slot.binding.tool.clone(),
                    state: slot.policy_state().to_owned(),
                    interactions: slot.interactions.load(Ordering::SeqCst),
                    deadline: live.deadline,
                })
            })
            .collect();
        infos.sort_by_key(|info| info.deadline);
        infos
    }
}
