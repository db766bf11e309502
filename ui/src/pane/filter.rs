//! Bounds on what a worker's bytes may cost an emulator, applied to the bytes before it sees them.
//!
//! An emulator collects the body of an operating system command until its end and obeys a repeat count however large.
//! Here the body is cut at [`OSC_BYTES`] and a repeat at [`REPEAT`]. The result does not depend on how the bytes were
//! split, so that live view and replay agree.

/// Longest body of an operating system command that an emulator is given, bytes.
pub(super) const OSC_BYTES: usize = 4096;

/// Most repeats of one character by one repeat sequence: wider than any pane.
pub(super) const REPEAT: u32 = 1024;

const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const BEL: u8 = 0x07;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Text, or a string of another kind: only an escape matters.
    Plain,
    /// After an escape.
    Escape,
    /// After an escape and an intermediate byte.
    Intermediate,
    /// In a control sequence: its first parameter so far, whether it is still being read, whether any byte showed
    /// that this is not a plain sequence.
    Control { first: u32, reading: bool, plain: bool },
    /// In an operating system command: bytes so far.
    Osc(usize),
}

/// The filter's memory between chunks.
#[derive(Debug)]
pub(super) struct Filter {
    state: State,
    dropped: u64,
    /// The beginning of a character whose end has not come yet. Emulators get characters whole: a parser that joins
    /// halves itself may lose what follows them.
    held: Vec<u8>,
}

impl Filter {
    pub(super) const fn new() -> Self {
        Self { state: State::Plain, dropped: 0, held: Vec::new() }
    }

    /// Bytes cut so far.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Passes `bytes` on to `sink` in as few pieces as possible.
    pub(super) fn pass(&mut self, bytes: &[u8], sink: impl FnMut(&[u8])) {
        if self.held.is_empty() {
            self.pass_joined(bytes, sink);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(bytes);
            self.pass_joined(&joined, sink);
        }
    }

    fn pass_joined(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) {
        let mut from = 0;
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.state == State::Plain {
                let rest = bytes.get(at..).unwrap_or_default();
                match rest.iter().position(|b| *b == ESC) {
                    Some(skip) => at += skip + 1,
                    None => break,
                }
                self.state = State::Escape;
                continue;
            }
            if self.keeps(*byte) {
                at += 1;
                continue;
            }
            if from < at {
                sink(bytes.get(from..at).unwrap_or_default());
            }
            if *byte == b'b' {
                // Cancels the sequence begun, then repeats as often as is allowed.
                sink(&[CAN]);
                sink(format!("\x1b[{REPEAT}b").as_bytes());
            }
            self.dropped += 1;
            at += 1;
            from = at;
        }
        let rest = bytes.get(from..).unwrap_or_default();
        let begun = if self.state == State::Plain { begun(rest) } else { 0 };
        let (whole, held) = rest.split_at(rest.len() - begun);
        self.held.extend_from_slice(held);
        if !whole.is_empty() {
            sink(whole);
        }
    }

    /// Takes one byte outside plain text; whether it is passed on as it is.
    fn keeps(&mut self, byte: u8) -> bool {
        match (self.state, byte) {
            (State::Osc(_), BEL) | (_, CAN | SUB) => self.state = State::Plain,
            (_, ESC) => self.state = State::Escape,
            (State::Osc(taken), _) => {
                self.state = State::Osc(taken.saturating_add(1));
                return taken < OSC_BYTES;
            }
            (State::Escape, b'[') => self.state = State::Control { first: 0, reading: true, plain: true },
            (State::Escape, b']') => self.state = State::Osc(0),
            (State::Escape, 0x20..=0x2f) => self.state = State::Intermediate,
            (State::Escape | State::Intermediate, 0x30..=0x7e) => self.state = State::Plain,
            (State::Control { first, reading, plain }, _) => return self.control(byte, first, reading, plain),
            _ => {}
        }
        true
    }

    fn control(&mut self, byte: u8, first: u32, reading: bool, plain: bool) -> bool {
        self.state = match byte {
            b'0'..=b'9' if reading => {
                let first = first.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                State::Control { first, reading, plain }
            }
            b'0'..=b'9' => return true,
            b':' | b';' => State::Control { first, reading: false, plain },
            0x20..=0x2f | b'<'..=b'?' => State::Control { first, reading, plain: false },
            0x40..=0x7e => State::Plain,
            _ => return true,
        };
        !(byte == b'b' && plain && first > REPEAT)
    }
}

/// How many bytes at the end begin a character without ending it.
fn begun(bytes: &[u8]) -> usize {
    for count in 1..=bytes.len().min(3) {
        let tail = bytes.get(bytes.len() - count..).unwrap_or_default();
        match tail.first() {
            Some(0x80..=0xbf) => {}
            Some(0xc2..=0xf4) if std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none()) => {
                return count;
            }
            _ => break,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed(chunks: &[&[u8]]) -> (Vec<u8>, u64) {
        let mut filter = Filter::new();
        let mut out = Vec::new();
        for chunk in chunks {
            filter.pass(chunk, |piece| out.extend_from_slice(piece));
        }
        (out, filter.dropped())
    }

    #[test]
    fn a_long_command_body_is_cut_and_what_follows_is_not() {
        let title = [b"a\x1b]0;".as_slice(), &vec![b'x'; 1 << 20], b"\x07after\x1b[31m"].concat();
        let (out, dropped) = passed(&[&title]);
        assert!(out.len() < OSC_BYTES + 64, "{}", out.len());
        assert!(out.ends_with(b"\x07after\x1b[31m"));
        assert_eq!(dropped as usize + out.len(), title.len());
    }

    #[test]
    fn a_huge_repeat_is_cut_and_a_small_one_is_not() {
        assert_eq!(passed(&[b"x\x1b[65535b!"]).0, b"x\x1b[65535\x18\x1b[1024b!");
        assert_eq!(passed(&[b"x\x1b[80b!"]), (b"x\x1b[80b!".to_vec(), 0));
        assert_eq!(passed(&[b"\x1b[1;65535b"]), (b"\x1b[1;65535b".to_vec(), 0), "only the first number counts");
        assert_eq!(passed(&[b"\x1b[99999m\x1b(b 99999b"]).1, 0);
    }

    #[test]
    fn text_and_other_strings_pass_whole() {
        let bytes = [b"plain \xe2\x82\xac \x1bPq".as_slice(), &vec![b'#'; 9000], b"\x1b\\\x1b[?25l"].concat();
        assert_eq!(passed(&[&bytes]), (bytes.clone(), 0));
    }

    #[test]
    fn a_character_is_passed_whole() {
        let mut filter = Filter::new();
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for chunk in [b"a\xe2\x82".as_slice(), b"\xac\xf0", b"\x9f", b"\x1b[m\xc3"] {
            filter.pass(chunk, |piece| pieces.push(piece.to_vec()));
        }
        assert_eq!(pieces, [b"a".to_vec(), b"\xe2\x82\xac".to_vec(), b"\xf0\x9f\x1b[m".to_vec()]);
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_split_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![Just(ESC), Just(b']'), Just(b'['), Just(b'9'), Just(b'b'), any::<u8>()], 0..200),
            cut in 0..200_usize,
        ) {
            let cut = cut.min(bytes.len());
            let (head, tail) = bytes.split_at(cut);
            prop_assert_eq!(passed(&[&bytes]), passed(&[head, tail]));
        }
    }
}
