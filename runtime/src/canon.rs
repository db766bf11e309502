//! Canonical JSON: the bytes that are hashed and signed.
//!
//! RFC 8785, narrowed: strings as UTF-8, object names sorted by UTF-16 code units, integers only and only those that
//! every JSON reader keeps exactly. A value that cannot be written so is refused, never rounded.

use serde::Serialize;
use serde_json::Value;
use stockade_protocol::digest::Digest;

/// A value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonError {
    /// A number is a fraction or beyond 2^53 - 1 in size.
    #[error("the number {0} has no canonical form: only integers up to 2^53 - 1 in size do")]
    Number(String),
    /// The value does not become JSON.
    #[error("the value does not become JSON: {0}")]
    Shape(String),
}

/// Largest integer that every JSON reader keeps exactly.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// The canonical bytes of a value.
///
/// # Errors
/// When the value holds a number outside the exact range, or does not serialize.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>, CanonError> {
    let value = serde_json::to_value(value).map_err(|error| CanonError::Shape(error.to_string()))?;
    let mut bytes = Vec::new();
    write(&value, &mut bytes)?;
    Ok(bytes)
}

/// The SHA-256 of the canonical bytes.
///
/// # Errors
/// As [`to_bytes`].
pub fn digest(value: &impl Serialize) -> Result<Digest, CanonError> {
    to_bytes(value).map(Digest::of)
}

fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), CanonError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            let exact = number.as_u64().is_some_and(|n| n <= MAX_INTEGER)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_INTEGER);
            if !exact {
                return Err(CanonError::Number(number.to_string()));
            }
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push(b'{');
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(members.get(name).unwrap_or(&Value::Null), out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\r' => out.extend_from_slice(b"\\r"),
            c if u32::from(c) < 0x20 => out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        String::from_utf8(to_bytes(value).unwrap()).unwrap()
    }

    #[test]
    fn names_are_sorted_by_utf16_and_escapes_are_the_shortest() {
        assert_eq!(text(&json!({"b": [true, null], "a": "\u{1b}\n\"é\\"})), r#"{"a":"\u001b\n\"é\\","b":[true,null]}"#);
        // U+FB33 sorts after the surrogates of U+1F600 in UTF-16, though not in UTF-8.
        assert_eq!(text(&json!({"\u{fb33}": 1, "\u{1f600}": 2})), "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn a_number_that_a_reader_could_round_is_refused() {
        for bad in [json!(1.5), json!(1u64 << 53), json!(-(1i64 << 53))] {
            assert!(matches!(to_bytes(&bad), Err(CanonError::Number(_))), "{bad}");
        }
        assert_eq!(text(&json!(-9_007_199_254_740_991_i64)), "-9007199254740991");
    }

    proptest! {
        #[test]
        fn the_same_value_gives_the_same_bytes_and_they_read_back(
            members in proptest::collection::hash_map(any::<String>(), any::<String>(), 0..8),
        ) {
            let forward: Value = members.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<serde_json::Map<_, _>>().into();
            let mut pairs: Vec<_> = members.iter().collect();
            pairs.reverse();
            let backward: Value = pairs.into_iter().map(|(k, v)| (k.clone(), json!(v))).collect::<serde_json::Map<_, _>>().into();
            let bytes = to_bytes(&forward).unwrap();
            prop_assert_eq!(&bytes, &to_bytes(&backward).unwrap());
            prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), forward);
        }
    }
}
