//! The one way from a request to an effect.
//!
//! A [`Call`] is in exactly one stage, and every step consumes the stage before: request, validate, prepare, authorize,
//! approve, record, dispatch, finalize. A step that was skipped or done twice does not compile.
//!
//! Dispatch needs a recorded call; an authorized one has no such method:
//! ```compile_fail,E0599
//! # use stockade_runtime::call::{Authorized, Call, World};
//! async fn skip(call: Call<Authorized>, world: &World) {
//!     call.dispatch(world).await;
//! }
//! ```
//! Nor has an approved one, before its intent is durable:
//! ```compile_fail,E0599
//! # use stockade_runtime::call::{Approved, Call, World};
//! async fn skip(call: Call<Approved>, world: &World) {
//!     call.dispatch(world).await;
//! }
//! ```
//! A call is used up by its step, so one approval is one dispatch:
//! ```compile_fail,E0382
//! # use stockade_runtime::call::{Call, Recorded, World};
//! async fn twice(call: Call<Recorded>, world: &World) {
//!     call.dispatch(world).await;
//!     call.dispatch(world).await;
//! }
//! ```
//! No stage can be built outside this module:
//! ```compile_fail,E0451
//! # use stockade_runtime::call::{Approved, Call};
//! fn forge(of: Call<Approved>) -> Call<Approved> {
//!     Call { ..of }
//! }
//! ```
//! A call that demands a person has no permit: authorizing it gives a call that waits, whatever policy says:
//! ```compile_fail,E0308
//! # use stockade_runtime::call::{Approved, Attended, Call, Prepared};
//! # use stockade_runtime::policy::Judgement;
//! fn permit(call: Call<Prepared<Attended>>, judgement: Judgement) -> Call<Approved> {
//!     match call.authorize(judgement) {
//!         Ok(call) => call,
//!         Err(_) => unreachable!(),
//!     }
//! }
//! ```
//! The controls, with the same names: a recorded call is dispatched once, an attended one waits, and a call that
//! demands nobody may be permitted by policy alone.
//! ```
//! # use stockade_runtime::call::{Approved, Attended, Authorized, Call, Free, Prepared, Recorded, Verdict, World};
//! # use stockade_runtime::policy::Judgement;
//! async fn once(call: Call<Recorded>, world: &World) {
//!     call.dispatch(world).await;
//! }
//! fn wait(call: Call<Prepared<Attended>>, judgement: Judgement) -> Option<Call<Authorized>> {
//!     call.authorize(judgement).ok()
//! }
//! fn permit(call: Call<Prepared<Free>>, judgement: Judgement) -> Option<Call<Approved>> {
//!     match call.authorize(judgement) {
//!         Verdict::Permit(call) => Some(call),
//!         Verdict::Ask(_) | Verdict::Forbid(_) => None,
//!     }
//! }
//! ```

mod authorize;
mod card;
mod dispatch;
mod finish;
mod oneshot;
mod pipeline;
mod prepare;
mod publish;
mod record;
mod world;

pub use authorize::Verdict;
pub(crate) use pipeline::{Asked, Cancelled, check, run, take_over};
pub(crate) use publish::publish;
pub use world::World;

use finish::finish;

use crate::grant;
use crate::manifest::{Callable, ValidCall};
use crate::policy::Judgement;
use crate::redact::Redactor;
use crate::sandbox::WorkerSpec;
use crate::session::Slot;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use stockade_protocol::contract::Contract;
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::{CallId, Principal, RunId};
use stockade_protocol::refusal::Refusal;
use stockade_protocol::request::{Origin, ToolCallRequest};

mod sealed {
    pub trait Sealed {}
}

/// A stage of the call path. Sealed: there are no others.
pub trait Stage: sealed::Sealed {}

/// A call in stage `S`.
pub struct Call<S: Stage> {
    facts: Facts,
    stage: S,
}

impl<S: Stage> fmt::Debug for Call<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call<{}>({})", std::any::type_name::<S>(), self.facts.id)
    }
}

impl<S: Stage> Call<S> {
    /// The call's id.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.facts.id
    }

    /// Its run.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.facts.run
    }
}

/// What is known of a call from its channel.
#[derive(Debug, Clone)]
struct Facts {
    id: CallId,
    run: RunId,
    principal: Principal,
    origin: Origin,
    environment: Arc<str>,
    request: ToolCallRequest,
}

/// Validated against its manifest.
pub struct Proposed {
    callable: Arc<Callable>,
    valid: ValidCall,
}

/// Frozen. `D` tells whether something besides policy demands a person.
pub struct Prepared<D: Standing> {
    frozen: Frozen,
    standing: PhantomData<D>,
}

