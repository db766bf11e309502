//! What every journal must be like, whatever was done to the runtime that wrote it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event, EventEnvelope, GrantEvent, RunEvent, SessionEvent};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::receipt::Decision;

/// How far a call is. Each step comes at most once, and in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Requested,
    Prepared,
    Authorized,
    Asked,
    Decided,
    Recorded,
    Dispatched,
    Finished,
}

#[derive(Debug, Default)]
struct Order {
    /// Whether the run has ended.
    runs: HashMap<RunId, bool>,
    calls: HashMap<CallId, Step>,
    /// Open sessions.
    sessions: HashMap<SessionId, RunId>,
    /// Receipts that say yes, and whether they were used or declared void.
    receipts: HashMap<String, bool>,
    publishing: HashSet<CallId>,
}

/// Every record is where it can be: nothing of a run after its end, every step of a call after the one before, nothing
/// dispatched that was not recorded, no receipt used that was not given, or twice. And nothing is left open: the runtime
/// has stopped, or a later one has settled what it left.
pub fn settled(events: &[Arc<EventEnvelope>]) {
    let order = order(events);
    let open: Vec<_> = order.runs.iter().filter(|(_, ended)| !**ended).collect();
    assert!(open.is_empty(), "runs without an end: {open:?}");
    let open: Vec<_> = order.calls.iter().filter(|(_, step)| **step != Step::Finished).collect();
    assert!(open.is_empty(), "calls without an end: {open:?}");
    assert!(order.sessions.is_empty(), "sessions without an end: {:?}", order.sessions);
    assert!(order.publishing.is_empty(), "publications without an end: {:?}", order.publishing);
}

/// As [`settled`], and every yes of a person was used, or it is said why not.
pub fn accounted(events: &[Arc<EventEnvelope>]) {
    settled(events);
    let order = order(events);
    let open: Vec<_> = order.receipts.iter().filter(|(_, told)| !**told).collect();
    assert!(open.is_empty(), "approvals neither used nor void: {open:?}");
}

fn order(events: &[Arc<EventEnvelope>]) -> Order {
    let mut order = Order::default();
    for (at, envelope) in events.iter().enumerate() {
        assert_eq!(envelope.seq, at as u64);
        order.apply(envelope);
    }
    order
}

impl Order {
    fn apply(&mut self, envelope: &EventEnvelope) {
        if let Event::Run(RunEvent::Started { .. }) = &envelope.event {
            assert_eq!(self.runs.insert(envelope.run.unwrap(), false), None, "{envelope:?}");
            return;
        }
        if let Some(run) = envelope.run {
            assert_eq!(self.runs.get(&run), Some(&false), "outside its run's life: {envelope:?}");
        }
        match &envelope.event {
            Event::Run(RunEvent::Ended { .. }) => {
                let run = envelope.run.unwrap();
                assert!(!self.sessions.values().any(|of| *of == run), "a session outlives its run: {envelope:?}");
                self.runs.insert(run, true);
            }
            Event::Call(event) => self.call(envelope, event),
            Event::Approval(event) => self.approval(envelope, event),
            Event::Session(SessionEvent::Opened { .. }) => {
                let known = self.sessions.insert(envelope.session.unwrap(), envelope.run.unwrap());
                assert_eq!(known, None, "{envelope:?}");
            }
            Event::Session(SessionEvent::Closed { .. }) => {
                assert!(self.sessions.remove(&envelope.session.unwrap()).is_some(), "{envelope:?}");
            }
            Event::Session(_) => {
                assert!(self.sessions.contains_key(&envelope.session.unwrap()), "no such session: {envelope:?}");
            }
            Event::Grant(GrantEvent::Publishing { .. }) => {
                assert!(self.publishing.insert(envelope.call.unwrap()), "{envelope:?}");
            }
            Event::Grant(GrantEvent::Published { .. }) => {
                assert!(self.publishing.remove(&envelope.call.unwrap()), "published without intent: {envelope:?}");
            }
            Event::Grant(GrantEvent::Unpublished { .. } | GrantEvent::Reconciled { .. }) => {
                envelope.call.map(|call| self.publishing.remove(&call));
            }
            _ => {}
        }
    }

    fn step(&mut self, envelope: &EventEnvelope, step: Step) {
        let before = self.calls.insert(envelope.call.unwrap(), step);
        match step {
            Step::Requested => assert_eq!(before, None, "{envelope:?}"),
            Step::Dispatched => assert_eq!(before, Some(Step::Recorded), "{envelope:?}"),
            _ => assert!(before.is_some_and(|before| before < step), "after {before:?}: {envelope:?}"),
        }
    }

    fn call(&mut self, envelope: &EventEnvelope, event: &CallEvent) {
        match event {
            CallEvent::Requested { .. } => self.step(envelope, Step::Requested),
            CallEvent::Prepared { .. } => self.step(envelope, Step::Prepared),
            CallEvent::Authorized { .. } => self.step(envelope, Step::Authorized),
            CallEvent::Recorded { receipt, .. } => {
                self.step(envelope, Step::Recorded);
                if let Some(receipt) = receipt {
                    let told = self.receipts.insert(receipt.clone(), true);
                    assert_eq!(told, Some(false), "a receipt that was not given, or is used up: {envelope:?}");
                }
            }
            CallEvent::Dispatched { .. } => self.step(envelope, Step::Dispatched),
            CallEvent::Finished { .. } | CallEvent::Lost {} | CallEvent::InDoubt {} => {
                self.step(envelope, Step::Finished);
            }
        }
    }

    fn approval(&mut self, envelope: &EventEnvelope, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Asked { .. } => self.step(envelope, Step::Asked),
            ApprovalEvent::Decided { receipt } => {
                self.step(envelope, Step::Decided);
                if receipt.body.decision == Decision::Approve {
                    let known = self.receipts.insert(receipt.body.nonce.clone(), false);
                    assert_eq!(known, None, "a receipt that was given before: {envelope:?}");
                }
            }
            ApprovalEvent::Void { receipt, .. } => {
                self.receipts.entry(receipt.clone()).and_modify(|told| *told = true);
            }
            ApprovalEvent::Expired { .. } => self.step(envelope, Step::Decided),
            ApprovalEvent::Refused { .. } => {}
        }
    }
}
