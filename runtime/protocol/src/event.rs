//! Events: what the journal records and every screen is folded from.
//!
//! Live view and replay read the same events in the same order, so they show the same. The enum is closed and grouped
//! by noun; an event of an unknown type makes a journal unreadable rather than partly shown.

use crate::card::Card;
use crate::contract::Contract;
use crate::digest::Digest;
use crate::ids::{CallId, Principal, RunId, SessionId};
use crate::receipt::Receipt;
use crate::refusal::Refusal;
use crate::request::{Origin, ToolCallRequest};
use crate::result::{CallResult, CreatedFile, Removal};
use crate::text::Untrusted;
use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};

/// One journal record as screens see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// Position in the journal, from 0 without gaps.
    pub seq: u64,
    /// When it was appended.
    pub time: Timestamp,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// What happened. In JSON: `type` and `body` beside the fields above.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened, grouped by noun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "events live behind Arc and are never moved in hot loops")]
pub enum Event {
    /// About the journal itself.
    Journal(JournalEvent),
    /// About the program.
    Runtime(RuntimeEvent),
    /// About a run.
    Run(RunEvent),
    /// About an agent's conversation.
    Turn(TurnEvent),
    /// About a call.
    Call(CallEvent),
    /// About an approval.
    Approval(ApprovalEvent),
    /// About a session.
    Session(SessionEvent),
    /// About files.
    Grant(GrantEvent),
}

