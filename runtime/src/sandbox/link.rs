//! The program's end of the socket to the supervisor.

use super::error::SandboxError;
use super::leftovers::Lock;
use super::wire::{self, Ask, Tell};
use super::worker::{Exit, Fate, WorkerEnd};
use crate::sys;
use nix::sys::socket::{Shutdown, shutdown};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::Enforcement;
use stockade_protocol::result::Removal;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

/// A worker that has begun.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) enforcement: Enforcement,
    /// Its init as pidfd, its streams, its output if declared.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) fate: watch::Receiver<Fate>,
}

/// How the supervisor answers a launch.
type Answer = Result<Launched, SandboxError>;

#[derive(Debug, Default)]
struct State {
    last: u64,
    launching: HashMap<u64, oneshot::Sender<Answer>>,
    fates: HashMap<u64, watch::Sender<Fate>>,
    ended: Option<Ended>,
}

/// How the supervisor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Asked to, with every worker gone.
    Stopped,
    /// Otherwise.
    Lost,
}

/// The socket. While it is open the supervisor lives; dropping the last holder closes it.
#[derive(Debug)]
pub(super) struct Link {
    socket: AsyncFd<OwnedFd>,
    state: Arc<Mutex<State>>,
    ended: watch::Receiver<bool>,
    /// No other program may take the project's sandbox while a boundary or a worker of this one is held.
    _lock: Lock,
}

impl Drop for Link {
    fn drop(&mut self) {
        // The listening task holds a descriptor of the same socket: closing this one alone would end nothing.
        let _ = shutdown(self.socket.get_ref().as_raw_fd(), Shutdown::Both);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code that holds the lock can leave the state half changed.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Takes over a fresh supervisor and waits until it stands.
    pub(super) async fn new(socket: OwnedFd, supervisor: Child, lock: Lock) -> Result<Self, SandboxError> {
        let failed = |error: io::Error| SandboxError::io("open the socket to the supervisor", error);
        sys::set_nonblocking(&socket).map_err(failed)?;
        let listening = sys::watch(socket.try_clone().map_err(failed)?).map_err(failed)?;
        let socket = sys::watch(socket).map_err(failed)?;
        match hear(&listening).await {
            Ok(Some((Tell::Ready {}, _))) => {}
            _ => return Err(SandboxError::SupervisorGone),
        }
        let state = Arc::new(Mutex::new(State::default()));
        let (end, ended) = watch::channel(false);
        let told = Arc::clone(&state);
        tokio::spawn(async move {
            listen(&listening, &told).await;
            drop(listening);
            close(&told);
            // Collects the supervisor, which ends when everything below it has.
            let _ = tokio::task::spawn_blocking(move || { supervisor }.wait()).await;
            end.send_replace(true);
        });
        Ok(Self { socket, state, ended, _lock: lock })
    }

    /// Asks for a worker.
    pub(super) async fn launch(
        &self,
        label: String,
        digest: Digest,
        with: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Answer>, SandboxError> {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = lock(&self.state);
            match state.ended {
                Some(Ended::Stopped) => return Err(SandboxError::Stopped),
                Some(Ended::Lost) => return Err(SandboxError::SupervisorGone),
                None => {}
            }
            state.last += 1;
            let id = state.last;
            state.launching.insert(id, sender);
            id
        };
        self.ask(&Ask::Launch { id, label, digest }, with).await.map_err(|_closed| {
            lock(&self.state).launching.remove(&id);
            SandboxError::SupervisorGone
        })?;
        Ok(receiver)
    }

    /// Asks the supervisor to end everything, and waits for it.
    pub(super) async fn stop(&self) -> Removal {
        // When it is gone already the state says how.
        let _ = self.ask(&Ask::Stop {}, &[]).await;
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(|ended| *ended).await;
        match lock(&self.state).ended {
            Some(Ended::Stopped) => Removal::Confirmed,
            Some(Ended::Lost) | None => Removal::Unconfirmed,
        }
    }

    async fn ask(&self, ask: &Ask, with: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            let mut guard = self.socket.writable().await?;
            match guard.try_io(|socket| wire::send(socket.get_ref(), ask, with)) {
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }
}

async fn hear(socket: &AsyncFd<OwnedFd>) -> io::Result<Option<(Tell, Vec<OwnedFd>)>> {
    loop {
        let mut guard = socket.readable().await?;
        match guard.try_io(|socket| wire::receive(socket.get_ref())) {
            Ok(result) => return result,
            Err(_would_block) => {}
        }
    }
}

/// Passes on what the supervisor tells until it is gone.
async fn listen(socket: &AsyncFd<OwnedFd>, state: &Mutex<State>) {
    loop {
        let (tell, descriptors) = match hear(socket).await {
            Ok(Some(told)) => told,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(None) | Err(_) => return,
        };
        let mut state = lock(state);
        match tell {
            Tell::Ready {} => {}
            Tell::Launched { id, enforcement } => {
                let (sender, fate) = watch::channel(Fate::Running);
                // Nobody waits when the launch was given up; its leash is cut then, and its end will be told.
                let answered = state
                    .launching
                    .remove(&id)
                    .is_some_and(|waiting| waiting.send(Ok(Launched { enforcement, descriptors, fate })).is_ok());
                if answered {
                    state.fates.insert(id, sender);
                }
            }
            Tell::Failed { id, failure } => {
                if let Some(waiting) = state.launching.remove(&id) {
                    let _ = waiting.send(Err(SandboxError::Launch(failure)));
                }
            }
            Tell::Removed { id, exit, confirmed } => {
                let removal = if confirmed { Removal::Confirmed } else { Removal::Unconfirmed };
                settle(&mut state, id, exit, removal);
            }
            Tell::Stopped {} => state.ended = Some(Ended::Stopped),
        }
    }
}

fn settle(state: &mut State, id: u64, exit: Exit, removal: Removal) {
    if let Some(fate) = state.fates.remove(&id) {
        fate.send_replace(Fate::Ended(WorkerEnd { exit, removal }));
    }
}

/// The supervisor is gone: nobody waits for its word any more.
fn close(state: &Mutex<State>) {
    let mut state = lock(state);
    state.ended.get_or_insert(Ended::Lost);
    for (_, waiting) in state.launching.drain() {
        let _ = waiting.send(Err(SandboxError::SupervisorGone));
    }
    for (_, fate) in state.fates.drain() {
        fate.send_replace(Fate::Lost);
    }
}
