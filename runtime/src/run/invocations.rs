//! The ids that callers give their calls: the same id never runs twice.
//!
//! This is an index over the journal, which holds the requests and results: an id costs a few bytes here, and what a
//! repeat is told is read from the record.

use crate::canon;
use crate::redact::Redactor;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::Principal;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::ToolCallRequest;

/// An invocation id is its principal's: another's same id is another id.
pub(crate) type Key = (Principal, String);

/// What is known of an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Digest of what was asked, as the journal holds it.
    pub(crate) asked: Digest,
    /// Position of the record of its end. Without one it is at work, or nobody knows how it ended.
    pub(crate) end: Option<u64>,
}

/// What to do with a request that carries an id.
pub(crate) enum Claim {
    /// Run it: the id is taken now.
    Fresh,
    /// Return the result of this record.
    Ended(u64),
    /// Do not run it.
    Refused(Refusal),
}

/// The ids ever used.
#[derive(Debug, Default)]
pub(crate) struct Invocations(Mutex<HashMap<Key, Known>>);

impl Invocations {
    /// An index with these ids.
    pub(crate) const fn new(known: HashMap<Key, Known>) -> Self {
        Self(Mutex::new(known))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id that is free; tells of one that is not. One of any number of claims at once is fresh.
    pub(crate) fn claim(&self, key: &Key, asked: Digest) -> Claim {
        let mut known = self.lock();
        let refused =
            |code, reason: &str, next: &str| Claim::Refused(Refusal::new(code, Authority::Journal, reason).next(next));
        match known.get(key) {
            None => {
                known.insert(key.clone(), Known { asked, end: None });
                Claim::Fresh
            }
            Some(before) if before.asked != asked => refused(
                RefusalCode::Invalid,
                "this invocation id was used for another call: the same id never runs twice",
                "Use a new id",
            ),
            Some(Known { end: Some(end), .. }) => Claim::Ended(*end),
            Some(Known { end: None, .. }) => refused(
                RefusalCode::InDoubt,
                "a call with this invocation id was started and its end is not recorded",
                "`stockade runs list` shows it; a person must look whether it took effect",
            ),
        }
    }

    /// Gives back an id whose call was never requested.
    pub(crate) fn release(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Notes where the end of a call is recorded. Without a record the id stays in doubt.
    pub(crate) fn ended(&self, key: &Key, end: Option<u64>) {
        if let Some(known) = self.lock().get_mut(key) {
            known.end = end;
        }
    }
}

/// What a request asks, as the journal would hold it: a repeat is compared with a record, from which secrets are gone.
pub(crate) fn asked(request: &ToolCallRequest, redactor: &Redactor) -> Result<Digest, canon::CanonError> {
    let mut asked = serde_json::json!({ "tool": request.tool, "arguments": request.arguments });
    redactor.value(&mut asked);
    canon::digest(&asked)
}
