//! One line for each journal record.

use stockade_protocol::digest::Digest;
use stockade_protocol::event::{
    ApprovalEvent, CallEvent, Event, EventEnvelope, GrantEvent, JournalEvent, RunEvent, RunOutcome, RuntimeEvent,
    SessionEvent, TurnEvent,
};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::receipt::Decision;
use stockade_protocol::time::Timestamp;

/// What a record means at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Nothing of note.
    Plain,
    /// A call began to run.
    Call,
    /// A person is asked.
    Asked,
    /// Something was refused, failed or is in doubt.
    Refused,
    /// A person acted.
    Person,
    /// It went well.
    Done,
    /// A file was published.
    Published,
}

/// One record in the list. Texts are cut; all of it is in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Position in the journal.
    pub seq: u64,
    /// When.
    pub time: Timestamp,
    /// The record's type.
    pub kind: &'static str,
    /// What it is about: from outside.
    pub subject: String,
    /// What it says: from outside.
    pub detail: String,
    /// A digest that identifies it.
    pub digest: Option<Digest>,
    /// What it means.
    pub mark: Mark,
    /// Its run.
    pub run: Option<RunId>,
    /// Its session.
    pub session: Option<SessionId>,
    /// Its call.
    pub call: Option<CallId>,
}

/// Longest subject and detail kept, bytes.
pub(super) const TEXT: usize = 240;

pub(super) fn cut(text: &str) -> String {
    let mut end = TEXT.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// The type of an event, as in the journal.
#[must_use]
pub const fn kind(event: &Event) -> &'static str {
    match event {
        Event::Journal(event) => match event {
            JournalEvent::Created { .. } => "journal.created",
            JournalEvent::Recovered { .. } => "journal.recovered",
            JournalEvent::ApproverKey { .. } => "journal.approver_key",
            JournalEvent::KeyRotated { .. } => "journal.key_rotated",
            JournalEvent::Closed {} => "journal.closed",
        },
        Event::Runtime(event) => match event {
            RuntimeEvent::Started { .. } => "runtime.started",
            RuntimeEvent::Found { .. } => "runtime.found",
            RuntimeEvent::Trusted { .. } => "runtime.trusted",
            RuntimeEvent::Stopped {} => "runtime.stopped",
        },
        Event::Run(event) => match event {
            RunEvent::Started { .. } => "run.started",
            RunEvent::Ended { .. } => "run.ended",
        },
        Event::Turn(event) => match event {
            TurnEvent::Prompted { .. } => "turn.prompted",
            TurnEvent::ModelRequested { .. } => "turn.model_requested",
            TurnEvent::ModelReplied { .. } => "turn.model_replied",
        },
        Event::Call(event) => match event {
            CallEvent::Requested { .. } => "call.requested",
            CallEvent::Prepared { .. } => "call.prepared",
            CallEvent::Authorized { .. } => "call.authorized",
            CallEvent::Recorded { .. } => "call.recorded",
            CallEvent::Dispatched { .. } => "call.dispatched",
            CallEvent::Finished { .. } => "call.finished",
            CallEvent::Lost {} => "call.lost",
            CallEvent::InDoubt {} => "call.in_doubt",
        },
        Event::Approval(event) => match event {
            ApprovalEvent::Asked { .. } => "approval.asked",
            ApprovalEvent::Decided { .. } => "approval.decided",
            ApprovalEvent::Expired { .. } => "approval.expired",
            ApprovalEvent::Void { .. } => "approval.void",
            ApprovalEvent::Refused { .. } => "approval.refused",
        },
        Event::Session(event) => match event {
            SessionEvent::Opened { .. } => "session.opened",
            SessionEvent::Ready {} => "session.ready",
            SessionEvent::Input { .. } => "session.input",
            SessionEvent::Output { .. } => "session.output",
            SessionEvent::Resized { .. } => "session.resized",
            SessionEvent::TakenOver { .. } => "session.taken_over",
            SessionEvent::HandedBack { .. } => "session.handed_back",
            SessionEvent::Closed { .. } => "session.closed",
        },
        Event::Grant(event) => match event {
            GrantEvent::Staged { .. } => "grant.staged",
            GrantEvent::Publishing { .. } => "grant.publishing",
            GrantEvent::Published { .. } => "grant.published",
            GrantEvent::Unpublished { .. } => "grant.unpublished",
            GrantEvent::Reconciled { .. } => "grant.reconciled",
        },
    }
}

