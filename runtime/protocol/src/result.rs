//! What a call returns: to the agent, to MCP, to the command line and to the journal, the same value.

use crate::digest::Digest;
use crate::ids::{CallId, RunId, SessionId};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// The end of a call. `refusal` is `None` exactly when the call did what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// Its run.
    pub run: RunId,
    /// The tool that was named, as the caller sent it: draw through `SafeText`.
    pub tool: String,
    /// Why it did not do what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The contract it was frozen into, when it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_digest: Option<Digest>,
    /// How far execution got.
    pub execution: Execution,
    /// The worker's exit status; `None` for sessions, whose prompt establishes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Standard output or the session's answer, white space kept, redacted. Untrusted.
    #[serde(default)]
    pub output: String,
    /// Standard error of a one-shot tool, redacted. Untrusted.
    #[serde(default)]
    pub stderr: String,
    /// Whether output was cut at its cap.
    #[serde(default)]
    pub output_truncated: bool,
    /// The parsed output as JSON text, for tools that declare JSON. Untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<String>,
    /// The session it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whether that session is closed now.
    #[serde(default)]
    pub session_closed: bool,
    /// Interactions of that session so far, this one included.
    #[serde(default)]
    pub interaction_count: u32,
    /// What became of declared output.
    pub file_publication: FilePublication,
    /// Published files; empty unless `file_publication` is `published`.
    #[serde(default)]
    pub created_files: Vec<CreatedFile>,
    /// Whether the worker was confirmed gone, when one was started and stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// From request to result, milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

impl CallResult {
    /// A result without content, to be filled in.
    #[must_use]
    pub fn blank(call: CallId, run: RunId, tool: impl Into<String>) -> Self {
        Self {
            call,
            run,
            tool: tool.into(),
            refusal: None,
            contract_digest: None,
            execution: Execution::NotStarted,
            exit_code: None,
            output: String::new(),
            stderr: String::new(),
            output_truncated: false,
            structured: None,
            session: None,
            session_closed: false,
            interaction_count: 0,
            file_publication: FilePublication::None,
            created_files: Vec::new(),
            removal: None,
            duration_ms: 0,
        }
    }

    /// A result for a call that ended before anything ran.
    #[must_use]
    pub fn refused(call: CallId, run: RunId, tool: impl Into<String>, refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::blank(call, run, tool) }
    }

    /// One word: `done`, or the refusal's code.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.refusal.as_ref().map_or("done", |refusal| refusal.code.word())
    }
}

/// How far execution got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Nothing ran.
    NotStarted,
    /// A one-shot worker ran to its end.
    Executed,
    /// The session answered and its ready prompt was seen; that establishes no exit status.
    PromptObserved,
    /// The session was ended by its finalizing command.
    SessionFinalized,
    /// It was started and did not end as declared.
    Interrupted,
}

/// What became of a call's declared output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePublication {
    /// No output was declared.
    None,
    /// Staged; only a finalizing command can publish it.
    Pending,
    /// Published; see `created_files`.
    Published,
    /// Discarded; the call ends with an error.
    Unpublished,
    /// It may be there; a person must look.
    InDoubt,
}

/// A receipt for one published file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedFile {
    /// Path as granted, relative to the project.
    pub path: String,
    /// Absolute path on this machine.
    pub host_path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    pub sha256: Digest,
}

/// Whether a worker and all its descendants are known to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// The kernel reported the end of the whole process tree.
    Confirmed,
    /// It was not reported in time; nothing was published.
    Unconfirmed,
}
