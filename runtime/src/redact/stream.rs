//! Redaction of bytes that come in pieces.
//!
//! Two stages, each a machine that goes byte by byte, so that the pieces cannot matter: first known values, then
//! forms. Each holds back only bytes that may still turn out to be secret.

use super::MARK;
use super::rules::{LOOKUP, RULES, Rule, Rules, Set, Tail};
use super::values::{Held, Values};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

/// Longest private key block, bytes; after that, redaction of it stops.
const BLOCK_BYTES: usize = 16 * 1024;

/// Longest run of bytes taken for one secret.
const SECRET_BYTES: usize = 64 * 1024;

/// A redactor in the middle of a stream.
#[derive(Debug)]
pub struct Stream {
    values: Arc<RwLock<Arc<Values>>>,
    known: Held,
    forms: Forms,
    between: Vec<u8>,
}

impl Stream {
    pub(super) fn new(values: Arc<RwLock<Arc<Values>>>) -> Self {
        Self { values, known: Held::default(), forms: Forms::new(), between: Vec::new() }
    }

    /// Takes bytes and appends to `out` what can be released; returns whether a secret was replaced. The pieces the
    /// bytes come in have no influence on what is released in the end.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner).clone();
        if values.is_empty() && self.known.is_empty() {
            return self.forms.write(bytes, out);
        }
        let mut between = std::mem::take(&mut self.between);
        let mut replaced = self.known.write(&values, bytes, &mut between);
        replaced |= self.forms.write(&between, out);
        between.clear();
        self.between = between;
        replaced
    }

    /// Releases what is held back. A secret whose beginning is released so is not recognised any more.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> bool {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut between = Vec::new();
        let mut replaced = self.known.flush(&values, &mut between);
        replaced |= self.forms.write(&between, out);
        self.forms.flush(out);
        replaced
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.known.len() + self.forms.held.len()
    }
}

/// A rule that fits so far.
#[derive(Debug, Clone, Copy)]
struct Fit {
    rule: u16,
    item: usize,
    count: u16,
    /// Position of the first secret byte, once there is one.
    secret: Option<u64>,
}

/// What becomes of the bytes after a replacement.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Plain,
    /// The secret goes on for bytes of this class.
    Class(Set, usize),
    /// The secret goes on up to five dashes; so many came in a row.
    Dashes(usize, usize),
}

/// The stage of forms.
#[derive(Debug)]
struct Forms {
    rules: &'static Rules,
    fits: Vec<Fit>,
    /// Bytes from the first that may be secret on; empty unless a fit has one.
    held: VecDeque<u8>,
    /// Bytes seen.
    position: u64,
    /// Position after the last byte that was replaced.
    replaced: u64,
    /// The last bytes, newest last: one more than rules are looked up by.
    last: [u8; LOOKUP + 1],
    mode: Mode,
}

enum Step {
    Dead,
    Fits,
    Complete,
}

