//! Calls and the questions they wait on.

use stockade_protocol::card::Card;
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::receipt::Decision;
use stockade_protocol::time::Timestamp;

/// How far a call got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Proposed, not yet judged.
    Proposed,
    /// Frozen and judged by policy.
    Judged,
    /// Waits for a person.
    Waiting,
    /// A person or policy let it pass; it has not started.
    Passed,
    /// It runs.
    Running,
    /// It ended: `done`, or a refusal's code.
    Ended {
        /// The word.
        outcome: &'static str,
        /// Who refused, by which rule and why; what to do next.
        refusal: Option<String>,
    },
}

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// Its run.
    pub run: Option<RunId>,
    /// Its session.
    pub session: Option<SessionId>,
    /// The tool, as sent: from outside.
    pub tool: String,
    /// What it does in one line: the command, or the argv: from outside, cut.
    pub act: String,
    /// How far it got.
    pub step: Step,
    /// Its contract digest.
    pub contract: Option<Digest>,
    /// The policies that decided.
    pub policies: Vec<String>,
    /// When it was proposed.
    pub since: Timestamp,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// A person answered.
    Decided {
        /// The answer.
        decision: Decision,
        /// The approver's name.
        by: String,
        /// The reason given.
        reason: Option<String>,
    },
    /// Nobody answered in time.
    Expired,
    /// The call ended before anybody answered.
    Ended {
        /// The outcome's word.
        outcome: &'static str,
    },
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The call.
    pub call: CallId,
    /// Its run.
    pub run: Option<RunId>,
    /// Its session.
    pub session: Option<SessionId>,
    /// Digest of its contract.
    pub contract: Digest,
    /// What is to be shown.
    pub card: Card,
    /// Digest of the card's text, as the runtime says.
    pub shown: Digest,
    /// When it was asked.
    pub asked: Timestamp,
    /// When it is given up.
    pub expires: Timestamp,
    /// The newest answer that was not accepted, and why.
    pub refused: Option<String>,
    /// What became of it; `None` while it waits.
    pub settled: Option<Settled>,
}
