//! Signed notes and checkpoints in the public C2SP formats (signed-note, tlog-checkpoint), Ed25519 type 0x01.
//!
//! [`open`] reads any note by the rules of the format. A journal's own file of checkpoints is read more strictly by
//! [`split`] and [`Signed::read`]: byte for byte what the writer makes, so that no bit of it is without meaning.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};
use stockade_protocol::digest::{parse_hex, to_hex};

/// Most signatures on a note. The format asks readers to take at least 16.
const SIGNATURES: usize = 16;

/// Largest note, bytes.
const NOTE_BYTES: usize = 64 * 1024;

/// Signature type byte of Ed25519 over the text.
const ED25519: u8 = 1;

/// A public key with the name it signs by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoteKey {
    name: String,
    key: VerifyingKey,
    id: [u8; 4],
}

impl NoteKey {
    /// Names a key. `None` when the name is not one the format allows.
    pub(super) fn new(name: &str, key: VerifyingKey) -> Option<Self> {
        if !is_name(name) {
            return None;
        }
        let hash: [u8; 32] = Sha256::new()
            .chain_update(name)
            .chain_update([b'\n', ED25519])
            .chain_update(key.as_bytes())
            .finalize()
            .into();
        let [a, b, c, d, ..] = hash;
        Some(Self { name: name.to_owned(), key, id: [a, b, c, d] })
    }

    /// Reads the text form, `name+id+key`.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('+')?;
        let (id, key) = rest.split_once('+')?;
        let bytes = STANDARD.decode(key).ok()?;
        let (ED25519, key) = bytes.split_first().map(|(kind, key)| (*kind, key))? else { return None };
        let known = Self::new(name, VerifyingKey::from_bytes(key.try_into().ok()?).ok()?)?;
        (parse_hex::<4>(id) == Some(known.id)).then_some(known)
    }

    /// The name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The key alone, 64 hex digits.
    pub(super) fn hex(&self) -> String {
        to_hex(self.key.as_bytes())
    }

    /// The first bytes of the hash of name and key, which tell keys of one name apart.
    pub(super) const fn id(&self) -> [u8; 4] {
        self.id
    }

    /// Whether the signature over exactly these bytes is this key's.
    pub(super) fn has_signed(&self, bytes: &[u8], signature: &Signature) -> bool {
        self.key.verify_strict(bytes, signature).is_ok()
    }

    /// The text form.
    pub(super) fn to_text(&self) -> String {
        let mut typed = vec![ED25519];
        typed.extend_from_slice(self.key.as_bytes());
        format!("{}+{}+{}", self.name, to_hex(&self.id), STANDARD.encode(typed))
    }
}

/// A key's name: not empty, no Unicode blank, no plus, no control character.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c == '+' || c.is_control())
}

/// The signed text of a note, when the note is well-formed, signed by `key`, and no signature by `key` is wrong.
/// Signatures of other keys are ignored, as the format asks.
pub(super) fn open<'a>(note: &'a [u8], key: &NoteKey) -> Result<&'a str, &'static str> {
    if note.len() > NOTE_BYTES {
        return Err("the note is too large");
    }
    let note = std::str::from_utf8(note).map_err(|_ignored| "the note is not UTF-8")?;
    if note.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        return Err("the note holds a control character");
    }
    let end = note.rfind("\n\n").ok_or("the note has no blank line before its signatures")?;
    let text = note.get(..=end).unwrap_or_default();
    let lines = note.get(end + 2..).and_then(|rest| rest.strip_suffix('\n')).ok_or("the note has no line end")?;
    let mut signed = false;
    for (at, line) in lines.split('\n').enumerate() {
        if at >= SIGNATURES {
            return Err("the note has too many signatures");
        }
        let (name, bytes) = signature_line(line).ok_or("a signature line is malformed")?;
        let (id, signature) = bytes.split_at_checked(4).ok_or("a signature is too short")?;
        if name != key.name || id != key.id {
            continue;
        }
        let signature = Signature::from_slice(signature).map_err(|_ignored| "the key's signature is malformed")?;
        if !key.has_signed(text.as_bytes(), &signature) {
            return Err("the key's signature is wrong");
        }
        signed = true;
    }
    if signed { Ok(text) } else { Err("the note is not signed by the key") }
}

fn signature_line(line: &str) -> Option<(&str, Vec<u8>)> {
    let (name, signature) = line.strip_prefix("— ")?.split_once(' ')?;
    let bytes = STANDARD.decode(signature).ok()?;
    (is_name(name) && bytes.len() > 4).then_some((name, bytes))
}

/// The size and root of a journal's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Records it covers.
    pub(super) size: u64,
    /// Root of the tree over them.
    pub(super) root: [u8; 32],
}

impl Checkpoint {
    fn text(&self, origin: &str) -> String {
        format!("{origin}\n{}\n{}\n", self.size, STANDARD.encode(self.root))
    }

