//! Receipts: a person's signed answer to one exact call.

use crate::digest::Digest;
use crate::ids::CallId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run it once.
    Approve,
    /// Do not run it.
    Reject,
}

/// What is signed. The signature is Ed25519 over the line `stockade-receipt-v1`, a newline, and the canonical JSON
/// of this structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    /// The call that was shown.
    pub call: CallId,
    /// Digest of its contract.
    pub contract: Digest,
    /// Digest of the exact text drawn, see [`crate::card::Card::digest`].
    pub shown: Digest,
    /// The answer.
    pub decision: Decision,
    /// Why, in the approver's words; reaches the agent when the answer is reject.
    pub reason: Option<String>,
    /// Name the approver's key was registered with.
    pub approver: String,
    /// The approver's public key, 64 hex digits.
    pub key: String,
    /// When it was signed.
    pub time: Timestamp,
    /// After this it cannot be used.
    pub expires: Timestamp,
    /// 128 random bits in hex, so that every receipt differs.
    pub nonce: String,
}

/// A signed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// What was signed.
    pub body: ReceiptBody,
    /// The signature, 128 hex digits.
    pub signature: String,
}
