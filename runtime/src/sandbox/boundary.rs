//! The boundary as the program holds it.

use super::doctor;
use super::error::SandboxError;
use super::leftovers;
use super::link::{Launched, Link};
use super::memory;
use super::profile::Profile;
use super::spec::{SpecError, Stdio, WorkerSpec, check_label};
use super::terminal::PtyMaster;
use super::worker::{REMOVAL, Worker, WorkerIo};
use super::{SUPERVISOR, TIER};
use crate::sys;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::digest::Digest;
use stockade_protocol::result::Removal;
use tokio::net::unix::pipe;

/// How long the supervisor may take to stand.
const SUPERVISOR_START: Duration = Duration::from_secs(10);
/// How long a worker may take from order to program, before any deadline of its own counts.
const WORKER_START: Duration = Duration::from_secs(10);
/// How long everything may take to end.
const STOP: Duration = Duration::from_secs(10);

/// Where a boundary's helper program and state are.
#[derive(Debug, Clone)]
pub struct BoundaryOptions {
    /// The program whose `main` begins with [`super::entry`]. By default the running one.
    pub executable: PathBuf,
    /// A directory of the project's state, mode 0700, for the lock and the lease.
    pub state: PathBuf,
    /// What process lists show and leftovers are found by: 1 to 64 of `A-Z a-z 0-9 . _ -`, one a project.
    pub label: String,
}

impl BoundaryOptions {
    /// Options for the running program.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>, label: impl Into<String>) -> Self {
        Self { executable: "/proc/self/exe".into(), state: state.into(), label: label.into() }
    }
}

/// The one seam through which worker processes start. Clones share the supervisor, which lives as long as any clone
/// or any worker.
///
/// A boundary whose supervisor was killed stays dead: a new one is started by [`Boundary::start`] only, which looks
/// for leftovers first.
#[derive(Debug, Clone)]
pub struct Boundary {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    state: PathBuf,
    removed_leftovers: u32,
    profile_digest: Digest,
}

impl Boundary {
    /// Makes sure that the native tier works here, removes what an earlier run of the same project left, and starts
    /// the supervisor. Must be called inside a runtime with I/O.
    ///
    /// # Errors
    /// When the tier cannot do here what it must, another runtime has the project's sandbox, or something left over
    /// cannot be removed.
    pub async fn start(options: BoundaryOptions) -> Result<Self, SandboxError> {
        check_label(&options.label)?;
        let BoundaryOptions { executable, state, label } = options;
        let prepare = move || {
            let lock = leftovers::lock(&state)?;
            let removed = leftovers::remove(&state, &label)?;
            if let Some(missing) = doctor::missing(&executable) {
                return Err(SandboxError::Unavailable(Box::new(missing)));
            }
            let (supervisor, socket) =
                spawn(&executable, &label).map_err(|error| SandboxError::io("start the supervisor", error))?;
            Ok((lock, removed, supervisor, socket, state))
        };
        let joined = tokio::task::spawn_blocking(prepare).await;
        let (lock, removed_leftovers, supervisor, socket, state) =
            joined.map_err(|error| SandboxError::io("prepare the sandbox", io::Error::other(error)))??;
        let process = i32::try_from(supervisor.id()).unwrap_or_default();
        let link = tokio::time::timeout(SUPERVISOR_START, Link::new(socket, supervisor, lock))
            .await
            .map_err(|_elapsed| SandboxError::SupervisorGone)??;
        leftovers::write_lease(&state, process).map_err(|error| SandboxError::io("write the lease", error))?;
        let profile_digest = Profile::standard().digest();
        let link = Arc::new(link);
        Ok(Self { shared: Arc::new(Shared { link, state, removed_leftovers, profile_digest }) })
    }

    /// How many workers of an earlier run were found alive at start and removed.
    #[must_use]
    pub fn removed_leftovers(&self) -> u32 {
        self.shared.removed_leftovers
    }

