//! Signing a person's answer to one exact call.

use crate::exit::{Exit, Failure};
use stockade_protocol::digest::{Digest, to_hex};
use stockade_protocol::ids::CallId;
use stockade_protocol::limits::{REASON_BYTES, RECEIPT_LIFE_MS};
use stockade_protocol::receipt::{Decision, Receipt, ReceiptBody};
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::ports::Ports;
use stockade_runtime::project::Project;

/// What a person decided about.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    /// The call.
    pub(crate) call: CallId,
    /// Digest of its contract.
    pub(crate) contract: Digest,
    /// Digest of the text that was shown.
    pub(crate) shown: Digest,
    /// The answer.
    pub(crate) decision: Decision,
    /// Why.
    pub(crate) reason: Option<String>,
}

/// How long a receipt of this project may be used, milliseconds. Files that cannot be read now leave the default; the
/// runtime holds every receipt to what it started with.
pub(crate) fn life_ms(root: &std::path::Path) -> u64 {
    Project::open(root).map_or(RECEIPT_LIFE_MS, |project| project.configuration().receipt_life_ms)
}

/// Signs the answer.
pub(crate) fn sign(key: &ApproverKey, decided: Decided, life_ms: u64) -> Result<Receipt, Failure> {
    if decided.reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
        return Err(Failure::new(Exit::Usage, format!("the reason is longer than {REASON_BYTES} bytes"))
            .why("all of it is signed and shown")
            .next("give a shorter one"));
    }
    let ports = Ports::system();
    let time = ports.now();
    let body = ReceiptBody {
        call: decided.call,
        contract: decided.contract,
        shown: decided.shown,
        decision: decided.decision,
        reason: decided.reason,
        approver: key.name().to_owned(),
        key: key.public(),
        time,
        expires: time.plus_ms(life_ms),
        nonce: to_hex(&ports.random()),
    };
    key.sign(body).map_err(|error| {
        Failure::new(Exit::Internal, "the receipt could not be signed")
            .why(error)
            .next("nothing was decided; try again")
    })
}
