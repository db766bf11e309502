//! Authorize: policy judges the frozen contract.

use super::{Approved, ApprovedBy, Attended, Authorized, Call, Free, Prepared};
use crate::policy::Judgement;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// What policy says of a call that demands nobody.
#[derive(Debug)]
pub enum Verdict {
    /// It may run.
    Permit(Call<Approved>),
    /// It may run if a person confirms it.
    Ask(Call<Authorized>),
    /// It may not.
    Forbid(Refusal),
}

impl Call<Prepared<Free>> {
    /// Applies a judgement. Without a permit, or with an evaluation error, the call is refused.
    #[must_use]
    pub fn authorize(self, judgement: Judgement) -> Verdict {
        match permitted(judgement) {
            Err(refusal) => Verdict::Forbid(refusal),
            Ok(judgement) if judgement.needs_person => {
                Verdict::Ask(Call { facts: self.facts, stage: Authorized { frozen: self.stage.frozen, judgement } })
            }
            Ok(_) => Verdict::Permit(Call {
                facts: self.facts,
                stage: Approved { frozen: self.stage.frozen, by: ApprovedBy::Policy },
            }),
        }
    }
}

impl Call<Prepared<Attended>> {
    /// Applies a judgement. Even a permit leaves the call waiting for a person.
    ///
    /// # Errors
    /// `denied` without a permit or with an evaluation error.
    pub fn authorize(self, judgement: Judgement) -> Result<Call<Authorized>, Refusal> {
        let judgement = permitted(judgement)?;
        Ok(Call { facts: self.facts, stage: Authorized { frozen: self.stage.frozen, judgement } })
    }
}

fn permitted(judgement: Judgement) -> Result<Judgement, Refusal> {
    if judgement.permitted {
        return Ok(judgement);
    }
    let unexplained =
        || Refusal::new(RefusalCode::Denied, Authority::Policy, "no policy permits this call").next("Ask the operator");
    Err(judgement.refusal.unwrap_or_else(unexplained))
}
