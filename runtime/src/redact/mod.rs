//! Redaction: secrets are replaced before anything is recorded, shown or returned.
//!
//! It happens once, at the append boundary of the journal, so that store, screen, replay and export agree. A secret is
//! found by its form (keys of known providers, `password = …`, private key blocks) or because its value is known.
//!
//! Invariants: what is released does not depend on how the bytes came in pieces; redacting twice changes nothing more;
//! ids, digests and keys in hex are never touched. Not promised: a secret in another encoding, or one split by other
//! text (colour codes in its middle, a line break of a narrow terminal), is not recognised.

mod rules;
mod stream;
mod value;
mod values;

#[cfg(test)]
mod tests;

pub use stream::Stream;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, PoisonError, RwLock};
use values::Values;

/// What every replacement begins with.
pub(crate) const MARK: &str = "[redacted:";

/// Shortest value that can be learnt, bytes: a shorter one would be found everywhere.
pub const SHORTEST_VALUE: usize = 6;

/// Whether text holds a replacement. Such text is not what was sent: it must not be run again.
#[must_use]
pub fn is_marked(text: &str) -> bool {
    text.contains(MARK)
}

/// A value is too short to be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of fewer than {SHORTEST_VALUE} bytes cannot be redacted; use a longer one")]
pub struct TooShort;

/// Finds secrets and replaces them. Clones share what they learn.
#[derive(Clone)]
pub struct Redactor {
    values: Arc<RwLock<Arc<Values>>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// The patterns of well-known secrets, and no known values yet.
    #[must_use]
    pub fn standard() -> Self {
        Self { values: Arc::default() }
    }

    /// Learns a secret's value; `name` appears in its replacement. Streams that are open learn it too, for bytes that
    /// come later.
    ///
    /// # Errors
    /// When the value is shorter than [`SHORTEST_VALUE`].
    pub fn learn(&self, name: &str, value: &[u8]) -> Result<(), TooShort> {
        if value.len() < SHORTEST_VALUE {
            return Err(TooShort);
        }
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Values::clone(&values);
        next.add(name, value);
        *values = Arc::new(next);
        Ok(())
    }

    /// The text with every secret replaced, and whether there was one.
    #[must_use]
    pub fn text(&self, text: &str) -> (String, bool) {
        let (bytes, replaced) = self.bytes(text.as_bytes());
        (
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            replaced,
        )
    }

    /// The bytes with every secret replaced, and whether there was one.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut stream = self.stream();
        let mut out = Vec::with_capacity(bytes.len());
        let replaced = stream.write(bytes, &mut out) | stream.flush(&mut out);
        (out, replaced)
    }

    /// A redactor for bytes that come in pieces.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(self.values.clone())
    }

    /// The value exactly as the journal would record it, and whether a secret was replaced in it. What is hashed,
    /// signed or returned besides being recorded goes through this first, so that it is what was recorded.
    ///
    /// # Errors
    /// When the value does not become JSON, or is no such value any more without its secrets.
    pub fn redacted<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<(T, bool), serde_json::Error> {
        let mut json = serde_json::to_value(&value)?;
        if self.value(&mut json) { Ok((serde_json::from_value(json)?, true)) } else { Ok((value, false)) }
    }

    /// Replaces secrets in every string of a JSON value, except in the fields that hold ids, digests, keys and words of
    /// a closed vocabulary; returns whether there was one.
    pub fn value(&self, value: &mut serde_json::Value) -> bool {
        value::redact(self, value)
    }
}
