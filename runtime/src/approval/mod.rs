//! Approvals: a person's signed answer to one exact call.
//!
//! The approver's key is not the journal's key; no worker can reach either. An answer counts once, before it expires,
//! for the contract and the text it names, and only after its signature was verified here. No answer is recorded as
//! expired, never as a person's choice.

mod key;
mod queue;

#[cfg(test)]
mod tests;

pub use key::{ApproverKey, KeyError, verify_receipt};
pub use queue::{Answer, Approvals, Question, VerifiedReceipt};
