//! The note format, by its rules: what is refused whole, what is ignored, and that our own file is read exactly.

use super::*;
use proptest::prelude::*;

fn secret(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

fn key(name: &str, n: u8) -> NoteKey {
    NoteKey::new(name, secret(n).verifying_key()).unwrap()
}

const ORIGIN: &str = "stockade.local/0123456789abcdef0123456789abcdef";

fn signed() -> String {
    Checkpoint { size: 12, root: [5; 32] }.sign(&key(ORIGIN, 1), &secret(1))
}

/// As a journal's own file is read, and held against the key.
fn read(note: &[u8], key: &NoteKey) -> Result<Checkpoint, &'static str> {
    let signed = Signed::read(note, &key.name)?;
    if signed.is_by(key) { Ok(signed.checkpoint) } else { Err("not by the key") }
}

fn line(name: &str, n: u8, text: &str) -> String {
    let mut bytes = key(name, n).id.to_vec();
    bytes.extend_from_slice(&secret(n).sign(text.as_bytes()).to_bytes());
    format!("— {name} {}\n", STANDARD.encode(bytes))
}

fn text() -> String {
    Checkpoint { size: 12, root: [5; 32] }.text(ORIGIN)
}

#[test]
fn a_key_survives_its_text_form_and_nothing_near_it_parses() {
    let key = key(ORIGIN, 1);
    assert_eq!(NoteKey::from_text(&key.to_text()), Some(key.clone()));
    let good = key.to_text();
    for bad in [
        good.replace(ORIGIN, "other"),
        good.replacen('+', "", 1),
        good.replace("+", "++"),
        format!("{good}="),
        format!("{good}\n"),
        String::new(),
    ] {
        assert_eq!(NoteKey::from_text(&bad), None, "{bad}");
    }
    let signed_note = signed_note::StandardVerifier::new(&good);
    assert!(signed_note.is_ok(), "another reader takes it");
}

#[test]
fn names_the_format_does_not_allow_are_refused() {
    for bad in ["", "a+b", "a b", "a\u{a0}b", "a\u{2003}b", "a\nb", "a\tb", "a\u{7f}"] {
        assert!(NoteKey::new(bad, secret(1).verifying_key()).is_none(), "{bad:?}");
    }
    assert!(NoteKey::new("ä/b", secret(1).verifying_key()).is_some());
}

#[test]
fn a_good_note_opens_and_a_note_with_any_change_does_not() {
    let key = key(ORIGIN, 1);
    let good = signed();
    assert_eq!(Checkpoint::open(good.as_bytes(), &key), Ok(Checkpoint { size: 12, root: [5; 32] }));
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone().into_bytes();
            bad[at] ^= 1 << bit;
            assert!(Checkpoint::open(&bad, &key).is_err(), "byte {at} bit {bit}");
        }
        assert!(Checkpoint::open(&good.as_bytes()[..at], &key).is_err(), "cut at {at}");
    }
}

#[test]
fn signatures_of_others_are_ignored_and_a_wrong_one_of_ours_refuses_all() {
    let key = key(ORIGIN, 1);
    let (text, ours) = (text(), line(ORIGIN, 1, &text()));
    let ok = |signatures: &[&str]| open(format!("{text}\n{}", signatures.concat()).as_bytes(), &key).is_ok();
    let other_name = line("witness.example/w", 2, &text);
    let other_key = line(ORIGIN, 3, &text);
    let wrong_of_others = line("witness.example/w", 2, "something else\n");
    let wrong_of_ours = line(ORIGIN, 1, "something else\n");
    assert!(ok(&[&ours]));
    assert!(ok(&[&other_name, &ours, &other_key, &wrong_of_others]));
    assert!(!ok(&[&other_name, &other_key]), "none of ours");
    assert!(!ok(&[&ours, &wrong_of_ours]) && !ok(&[&wrong_of_ours, &ours]), "one of ours is wrong");
    assert!(!ok(&[]));
    // Ours twice says nothing new, in a note from outside; in our own file it has no place.
    assert!(ok(&[&ours, &ours]));
    assert!(read(format!("{text}\n{ours}").as_bytes(), &key).is_ok());
    for more in [&ours, &other_name] {
        assert!(read(format!("{text}\n{ours}{more}").as_bytes(), &key).is_err());
        assert!(read(format!("{text}\n{more}{ours}").as_bytes(), &key).is_err() || more == &ours);
    }
    // The same name and key id, but another kind of signature: too short, too long.
    for length in [0, 1, 63, 65] {
        let mut bytes = key.id.to_vec();
        bytes.resize(4 + length, 0);
        assert!(!ok(&[&ours, &format!("— {ORIGIN} {}\n", STANDARD.encode(bytes))]), "{length}");
    }
}

#[test]
fn sixteen_signatures_are_taken_and_seventeen_are_not() {
    let key = key(ORIGIN, 1);
    let (text, ours) = (text(), line(ORIGIN, 1, &text()));
    let others: Vec<String> = (0..16).map(|n| line(&format!("w{n}.example"), 2, &text)).collect();
    assert!(open(format!("{text}\n{}{ours}", others[..15].concat()).as_bytes(), &key).is_ok());
    assert!(open(format!("{text}\n{}{ours}", others.concat()).as_bytes(), &key).is_err());
    assert!(open(format!("{text}\n{ours}{}", others.concat()).as_bytes(), &key).is_err());
}

