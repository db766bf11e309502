//! From an entry to the bytes of its body: redaction happens here, once, for everything that is recorded.

use super::Entry;
use super::error::JournalError;
use super::record::Places;
use super::writer::Prepared;
use crate::canon::{self, CanonError};
use crate::redact::Redactor;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use stockade_protocol::event::{Event, JournalEvent, SessionEvent};

/// Redacts an entry and puts its body into canonical form.
pub(super) fn prepare(entry: Entry, redactor: &Redactor) -> Result<Prepared, JournalError> {
    let Entry { run, session, call, event } = entry;
    let event = match event {
        Event::Session(SessionEvent::Output { bytes, redacted }) => {
            Event::Session(redact_output(&bytes, redacted, redactor)?)
        }
        other => other,
    };
    let (kind, mut body) = parts(&event)?;
    let event = if redactor.value(&mut body) {
        serde_json::from_value(serde_json::json!({ "type": kind, "body": body }))
            .map_err(|error| JournalError::Redaction(error.to_string()))?
    } else {
        event
    };
    Ok(Prepared { places: Places { run, session, call }, kind, body: canon::to_bytes(&body)?, event })
}

/// An entry about the journal itself: it holds nothing to redact.
pub(super) fn of_journal(event: JournalEvent) -> Result<Prepared, JournalError> {
    as_it_is(Event::Journal(event).into())
}

/// An entry whose text is redacted already.
pub(super) fn as_it_is(entry: Entry) -> Result<Prepared, JournalError> {
    let Entry { run, session, call, event } = entry;
    let (kind, body) = parts(&event)?;
    Ok(Prepared { places: Places { run, session, call }, kind, body: canon::to_bytes(&body)?, event })
}

fn parts(event: &Event) -> Result<(String, Value), JournalError> {
    let shape = |what: String| JournalError::Canon(CanonError::Shape(what));
    match serde_json::to_value(event).map_err(|error| shape(error.to_string()))? {
        Value::Object(mut members) => match (members.remove("type"), members.remove("body")) {
            (Some(Value::String(kind)), Some(body)) => Ok((kind, body)),
            _ => Err(shape("an event has a type and a body".to_owned())),
        },
        _ => Err(shape("an event is an object".to_owned())),
    }
}

/// Terminal output that did not come through an output stream: redacted as one piece.
fn redact_output(text: &str, redacted: bool, redactor: &Redactor) -> Result<SessionEvent, JournalError> {
    let bytes = STANDARD.decode(text).map_err(|error| JournalError::Redaction(error.to_string()))?;
    let (bytes, replaced) = redactor.bytes(&bytes);
    Ok(SessionEvent::Output { bytes: STANDARD.encode(bytes), redacted: redacted || replaced })
}
