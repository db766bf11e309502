//! Known values: the stage that replaces secrets because it was told them.

use super::MARK;

/// The values to look for, longest first.
#[derive(Clone, Default)]
pub(super) struct Values {
    /// Value and mark.
    list: Vec<(Vec<u8>, String)>,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values", self.list.len())
    }
}

impl Values {
    pub(super) fn add(&mut self, name: &str, value: &[u8]) {
        if self.list.iter().any(|(known, _)| known == value) {
            return;
        }
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        self.list.push((value.to_vec(), format!("{MARK}{name}]")));
        self.list.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The longest value that `bytes` begin with, unless more bytes could make a longer one: then `None`.
    fn decide(&self, bytes: &[u8], more: bool) -> Option<Decision<'_>> {
        for (value, mark) in &self.list {
            if bytes.starts_with(value) {
                return Some(Decision::Replace(value.len(), mark));
            }
            if more && value.starts_with(bytes) {
                return None;
            }
        }
        Some(Decision::Release)
    }
}

enum Decision<'a> {
    Replace(usize, &'a str),
    Release,
}

/// Bytes that may be the beginning of a known value.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
}

impl Held {
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn write(&mut self, values: &Values, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.run(values, true, out)
    }

    pub(super) fn flush(&mut self, values: &Values, out: &mut Vec<u8>) -> bool {
        self.run(values, false, out)
    }

    fn run(&mut self, values: &Values, more: bool, out: &mut Vec<u8>) -> bool {
        let mut replaced = false;
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..)
            && let Some(first) = rest.first()
        {
            match values.decide(rest, more) {
                None => break,
                Some(Decision::Release) => {
                    out.push(*first);
                    at += 1;
                }
                Some(Decision::Replace(length, mark)) => {
                    out.extend_from_slice(mark.as_bytes());
                    at += length;
                    replaced = true;
                }
            }
        }
        self.bytes.drain(..at);
        replaced
    }
}
