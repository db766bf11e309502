//! Text: what is drawn, redacted, split and matched.

use stockade_protocol::event::EventEnvelope;
use stockade_protocol::script::lookalikes;
use stockade_protocol::text::{SafeText, is_hidden};
use stockade_runtime::manifest::{Pattern, words};
use stockade_runtime::redact::Redactor;

/// An event as screens read it. What is read is written and read back the same.
pub(crate) fn event(bytes: &[u8]) {
    let Ok(envelope) = serde_json::from_slice::<EventEnvelope>(bytes) else { return };
    let written = serde_json::to_vec(&envelope).expect("an event that was read can be written");
    let again: EventEnvelope = serde_json::from_slice(&written).expect("what was written is read");
    assert_eq!(envelope, again, "an event changed on its way");
}

/// A secret that every redactor here has learned.
const SECRET: &[u8] = b"correct-horse-battery";

/// Bytes that come in pieces; the first eight say how large these are. However they are cut, the same comes out, and
/// the secret does not.
pub(crate) fn redactor(bytes: &[u8]) {
    let (sizes, text) = bytes.split_at(bytes.len().min(8));
    let redactor = Redactor::standard();
    redactor.learn("fuzz", SECRET).expect("the secret is long enough");
    let (whole, _) = redactor.bytes(text);
    let (mut stream, mut pieces, mut rest) = (redactor.stream(), Vec::new(), text);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, left) = rest.split_at((usize::from(*size) + 1).min(rest.len()));
        stream.write(piece, &mut pieces);
        rest = left;
    }
    stream.flush(&mut pieces);
    assert_eq!(pieces, whole, "how the bytes were cut changed what came out");
    assert!(!whole.windows(SECRET.len()).any(|window| window == SECRET), "the secret came through");
}

/// Text from outside on its way to a screen: nothing of it stays hidden.
pub(crate) fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let shown = |safe: &SafeText| safe.to_string();
    for safe in [SafeText::line(&text), SafeText::folded(&text)].iter().chain(&SafeText::lines(&text)) {
        assert!(shown(safe).chars().all(|c| !is_hidden(c)), "something hidden is drawn");
    }
    assert_eq!(shown(&SafeText::line(&text)), shown(&SafeText::line(&text)), "one text has one form");
    drop(lookalikes(&text));
}

/// A pattern, an end of line, and the line it is tried on; and the same as a startup line. A pattern that matches a
/// line does not match it with a line end added.
pub(crate) fn line(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(pattern) = Pattern::new(first) {
        let plain = !rest.contains('\n');
        let ended = format!("{rest}\n");
        // A pattern may name line ends itself; one that has no escape and no class cannot.
        let names_line_ends = first.contains(['\\', '[', '(']);
        if plain && pattern.matches(rest) && !names_line_ends {
            assert!(!pattern.matches(&ended), "{first:?} matches with a line end added");
        }
    }
    if let Ok(split) = words(&text) {
        assert!(split.iter().map(String::len).sum::<usize>() <= text.len(), "words grew");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_seeds_are_events_and_the_secret_is_in_one() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let mut read = 0;
        for entry in fs::read_dir(corpus.join("event")).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let event = serde_json::from_slice::<EventEnvelope>(&bytes);
            assert!(event.is_ok(), "{}: {event:?}", String::from_utf8_lossy(&bytes));
            read += 1;
        }
        assert!(read > 3);
        let seed = fs::read(corpus.join("redactor/known-value")).unwrap();
        assert!(seed.windows(SECRET.len()).any(|window| window == SECRET));
    }
}