impl Forms {
    fn new() -> Self {
        Self {
            rules: &RULES,
            fits: Vec::new(),
            held: VecDeque::new(),
            position: 0,
            replaced: 0,
            last: [0; LOOKUP + 1],
            mode: Mode::Plain,
        }
    }

    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let mut replaced = false;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.pass(rest, out);
            if let Some((byte, after)) = rest.split_first() {
                replaced |= self.take(*byte, out);
                rest = after;
            }
        }
        replaced
    }

    /// Passes on what nothing can come of, as long as nothing has begun; returns the bytes after it.
    fn pass<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        if !self.fits.is_empty() || !matches!(self.mode, Mode::Plain) {
            return bytes;
        }
        let [_, before @ ..] = self.last;
        let (plain, rest) = bytes.split_at(self.rules.plain(before, bytes));
        out.extend_from_slice(plain);
        self.position += plain.len() as u64;
        for byte in plain.iter().skip(plain.len().saturating_sub(self.last.len())) {
            self.remember(*byte);
        }
        rest
    }

    fn remember(&mut self, byte: u8) {
        self.last.rotate_left(1);
        if let Some(last) = self.last.last_mut() {
            *last = byte;
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend(self.held.drain(..));
        self.fits.retain(|fit| fit.secret.is_none());
    }

    /// Takes one byte; returns whether it completed a secret.
    fn take(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let complete = self.advance(byte);
        self.position += 1;
        if let Some(rule) = complete {
            return self.replace(rule, byte, out);
        }
        if self.swallow(byte, out) {
            self.replaced = self.position;
            return false;
        }
        let first = self.fits.iter().filter_map(|fit| fit.secret).min();
        let Some(first) = first else {
            out.extend(self.held.drain(..));
            out.push(byte);
            return false;
        };
        self.held.push_back(byte);
        let keep = usize::try_from(self.position - first).unwrap_or(usize::MAX);
        let release = self.held.len().saturating_sub(keep);
        out.extend(self.held.drain(..release));
        false
    }

    /// Moves every fit on by a byte and begins new ones; returns the rule that is complete now.
    fn advance(&mut self, byte: u8) -> Option<&'static Rule> {
        let (rules, position) = (self.rules, self.position);
        let mut complete = None;
        if !self.fits.is_empty() {
            let held = &self.held;
            self.fits.retain_mut(|fit| {
                let Some(rule) = rules.rules.get(usize::from(fit.rule)) else { return false };
                match step(rule, fit, byte, position) {
                    Step::Dead => false,
                    Step::Fits => true,
                    Step::Complete => {
                        // What was replaced already is no secret.
                        if !is_mark(held, fit.secret, position) {
                            complete = complete.or(Some(rule));
                        }
                        false
                    }
                }
            });
        }
        self.remember(byte);
        let [before, newest @ ..] = self.last;
        // Behind a replacement stands its mark, whatever stood there before.
        let fresh = position < self.replaced + LOOKUP as u64;
        for at in rules.starting(newest) {
            let Some(rule) = rules.rules.get(usize::from(*at)) else { continue };
            let begins = rule.items.iter().zip(newest).all(|(item, byte)| item.set.has(byte));
            let inside = rule.boundary && !fresh && (before.is_ascii_alphanumeric() || before == b'_');
            if begins && !inside {
                self.fits.push(Fit { rule: *at, item: LOOKUP - 1, count: 1, secret: None });
            }
        }
        complete
    }

    /// Puts the mark in the place of everything held and of `byte`.
    fn replace(&mut self, rule: &Rule, byte: u8, out: &mut Vec<u8>) -> bool {
        self.held.clear();
        self.replaced = self.position;
        self.fits.retain(|fit| fit.secret.is_none());
        out.extend_from_slice(MARK.as_bytes());
        out.extend_from_slice(rule.name.as_bytes());
        out.push(b']');
        self.mode = match rule.tail {
            Tail::Class(class) => Mode::Class(class, 0),
            Tail::Dashes => Mode::Dashes(0, 0),
            Tail::GiveBack => {
                out.push(byte);
                Mode::Plain
            }
        };
        true
    }

    /// Whether `byte` belongs to the secret that was replaced before it.
    fn swallow(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        // Never stop within a character.
        let inside = byte & 0xc0 == 0x80;
        match self.mode {
            Mode::Plain => return false,
            Mode::Class(class, count) if class.has(byte) && (count < SECRET_BYTES || inside) => {
                self.mode = Mode::Class(class, count + 1);
            }
            Mode::Dashes(count, dashes) if count < BLOCK_BYTES || inside => {
                let dashes = if byte == b'-' { dashes + 1 } else { 0 };
                self.mode = Mode::Dashes(count + 1, dashes);
                if dashes == 5 {
                    out.extend_from_slice(b"-----");
                    self.mode = Mode::Plain;
                }
            }
            Mode::Class(..) | Mode::Dashes(..) => {
                self.mode = Mode::Plain;
                return false;
            }
        }
        true
    }
}

fn step(rule: &Rule, fit: &mut Fit, byte: u8, position: u64) -> Step {
    loop {
        let Some(item) = rule.items.get(fit.item) else { return Step::Dead };
        if fit.count < item.max && item.set.has(byte) {
            fit.count += 1;
            if fit.item >= rule.secret && fit.secret.is_none() {
                fit.secret = Some(position);
            }
            let last = fit.item + 1 == rule.items.len();
            return if last && fit.count >= item.min { Step::Complete } else { Step::Fits };
        }
        if fit.count < item.min {
            return Step::Dead;
        }
        fit.item += 1;
        fit.count = 0;
    }
}

/// Whether the bytes held from `secret` on begin like a mark. `position` is that of the byte after them.
fn is_mark(held: &VecDeque<u8>, secret: Option<u64>, position: u64) -> bool {
    let Some(secret) = secret else { return false };
    let count = usize::try_from(position.saturating_sub(secret)).unwrap_or(usize::MAX);
    let start = held.len().saturating_sub(count);
    let mut bytes = held.iter().skip(start);
    // A form is complete after six bytes at the earliest, the last of which is not held yet.
    count >= 5 && MARK.bytes().take(5).all(|mark| bytes.next() == Some(&mark))
}
