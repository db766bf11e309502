//! Identifiers. All are 128 random bits in lower-case hex behind a letter that names the kind.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An identifier was not of its kind's form: the letter, then 32 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind} id: expected {letter:?} and 32 lower-case hex digits")]
pub struct InvalidId {
    kind: &'static str,
    letter: char,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// Makes an id from 128 bits, which the caller draws from the system's random source.
            #[must_use]
            pub const fn from_bits(bits: [u8; 16]) -> Self {
                Self(bits)
            }

            /// The first eight hex digits, for screens; never an address.
            #[must_use]
            pub fn short(&self) -> String {
                self.to_string().chars().take(9).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", $letter)?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = || InvalidId { kind: $kind, letter: $letter, text: text.chars().take(64).collect() };
                let hex = text.strip_prefix($letter).ok_or_else(invalid)?;
                crate::digest::parse_hex(hex).map(Self).ok_or_else(invalid)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

id!(
    /// One piece of agent work, or one person's call, from start to end.
    RunId, 'r', "run"
);
id!(
    /// One live terminal of a session tool.
    SessionId, 's', "session"
);
id!(
    /// One use of a tool.
    CallId, 'c', "call"
);

/// Who asks for something. The runtime fills it in from the channel a request came by; no request names its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Whether a person or an agent stands behind the channel.
    pub kind: PrincipalKind,
    /// The name within its kind: a login name, an agent's configured name.
    pub name: String,
}

impl Principal {
    /// A person at this machine, by login name.
    #[must_use]
    pub fn person(name: impl Into<String>) -> Self {
        Self { kind: PrincipalKind::Person, name: name.into() }
    }

    /// An agent, by the name its run was started with.
    #[must_use]
    pub fn agent(name: impl Into<String>) -> Self {
        Self { kind: PrincipalKind::Agent, name: name.into() }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PrincipalKind::Person => write!(f, "person {}", crate::text::SafeText::line(&self.name)),
            PrincipalKind::Agent => write!(f, "agent {}", crate::text::SafeText::line(&self.name)),
        }
    }
}

/// The kinds of principal; Cedar sees them as the entity types `Person` and `Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// A person at the keyboard of this machine.
    Person,
    /// A program that proposes calls: the built-in loop or a client over MCP.
    Agent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form_and_nothing_else_parses() {
        let id = CallId::from_bits([0xab; 16]);
        assert_eq!(id.to_string().parse::<CallId>(), Ok(id));
        for bad in ["", "c", "cAB", "r00000000000000000000000000000000", "c0000000000000000000000000000000g", " c00"] {
            assert!(bad.parse::<CallId>().is_err(), "{bad:?} parsed");
        }
        assert!("cABABABABABABABABABABABABABABABAB".parse::<CallId>().is_err(), "upper case parsed");
    }
}
