//! What an earlier runtime left open, settled by the next start: calls that never ran are lost, calls whose effect is
//! unknown are in doubt, publications are found out, runs and sessions end as interrupted. Nothing is run again.

use crate::call::World;
use crate::grant;
use crate::journal::{Entry, JournalError};
use crate::redact::Redactor;
use crate::run::{self, Key, Known};
use std::collections::{BTreeMap, HashMap};
use stockade_protocol::event::{
    ApprovalEvent, CallEvent, Event, EventEnvelope, EventSource as _, GrantEvent, PublicationIntent, RunEvent,
    RunOutcome, RuntimeEvent, SessionEvent,
};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::result::Removal;

/// What is open at the end of a journal.
#[derive(Debug, Default)]
struct Open {
    runs: Vec<RunId>,
    /// Whether the call's intent was recorded.
    calls: BTreeMap<CallId, (Option<RunId>, bool)>,
    sessions: BTreeMap<SessionId, Option<RunId>>,
    publications: Vec<(Option<RunId>, Option<CallId>, PublicationIntent)>,
    receipts: Vec<String>,
    named: HashMap<CallId, Key>,
    invocations: HashMap<Key, Known>,
}

impl Open {
    fn apply(&mut self, envelope: &EventEnvelope, redactor: &Redactor) {
        match &envelope.event {
            Event::Run(RunEvent::Started { .. }) => self.runs.extend(envelope.run),
            Event::Run(RunEvent::Ended { .. }) => self.runs.retain(|run| Some(*run) != envelope.run),
            Event::Call(event) => self.apply_call(envelope, event, redactor),
            Event::Session(SessionEvent::Opened { .. }) => {
                self.sessions.extend(envelope.session.map(|session| (session, envelope.run)));
            }
            Event::Session(SessionEvent::Closed { .. }) => {
                self.sessions.retain(|session, _| Some(*session) != envelope.session);
            }
            Event::Grant(GrantEvent::Publishing { intent }) => {
                self.publications.push((envelope.run, envelope.call, intent.clone()));
            }
            Event::Grant(
                GrantEvent::Published { .. } | GrantEvent::Unpublished { .. } | GrantEvent::Reconciled { .. },
            ) => {
                self.publications.retain(|(_, call, _)| *call != envelope.call);
            }
            Event::Approval(ApprovalEvent::Decided { receipt }) => self.receipts.push(receipt.body.nonce.clone()),
            _ => {}
        }
    }

    fn apply_call(&mut self, envelope: &EventEnvelope, event: &CallEvent, redactor: &Redactor) {
        let Some(call) = envelope.call else { return };
        match event {
            CallEvent::Requested { request, principal, .. } => {
                self.calls.insert(call, (envelope.run, false));
                if let Some(id) = &request.invocation_id
                    && let Ok(asked) = run::asked(request, redactor)
                {
                    let key = (principal.clone(), id.clone());
                    self.invocations.entry(key.clone()).or_insert(Known { asked, end: None });
                    self.named.insert(call, key);
                }
            }
            CallEvent::Recorded { .. } => {
                if let Some(open) = self.calls.get_mut(&call) {
                    open.1 = true;
                }
            }
            CallEvent::Finished { .. } => {
                self.calls.remove(&call);
                let named = self.named.remove(&call);
                if let Some(known) = named.and_then(|key| self.invocations.get_mut(&key)) {
                    known.end = Some(envelope.seq);
                }
            }
            // A call that was lost has not run, but its id stays used: the caller was told nothing and must ask anew.
            CallEvent::Lost {} | CallEvent::InDoubt {} => {
                self.calls.remove(&call);
            }
            CallEvent::Prepared { .. } | CallEvent::Authorized { .. } | CallEvent::Dispatched { .. } => {}
        }
    }
}

/// Settles what is open and says so in the journal. Returns the invocation ids that were ever used.
pub(crate) async fn settle(world: &World) -> Result<HashMap<Key, Known>, JournalError> {
    let events = world.journal.events();
    let mut open = Open::default();
    for envelope in events.pull(0, usize::MAX) {
        open.apply(&envelope, &world.redactor);
    }
    for receipt in &open.receipts {
        world.approvals.remember(receipt);
    }
    let removed_workers = world.boundary.removed_leftovers();
    let nothing = open.runs.is_empty()
        && open.calls.is_empty()
        && open.sessions.is_empty()
        && open.publications.is_empty()
        && removed_workers == 0;
    if nothing {
        return Ok(open.invocations);
    }
    let append = |run, session, call, event| world.journal.append(Entry { run, session, call, event });
    let mut publications = Vec::new();
    for (run, call, intent) in &open.publications {
        let found = grant::reconcile(&world.root, intent);
        let state = found.word();
        publications.push(format!("{}: {state}", intent.path));
        let event = GrantEvent::Reconciled { path: intent.path.clone().into(), state: state.to_owned() };
        append(*run, None, *call, Event::Grant(event)).await?;
    }
    for (call, (run, recorded)) in &open.calls {
        let event = if *recorded { CallEvent::InDoubt {} } else { CallEvent::Lost {} };
        append(*run, None, Some(*call), Event::Call(event)).await?;
    }
    for (session, run) in &open.sessions {
        // The boundary started only after it had removed whatever was left: nothing of the session is there.
        let event = SessionEvent::Closed { why: "interrupted".to_owned(), removal: Removal::Confirmed };
        append(*run, Some(*session), None, Event::Session(event)).await?;
    }
    for run in &open.runs {
        let reason = Some("stockade ended while it was running".into());
        let event = RunEvent::Ended { outcome: RunOutcome::Interrupted, answer: None, reason };
        append(Some(*run), None, None, Event::Run(event)).await?;
    }
    let calls = |recorded: bool| open.calls.iter().filter(move |(_, at)| at.1 == recorded).map(|(call, _)| *call);
    let found = RuntimeEvent::Found {
        interrupted_runs: open.runs.clone(),
        lost_calls: calls(false).collect(),
        in_doubt_calls: calls(true).collect(),
        removed_workers,
        publications,
    };
    append(None, None, None, Event::Runtime(found)).await?;
    Ok(open.invocations)
}