/// Permitted by policy, and waiting for a person.
pub struct Authorized {
    frozen: Frozen,
    judgement: Judgement,
}

/// Permitted by policy alone, or by policy and a person.
pub struct Approved {
    frozen: Frozen,
    by: ApprovedBy,
}

/// Checked again, its receipt used up, its intent durable.
pub struct Recorded {
    frozen: Frozen,
}

/// Ran, or was tried.
pub struct Dispatched {
    frozen: Frozen,
    ran: dispatch::Ran,
}

macro_rules! opaque {
    ($($name:ident $(<$d:ident>)?),*) => {
        $(impl $(<$d: Standing>)? fmt::Debug for $name $(<$d>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}

opaque!(Proposed, Prepared<D>, Authorized, Approved, Recorded, Dispatched);

impl sealed::Sealed for Proposed {}
impl<D: Standing> sealed::Sealed for Prepared<D> {}
impl sealed::Sealed for Authorized {}
impl sealed::Sealed for Approved {}
impl sealed::Sealed for Recorded {}
impl sealed::Sealed for Dispatched {}
impl Stage for Proposed {}
impl<D: Standing> Stage for Prepared<D> {}
impl Stage for Authorized {}
impl Stage for Approved {}
impl Stage for Recorded {}
impl Stage for Dispatched {}

/// Whether a call demands a person, as a type.
pub trait Standing: sealed::Sealed {}

/// Nothing besides policy demands a person.
#[derive(Debug)]
pub enum Free {}

/// The manifest, the risk or the sandbox demands a person.
#[derive(Debug)]
pub enum Attended {}

impl sealed::Sealed for Free {}
impl sealed::Sealed for Attended {}
impl Standing for Free {}
impl Standing for Attended {}

/// A prepared call, sorted by what it demands.
#[derive(Debug)]
pub enum Freeze {
    /// Policy alone may permit it.
    Free(Call<Prepared<Free>>),
    /// A person must confirm it.
    Attended(Call<Prepared<Attended>>),
}

/// Who let a call run.
enum ApprovedBy {
    Policy,
    Person(Box<crate::approval::VerifiedReceipt>),
}

/// What was frozen, with what is needed to carry it out.
struct Frozen {
    contract: Contract,
    digest: Digest,
    plan: Plan,
    /// Keeps the session from being given up as idle while this call waits.
    _hold: Option<crate::session::Hold>,
}

/// How a frozen call will be carried out.
#[allow(clippy::large_enum_variant, reason = "a call has one plan and it is moved a few times")]
enum Plan {
    /// One worker of its own.
    Oneshot { callable: Arc<Callable>, spec: Box<WorkerSpec>, files: Arc<grant::Prepared> },
    /// A line typed into a session.
    Session { callable: Arc<Callable>, slot: Arc<Slot>, spec: Box<WorkerSpec>, files: Arc<grant::Prepared> },
    /// A session's keyboard, for a person on this connection.
    TakeOver { slot: Arc<Slot>, connection: u64 },
}

impl Call<Authorized> {
    /// What is asked of the person.
    ///
    /// # Errors
    /// `invalid` when the card would not be recorded as it is shown, because it holds what looks like a secret. What the
    /// caller says it is for is only shown with its secrets replaced.
    pub(crate) fn question(&self, redactor: &Redactor) -> Result<crate::approval::Question, Refusal> {
        let frozen = &self.stage.frozen;
        let reason = self.facts.request.reason.as_deref().map(|reason| redactor.text(reason).0);
        let card = card::card(&frozen.contract, frozen.digest, reason.as_deref(), &self.stage.judgement.policies);
        prepare::recorded_as_it_is(&card, redactor)?;
        Ok(crate::approval::Question {
            call: self.facts.id,
            run: self.facts.run,
            tool: frozen.contract.tool.clone(),
            contract: frozen.digest,
            card,
        })
    }

    /// Takes a person's receipt. It must be over this very contract.
    ///
    /// # Errors
    /// Gives the call back with a `stale` refusal naming both digests when the receipt is over another contract.
    pub fn approve(self, receipt: crate::approval::VerifiedReceipt) -> Result<Call<Approved>, Box<(Self, Refusal)>> {
        use stockade_protocol::refusal::{Authority, RefusalCode};
        let answered = receipt.receipt().body.contract;
        if answered != self.stage.frozen.digest {
            let reason = format!(
                "binding mismatch: the contract to be run is {}, the one approved is {answered}",
                self.stage.frozen.digest
            );
            return Err(Box::new((self, Refusal::new(RefusalCode::Stale, Authority::Person, reason))));
        }
        Ok(Call {
            facts: self.facts,
            stage: Approved { frozen: self.stage.frozen, by: ApprovedBy::Person(Box::new(receipt)) },
        })
    }
}
