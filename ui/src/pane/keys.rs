//! Keys and pastes as the bytes a terminal sends for them: the forms of xterm before keyboard protocols.

use super::Modes;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The bytes for a key; `None` for keys that have none (modifiers alone, media keys).
#[must_use]
pub fn encode(key: &KeyEvent, modes: Modes) -> Option<Vec<u8>> {
    let held = key.modifiers;
    let alt = held.contains(KeyModifiers::ALT);
    let bytes = match key.code {
        KeyCode::Char(c) => with_alt(character(c, held)?, alt),
        KeyCode::Enter => with_alt(vec![b'\r'], alt),
        KeyCode::Esc => with_alt(vec![0x1b], alt),
        KeyCode::Tab => with_alt(vec![b'\t'], alt),
        KeyCode::BackTab => b"\x1b[Z".to_vec(),
        KeyCode::Backspace => with_alt(vec![if held.contains(KeyModifiers::CONTROL) { 0x08 } else { 0x7f }], alt),
        KeyCode::Up => cursor(b'A', held, modes),
        KeyCode::Down => cursor(b'B', held, modes),
        KeyCode::Right => cursor(b'C', held, modes),
        KeyCode::Left => cursor(b'D', held, modes),
        KeyCode::Home => cursor(b'H', held, modes),
        KeyCode::End => cursor(b'F', held, modes),
        KeyCode::Insert => numbered(2, held),
        KeyCode::Delete => numbered(3, held),
        KeyCode::PageUp => numbered(5, held),
        KeyCode::PageDown => numbered(6, held),
        KeyCode::F(number) => function(number, held)?,
        _ => return None,
    };
    Some(bytes)
}

/// A paste: line ends become Enter, other controls are removed, so that a pasted text can neither end its own marks
/// nor send a key. With `modes.bracketed_paste` it is marked.
#[must_use]
pub fn paste(text: &str, modes: Modes) -> Vec<u8> {
    let mut inner = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\n' => inner.push('\r'),
            '\t' => inner.push('\t'),
            c if c.is_control() => {}
            c => inner.push(c),
        }
    }
    if modes.bracketed_paste {
        return [b"\x1b[200~", inner.as_bytes(), b"\x1b[201~"].concat();
    }
    inner.into_bytes()
}

fn with_alt(bytes: Vec<u8>, alt: bool) -> Vec<u8> {
    if alt { [vec![0x1b], bytes].concat() } else { bytes }
}

fn character(c: char, held: KeyModifiers) -> Option<Vec<u8>> {
    if !held.contains(KeyModifiers::CONTROL) {
        return (!c.is_control()).then(|| c.to_string().into_bytes());
    }
    let byte = match c {
        ' ' | '@' | '2' => 0x00,
        'a'..='z' | 'A'..='Z' => u8::try_from(c.to_ascii_lowercase()).ok()? & 0x1f,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '6' | '~' => 0x1e,
        '_' | '7' | '/' | '-' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    };
    Some(vec![byte])
}

/// The number by which sequences name held modifiers; 1 when there are none.
fn modifier(held: KeyModifiers) -> u8 {
    let bit = |flag: KeyModifiers, value: u8| if held.contains(flag) { value } else { 0 };
    1 + bit(KeyModifiers::SHIFT, 1) + bit(KeyModifiers::ALT, 2) + bit(KeyModifiers::CONTROL, 4)
}

fn cursor(last: u8, held: KeyModifiers, modes: Modes) -> Vec<u8> {
    match modifier(held) {
        1 if modes.app_cursor => vec![0x1b, b'O', last],
        1 => vec![0x1b, b'[', last],
        held => format!("\x1b[1;{held}{}", char::from(last)).into_bytes(),
    }
}

fn numbered(number: u8, held: KeyModifiers) -> Vec<u8> {
    match modifier(held) {
        1 => format!("\x1b[{number}~").into_bytes(),
        held => format!("\x1b[{number};{held}~").into_bytes(),
    }
}

