//! The contract: everything that decides a call's effect, frozen before anyone judges it.
//!
//! The runtime alone freezes contracts; here they are plain data, so that the approval card, the journal and replay
//! all read the very object whose canonical bytes were hashed.

use crate::digest::Digest;
use crate::ids::{Principal, RunId, SessionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A frozen call. Its canonical JSON's SHA-256 is the contract digest. The call's id is not part of it: two calls
/// that would do the same have the same digest, and a receipt is used up by one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Version of this structure.
    pub version: u32,
    /// Who asks.
    pub principal: Principal,
    /// In which run.
    pub run: RunId,
    /// The tool, e.g. `report.query`.
    pub tool: String,
    /// Normalized arguments.
    pub arguments: BTreeMap<String, String>,
    /// What will happen.
    pub effect: Effect,
    /// Effective risk tier.
    pub risk_tier: RiskTier,
    /// Why a person must confirm it whatever policy says; empty when nothing demands one.
    pub demands: Vec<Demand>,
    /// Digest of the tool's manifest file.
    pub manifest: Digest,
    /// Digest of the policy set.
    pub policy: Digest,
    /// Digest of the project's configuration.
    pub configuration: Digest,
    /// The boundary it will run in.
    pub sandbox: SandboxContract,
    /// Files it may read and create.
    pub files: FileContract,
    /// Longest the call may take once dispatched, milliseconds.
    pub deadline_ms: u64,
}

/// What a call does to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// Starts one worker with exactly this argv and environment.
    Oneshot {
        /// Literal argv.
        argv: Vec<String>,
        /// The whole environment.
        environment: BTreeMap<String, String>,
    },
    /// Types one line into a session.
    Session {
        /// The session it addresses. It is minted before the first call is judged, so that every call of the
        /// session binds it.
        session: SessionId,
        /// The argv the session was or will be started with.
        startup_argv: Vec<String>,
        /// The whole environment it was or will be started with.
        environment: BTreeMap<String, String>,
        /// The line, without its end.
        command: String,
        /// Whether the line ends the session and publishes its output.
        finalizes: bool,
    },
    /// Hands a live session's keyboard to a person.
    TakeOver {
        /// The session.
        session: SessionId,
    },
}

/// Risk tiers of ToolClad, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskTier {
    /// Reads nothing of note.
    Info,
    /// The default.
    Low,
    /// Has effects worth watching.
    Medium,
    /// Always needs a person.
    High,
    /// Always needs a person.
    Critical,
}

impl RiskTier {
    /// The word used in manifests and policies.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// A reason why a policy permit alone never runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// The manifest says `human_approval`.
    Manifest,
    /// The effective risk tier is high or critical.
    RiskTier,
    /// The sandbox does not isolate.
    Sandbox,
}

/// The boundary part of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxContract {
    /// `native`.
    pub tier: String,
    /// `none`.
    pub network: String,
    /// Digest of the profile: namespaces, mounts, filters, rules.
    pub profile: Digest,
    /// Working directory inside.
    pub cwd: String,
    /// Resource bounds.
    pub limits: WorkerLimits,
    /// Limits asked for by nobody but named because this tier cannot enforce them here, e.g. `total memory`.
    pub unenforced: Vec<String>,
}

/// Resource bounds of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerLimits {
    /// Most processes and threads.
    pub processes: u64,
    /// Most open files a process.
    pub open_files: u64,
    /// Largest file, bytes.
    pub file_bytes: u64,
    /// Largest address space a process, bytes.
    pub address_space_bytes: u64,
    /// Most CPU seconds a process.
    pub cpu_seconds: u64,
    /// Size of /tmp, bytes.
    pub tmp_bytes: u64,
    /// Most output over its life, bytes.
    pub output_bytes: u64,
    /// Longest life, milliseconds.
    pub lifetime_ms: u64,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self {
            processes: 64,
            open_files: 256,
            file_bytes: 64 << 20,
            address_space_bytes: 2 << 30,
            cpu_seconds: 300,
            tmp_bytes: 64 << 20,
            output_bytes: 8 << 20,
            lifetime_ms: 1_800_000,
        }
    }
}

/// The file part of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileContract {
    /// Inputs, as snapshots.
    pub inputs: Vec<InputFile>,
    /// The one staged output.
    pub output: Option<OutputFile>,
    /// Largest size of any of them, bytes.
    pub max_file_bytes: u64,
}

/// One input snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Path relative to the project; the worker sees it at the same path below its working directory.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the snapshot.
    pub sha256: Digest,
}

/// The declared output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFile {
    /// Path relative to the project.
    pub path: String,
    /// Device number of the directory it will be published in, held open since.
    #[serde(with = "crate::wide")]
    pub parent_device: u64,
    /// Inode number of that directory.
    #[serde(with = "crate::wide")]
    pub parent_inode: u64,
}
