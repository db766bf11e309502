//! Commands: what the workbench, the command line and the endpoints may ask of the runtime.
//!
//! The same values travel in process and over the control socket. None of them carries a principal: the runtime knows
//! who asks from the channel.

use crate::card::Card;
use crate::digest::Digest;
use crate::event::EventEnvelope;
use crate::ids::{CallId, RunId, SessionId};
use crate::receipt::Receipt;
use crate::refusal::Refusal;
use crate::request::{Origin, ToolCallRequest, ToolInfo};
use crate::result::CallResult;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A request to the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// One call; answered by [`Reply::Result`] when it has ended.
    Call {
        /// What is asked for.
        request: ToolCallRequest,
        /// The run it belongs to; `None` makes a run of its own.
        run: Option<RunId>,
    },
    /// Judges a call without running it; answered by [`Reply::Checked`].
    Check {
        /// What would be asked for.
        request: ToolCallRequest,
    },
    /// Starts an agent; answered by [`Reply::Started`] at once.
    StartRun {
        /// The agent's name, from `agents/`.
        agent: String,
        /// The person's message.
        prompt: String,
    },
    /// Opens a run in which the asking channel proposes calls; answered by [`Reply::Started`].
    OpenRun {
        /// Title for lists.
        title: String,
    },
    /// Ends a run: its sessions are closed, its waiting calls cancelled. Answered when all workers are gone.
    EndRun {
        /// The run.
        run: RunId,
    },
    /// The callable tools.
    ListTools,
    /// What waits for a person.
    ListApprovals,
    /// A person's signed answer.
    Decide {
        /// The receipt.
        receipt: Receipt,
    },
    /// Live sessions.
    ListSessions,
    /// Ends a session.
    CloseSession {
        /// The session.
        session: SessionId,
    },
    /// Changes a session's terminal size.
    Resize {
        /// The session.
        session: SessionId,
        /// Columns, at least 2.
        columns: u16,
        /// Rows, at least 1.
        rows: u16,
    },
    /// Takes a session's keyboard: itself a call, authorized and journaled.
    TakeOver {
        /// The session.
        session: SessionId,
    },
    /// Gives the keyboard back.
    HandBack {
        /// The session.
        session: SessionId,
    },
    /// Types into a session that the asker has taken over.
    Type {
        /// The session.
        session: SessionId,
        /// Bytes, standard base64.
        bytes: String,
    },
    /// Events from a position on.
    Events {
        /// First wanted position.
        from: u64,
        /// Most to return.
        max: u32,
        /// Wait for at least one, at most this long, milliseconds.
        wait_ms: u64,
    },
    /// Who and what answers here.
    Status,
}

/// The runtime's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "replies are made once and moved once")]
pub enum Reply {
    /// It was done.
    Done {},
    /// It was refused.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The call ended; the result may itself be a refusal.
    Result {
        /// The result.
        result: Box<CallResult>,
    },
    /// The judgement of a call that was not run.
    Checked {
        /// Canonical JSON of the contract.
        contract: String,
        /// Its digest.
        digest: Digest,
        /// Whether policy permits it.
        permitted: bool,
        /// The policies that decided.
        policies: Vec<String>,
        /// Whether a person would be asked.
        needs_person: bool,
        /// Why policy does not permit it.
        refusal: Option<Refusal>,
    },
    /// A run started.
    Started {
        /// The run.
        run: RunId,
    },
    /// The callable tools.
    Tools {
        /// Sorted by name.
        tools: Vec<ToolInfo>,
    },
    /// What waits for a person, oldest first.
    Approvals {
        /// The waiting calls.
        pending: Vec<Pending>,
    },
    /// Live sessions.
    Sessions {
        /// Oldest first.
        sessions: Vec<SessionInfo>,
    },
    /// Events.
    Events {
        /// In order, without gaps.
        events: Vec<EventEnvelope>,
    },
    /// Who answers.
    Status {
        /// Process id of the runtime.
        pid: u32,
        /// Version of stockade.
        version: String,
        /// Absolute path of the project.
        root: String,
        /// Absolute path of the journal.
        journal: String,
        /// Calls waiting for a person.
        pending: u32,
        /// Live sessions.
        sessions: u32,
        /// Records in the journal so far: the position of the next event.
        records: u64,
    },
}

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The call.
    pub call: CallId,
    /// Its run.
    pub run: RunId,
    /// Its tool.
    pub tool: String,
    /// Its contract digest.
    pub contract: Digest,
    /// What is to be shown.
    pub card: Card,
    /// SHA-256 of the card's text.
    pub shown: Digest,
    /// When it was asked.
    pub asked: Timestamp,
    /// When it is given up.
    pub expires: Timestamp,
}

/// A live session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionInfo {
    /// The session.
    pub session: SessionId,
    /// Its run.
    pub run: RunId,
    /// Its tool.
    pub tool: String,
    /// `new`, `open`, `touched` (a person has typed into it) or `closed`, as policy sees it.
    pub state: String,
    /// Interactions so far.
    pub interactions: u32,
    /// When it is ended at the latest.
    pub deadline: Timestamp,
}

/// The first frame on a control connection: which way in this is. It grants nothing; the socket's peer uid does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Version of this vocabulary; both sides must agree.
    pub protocol: u32,
    /// The way in.
    pub origin: Origin,
    /// What the client calls itself, e.g. an MCP client's name. Untrusted.
    pub client: String,
}

/// Version of the control vocabulary.
pub const PROTOCOL: u32 = 1;