impl Event {
    /// Whether the journal signs a checkpoint right after it: approvals, intents, outcomes.
    #[must_use]
    pub const fn seals(&self) -> bool {
        match self {
            Self::Approval(event) => match event {
                ApprovalEvent::Asked { .. }
                | ApprovalEvent::Decided { .. }
                | ApprovalEvent::Expired { .. }
                | ApprovalEvent::Void { .. }
                | ApprovalEvent::Refused { .. } => true,
            },
            Self::Call(event) => match event {
                CallEvent::Recorded { .. }
                | CallEvent::Finished { .. }
                | CallEvent::Lost {}
                | CallEvent::InDoubt {} => true,
                CallEvent::Requested { .. }
                | CallEvent::Prepared { .. }
                | CallEvent::Authorized { .. }
                | CallEvent::Dispatched { .. } => false,
            },
            Self::Grant(_) | Self::Journal(_) => true,
            Self::Runtime(event) => matches!(event, RuntimeEvent::Trusted { .. }),
            Self::Run(_) | Self::Turn(_) | Self::Session(_) => false,
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tagged {
            r#type: String,
            #[serde(default)]
            body: serde_json::Value,
        }
        let tagged = Tagged::deserialize(deserializer)?;
        let noun = tagged.r#type.split('.').next().unwrap_or_default().to_owned();
        let value = serde_json::json!({ "type": tagged.r#type, "body": tagged.body });
        let event = match noun.as_str() {
            "journal" => serde_json::from_value(value).map(Self::Journal),
            "runtime" => serde_json::from_value(value).map(Self::Runtime),
            "run" => serde_json::from_value(value).map(Self::Run),
            "turn" => serde_json::from_value(value).map(Self::Turn),
            "call" => serde_json::from_value(value).map(Self::Call),
            "approval" => serde_json::from_value(value).map(Self::Approval),
            "session" => serde_json::from_value(value).map(Self::Session),
            "grant" => serde_json::from_value(value).map(Self::Grant),
            _ => return Err(de::Error::custom(format!("unknown event type {:?}", tagged.r#type))),
        };
        event.map_err(de::Error::custom)
    }
}

/// About the journal itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum JournalEvent {
    /// The first record of every journal.
    #[serde(rename = "journal.created")]
    Created {
        /// Version of the format, see `docs/journal-format.md`.
        format: u32,
        /// Public key of the journal, 64 hex digits.
        key: String,
    },
    /// A torn tail was cut at start.
    #[serde(rename = "journal.recovered")]
    Recovered {
        /// The file that was cut, `records.jsonl` or `checkpoints`.
        file: String,
        /// The file beside it that keeps the bytes.
        kept: String,
        /// Bytes cut.
        cut_bytes: u64,
        /// Their SHA-256.
        cut_sha256: Digest,
    },
    /// A key that may sign receipts was registered.
    #[serde(rename = "journal.approver_key")]
    ApproverKey {
        /// The name people know it by.
        name: String,
        /// Public key, 64 hex digits.
        key: String,
    },
    /// The journal's key was replaced. Only the journal itself can write this: it is signed by both keys.
    #[serde(rename = "journal.key_rotated")]
    KeyRotated {
        /// Public key that was in force until now, 64 hex digits.
        old: String,
        /// Public key in force from now on, 64 hex digits.
        new: String,
        /// Signature of the old key over the rotation, 128 hex digits.
        old_signature: String,
        /// Signature of the new key over the same.
        new_signature: String,
    },
    /// The journal was closed cleanly.
    #[serde(rename = "journal.closed")]
    Closed {},
}

/// About the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum RuntimeEvent {
    /// A runtime opened the project.
    #[serde(rename = "runtime.started")]
    Started {
        /// Version of stockade.
        version: String,
        /// The project's name.
        project: String,
        /// Absolute path of the project.
        root: String,
        /// Digest of its configuration, tools and policies.
        configuration: Digest,
        /// The sandbox tier in force.
        tier: String,
        /// The network mode in force.
        network: String,
        /// What this tier cannot enforce here.
        unenforced: Vec<String>,
        /// Callable tools.
        tools: Vec<String>,
    },
    /// What an earlier runtime left, found and settled at start.
    #[serde(rename = "runtime.found")]
    Found {
        /// Runs that had no end.
        interrupted_runs: Vec<RunId>,
        /// Calls that had not started: they never will.
        lost_calls: Vec<CallId>,
        /// Calls whose effect is unknown.
        in_doubt_calls: Vec<CallId>,
        /// Worker processes that were still there and were removed.
        removed_workers: u32,
        /// Publications settled, one sentence each.
        publications: Vec<String>,
    },
    /// A person trusted the project in the state with this digest.
    #[serde(rename = "runtime.trusted")]
    Trusted {
        /// Digest of its configuration, tools and policies.
        configuration: Digest,
        /// Who.
        by: Principal,
    },
    /// The runtime stopped cleanly.
    #[serde(rename = "runtime.stopped")]
    Stopped {},
}

/// About a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum RunEvent {
    /// It began.
    #[serde(rename = "run.started")]
    Started {
        /// Its title for lists.
        title: Untrusted,
        /// Who proposes calls in it.
        principal: Principal,
        /// The way in.
        origin: Origin,
    },
    /// It ended.
    #[serde(rename = "run.ended")]
    Ended {
        /// How.
        outcome: RunOutcome,
        /// The final answer; cleared when the run did not end as it should.
        answer: Option<Untrusted>,
        /// Why, when it did not end well.
        reason: Option<Untrusted>,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// As it should.
    Done,
    /// With an error.
    Failed,
    /// A person stopped it.
    Cancelled,
    /// It reached a deadline or step limit.
    Timeout,
    /// The program ended under it; settled by the next start.
    Interrupted,
}

/// About an agent's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum TurnEvent {
    /// A person's message to the agent.
    #[serde(rename = "turn.prompted")]
    Prompted {
        /// The message.
        text: Untrusted,
    },
    /// A request to a model, built from the journaled events before it.
    #[serde(rename = "turn.model_requested")]
    ModelRequested {
        /// Provider and model.
        model: String,
        /// Messages in it.
        messages: u32,
        /// SHA-256 of its canonical JSON, equal to that of the projection of the records before this one.
        request: Digest,
    },
    /// The model's reply.
    #[serde(rename = "turn.model_replied")]
    ModelReplied {
        /// What it says.
        text: Untrusted,
        /// The calls it proposes, in order.
        calls: Vec<ProposedCall>,
    },
}

/// A call a model proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposedCall {
    /// The id it was given by the runtime.
    pub call: CallId,
    /// What it asks for.
    pub request: ToolCallRequest,
}

/// About a call. The order of the variants is the call path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum CallEvent {
    /// A caller proposed it.
    #[serde(rename = "call.requested")]
    Requested {
        /// As sent.
        request: ToolCallRequest,
        /// Who.
        principal: Principal,
        /// By which way in.
        origin: Origin,
    },
    /// It was frozen.
    #[serde(rename = "call.prepared")]
    Prepared {
        /// The contract.
        contract: Box<Contract>,
        /// SHA-256 of its canonical JSON.
        digest: Digest,
    },
    /// Policy judged it.
    #[serde(rename = "call.authorized")]
    Authorized {
        /// Whether policy permits it.
        permitted: bool,
        /// The policies that decided, as `file:line` or id.
        policies: Vec<String>,
        /// Whether a person must confirm it as well.
        needs_person: bool,
    },
    /// Everything was checked again, the receipt is used up, the intent is durable. Dispatch may follow.
    #[serde(rename = "call.recorded")]
    Recorded {
        /// The contract digest.
        digest: Digest,
        /// Nonce of the receipt that is used up, when a person was needed.
        receipt: Option<String>,
    },
    /// A worker started or a terminal was typed into.
    #[serde(rename = "call.dispatched")]
    Dispatched {
        /// What the boundary measured of itself.
        enforcement: Enforcement,
    },
    /// It ended. The result is the one the caller gets.
    #[serde(rename = "call.finished")]
    Finished {
        /// The result.
        result: Box<CallResult>,
    },
    /// Settled by a later start: it had not been dispatched and never will be.
    #[serde(rename = "call.lost")]
    Lost {},
    /// Settled by a later start: it had been recorded, and its effect is unknown.
    #[serde(rename = "call.in_doubt")]
    InDoubt {},
}

/// What a boundary measured of itself at start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// Tier.
    pub tier: String,
    /// Digest of the worker specification, hashed again by the launcher from the bytes it received.
    pub specification: Digest,
    /// Namespaces the worker is in that the program is not in.
    pub namespaces: Vec<String>,
    /// Landlock ABI in force, 0 when the kernel has none.
    pub landlock_abi: u32,
    /// Seccomp filters in force.
    pub seccomp_filters: u32,
    /// Whether no-new-privileges is set.
    pub no_new_privileges: bool,
}

