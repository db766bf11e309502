//! Record: whatever can go stale is checked again, the receipt is used up, the intent becomes durable.

use super::publish::blocking;
use super::{Approved, ApprovedBy, Call, Plan, Recorded, World};
use crate::journal::Entry;
use std::sync::Arc;
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

impl Call<Approved> {
    /// Makes the call's intent durable. Only a recorded call can be dispatched.
    ///
    /// # Errors
    /// `stale` when manifest, policy, configuration, profile, inputs or destination changed since the call was frozen,
    /// or its receipt was used; `expired` when the receipt's time is over; the journal's refusal when the intent cannot
    /// be written. A given approval is then recorded as void.
    pub async fn record(self, world: &World) -> Result<Call<Recorded>, Refusal> {
        let Self { facts, stage: Approved { frozen, by } } = self;
        let entry = |event| Entry { run: Some(facts.run), session: None, call: Some(facts.id), event };
        let mut used = None;
        let checked = match fresh(&frozen.plan, &frozen.contract, world).await {
            Ok(()) => match by {
                ApprovedBy::Policy => Ok(()),
                ApprovedBy::Person(receipt) => {
                    let nonce = receipt.receipt().body.nonce.clone();
                    used = Some(nonce);
                    receipt.consume(&world.ports).map(drop)
                }
            },
            Err(refusal) => {
                if let ApprovedBy::Person(receipt) = by {
                    used = Some(receipt.receipt().body.nonce.clone());
                }
                Err(refusal)
            }
        };
        if let Err(refusal) = checked {
            if let Some(receipt) = used {
                let event = Event::Approval(ApprovalEvent::Void { receipt, refusal: refusal.clone() });
                world.journal.append(entry(event)).await.map_err(|error| error.refusal())?;
            }
            return Err(refusal);
        }
        let event = Event::Call(CallEvent::Recorded { digest: frozen.digest, receipt: used });
        world.journal.append(entry(event)).await.map_err(|error| error.refusal())?;
        Ok(Call { facts, stage: Recorded { frozen } })
    }
}

/// Whether everything the contract was frozen with is still so.
async fn fresh(plan: &Plan, contract: &stockade_protocol::contract::Contract, world: &World) -> Result<(), Refusal> {
    let stale = |authority, reason: String| {
        Refusal::new(RefusalCode::Stale, authority, reason).next("Propose the call again under the new state")
    };
    let project = world.project.clone();
    let confirmed = tokio::task::spawn_blocking(move || project.confirm()).await;
    match confirmed {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let reason = format!("configuration, tools or policies changed since the project was opened: {error}");
            return Err(stale(Authority::Policy, reason));
        }
        Err(_) => return Err(stale(Authority::Policy, "the project's files could not be checked".to_owned())),
    }
    if contract.sandbox.profile != world.boundary.profile_digest() {
        return Err(stale(Authority::Tier, "the sandbox profile changed".to_owned()));
    }
    match plan {
        Plan::Oneshot { files, .. } => recheck(files).await,
        Plan::Session { files, slot, .. } => {
            if let Some(end) = slot.ended() {
                return Err(stale(Authority::Manifest, format!("the session was closed meanwhile ({})", end.why)));
            }
            recheck(files).await
        }
        Plan::TakeOver { slot } if slot.live().is_none() => {
            Err(stale(Authority::Manifest, "the session was closed meanwhile".to_owned()))
        }
        Plan::TakeOver { .. } => Ok(()),
    }
}

async fn recheck(files: &Arc<crate::grant::Prepared>) -> Result<(), Refusal> {
    let files = Arc::clone(files);
    blocking(move || files.recheck()).await
}