/// What an event means at a glance.
#[must_use]
pub fn mark(event: &Event) -> Mark {
    match event {
        Event::Journal(JournalEvent::Recovered { .. }) => Mark::Refused,
        Event::Journal(JournalEvent::KeyRotated { .. }) => Mark::Person,
        Event::Run(RunEvent::Ended { outcome, .. }) if *outcome == RunOutcome::Done => Mark::Done,
        Event::Run(RunEvent::Ended { .. }) => Mark::Refused,
        Event::Call(CallEvent::Dispatched { .. }) => Mark::Call,
        Event::Call(CallEvent::Authorized { permitted: false, .. } | CallEvent::Lost {} | CallEvent::InDoubt {}) => {
            Mark::Refused
        }
        Event::Call(CallEvent::Finished { result }) => {
            if result.refusal.is_some() {
                Mark::Refused
            } else {
                Mark::Done
            }
        }
        Event::Approval(ApprovalEvent::Asked { .. }) => Mark::Asked,
        Event::Approval(ApprovalEvent::Decided { receipt }) => match receipt.body.decision {
            Decision::Approve => Mark::Person,
            Decision::Reject => Mark::Refused,
        },
        Event::Approval(_) => Mark::Refused,
        Event::Session(SessionEvent::TakenOver { .. } | SessionEvent::HandedBack { .. }) => Mark::Person,
        Event::Grant(GrantEvent::Published { .. }) => Mark::Published,
        Event::Grant(GrantEvent::Unpublished { .. }) => Mark::Refused,
        Event::Grant(GrantEvent::Reconciled { state, .. }) if state != "published" => Mark::Refused,
        Event::Grant(GrantEvent::Reconciled { .. }) => Mark::Published,
        Event::Journal(_)
        | Event::Runtime(_)
        | Event::Run(RunEvent::Started { .. })
        | Event::Turn(_)
        | Event::Call(CallEvent::Requested { .. } | CallEvent::Prepared { .. } | CallEvent::Authorized { .. })
        | Event::Call(CallEvent::Recorded { .. })
        | Event::Session(_)
        | Event::Grant(GrantEvent::Staged { .. } | GrantEvent::Publishing { .. }) => Mark::Plain,
    }
}

/// Builds the row. `tool` is the tool of the record's call, `session` its session's tool, when known.
pub(super) fn row(envelope: &EventEnvelope, tool: &str, session: &str) -> Row {
    let (subject, detail, digest) = match &envelope.event {
        Event::Journal(event) => journal(event),
        Event::Runtime(event) => runtime(event),
        Event::Run(event) => run(event),
        Event::Turn(event) => turn(event),
        Event::Call(event) => call(event, tool),
        Event::Approval(event) => approval(event, tool),
        Event::Session(event) => self::session(event, session),
        Event::Grant(event) => grant(event),
    };
    Row {
        seq: envelope.seq,
        time: envelope.time,
        kind: kind(&envelope.event),
        subject: cut(&subject),
        detail: cut(&detail),
        digest,
        mark: mark(&envelope.event),
        run: envelope.run,
        session: envelope.session,
        call: envelope.call,
    }
}

type Parts = (String, String, Option<Digest>);