fn function(number: u8, held: KeyModifiers) -> Option<Vec<u8>> {
    let number = match number {
        1..=4 => {
            let last = b'P' + (number - 1);
            return Some(match modifier(held) {
                1 => vec![0x1b, b'O', last],
                held => format!("\x1b[1;{held}{}", char::from(last)).into_bytes(),
            });
        }
        5 => 15,
        6..=10 => number + 11,
        11 | 12 => number + 12,
        _ => return None,
    };
    Some(numbered(number, held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(code: KeyCode, held: KeyModifiers, modes: Modes) -> String {
        let bytes = encode(&KeyEvent::new(code, held), modes).unwrap_or_default();
        String::from_utf8(bytes).expect("keys are UTF-8").escape_debug().to_string()
    }

    #[test]
    fn keys_have_the_forms_programs_know() {
        let plain = Modes::default();
        let none = KeyModifiers::NONE;
        let table = [
            (KeyCode::Char('a'), none, "a"),
            (KeyCode::Char('Ü'), KeyModifiers::SHIFT, "Ü"),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, "\\u{3}"),
            (KeyCode::Char(' '), KeyModifiers::CONTROL, "\\0"),
            (KeyCode::Char('/'), KeyModifiers::CONTROL, "\\u{1f}"),
            (KeyCode::Char('x'), KeyModifiers::ALT, "\\u{1b}x"),
            (KeyCode::Enter, none, "\\r"),
            (KeyCode::Backspace, none, "\\u{7f}"),
            (KeyCode::BackTab, KeyModifiers::SHIFT, "\\u{1b}[Z"),
            (KeyCode::Up, none, "\\u{1b}[A"),
            (KeyCode::Left, KeyModifiers::CONTROL, "\\u{1b}[1;5D"),
            (KeyCode::Home, KeyModifiers::SHIFT, "\\u{1b}[1;2H"),
            (KeyCode::Delete, none, "\\u{1b}[3~"),
            (KeyCode::PageUp, KeyModifiers::SHIFT | KeyModifiers::ALT, "\\u{1b}[5;4~"),
            (KeyCode::F(1), none, "\\u{1b}OP"),
            (KeyCode::F(4), KeyModifiers::SHIFT, "\\u{1b}[1;2S"),
            (KeyCode::F(5), none, "\\u{1b}[15~"),
            (KeyCode::F(6), none, "\\u{1b}[17~"),
            (KeyCode::F(10), none, "\\u{1b}[21~"),
            (KeyCode::F(11), none, "\\u{1b}[23~"),
            (KeyCode::F(12), none, "\\u{1b}[24~"),
            (KeyCode::CapsLock, none, ""),
        ];
        for (code, held, expected) in table {
            assert_eq!(sent(code, held, plain), expected, "{code:?} {held:?}");
        }
        let application = Modes { app_cursor: true, ..plain };
        assert_eq!(sent(KeyCode::Up, none, application), "\\u{1b}OA");
        assert_eq!(sent(KeyCode::Up, KeyModifiers::CONTROL, application), "\\u{1b}[1;5A");
    }

    #[test]
    fn a_paste_cannot_end_its_own_marks() {
        let marked = Modes { bracketed_paste: true, ..Modes::default() };
        let text = "one\r\ntwo\nthree\t\u{1b}[20\u{1b}[201~1~rm -rf /\u{3}\u{9b}201~";
        assert_eq!(paste(text, marked), b"\x1b[200~one\rtwo\rthree\t[20[201~1~rm -rf /201~\x1b[201~");
        assert_eq!(paste("a\nb", Modes::default()), b"a\rb");
    }

    proptest! {
        #[test]
        fn no_paste_holds_an_escape_of_its_own(text in any::<String>()) {
            let marked = paste(&text, Modes { bracketed_paste: true, ..Modes::default() });
            prop_assert_eq!(marked.iter().filter(|b| **b == 0x1b).count(), 2);
            let bare = paste(&text, Modes::default());
            prop_assert!(bare.iter().all(|b| *b >= 0x20 || matches!(b, b'\r' | b'\t')));
        }
    }
}