impl Default for Digest {
    fn default() -> Self {
        Self::from_bytes([0; 32])
    }
}

/// About an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum ApprovalEvent {
    /// A call waits for a person.
    #[serde(rename = "approval.asked")]
    Asked {
        /// Its contract digest.
        contract: Digest,
        /// What is to be shown.
        card: Card,
        /// SHA-256 of the card's text.
        shown: Digest,
        /// When it is given up.
        expires: Timestamp,
    },
    /// A person answered.
    #[serde(rename = "approval.decided")]
    Decided {
        /// The signed answer.
        receipt: Receipt,
    },
    /// Nobody answered in time. No person decided this.
    #[serde(rename = "approval.expired")]
    Expired {
        /// `no-answer` or `no-approver`.
        why: String,
    },
    /// A given approval will not be used.
    #[serde(rename = "approval.void")]
    Void {
        /// Nonce of the receipt.
        receipt: String,
        /// Why.
        refusal: Refusal,
    },
    /// An answer was not accepted.
    #[serde(rename = "approval.refused")]
    Refused {
        /// Why, e.g. binding mismatch with both digests.
        refusal: Refusal,
    },
}

/// About a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum SessionEvent {
    /// Its worker started.
    #[serde(rename = "session.opened")]
    Opened {
        /// The session tool.
        tool: String,
        /// Who owns it.
        principal: Principal,
        /// What the boundary measured of itself.
        enforcement: Enforcement,
        /// Network mode.
        network: String,
        /// Size at first, columns.
        columns: u16,
        /// Size at first, rows.
        rows: u16,
        /// When it is ended at the latest.
        deadline: Timestamp,
    },
    /// Its ready prompt was seen for the first time.
    #[serde(rename = "session.ready")]
    Ready {},
    /// A line was typed into it.
    #[serde(rename = "session.input")]
    Input {
        /// Who typed.
        by: Principal,
        /// What.
        text: Untrusted,
    },
    /// It printed. Redacted bytes, base64.
    #[serde(rename = "session.output")]
    Output {
        /// Standard base64 of the bytes.
        bytes: String,
        /// Whether a secret was replaced in them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// Its terminal was resized.
    #[serde(rename = "session.resized")]
    Resized {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// A person took the keyboard.
    #[serde(rename = "session.taken_over")]
    TakenOver {
        /// Who.
        by: Principal,
    },
    /// The keyboard was handed back.
    #[serde(rename = "session.handed_back")]
    HandedBack {
        /// Who had it.
        by: Principal,
    },
    /// It ended.
    #[serde(rename = "session.closed")]
    Closed {
        /// Why: `finalized`, `ended`, `closed`, `idle`, `lifetime`, `interaction`, `startup`, `output`, `run_ended`,
        /// `failed`, `interrupted`.
        why: String,
        /// Whether its processes are known to be gone.
        removal: Removal,
    },
}

/// About files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", deny_unknown_fields)]
pub enum GrantEvent {
    /// An output was staged.
    #[serde(rename = "grant.staged")]
    Staged {
        /// Path relative to the project.
        path: Untrusted,
    },
    /// A publication is about to happen. Durable before it does.
    #[serde(rename = "grant.publishing")]
    Publishing {
        /// The publication.
        intent: PublicationIntent,
    },
    /// It happened.
    #[serde(rename = "grant.published")]
    Published {
        /// The receipt.
        file: CreatedFile,
    },
    /// The staged output was discarded.
    #[serde(rename = "grant.unpublished")]
    Unpublished {
        /// Path relative to the project.
        path: Untrusted,
        /// Why.
        reason: String,
    },
    /// Settled by a later start.
    #[serde(rename = "grant.reconciled")]
    Reconciled {
        /// Path relative to the project.
        path: Untrusted,
        /// `published`, `discarded` or `in_doubt`.
        state: String,
    },
}

/// Enough to tell, after a crash, whether a publication happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicationIntent {
    /// Path relative to the project.
    pub path: String,
    /// Absolute path.
    pub host_path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    pub sha256: Digest,
    /// Device of the file that will appear there.
    #[serde(with = "crate::wide")]
    pub device: u64,
    /// Inode of the file that will appear there.
    #[serde(with = "crate::wide")]
    pub inode: u64,
    /// Device of the directory it will appear in.
    #[serde(with = "crate::wide")]
    pub parent_device: u64,
    /// Inode of the directory it will appear in.
    #[serde(with = "crate::wide")]
    pub parent_inode: u64,
    /// Name of the temporary entry beside the target that holds the bytes until then, on file systems that cannot
    /// keep a file without a name. A later start removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
}

/// Where events come from: the live journal or a file. A reader asks; nothing is pushed, so a slow screen can
/// neither lose events nor hold up enforcement.
pub trait EventSource {
    /// The events from `from` on, at most `max`, in order and without gaps.
    fn pull(&self, from: u64, max: usize) -> Vec<std::sync::Arc<EventEnvelope>>;
    /// How many events there are.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_json_and_an_unknown_one_is_refused() {
        let envelope = EventEnvelope {
            seq: 3,
            time: Timestamp(5),
            run: Some(RunId::from_bits([1; 16])),
            session: None,
            call: None,
            event: Event::Run(RunEvent::Ended { outcome: RunOutcome::Done, answer: Some("x".into()), reason: None }),
        };
        let json = serde_json::to_string(&envelope).unwrap_or_default();
        assert!(json.contains(r#""type":"run.ended""#), "{json}");
        assert_eq!(serde_json::from_str::<EventEnvelope>(&json).ok(), Some(envelope));
        let unknown = json.replace("run.ended", "run.exploded");
        assert!(serde_json::from_str::<EventEnvelope>(&unknown).is_err());
    }
}