fn journal(event: &JournalEvent) -> Parts {
    match event {
        JournalEvent::Created { format, key } => (format!("format {format}"), format!("key {key}"), None),
        JournalEvent::Recovered { file, kept, cut_bytes, cut_sha256 } => {
            ("torn tail".into(), format!("{cut_bytes} bytes cut from {file}, kept as {kept}"), Some(*cut_sha256))
        }
        JournalEvent::ApproverKey { name, key } => (name.clone(), format!("key {key}"), None),
        JournalEvent::KeyRotated { old, new, .. } => {
            ("journal key replaced".into(), format!("new key {new}, signed by it and by the old key {old}"), None)
        }
        JournalEvent::Closed {} => ("closed cleanly".into(), String::new(), None),
    }
}

fn runtime(event: &RuntimeEvent) -> Parts {
    match event {
        RuntimeEvent::Started { version, project, tier, network, tools, configuration, .. } => (
            project.clone(),
            format!("stockade {version}, {tier}, network {network}, {} tools", tools.len()),
            Some(*configuration),
        ),
        RuntimeEvent::Found { interrupted_runs, lost_calls, in_doubt_calls, removed_workers, publications } => (
            "earlier runtime".into(),
            format!(
                "{} runs interrupted, {} calls lost, {} in doubt, {removed_workers} workers removed, {} publications settled",
                interrupted_runs.len(),
                lost_calls.len(),
                in_doubt_calls.len(),
                publications.len()
            ),
            None,
        ),
        RuntimeEvent::Trusted { configuration, by } => {
            (by.to_string(), "trusts the project".into(), Some(*configuration))
        }
        RuntimeEvent::Stopped {} => ("stopped cleanly".into(), String::new(), None),
    }
}

fn run(event: &RunEvent) -> Parts {
    match event {
        RunEvent::Started { title, principal, origin } => {
            (title.raw().to_owned(), format!("by {principal} over {}", origin_word(*origin)), None)
        }
        RunEvent::Ended { outcome, answer, reason } => {
            let text = reason.as_ref().or(answer.as_ref()).map(|text| text.raw().to_owned()).unwrap_or_default();
            (outcome_word(*outcome).into(), text, None)
        }
    }
}

fn turn(event: &TurnEvent) -> Parts {
    match event {
        TurnEvent::Prompted { text } => ("person".into(), text.raw().to_owned(), None),
        TurnEvent::ModelRequested { model, messages, request } => {
            (model.clone(), format!("{messages} messages"), Some(*request))
        }
        TurnEvent::ModelReplied { text, calls } => (format!("{} calls", calls.len()), text.raw().to_owned(), None),
    }
}

fn call(event: &CallEvent, tool: &str) -> Parts {
    let tool = tool.to_owned();
    match event {
        CallEvent::Requested { request, principal, origin } => {
            (request.tool.clone(), format!("by {principal} over {}", origin_word(*origin)), None)
        }
        CallEvent::Prepared { contract, digest } => {
            (contract.tool.clone(), format!("frozen, risk {}", contract.risk_tier.word()), Some(*digest))
        }
        CallEvent::Authorized { permitted, policies, needs_person } => {
            let judgement = match (permitted, needs_person) {
                (false, _) => "forbidden",
                (true, true) => "permitted, a person must confirm",
                (true, false) => "permitted",
            };
            (tool, format!("{judgement} by {}", or_nothing(&policies.join(", "), "no policy")), None)
        }
        CallEvent::Recorded { digest, receipt } => {
            let by = if receipt.is_some() { "checked again, receipt used up" } else { "checked again" };
            (tool, by.into(), Some(*digest))
        }
        CallEvent::Dispatched { enforcement } => {
            (tool, format!("runs in {}", enforcement.tier), Some(enforcement.specification))
        }
        CallEvent::Finished { result } => {
            let detail = result.refusal.as_ref().map_or_else(
                || format!("done in {}", crate::text::duration(result.duration_ms)),
                |refusal| format!("{} by {}: {}", refusal.code, refusal.authority, refusal.reason),
            );
            (result.tool.clone(), detail, result.contract_digest)
        }
        CallEvent::Lost {} => (tool, "never started and never will".into(), None),
        CallEvent::InDoubt {} => (tool, "may have taken effect: a person must look".into(), None),
    }
}