#[test]
fn malformed_notes_are_refused() {
    let key = key(ORIGIN, 1);
    let (text, ours) = (text(), line(ORIGIN, 1, &text()));
    let good = format!("{text}\n{ours}");
    assert!(open(good.as_bytes(), &key).is_ok());
    for bad in [
        good.replace('\n', "\r\n"),
        good.replacen('\n', "\t\n", 1),
        format!("{good}trailing"),
        format!("{good}\n"),
        format!("{good}\n\n"),
        format!("{text}{ours}"),
        format!("\n{ours}"),
        good.replace("— ", "-- "),
        good.replace("— ", "—"),
        good.replace("— ", "—  "),
        good.replacen("— stockade", "— stock+ade", 1),
        good.trim_end().to_owned(),
        good.replace('=', ""),
        good.replacen("\n— ", "\n— a b c\n— ", 1),
        good.replacen("\n— ", "\n— name \n— ", 1),
        good.replacen("\n— ", "\n— name !!!!\n— ", 1),
        good.replacen("\n— ", "\n— a+b AAAAAAAA\n— ", 1),
        good.replacen("\n— ", "\n— a\u{2003}b AAAAAAAA\n— ", 1),
        String::new(),
        "\n\n".to_owned(),
        "x".repeat(NOTE_BYTES + 1),
    ] {
        assert!(open(bad.as_bytes(), &key).is_err(), "{bad:?}");
    }
    let mut invalid = good.clone().into_bytes();
    invalid[3] = 0xff;
    assert!(open(&invalid, &key).is_err());
    // Base64 has one spelling: bits that say nothing must be zero.
    let spelled = good.replace("=\n", "F=\n");
    assert!(open(spelled.as_bytes(), &key).is_err());
}

#[test]
fn a_checkpoint_has_one_spelling_and_three_lines() {
    let origin = ORIGIN;
    let root = STANDARD.encode([5; 32]);
    assert!(Checkpoint::from_text(&format!("{origin}\n12\n{root}\n"), origin).is_ok());
    for bad in [
        format!("{origin}\n012\n{root}\n"),
        format!("{origin}\n+12\n{root}\n"),
        format!("{origin}\n-1\n{root}\n"),
        format!("{origin}\n\n{root}\n"),
        format!("{origin}\n18446744073709551616\n{root}\n"),
        format!("{origin}\n12\n{}\n", STANDARD.encode([5; 31])),
        format!("{origin}\n12\n{root}\nextension\n"),
        format!("{origin}\n12\n{root}\n\n"),
        format!("{origin}\n12\n{root}"),
        format!("{origin}\n12\n"),
        format!("other\n12\n{root}\n"),
        String::new(),
    ] {
        assert!(Checkpoint::from_text(&bad, origin).is_err(), "{bad:?}");
    }
}

#[test]
fn an_origin_cannot_smuggle_lines_in() {
    // A name with a line end would let its bearer write the size and root himself.
    let smuggled = format!("{ORIGIN}\n999\n{}", STANDARD.encode([9; 32]));
    assert!(NoteKey::new(&smuggled, secret(1).verifying_key()).is_none());
    // Text that begins with another journal's three lines is signed by nobody we know, whatever follows.
    let text = format!("{smuggled}\n{}", text());
    let note = format!("{text}\n{}", line(ORIGIN, 1, &text));
    assert!(open(note.as_bytes(), &key(ORIGIN, 1)).is_ok(), "as a note it is good");
    assert!(Checkpoint::open(note.as_bytes(), &key(ORIGIN, 1)).is_err(), "as a checkpoint it is not");
}

#[test]
fn a_file_of_notes_is_split_into_them() {
    let one = signed();
    let two = Checkpoint { size: 99, root: [6; 32] }.sign(&key(ORIGIN, 1), &secret(1));
    let file = format!("{one}\n{two}\n");
    assert_eq!(split(file.as_bytes()), (vec![one.as_bytes(), two.as_bytes()], &b""[..]));
    let torn = format!("{one}\n{}", &two[..40]);
    assert_eq!(split(torn.as_bytes()), (vec![one.as_bytes()], &two.as_bytes()[..40]));
}

#[test]
fn only_the_beginning_of_a_checkpoint_is_torn() {
    let whole = signed() + "\n";
    for at in 1..whole.len() {
        let rest = &whole.as_bytes()[..at];
        assert!(is_torn(rest, ORIGIN), "{at}: {:?}", &whole[..at.min(60)].len());
        assert!(is_torn(&[rest, &[0; 9]].concat(), ORIGIN), "{at} and zeros");
        // A changed byte, at the last place where it still means something, makes it something else.
        let mut changed = rest.to_vec();
        changed[at - 1] ^= 0x81;
        assert!(!is_torn(&changed, ORIGIN), "{at} changed");
    }
    assert!(is_torn(&[0; 40], ORIGIN));
    for bad in ["x", "stockade.local/f", &format!("{ORIGIN}\n\n"), &format!("{ORIGIN}\nx"), &whole.replace("12", "+2")]
    {
        assert!(!is_torn(bad.as_bytes(), ORIGIN), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let key = key(ORIGIN, 1);
        let _ = read(&bytes, &key);
        let (notes, rest) = split(&bytes);
        let used: usize = notes.iter().map(|note| note.len() + 1).sum();
        prop_assert_eq!(used + rest.len(), bytes.len());
        let _ = is_torn(&bytes, ORIGIN);
        let _ = NoteKey::from_text(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn near_notes_do_not_panic_and_do_not_open(at in any::<prop::sample::Index>(), bytes in proptest::collection::vec(any::<u8>(), 1..6)) {
        let mut note = signed().into_bytes();
        let at = at.index(note.len());
        let before = note.clone();
        note.splice(at..(at + 1).min(before.len()), bytes);
        prop_assume!(note != before);
        prop_assert!(read(&note, &key(ORIGIN, 1)).is_err());
    }
}
