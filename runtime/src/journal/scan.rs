//! Canonical JSON, read strictly and without building anything.
//!
//! The writer makes canonical bytes; this reader accepts only them. Duplicate or unsorted names, needless escapes,
//! fractions, blanks and invalid UTF-8 are all faults, so one value has one spelling and nothing hides in another.

use std::cmp::Ordering;
use std::ops::Range;

/// Deepest nesting that is read.
const DEPTH: usize = 64;

/// Largest integer in canonical form.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Where and why bytes are not canonical JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotCanonical {
    /// Offset of the first byte that does not fit.
    pub(super) at: usize,
    /// What is wrong there.
    pub(super) what: &'static str,
}

/// One member of the outermost object: its name as written, between the quotes, and the bytes of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
}

/// The members of one canonical JSON object that fills `bytes`.
pub(super) fn members(bytes: &[u8]) -> Result<Vec<Member<'_>>, NotCanonical> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| NotCanonical { at: error.valid_up_to(), what: "not UTF-8" })?;
    let mut scanner = Scanner { bytes, at: 0 };
    let mut found = Vec::with_capacity(12);
    scanner.object(0, &mut |name, value| {
        if let (Some(name), Some(value)) = (text.get(name), text.get(value)) {
            found.push(Member { name, value });
        }
    })?;
    if scanner.at != bytes.len() { Err(scanner.fault("something follows the object")) } else { Ok(found) }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn fault(&self, what: &'static str) -> NotCanonical {
        NotCanonical { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), NotCanonical> {
        if self.peek() != Some(byte) {
            return Err(self.fault(what));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), NotCanonical> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(depth, &mut |_, _| {}),
            Some(b'[') => self.array(depth),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault("no value")),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), NotCanonical> {
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.fault("no value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotCanonical> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let first = self.at;
        let mut size: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            size = size.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - first;
        let leading_zero = self.bytes.get(first) == Some(&b'0') && (digits > 1 || negative);
        if digits == 0 || leading_zero || size > MAX_INTEGER {
            return Err(NotCanonical { at: start, what: "a number that is not a canonical integer" });
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotCanonical> {
        self.deeper(depth)?;
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break self.at += 1,
                _ => return Err(self.fault("no comma or bracket after an item")),
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize, member: &mut dyn FnMut(Range<usize>, Range<usize>)) -> Result<(), NotCanonical> {
        self.deeper(depth)?;
        self.expect(b'{', "no object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut before: Option<Range<usize>> = None;
        loop {
            let start = self.at;
            let name = self.string()?;
            if let Some(before) = before
                && self.order(&before, &name) != Ordering::Less
            {
                return Err(NotCanonical { at: start, what: "a name twice or out of order" });
            }
            self.expect(b':', "no colon after a name")?;
            let value = self.at;
            self.value(depth + 1)?;
            member(name.clone(), value..self.at);
            before = Some(name);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break self.at += 1,
                _ => return Err(self.fault("no comma or brace after a member")),
            }
        }
        Ok(())
    }

    fn deeper(&self, depth: usize) -> Result<(), NotCanonical> {
        if depth >= DEPTH { Err(self.fault("nested too deeply")) } else { Ok(()) }
    }

    /// Reads a string and returns the range between its quotes.
    fn string(&mut self) -> Result<Range<usize>, NotCanonical> {
        self.expect(b'"', "no string")?;
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(plain) = rest.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\') else {
                return Err(self.fault("a string without end"));
            };
            self.at += plain;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                _ => return Err(self.fault("a control character that is not escaped")),
            }
        }
        self.at += 1;
        Ok(start..self.at - 1)
    }

    fn escape(&mut self) -> Result<(), NotCanonical> {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        match rest {
            [b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r', ..] => self.at += 2,
            [b'u', b'0', b'0', high @ b'0'..=b'1', low @ (b'0'..=b'9' | b'a'..=b'f'), ..] => {
                let shorter = *high == b'0' && matches!(low, b'8' | b'9' | b'a' | b'c' | b'd');
                if shorter {
                    return Err(self.fault("an escape that has a shorter form"));
                }
                self.at += 6;
            }
            _ => return Err(self.fault("an escape that is not canonical")),
        }
        Ok(())
    }

    /// The order of two names by UTF-16 code units.
    fn order(&self, a: &Range<usize>, b: &Range<usize>) -> Ordering {
        let raw = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let (a, b) = (raw(a), raw(b));
        let simple = |name: &[u8]| name.iter().all(|byte| byte.is_ascii() && *byte != b'\\');
        if simple(a) && simple(b) {
            return a.cmp(b);
        }
        unescaped(a).encode_utf16().cmp(unescaped(b).encode_utf16())
    }
}

/// The text that the inside of a checked string stands for.
fn unescaped(inside: &[u8]) -> String {
    let mut quoted = Vec::with_capacity(inside.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(inside);
    quoted.push(b'"');
    serde_json::from_slice(&quoted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn ok(text: &str) -> bool {
        members(text.as_bytes()).is_ok()
    }

    #[test]
    fn one_value_has_one_spelling() {
        for good in [r#"{}"#, r#"{"a":[1,-2,"x",true,null,{}],"b":{"c":"\u001f\n"}}"#, r#"{"a":"é\"\\"}"#] {
            assert!(ok(good), "{good}");
        }
        let bad = [
            "",
            "[]",
            "{}\n",
            " {}",
            r#"{"a": 1}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e3}"#,
            r#"{"a":01}"#,
            r#"{"a":-0}"#,
            r#"{"a":-}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\u000a"}"#,
            r#"{"a":"\u001F"}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":tru}"#,
            r#"{"a":1,}"#,
            r#"{"a"}"#,
            r#"{"a":"x}"#,
            "{\"a\":\"\t\"}",
        ];
        for bad in bad {
            assert!(!ok(bad), "{bad}");
        }
        assert!(members(b"{\"a\":\"\xff\"}").is_err());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(80), "]".repeat(80));
        assert_eq!(members(deep.as_bytes()).unwrap_err().what, "nested too deeply");
    }

    #[test]
    fn names_are_ordered_by_utf16_also_when_escaped() {
        assert!(ok("{\"\u{1f600}\":2,\"\u{fb33}\":1}"));
        assert!(!ok("{\"\u{fb33}\":1,\"\u{1f600}\":2}"));
        assert!(ok(r#"{"\n":1,"a":2}"#));
        assert!(!ok(r#"{"a":2,"\n":1}"#));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_the_writer_makes_is_accepted(value in any_value()) {
            let bytes = canon::to_bytes(&json!({ "it": value })).unwrap();
            prop_assert_eq!(members(&bytes).map(|found| found.len()), Ok(1));
        }

        #[test]
        fn what_is_accepted_is_what_the_writer_would_make(
            value in any_value(), at in any::<prop::sample::Index>(), bit in 0..8_u8,
        ) {
            let mut bytes = canon::to_bytes(&json!({ "it": value })).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let again = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| canon::to_bytes(&value).ok());
            prop_assert_eq!(members(&bytes).is_ok(), again.as_deref() == Some(&bytes[..]) && bytes[0] == b'{');
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = members(&bytes);
        }
    }
}
