//! Past events: reading them, and saying each in one line.

use crate::environment;
use crate::exit::Failure;
use crate::project::ProjectArg;
use std::sync::Arc;
use stockade_protocol::event::{
    ApprovalEvent, CallEvent, Event, EventEnvelope, GrantEvent, JournalEvent, RunEvent, RuntimeEvent, SessionEvent,
    TurnEvent,
};
use stockade_protocol::text::Untrusted;
use stockade_protocol::time::Timestamp;
use stockade_runtime::journal;

/// Said where a project's journal has no records.
pub(crate) const NONE: &str = "this project has no journal yet";

/// Every record of the project's journal; none when there is no journal yet.
pub(crate) fn of_project(project: &ProjectArg) -> Result<Vec<Arc<EventEnvelope>>, Failure> {
    let directory = environment::places()?.journal(&project.root()?);
    if !journal::exists(&directory) {
        return Ok(Vec::new());
    }
    Ok(journal::read(&directory)?)
}

/// One event in one line.
pub(crate) fn line(envelope: &EventEnvelope) -> String {
    let run = envelope.run.map_or_else(String::new, |run| run.short());
    let subject = match (envelope.call, envelope.session) {
        (Some(call), _) => call.short(),
        (None, Some(session)) => session.short(),
        (None, None) => String::new(),
    };
    let (kind, what) = (kind(&envelope.event), summary(&envelope.event));
    format!("{:>6}  {}  {kind:22} {run:9} {subject:9} {what}", envelope.seq, clock(envelope.time)).trim_end().to_owned()
}

/// The event's type as the journal writes it.
pub(crate) fn kind(event: &Event) -> String {
    let value = serde_json::to_value(event).ok();
    value.and_then(|value| value.get("type")?.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Date and time of day, in this machine's time zone.
pub(crate) fn clock(time: Timestamp) -> String {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default().to_zoned(jiff::tz::TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// What happened, without who and when.
pub(crate) fn summary(event: &Event) -> String {
    match event {
        Event::Journal(event) => about_journal(event),
        Event::Runtime(event) => about_runtime(event),
        Event::Run(RunEvent::Started { title, principal, .. }) => format!("{} by {principal}", short(title)),
        Event::Run(RunEvent::Ended { outcome, reason, .. }) => {
            let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {}", short(reason)));
            format!("{outcome:?}{reason}").to_lowercase()
        }
        Event::Turn(TurnEvent::Prompted { text }) => short(text),
        Event::Turn(TurnEvent::ModelRequested { model, messages, .. }) => format!("{model}, {messages} messages"),
        Event::Turn(TurnEvent::ModelReplied { text, calls }) => {
            format!("{} ({} calls)", short(text), calls.len())
        }
        Event::Call(event) => about_call(event),
        Event::Approval(event) => about_approval(event),
        Event::Session(event) => about_session(event),
        Event::Grant(event) => about_grant(event),
    }
}

fn about_journal(event: &JournalEvent) -> String {
    match event {
        JournalEvent::Created { key, .. } => format!("key {key}"),
        JournalEvent::Recovered { cut_bytes, .. } => format!("{cut_bytes} torn bytes cut"),
        JournalEvent::ApproverKey { name, key } => format!("{name} may sign with {key}"),
        JournalEvent::KeyRotated { old, new, .. } => format!("new key {new}, signed by it and by the old key {old}"),
        JournalEvent::Closed {} => String::new(),
    }
}

fn about_runtime(event: &RuntimeEvent) -> String {
    match event {
        RuntimeEvent::Started { version, tier, network, .. } => {
            format!("stockade {version}, {tier}, network {network}")
        }
        RuntimeEvent::Found { interrupted_runs, lost_calls, in_doubt_calls, removed_workers, publications } => format!(
            "{} interrupted runs, {} lost calls, {} in doubt, {removed_workers} workers removed, {} publications",
            interrupted_runs.len(),
            lost_calls.len(),
            in_doubt_calls.len(),
            publications.len()
        ),
        RuntimeEvent::Trusted { configuration, by } => format!("{} by {by}", configuration.short()),
        RuntimeEvent::Stopped {} => String::new(),
    }
}

fn about_call(event: &CallEvent) -> String {
    match event {
        CallEvent::Requested { request, principal, .. } => format!("{} by {principal}", request.tool),
        CallEvent::Prepared { contract, digest } => format!("{} contract {}", contract.tool, digest.short()),
        CallEvent::Authorized { permitted, policies, needs_person } => {
            let word = if *permitted { "permitted" } else { "denied" };
            let person = if *needs_person { ", a person must approve" } else { "" };
            format!("{word} by {}{person}", if policies.is_empty() { "no policy".into() } else { policies.join(", ") })
        }
        CallEvent::Recorded { digest, .. } => format!("contract {}", digest.short()),
        CallEvent::Dispatched { enforcement } => enforcement.tier.clone(),
        CallEvent::Finished { result } => match &result.refusal {
            Some(refusal) => refusal.to_string(),
            None => format!("{} done", result.tool),
        },
        CallEvent::Lost {} => "never dispatched".to_owned(),
        CallEvent::InDoubt {} => "effect unknown".to_owned(),
    }
}

fn about_approval(event: &ApprovalEvent) -> String {
    match event {
        ApprovalEvent::Asked { card, .. } => card.title.clone(),
        ApprovalEvent::Decided { receipt } => {
            let word = match receipt.body.decision {
                stockade_protocol::receipt::Decision::Approve => "approved",
                stockade_protocol::receipt::Decision::Reject => "refused",
            };
            format!("{word} by {}", receipt.body.approver)
        }
        ApprovalEvent::Expired { why } => why.clone(),
        ApprovalEvent::Void { refusal, .. } | ApprovalEvent::Refused { refusal } => refusal.to_string(),
    }
}

fn about_session(event: &SessionEvent) -> String {
    match event {
        SessionEvent::Opened { tool, network, .. } => format!("{tool}, network {network}"),
        SessionEvent::Ready {} => String::new(),
        SessionEvent::Input { by, text } => format!("{by}: {}", short(text)),
        // Base64 has four characters for three bytes.
        SessionEvent::Output { bytes, .. } => format!("{} bytes", bytes.trim_end_matches('=').len() * 3 / 4),
        SessionEvent::Resized { columns, rows } => format!("{columns}x{rows}"),
        SessionEvent::TakenOver { by } | SessionEvent::HandedBack { by } => by.to_string(),
        SessionEvent::Closed { why, removal } => format!("{why}, removal {removal:?}").to_lowercase(),
    }
}

fn about_grant(event: &GrantEvent) -> String {
    match event {
        GrantEvent::Staged { path } => path.raw().to_owned(),
        GrantEvent::Publishing { intent } => format!("{} ({} bytes)", intent.path, intent.bytes),
        GrantEvent::Published { file } => {
            format!("{} ({} bytes, sha256 {})", file.path, file.bytes, file.sha256.short())
        }
        GrantEvent::Unpublished { path, reason } => format!("{}: {reason}", path.raw()),
        GrantEvent::Reconciled { path, state } => format!("{}: {state}", path.raw()),
    }
}

/// The beginning of a text. Whoever prints it makes it drawable.
fn short(text: &Untrusted) -> String {
    const CHARS: usize = 100;
    let hidden = text.raw().chars().count().saturating_sub(CHARS);
    let shown: String = text.raw().chars().take(CHARS).collect();
    if hidden == 0 { shown } else { format!("{shown}… ({hidden} more characters)") }
}