    /// The signed note. The origin is the key's name.
    pub(super) fn sign(&self, key: &NoteKey, secret: &SigningKey) -> String {
        let text = self.text(&key.name);
        let mut signature = key.id.to_vec();
        signature.extend_from_slice(&secret.sign(text.as_bytes()).to_bytes());
        format!("{text}\n— {} {}\n", key.name, STANDARD.encode(signature))
    }

    /// Reads the text of a checkpoint: exactly three lines, exactly this origin.
    fn from_text(text: &str, origin: &str) -> Result<Self, &'static str> {
        let mut lines = text.strip_suffix('\n').unwrap_or_default().split('\n');
        let (Some(name), Some(size), Some(root), None) = (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err("a checkpoint has three lines");
        };
        if name != origin {
            return Err("the checkpoint is of another journal");
        }
        let size = size.parse().map_err(|_ignored| "the checkpoint's size is not a number")?;
        let root = STANDARD.decode(root).ok().and_then(|root| root.try_into().ok());
        let read = Self { size, root: root.ok_or("the checkpoint's root is not a hash")? };
        // One spelling: no sign, no leading zero.
        if read.text(origin) == text { Ok(read) } else { Err("the checkpoint is not spelled as the format asks") }
    }

    /// Reads a checkpoint signed by the journal's key, other keys' signatures beside it ignored.
    pub(super) fn open(note: &[u8], key: &NoteKey) -> Result<Self, &'static str> {
        Self::from_text(open(note, key)?, &key.name)
    }
}

/// A checkpoint in the exact form the writer gives it, one signature and nothing else. It is not held against a key yet.
#[derive(Debug, Clone)]
pub(super) struct Signed {
    pub(super) checkpoint: Checkpoint,
    /// Id of the key that is said to have signed it.
    pub(super) id: [u8; 4],
    signature: Signature,
}

impl Signed {
    /// Reads a checkpoint of this origin, which is also the name it must be signed by.
    pub(super) fn read(note: &[u8], origin: &str) -> Result<Self, &'static str> {
        let note = std::str::from_utf8(note).map_err(|_ignored| "the note is not UTF-8")?;
        let end = note.find("\n\n").ok_or("the note has no blank line before its signature")?;
        let checkpoint = Checkpoint::from_text(note.get(..=end).unwrap_or_default(), origin)?;
        let line = note.get(end + 2..).and_then(|rest| rest.strip_suffix('\n')).ok_or("the note has no line end")?;
        let (name, bytes) = signature_line(line).ok_or("its signature line is malformed, or it has several")?;
        if name != origin {
            return Err("it carries a signature by another name");
        }
        let (id, signature) = bytes.split_first_chunk::<4>().ok_or("its signature is too short")?;
        let signature = Signature::from_slice(signature).map_err(|_ignored| "its signature is malformed")?;
        Ok(Self { checkpoint, id: *id, signature })
    }

    /// Whether it is signed by this key.
    pub(super) fn is_by(&self, key: &NoteKey) -> bool {
        self.id == key.id && key.has_signed(self.checkpoint.text(&key.name).as_bytes(), &self.signature)
    }
}

/// Splits a file of checkpoints into its notes, each followed by an empty line, and what is left at its end.
pub(super) fn split(file: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut notes = Vec::new();
    let mut rest = file;
    // Text, blank line, signature, blank line: every second blank line ends a note.
    while let Some(text) = find(rest, b"\n\n")
        && let Some(signatures) = find(rest.get(text + 2..).unwrap_or_default(), b"\n\n")
        && let Some((note, next)) = rest.split_at_checked(text + 2 + signatures + 1)
    {
        notes.push(note);
        rest = next.get(1..).unwrap_or_default();
    }
    (notes, rest)
}

fn find(bytes: &[u8], pair: &[u8; 2]) -> Option<usize> {
    bytes.windows(2).position(|window| window == pair)
}

/// Exact text, and how many bytes of which class follow it.
type Part<'a> = (&'a [u8], usize, fn(&u8) -> bool);

/// Whether `rest` is the beginning of a checkpoint that a crash cut short: a strict prefix of the only form the writer
/// makes, or of it followed by zeros where the file system had not written yet.
pub(super) fn is_torn(rest: &[u8], origin: &str) -> bool {
    let end = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut rest = rest.get(..end).unwrap_or_default();
    let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let signature = format!("\n\n— {origin} ");
    let origin = format!("{origin}\n");
    let digits = rest.get(origin.len()..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
    // The parts of the form in order.
    let steps: [Part<'_>; 4] = [
        (origin.as_bytes(), digits.clamp(1, 20), u8::is_ascii_digit),
        (b"\n", 44, base64),
        (signature.as_bytes(), 92, base64),
        (b"\n\n", 0, base64),
    ];
    for (literal, count, class) in steps {
        if rest.len() <= literal.len() {
            return literal.starts_with(rest) && !(count == 0 && rest.len() == literal.len());
        }
        let Some(after) = rest.strip_prefix(literal) else { return false };
        let taken = after.iter().take(count).take_while(|byte| class(byte)).count();
        rest = after.get(taken..).unwrap_or_default();
        if rest.is_empty() {
            return true;
        }
        if taken < count {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
