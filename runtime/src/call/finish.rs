//! The end of every call: its result is journaled, and what is returned is what the journal holds.

use super::World;
use crate::journal::{Entry, JournalError};
use stockade_protocol::event::{CallEvent, Event};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::{CallResult, Execution};

/// Output kept of a result that is too large for one record, bytes of each stream: however it is escaped, it fits.
const KEPT: usize = 256 * 1024;

/// Journals a result. Returns it as it was journaled, and where.
pub(super) async fn finish(result: CallResult, world: &World) -> (CallResult, Option<u64>) {
    let result = redacted(result, world);
    match journal(&result, world).await {
        Ok(at) => (result, Some(at)),
        Err(JournalError::TooLarge { .. }) => {
            let result = shortened(result);
            match journal(&result, world).await {
                Ok(at) => (result, Some(at)),
                Err(error) => (unrecorded(result, &error), None),
            }
        }
        Err(error) => (unrecorded(result, &error), None),
    }
}

async fn journal(result: &CallResult, world: &World) -> Result<u64, JournalError> {
    let event = Event::Call(CallEvent::Finished { result: Box::new(result.clone()) });
    let entry = Entry { run: Some(result.run), session: result.session, call: Some(result.call), event };
    world.journal.append(entry).await
}

/// The result as the journal will hold it: a secret is replaced for the caller too, and a model is told the same.
fn redacted(result: CallResult, world: &World) -> CallResult {
    let Ok(mut value) = serde_json::to_value(&result) else { return result };
    if !world.redactor.value(&mut value) {
        return result;
    }
    serde_json::from_value(value).unwrap_or_else(|_| {
        let reason = "the result holds what looks like a secret and makes no sense without it";
        let refusal = Refusal::new(RefusalCode::Failed, Authority::Journal, reason);
        CallResult { refusal: Some(refusal), ..without_output(result) }
    })
}

fn without_output(result: CallResult) -> CallResult {
    CallResult { output: String::new(), stderr: String::new(), structured: None, output_truncated: true, ..result }
}

/// Output that takes more room in a record than it has bytes: control characters, mostly.
fn shortened(mut result: CallResult) -> CallResult {
    for text in [&mut result.output, &mut result.stderr] {
        let mut at = text.len().min(KEPT);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
    }
    result.structured = None;
    result.output_truncated = true;
    result.refusal.get_or_insert_with(|| {
        let reason = "the output takes more room than one record of the journal has, so it was cut";
        Refusal::new(RefusalCode::Limit, Authority::Journal, reason).next("Ask for less, or for text")
    });
    result
}

/// What a caller is told when the end of its call cannot be journaled: what is known, and nothing that was printed.
fn unrecorded(result: CallResult, error: &JournalError) -> CallResult {
    let mut refusal = error.refusal();
    if result.execution != Execution::NotStarted {
        refusal.code = RefusalCode::InDoubt;
    }
    CallResult { refusal: Some(refusal), ..without_output(result) }
}
