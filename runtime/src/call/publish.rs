//! Publication: the last act of a call with declared output. Worker gone, bytes verified, intent durable, then the one
//! step that cannot overwrite, then the receipt.

use crate::grant::{self, Reconciliation};
use crate::journal::{Entry, Journal};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use stockade_protocol::event::{Event, GrantEvent};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::{CreatedFile, Removal};

/// Publishes a staged output. Nothing is published while a worker might still write to it.
pub(crate) async fn publish(
    files: Arc<grant::Prepared>,
    staged: OwnedFd,
    removal: Removal,
    journal: &Journal,
    run: RunId,
    session: Option<SessionId>,
    call: CallId,
) -> Result<CreatedFile, Refusal> {
    let entry = |event| Entry { run: Some(run), session, call: Some(call), event: Event::Grant(event) };
    let path = files.contract().output.map(|output| output.path).unwrap_or_default();
    let refused = |refusal: Refusal| async {
        let event = match refusal.code {
            RefusalCode::InDoubt => {
                GrantEvent::Reconciled { path: path.clone().into(), state: Reconciliation::IN_DOUBT.to_owned() }
            }
            _ => GrantEvent::Unpublished { path: path.clone().into(), reason: refusal.reason.clone() },
        };
        // The refusal stands whether or not it could be written down; the caller's result names it.
        drop(journal.append(entry(event)).await);
        Err(refusal)
    };
    if removal == Removal::Unconfirmed {
        let reason = "the worker's removal was not confirmed, so its output was not published";
        return refused(Refusal::new(RefusalCode::Unpublished, Authority::Tier, reason)).await;
    }
    let candidate = match blocking(move || files.stage(staged)).await {
        Ok(candidate) => candidate,
        Err(refusal) => return refused(refusal).await,
    };
    let intent = candidate.intent();
    if let Err(error) = journal.append(entry(GrantEvent::Publishing { intent })).await {
        return Err(error.refusal());
    }
    let file = match blocking(move || candidate.publish()).await {
        Ok(file) => file,
        Err(refusal) => return refused(refusal).await,
    };
    match journal.append(entry(GrantEvent::Published { file: file.clone() })).await {
        Ok(_) => Ok(file),
        Err(error) => {
            let reason = format!("{} was published, but its receipt could not be journaled: {error}", file.path);
            Err(Refusal::new(RefusalCode::InDoubt, Authority::Journal, reason))
        }
    }
}

/// Runs file work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, grant::GrantError> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.refusal()),
        Err(_) => Err(Refusal::new(RefusalCode::Failed, Authority::Grant, "the file broker stopped unexpectedly")),
    }
}

#[cfg(test)]
mod tests;
