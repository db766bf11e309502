//! A live worker as the program holds it: its streams, its output, its end.

use super::link::Link;
use super::terminal::PtyMaster;
use crate::sys;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::event::Enforcement;
use stockade_protocol::result::Removal;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// How long the removal of a killed worker may take before it counts as unconfirmed.
pub const REMOVAL: Duration = Duration::from_secs(5);

/// How a worker's program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it; 9 when stockade killed the worker.
    Signal(i32),
    /// Nobody is left who could tell.
    Unknown,
}

/// The end of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerEnd {
    /// How its program ended.
    pub exit: Exit,
    /// Whether every process of it is known to be gone.
    pub removal: Removal,
}

/// What is known of a worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing yet.
    Running,
    /// The supervisor told it.
    Ended(WorkerEnd),
    /// The supervisor is gone and will not tell.
    Lost,
}

/// A worker's standard streams.
#[derive(Debug)]
pub enum WorkerIo {
    /// Its terminal.
    Pty(PtyMaster),
    /// Its three pipes.
    Pipes {
        /// Dropping it is the end of the worker's input.
        stdin: pipe::Sender,
        /// What it prints.
        stdout: pipe::Receiver,
        /// What it complains.
        stderr: pipe::Receiver,
    },
}

/// A live worker. Dropping it asks for its removal without waiting for it.
pub struct Worker {
    /// What the worker's own process measured of its confinement before its program began.
    pub enforcement: Enforcement,
    pub(super) io: Option<WorkerIo>,
    pub(super) output: Option<OwnedFd>,
    /// Closing this is the order to kill: it works however the program ends.
    pub(super) leash: Option<OwnedFd>,
    /// The first process of the worker's PID namespace. It becomes readable only when the whole namespace is empty.
    pub(super) init: AsyncFd<OwnedFd>,
    pub(super) fate: watch::Receiver<Fate>,
    pub(super) end: Option<WorkerEnd>,
    /// While a worker is held its supervisor lives.
    pub(super) _link: Arc<Link>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("enforcement", &self.enforcement).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Worker {
    /// The streams, once.
    pub fn take_io(&mut self) -> Option<WorkerIo> {
        self.io.take()
    }

    /// The declared output, once: a descriptor, open for reading, of the worker's own file. It outlives the worker.
    pub fn take_output(&mut self) -> Option<OwnedFd> {
        self.output.take()
    }

    /// Waits for the worker's end. Resolves when no process of it is left, or when that could not be confirmed within
    /// [`REMOVAL`] of its end. May be dropped and called again.
    pub async fn wait(&mut self) -> WorkerEnd {
        if let Some(end) = self.end {
            return end;
        }
        let fate = match self.fate.wait_for(|fate| *fate != Fate::Running).await {
            Ok(fate) => *fate,
            Err(_gone) => Fate::Lost,
        };
        let end = match fate {
            Fate::Ended(end) => end,
            Fate::Running | Fate::Lost => WorkerEnd { exit: Exit::Unknown, removal: self.remove_alone().await },
        };
        self.end = Some(end);
        end
    }

    /// Kills the worker with all its processes and waits for its end.
    pub async fn kill(&mut self) -> WorkerEnd {
        drop(self.leash.take());
        if let Ok(end) = tokio::time::timeout(REMOVAL + Duration::from_secs(1), self.wait()).await {
            return end;
        }
        let end = WorkerEnd { exit: Exit::Unknown, removal: self.remove_alone().await };
        self.end = Some(end);
        end
    }

    /// Without a supervisor: the worker ends by itself, because its lifelines are cut. This only makes sure of it.
    async fn remove_alone(&mut self) -> Removal {
        drop(self.leash.take());
        for patience in [Duration::from_secs(2), Duration::from_secs(3)] {
            if tokio::time::timeout(patience, self.init.readable()).await.is_ok_and(|ready| ready.is_ok()) {
                return Removal::Confirmed;
            }
            // It may be gone by now, which is what is wanted; the next round finds out.
            let _ = sys::signal_process(self.init.get_ref(), nix::sys::signal::Signal::SIGKILL);
        }
        Removal::Unconfirmed
    }
}
