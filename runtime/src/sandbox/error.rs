//! What can go wrong at the process border.

use super::doctor::Check;
use super::spec::SpecError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// The sandbox refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The specification is not one that may run.
    #[error("the worker's specification is refused: {0}")]
    Spec(#[from] SpecError),
    /// This machine does not let the tier do what it must. There is no weaker one to fall back to.
    #[error("the native sandbox cannot run here: {0}")]
    Unavailable(Box<Check>),
    /// A step on the way to the worker's first instruction failed. The worker never ran and nothing of it is left.
    #[error("the worker could not be started: {0}; run `stockade doctor`")]
    Launch(Failure),
    /// Another runtime holds the sandbox of this project.
    #[error("another stockade has the sandbox of this project open (lock {}): stop it or join it", .lock.display())]
    Busy {
        /// The lock it holds.
        lock: PathBuf,
    },
    /// The supervisor process ended under the program. Everything it kept ends with it; nothing new is started.
    #[error("the supervisor process is gone, so no worker can be started: restart stockade")]
    SupervisorGone,
    /// The boundary was stopped.
    #[error("the sandbox was stopped")]
    Stopped,
    /// The worker was not ready in time; it was killed.
    #[error("the worker was not ready within {ms} ms and was killed")]
    Slow {
        /// How long was waited, milliseconds.
        ms: u64,
    },
    /// A process of an earlier run could not be removed.
    #[error("process {pid} of an earlier run is still there and cannot be removed: kill it, then start again")]
    Leftover {
        /// Its process id.
        pid: i32,
    },
    /// The operating system refused something outside the worker.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SandboxError {
    pub(super) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Whether it is certain that not one instruction of the worker's program ran.
    #[must_use]
    pub const fn nothing_ran(&self) -> bool {
        match self {
            Self::Spec(_)
            | Self::Unavailable(_)
            | Self::Launch(_)
            | Self::Busy { .. }
            | Self::Stopped
            | Self::Leftover { .. } => true,
            Self::SupervisorGone | Self::Slow { .. } | Self::Io { .. } => false,
        }
    }

    /// The refusal that callers and the journal see.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let code = match self {
            Self::Spec(_) => RefusalCode::Invalid,
            Self::Launch(failure) if failure.is_exec() => RefusalCode::Failed,
            Self::Slow { .. } => RefusalCode::Timeout,
            _ => RefusalCode::Unavailable,
        };
        let refusal = Refusal::new(code, Authority::Tier, self.to_string());
        match self {
            Self::Unavailable(check) => refusal.by_rule(check.name.clone()).next(check.cure.clone()),
            Self::Launch(failure) => refusal.by_rule(failure.step.clone()),
            _ => refusal,
        }
    }
}

/// In which process a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The supervisor.
    Supervisor,
    /// The launcher, outside the new PID namespace.
    Launcher,
    /// The first process of the new PID namespace.
    Init,
    /// The worker's process, before its program.
    Worker,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Supervisor => "supervisor",
            Self::Launcher => "launcher",
            Self::Init => "init",
            Self::Worker => "worker",
        })
    }
}

/// A step that failed before the worker's program began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// In which process.
    pub stage: Stage,
    /// What was tried, e.g. `mount /proc`.
    pub step: String,
    /// The kernel's answer; 0 when it was not the kernel that refused.
    pub errno: i32,
    /// What else is known, e.g. what was wrong with the specification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Failure {
    /// Whether everything was in place and only the worker's program could not be executed.
    #[must_use]
    pub fn is_exec(&self) -> bool {
        self.stage == Stage::Worker && self.step.starts_with("execute ")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.step)?;
        if self.errno != 0 {
            write!(f, ": {}", io::Error::from_raw_os_error(self.errno))?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}
