//! Splitting a policy file into its statements, so that every faulty one is reported and every policy has a line.

use crate::manifest::Source;
use std::ops::Range;

/// Longest statement, bytes: evaluation and validation walk a statement to its full depth.
const STATEMENT_BYTES: usize = 8 * 1024;
/// Deepest nesting of brackets in a statement.
const NEST: usize = 32;

/// A statement's place, without the blanks and comments before it, with its semicolon.
pub(super) type Statement = Range<usize>;

/// What makes a statement unfit to be parsed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oversize {
    Long,
    Deep,
}

impl Oversize {
    pub(super) fn what(self) -> String {
        match self {
            Self::Long => format!("the policy is longer than {STATEMENT_BYTES} bytes"),
            Self::Deep => format!("the policy nests brackets more than {NEST} deep"),
        }
    }
}

/// The statements of a file, in order. Text after the last semicolon is a statement too, and will not parse.
pub(super) fn split(source: &Source) -> Vec<(Statement, Option<Oversize>)> {
    let bytes = source.text.as_bytes();
    let mut statements = Vec::new();
    let mut start = None;
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while bytes.get(at).is_some_and(|byte| *byte != b'\n') {
                    at += 1;
                }
                continue;
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                let begun = *start.get_or_insert(at);
                match byte {
                    b'"' => at = end_of_string(bytes, at),
                    b'(' | b'[' | b'{' => {
                        depth += 1;
                        deepest = deepest.max(depth);
                    }
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    b';' => {
                        statements.push(measured(begun..at + 1, deepest));
                        (start, depth, deepest) = (None, 0, 0);
                    }
                    _ => {}
                }
            }
        }
        at += 1;
    }
    if let Some(begun) = start {
        statements.push(measured(begun..bytes.len(), deepest));
    }
    statements
}

fn measured(statement: Statement, deepest: usize) -> (Statement, Option<Oversize>) {
    let oversize = if statement.len() > STATEMENT_BYTES {
        Some(Oversize::Long)
    } else if deepest > NEST {
        Some(Oversize::Deep)
    } else {
        None
    };
    (statement, oversize)
}

/// Offset of a string's closing quote, or of the text's last byte when it is not closed.
fn end_of_string(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len().saturating_sub(1).max(open)
}