    /// `native`.
    #[must_use]
    pub fn tier(&self) -> &'static str {
        TIER
    }

    /// The digest of the profile that every worker of a call gets.
    #[must_use]
    pub fn profile_digest(&self) -> Digest {
        self.shared.profile_digest
    }

    /// Limits that this tier cannot enforce here, for the badge and the contract.
    #[must_use]
    pub fn unenforced(&self) -> Vec<String> {
        vec!["total memory".to_owned()]
    }

    /// Starts a worker. When this returns, its confinement is complete and measured and its program has begun.
    ///
    /// `inputs` are descriptors open for reading, in the order of `spec.inputs`; their content is copied and hashed
    /// once more on the way in. Dropping the future kills what was begun.
    ///
    /// # Errors
    /// When the specification is refused, a step fails, or the supervisor is gone. After any error no process of the
    /// worker is left, except where the supervisor is gone: then they end by themselves within a moment.
    pub async fn launch(&self, spec: WorkerSpec, inputs: Vec<OwnedFd>) -> Result<Worker, SandboxError> {
        spec.validate()?;
        if inputs.len() != spec.inputs.len() {
            return Err(SpecError::Inputs { inputs: spec.inputs.len(), descriptors: inputs.len() }.into());
        }
        let bytes = spec.to_bytes()?;
        let digest = Digest::of(&bytes);
        let failed = |error: io::Error| SandboxError::io("prepare a worker", error);
        let memory = memory::sealed("specification", &bytes).map_err(failed)?;
        let (end, leash) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|error| failed(error.into()))?;
        let with: Vec<BorrowedFd<'_>> = [&end, &memory].into_iter().chain(&inputs).map(|fd| fd.as_fd()).collect();
        let mut answer = self.shared.link.launch(spec.label.clone(), digest, &with).await?;
        // The supervisor has its own of these now; one kept here would hide the program's end from it.
        drop((end, memory, inputs));
        let launched = match tokio::time::timeout(WORKER_START, &mut answer).await {
            Ok(answered) => answered.map_err(|_gone| SandboxError::SupervisorGone)??,
            Err(_elapsed) => {
                drop(leash);
                // The answer now comes when nothing is left.
                let _ = tokio::time::timeout(REMOVAL, answer).await;
                return Err(SandboxError::Slow { ms: u64::try_from(WORKER_START.as_millis()).unwrap_or(u64::MAX) });
            }
        };
        worker(&spec, launched, leash, Arc::clone(&self.shared.link)).map_err(failed)
    }

    /// Kills every worker and ends the supervisor. Later launches are refused.
    pub async fn stop(&self) -> Removal {
        let stopped = tokio::time::timeout(STOP, self.shared.link.stop()).await;
        let removal = stopped.unwrap_or(Removal::Unconfirmed);
        if removal == Removal::Confirmed {
            leftovers::remove_lease(&self.shared.state);
        }
        removal
    }
}

/// Starts the supervisor.
fn spawn(executable: &Path, label: &str) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let child = Command::new(executable)
        .arg0("stockade")
        .args([SUPERVISOR, label])
        .env_clear()
        .current_dir("/")
        .stdin(std::process::Stdio::from(theirs))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

/// Puts a worker together from what the supervisor sent.
fn worker(spec: &WorkerSpec, launched: Launched, leash: OwnedFd, link: Arc<Link>) -> io::Result<Worker> {
    let Launched { enforcement, descriptors, fate } = launched;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| io::Error::other("the supervisor sent too few descriptors"));
    let init = sys::watch(next()?)?;
    let io = match spec.stdio {
        Stdio::Pty { .. } => WorkerIo::Pty(PtyMaster::new(next()?)?),
        Stdio::Pipes => WorkerIo::Pipes {
            stdin: pipe::Sender::from_owned_fd(next()?)?,
            stdout: pipe::Receiver::from_owned_fd(next()?)?,
            stderr: pipe::Receiver::from_owned_fd(next()?)?,
        },
    };
    let output = if spec.output.is_some() { Some(next()?) } else { None };
    Ok(Worker { enforcement, io: Some(io), output, leash: Some(leash), init, fate, end: None, _link: link })
}
