//! Refusals: values, not errors. The codes are the only vocabulary in results, journal, command line and MCP.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a call did not do what was asked. The order follows the call path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// Refused at validation, before policy saw it.
    Invalid,
    /// The boundary or input it needs is not there.
    Unavailable,
    /// Policy did not permit it.
    Denied,
    /// A person refused it.
    Rejected,
    /// Nobody answered in time. Never recorded as a person's choice.
    Expired,
    /// Something it was frozen with changed before dispatch.
    Stale,
    /// It ran and failed.
    Failed,
    /// It reached a bound: output, size, processes.
    Limit,
    /// It reached a deadline.
    Timeout,
    /// It was stopped.
    Cancelled,
    /// It may or may not have taken effect; a person must look. Never repeated by itself.
    InDoubt,
    /// It ran, but its declared output was not published.
    Unpublished,
}

impl RefusalCode {
    /// The word used everywhere.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Limit => "limit",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::InDoubt => "in_doubt",
            Self::Unpublished => "unpublished",
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Which part of stockade said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The tool's manifest.
    Manifest,
    /// A scope rule.
    Scope,
    /// A Cedar policy, or the absence of one.
    Policy,
    /// A person.
    Person,
    /// A deadline.
    Clock,
    /// The sandbox tier.
    Tier,
    /// The file broker.
    Grant,
    /// The journal.
    Journal,
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manifest => "manifest",
            Self::Scope => "scope",
            Self::Policy => "policy",
            Self::Person => "person",
            Self::Clock => "clock",
            Self::Tier => "tier",
            Self::Grant => "grant",
            Self::Journal => "journal",
        })
    }
}

/// A refusal: the code, who refused, by which rule, why, and what to do next.
///
/// `rule`, `reason` and `next` may quote what a caller sent: draw them through [`crate::text::SafeText`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind of refusal.
    pub code: RefusalCode,
    /// Who refused.
    pub authority: Authority,
    /// The rule that decided, e.g. `reports.cedar:12` or an argument's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What happened and why, one sentence.
    pub reason: String,
    /// What to do next, one sentence; empty when there is nothing to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next: String,
}

impl Refusal {
    /// A refusal without rule or advice.
    #[must_use]
    pub fn new(code: RefusalCode, authority: Authority, reason: impl Into<String>) -> Self {
        Self { code, authority, rule: None, reason: reason.into(), next: String::new() }
    }

    /// Names the rule that decided.
    #[must_use]
    pub fn by_rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Says what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::text::SafeText;
        write!(f, "{} by {}: {}", self.code, self.authority, SafeText::line(&self.reason))?;
        if let Some(rule) = &self.rule {
            write!(f, " ({})", SafeText::line(rule))?;
        }
        if !self.next.is_empty() {
            write!(f, ". {}", SafeText::line(&self.next))?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
