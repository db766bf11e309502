//! The approver's key, and what makes a receipt count.

mod key;
mod queue;
mod receipt;

use super::*;
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::CallId;
use stockade_protocol::receipt::{Decision, ReceiptBody};
use stockade_protocol::time::Timestamp;

/// An answer to a call, good for 30 s from `now`.
fn body(call: CallId, contract: Digest, shown: Digest, now: Timestamp, nonce: &str) -> ReceiptBody {
    ReceiptBody {
        call,
        contract,
        shown,
        decision: Decision::Approve,
        reason: None,
        approver: String::new(),
        key: String::new(),
        time: now,
        expires: now.plus_ms(30_000),
        nonce: nonce.to_owned(),
    }
}
