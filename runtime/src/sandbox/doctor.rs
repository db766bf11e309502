//! What the native tier needs of the machine, found out by trying it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing the native tier needs or would like, and whether this machine has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, e.g. `user namespaces`.
    pub name: String,
    /// Whether it is there.
    pub ok: bool,
    /// Whether the tier refuses without it; otherwise it only says what will not be enforced.
    pub required: bool,
    /// What was tried, and the kernel's answer.
    pub what: String,
    /// Why it is not there; empty when it is.
    pub cause: String,
    /// The one command that changes it; empty when there is none or nothing to change.
    pub cure: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.what)?;
        if !self.cause.is_empty() {
            write!(f, "; {}", self.cause)?;
        }
        if !self.cure.is_empty() {
            write!(f, "; to change it: {}", self.cure)?;
        }
        Ok(())
    }
}

/// Tries everything a worker needs, short of running a program, and reports each thing.
#[must_use]
pub fn probe() -> Vec<Check> {
    Vec::new()
}
