//! Letters and signs that look like others.
//!
//! A host name with one Cyrillic letter reads like the Latin one it imitates. Matching is always over bytes, so a rule
//! is never fooled; this module is for the person, who would be.

use std::fmt;

/// A word that a person could take for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookalike {
    /// The word as written.
    pub word: String,
    /// What tells it from the one it imitates.
    pub why: Why,
}

/// What is unusual about a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It mixes letters of several scripts; this is its form as a host name (RFC 3492).
    MixedScripts {
        /// The form that name servers see.
        ascii: String,
    },
    /// It holds a sign that looks like an ASCII one.
    Sign {
        /// The sign.
        sign: char,
        /// The ASCII sign it looks like.
        like: char,
    },
}

impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = crate::text::SafeText::line(&self.word);
        match &self.why {
            Why::MixedScripts { ascii } => write!(f, "{word} mixes scripts: {ascii}"),
            Why::Sign { sign, like } => write!(f, "\\u{{{:04X}}} looks like {like}", u32::from(*sign)),
        }
    }
}

/// Most findings returned of one text; more would not be read.
pub const FINDINGS: usize = 16;

/// The words and signs of a text that look like others, in order, at most [`FINDINGS`].
#[must_use]
pub fn lookalikes(text: &str) -> Vec<Lookalike> {
    let mut found: Vec<Lookalike> = Vec::new();
    for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        if word.split('.').any(is_mixed) {
            let ascii = word.split('.').map(ascii_label).collect::<Vec<_>>().join(".");
            push(&mut found, Lookalike { word: word.to_owned(), why: Why::MixedScripts { ascii } });
        }
    }
    for sign in text.chars() {
        if let Some(like) = ascii_twin(sign) {
            push(&mut found, Lookalike { word: sign.to_string(), why: Why::Sign { sign, like } });
        }
    }
    found
}

fn push(found: &mut Vec<Lookalike>, new: Lookalike) {
    if found.len() < FINDINGS && !found.contains(&new) {
        found.push(new);
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Other,
}

fn script(c: char) -> Option<Script> {
    if !c.is_alphabetic() {
        return None;
    }
    Some(match u32::from(c) {
        0x41..=0x24F | 0x1E00..=0x1EFF | 0x2C60..=0x2C7F | 0xA720..=0xA7FF => Script::Latin,
        0x370..=0x3FF | 0x1F00..=0x1FFF => Script::Greek,
        0x400..=0x52F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F => Script::Cyrillic,
        0x530..=0x58F => Script::Armenian,
        _ => Script::Other,
    })
}

/// Whether a label holds letters of two scripts that look alike. Han with kana, or Latin with Han, is ordinary.
fn is_mixed(label: &str) -> bool {
    let mut first = None;
    label.chars().filter_map(script).filter(|script| *script != Script::Other).any(|script| match first {
        None => {
            first = Some(script);
            false
        }
        Some(seen) => seen != script,
    })
}

/// The ASCII sign that a sign outside ASCII imitates.
fn ascii_twin(c: char) -> Option<char> {
    match u32::from(c) {
        code @ 0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0),
        0x2215 | 0x2044 | 0x29F8 => Some('/'),
        0x2216 | 0x29F5 | 0x29F9 => Some('\\'),
        0x2024 => Some('.'),
        0x2236 | 0xA789 => Some(':'),
        0x037E => Some(';'),
        0x2223 | 0x01C0 => Some('|'),
        0x2010..=0x2012 | 0x2212 => Some('-'),
        0x02CB | 0x1FEF => Some('`'),
        _ => None,
    }
}

/// One label as name servers see it: `xn--` and RFC 3492 when it is not ASCII.
fn ascii_label(label: &str) -> String {
    if label.is_ascii() {
        return label.to_owned();
    }
    punycode(label).map_or_else(|| label.escape_unicode().to_string(), |code| format!("xn--{code}"))
}

/// RFC 3492, section 6.3. `None` when a counter overflows, which only an absurdly long label does.
fn punycode(label: &str) -> Option<String> {
    const BASE: u32 = 36;
    const T_MIN: u32 = 1;
    const T_MAX: u32 = 26;
    let points: Vec<u32> = label.chars().map(u32::from).collect();
    let mut output: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(output.len()).ok()?;
    let mut handled = basic;
    if basic > 0 {
        output.push('-');
    }
    let (mut next, mut delta, mut bias) = (128_u32, 0_u32, 72_u32);
    while (handled as usize) < points.len() {
        let smallest = points.iter().copied().filter(|point| *point >= next).min()?;
        delta = delta.checked_add((smallest - next).checked_mul(handled + 1)?)?;
        next = smallest;
        for point in &points {
            if *point < next {
                delta = delta.checked_add(1)?;
            }
            if *point != next {
                continue;
            }
            let (mut q, mut k) = (delta, BASE);
            loop {
                let t = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
                if q < t {
                    break;
                }
                output.push(digit(t + (q - t) % (BASE - t)));
                q = (q - t) / (BASE - t);
                k += BASE;
            }
            output.push(digit(q));
            bias = adapt(delta, handled + 1, handled == basic);
            delta = 0;
            handled += 1;
        }
        delta = delta.checked_add(1)?;
        next = next.checked_add(1)?;
    }
    Some(output)
}

fn adapt(delta: u32, points: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}

fn digit(value: u32) -> char {
    let code = if value < 26 { u32::from('a') + value } else { u32::from('0') + value - 26 };
    char::from_u32(code).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        lookalikes(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn punycode_gives_the_forms_name_servers_know() {
        assert_eq!(ascii_label("münchen"), "xn--mnchen-3ya");
        assert_eq!(ascii_label("bücher"), "xn--bcher-kva");
        assert_eq!(ascii_label("例え"), "xn--r8jz45g");
        assert_eq!(ascii_label("пример"), "xn--e1afmkfd");
        assert_eq!(ascii_label("plain"), "plain");
    }

    #[test]
    fn one_foreign_letter_in_a_host_is_named() {
        assert_eq!(shown("curl https://p\u{430}ypal.com/x"), ["p\u{430}ypal.com mixes scripts: xn--pypal-4ve.com"]);
        assert_eq!(shown("ls a\u{ff0f}b"), ["\\u{FF0F} looks like /"]);
    }

    #[test]
    fn ordinary_text_of_one_script_is_left_alone() {
        for text in ["curl https://paypal.com", "привет мир", "שלום", "漢字 kana かな", "naïve café", "λόγος"]
        {
            assert_eq!(shown(text), Vec::<String>::new(), "{text}");
        }
    }
}