fn approval(event: &ApprovalEvent, tool: &str) -> Parts {
    let tool = tool.to_owned();
    match event {
        ApprovalEvent::Asked { contract, card, .. } => (tool, card.title.clone(), Some(*contract)),
        ApprovalEvent::Decided { receipt } => {
            let body = &receipt.body;
            let word = match body.decision {
                Decision::Approve => "approved once",
                Decision::Reject => "refused",
            };
            let reason = body.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            (tool, format!("{word} by {}{reason}", body.approver), Some(body.contract))
        }
        ApprovalEvent::Expired { why } => (tool, format!("expired: {why}"), None),
        ApprovalEvent::Void { refusal, .. } => (tool, format!("approval void: {}", refusal.reason), None),
        ApprovalEvent::Refused { refusal } => (tool, format!("answer not accepted: {}", refusal.reason), None),
    }
}

fn session(event: &SessionEvent, tool: &str) -> Parts {
    let name = tool.to_owned();
    match event {
        SessionEvent::Opened { tool, enforcement, network, columns, rows, .. } => (
            tool.clone(),
            format!("{columns}x{rows} in {}, network {network}", enforcement.tier),
            Some(enforcement.specification),
        ),
        SessionEvent::Ready {} => (name, "prompt seen".into(), None),
        SessionEvent::Input { by, text } => (name, format!("{by} typed {}", text.raw()), None),
        SessionEvent::Output { bytes, redacted } => {
            let secret = if *redacted { ", a secret replaced" } else { "" };
            (name, format!("{}{secret}", crate::text::bytes(bytes.len() as u64 / 4 * 3)), None)
        }
        SessionEvent::Resized { columns, rows } => (name, format!("{columns}x{rows}"), None),
        SessionEvent::TakenOver { by } => (name, format!("{by} has the keyboard"), None),
        SessionEvent::HandedBack { by } => (name, format!("{by} gave it back"), None),
        SessionEvent::Closed { why, removal } => {
            let gone = match removal {
                stockade_protocol::result::Removal::Confirmed => "all processes gone",
                stockade_protocol::result::Removal::Unconfirmed => "processes NOT confirmed gone",
            };
            (name, format!("{why}, {gone}"), None)
        }
    }
}

fn grant(event: &GrantEvent) -> Parts {
    match event {
        GrantEvent::Staged { path } => (path.raw().to_owned(), "staged, not published".into(), None),
        GrantEvent::Publishing { intent } => {
            (intent.path.clone(), format!("about to publish {}", crate::text::bytes(intent.bytes)), Some(intent.sha256))
        }
        GrantEvent::Published { file } => {
            (file.path.clone(), format!("published {}", crate::text::bytes(file.bytes)), Some(file.sha256))
        }
        GrantEvent::Unpublished { path, reason } => (path.raw().to_owned(), format!("discarded: {reason}"), None),
        GrantEvent::Reconciled { path, state } => (path.raw().to_owned(), format!("settled: {state}"), None),
    }
}

fn or_nothing<'a>(text: &'a str, nothing: &'a str) -> &'a str {
    if text.is_empty() { nothing } else { text }
}

/// The way in, in one word.
pub(crate) const fn origin_word(origin: stockade_protocol::request::Origin) -> &'static str {
    use stockade_protocol::request::Origin;
    match origin {
        Origin::Loop => "the agent loop",
        Origin::Mcp => "MCP",
        Origin::Cli => "the command line",
        Origin::Workbench => "the workbench",
    }
}

/// How a run ended, in one word.
pub(crate) const fn outcome_word(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Timeout => "timeout",
        RunOutcome::Interrupted => "interrupted",
    }
}
