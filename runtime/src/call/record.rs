//! Record: whatever can go stale is checked again, the receipt is used up, the intent becomes durable.

use super::prepare::question;
use super::publish::blocking;
use super::{Approved, ApprovedBy, Call, Facts, Frozen, Plan, Recorded, World};
use crate::journal::Entry;
use std::sync::Arc;
use stockade_protocol::event::{ApprovalEvent, CallEvent, Event};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

impl Call<Approved> {
    /// Makes the call's intent durable. Only a recorded call can be dispatched.
    ///
    /// # Errors
    /// `stale` when manifest, policy, configuration, profile, inputs or destination changed since the call was frozen,
    /// policy does not permit it any more as its session stands now, or its receipt was used; `expired` when the
    /// receipt's time is over; the journal's refusal when the intent cannot be written. A given approval is then
    /// recorded as void.
    pub async fn record(self, world: &World) -> Result<Call<Recorded>, Refusal> {
        let nonce = self.nonce();
        let Self { facts, stage: Approved { frozen, by } } = self;
        let checked = match fresh(&facts, &frozen, &by, world).await {
            Err(refusal) => Err(refusal),
            Ok(()) => match by {
                ApprovedBy::Policy => Ok(()),
                ApprovedBy::Person(receipt) => receipt.consume(&world.ports).map(drop),
            },
        };
        if let Err(refusal) = checked {
            void(&facts, nonce, &refusal, world).await?;
            return Err(refusal);
        }
        let event = Event::Call(CallEvent::Recorded { digest: frozen.digest, receipt: nonce });
        let entry = Entry { run: Some(facts.run), session: None, call: Some(facts.id), event };
        world.journal.append(entry).await.map_err(|error| error.refusal())?;
        Ok(Call { facts, stage: Recorded { frozen } })
    }

    /// Gives the call up. A given approval is recorded as void.
    ///
    /// # Errors
    /// The journal's refusal when that cannot be written.
    pub(super) async fn abandon(self, refusal: &Refusal, world: &World) -> Result<(), Refusal> {
        let nonce = self.nonce();
        void(&self.facts, nonce, refusal, world).await
    }

    fn nonce(&self) -> Option<String> {
        match &self.stage.by {
            ApprovedBy::Policy => None,
            ApprovedBy::Person(receipt) => Some(receipt.receipt().body.nonce.clone()),
        }
    }
}

/// Records that a receipt was given and will not be used.
async fn void(facts: &Facts, receipt: Option<String>, refusal: &Refusal, world: &World) -> Result<(), Refusal> {
    let Some(receipt) = receipt else { return Ok(()) };
    let event = Event::Approval(ApprovalEvent::Void { receipt, refusal: refusal.clone() });
    let entry = Entry { run: Some(facts.run), session: None, call: Some(facts.id), event };
    world.journal.append(entry).await.map(drop).map_err(|error| error.refusal())
}

fn stale(authority: Authority, reason: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Stale, authority, reason).next("Propose the call again under the new state")
}

/// Whether everything the contract was frozen with is still so.
async fn fresh(facts: &Facts, frozen: &Frozen, by: &ApprovedBy, world: &World) -> Result<(), Refusal> {
    let project = world.project.clone();
    let confirmed = tokio::task::spawn_blocking(move || project.confirm()).await;
    match confirmed {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let reason = format!("configuration, tools or policies changed since the project was opened: {error}");
            return Err(stale(Authority::Policy, reason));
        }
        Err(_) => return Err(stale(Authority::Policy, "the project's files could not be checked")),
    }
    if frozen.contract.sandbox.profile != world.boundary.profile_digest() {
        return Err(stale(Authority::Tier, "the sandbox profile changed"));
    }
    match &frozen.plan {
        Plan::Oneshot { files, .. } => recheck(files).await,
        Plan::Session { files, slot, .. } => {
            if let Some(end) = slot.ended() {
                return Err(stale(Authority::Manifest, format!("the session was closed meanwhile ({})", end.why)));
            }
            permitted(facts, frozen, by, world)?;
            recheck(files).await
        }
        Plan::TakeOver { slot, .. } => {
            if slot.live().is_none() {
                return Err(stale(Authority::Manifest, "the session was closed meanwhile"));
            }
            permitted(facts, frozen, by, world)
        }
    }
}

/// A session goes on while a call waits: others type into it, or a person does. Policy is asked again as it stands now.
fn permitted(facts: &Facts, frozen: &Frozen, by: &ApprovedBy, world: &World) -> Result<(), Refusal> {
    let judgement = world.policies.judge(&question(facts, frozen));
    if let (false, refusal) | (true, refusal @ Some(_)) = (judgement.permitted, judgement.refusal) {
        let why = refusal.as_ref().map_or("no policy permits it", |refusal| &refusal.reason);
        let mut now = stale(Authority::Policy, format!("it was permitted, but the session has changed since: {why}"));
        now.rule = refusal.and_then(|refusal| refusal.rule);
        return Err(now);
    }
    if judgement.needs_person && matches!(by, ApprovedBy::Policy) {
        return Err(stale(Authority::Policy, "the session has changed since, and now a person must confirm this"));
    }
    Ok(())
}

async fn recheck(files: &Arc<crate::grant::Prepared>) -> Result<(), Refusal> {
    let files = Arc::clone(files);
    blocking(move || files.recheck()).await
}
