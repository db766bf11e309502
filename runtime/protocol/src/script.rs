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
    /// Every letter of it is of another script, and each looks like a Latin one.
    Imitates {
        /// The Latin word it reads like.
        like: String,
        /// The form that name servers see.
        ascii: String,
    },
    /// It holds letters that are written from right to left: a terminal may draw them, and what stands beside them, in
    /// another order.
    RightToLeft,
    /// There is more like this than is told.
    More,
}

impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = crate::text::SafeText::line(&self.word);
        match &self.why {
            Why::MixedScripts { ascii } => write!(f, "{word} mixes scripts: {ascii}"),
            Why::Sign { sign, like } => write!(f, "\\u{{{:04X}}} looks like {like}", u32::from(*sign)),
            Why::Imitates { like, ascii } => write!(f, "{word} is not Latin and reads like {like}: {ascii}"),
            Why::RightToLeft => {
                write!(f, "{word} is written right to left: it and what is beside it may be shown in another order")
            }
            Why::More => write!(f, "more of it looks like something else"),
        }
    }
}

/// Most findings told of one text; more would not be read, so one that only says so stands for the rest.
pub const FINDINGS: usize = 16;

/// The words and signs of a text that look like others, in order, at most [`FINDINGS`] and one that says that
/// there are more.
#[must_use]
pub fn lookalikes(text: &str) -> Vec<Lookalike> {
    let mut found = lookalike_words(text);
    for sign in text.chars() {
        if let Some(like) = ascii_twin(sign) {
            push(&mut found, Lookalike { word: sign.to_string(), why: Why::Sign { sign, like } });
        }
    }
    found
}

/// As [`lookalikes`], of words alone: for prose, whose quotes and dashes imitate nothing that runs.
#[must_use]
pub fn lookalike_words(text: &str) -> Vec<Lookalike> {
    let mut found: Vec<Lookalike> = Vec::new();
    for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        let ascii = || word.split('.').map(ascii_label).collect::<Vec<_>>().join(".");
        if word.split('.').any(is_mixed) {
            push(&mut found, Lookalike { word: word.to_owned(), why: Why::MixedScripts { ascii: ascii() } });
        } else if let Some(like) = imitated(word) {
            push(&mut found, Lookalike { word: word.to_owned(), why: Why::Imitates { like, ascii: ascii() } });
        }
        if word.chars().any(is_right_to_left) {
            push(&mut found, Lookalike { word: word.to_owned(), why: Why::RightToLeft });
        }
    }
    found
}

fn push(found: &mut Vec<Lookalike>, new: Lookalike) {
    if found.len() > FINDINGS || found.contains(&new) {
        return;
    }
    let why = if found.len() == FINDINGS { Why::More } else { new.why };
    found.push(Lookalike { word: new.word, why });
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Cherokee,
    Coptic,
    Lisu,
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
        0x13A0..=0x13FF | 0xAB70..=0xABBF => Script::Cherokee,
        0x2C80..=0x2CFF => Script::Coptic,
        0xA4D0..=0xA4FF => Script::Lisu,
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

/// Cyrillic, Greek and Armenian letters, each before the Latin one it looks like.
const TWINS: &str = "аaеeоoрpсcуyхxѕsіiјjһhԁdԛqԝwӏlкkпnтtмmвbгrАAВBЕEЅSІIЈJКKМMНHОOРPСCТTУYХXҮYӀIԌGԚQԜW\
                     αaνvοoρpιiκkυuχxγyΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXօoսuոnհhցgզqՕOՏSԼL";

/// The Latin word that a word reads like of which some label has no letter that is Latin, and only such as look so.
fn imitated(word: &str) -> Option<String> {
    let twin = |letter: char| {
        let mut twins = TWINS.chars();
        std::iter::from_fn(|| Some((twins.next()?, twins.next()?)))
            .find_map(|(of, like)| (of == letter).then_some(like))
    };
    let label = |label: &str| -> Option<String> {
        label.chars().map(|c| if c.is_ascii() && !c.is_alphabetic() { Some(c) } else { twin(c) }).collect()
    };
    let imitates = |text: &&str| text.chars().any(char::is_alphabetic) && label(text).is_some();
    word.split('.').find(imitates)?;
    Some(word.split('.').map(|text| label(text).unwrap_or_else(|| text.to_owned())).collect::<Vec<_>>().join("."))
}

/// Letters and digits of scripts that are written from right to left.
const fn is_right_to_left(c: char) -> bool {
    matches!(c as u32, 0x590..=0x8FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFC | 0x1_0800..=0x1_0FFF | 0x1_E800..=0x1_EFFF)
}

/// The ASCII sign that a sign outside ASCII imitates.
fn ascii_twin(c: char) -> Option<char> {
    let nth = |text: &str, at: u32| text.chars().nth(at as usize);
    match u32::from(c) {
        code @ 0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0),
        code @ 0x1_D400..=0x1_D6A3 => {
            nth("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", (code - 0x1_D400) % 52)
        }
        code @ 0x1_D7CE..=0x1_D7FF => nth("0123456789", (code - 0x1_D7CE) % 10),
        code @ 0x2160..=0x217F => match code & 0xF {
            0x0 => nth("Ii", (code >> 4) & 1),
            0x4 => nth("Vv", (code >> 4) & 1),
            0x9 => nth("Xx", (code >> 4) & 1),
            0xC => nth("Ll", (code >> 4) & 1),
            0xD => nth("Cc", (code >> 4) & 1),
            0xE => nth("Dd", (code >> 4) & 1),
            0xF => nth("Mm", (code >> 4) & 1),
            _ => None,
        },
        code @ 0x2768..=0x2775 => nth("()()<><><>[]{}", code - 0x2768),
        0x2102 => Some('C'),
        0x210A | 0x0261 => Some('g'),
        0x210B..=0x210D => Some('H'),
        0x210E => Some('h'),
        0x2110 | 0x2111 => Some('I'),
        0x2112 => Some('L'),
        0x2113 => Some('l'),
        0x2115 => Some('N'),
        0x2119 | 0x211A => nth("PQ", u32::from(c) - 0x2119),
        0x211B..=0x211D => Some('R'),
        0x2124 => Some('Z'),
        0x212A => Some('K'),
        0x212F => Some('e'),
        0x2134 | 0x1D0F => Some('o'),
        0x0131 | 0x0269 | 0x2139 => Some('i'),
        0x0251 => Some('a'),
        0x1D04 => Some('c'),
        0x1D20..=0x1D22 => nth("vwz", u32::from(c) - 0x1D20),
        0x2215 | 0x2044 | 0x29F8 | 0x2571 | 0x1735 => Some('/'),
        0x2216 | 0x29F5 | 0x29F9 | 0x2572 => Some('\\'),
        0x2024 => Some('.'),
        0x201A => Some(','),
        0x2236 | 0xA789 | 0x0589 | 0x05C3 | 0x02D0 => Some(':'),
        0x037E => Some(';'),
        0x2223 | 0x01C0 | 0x2502 | 0x2758 => Some('|'),
        0x01C3 => Some('!'),
        0x2010..=0x2013 | 0x2212 | 0x02D7 => Some('-'),
        0x02CB | 0x1FEF => Some('`'),
        0x2018 | 0x2019 | 0x201B | 0x2032 | 0x02B9 | 0x02BC | 0x02C8 => Some('\''),
        0x201C | 0x201D | 0x201F | 0x2033 | 0x02BA => Some('"'),
        0x2039 | 0x02C2 => Some('<'),
        0x203A | 0x02C3 => Some('>'),
        0x2217 | 0x204E | 0x066D => Some('*'),
        0x223C | 0x02DC => Some('~'),
        0x02C6 => Some('^'),
        0x066A => Some('%'),
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
    fn a_word_of_another_script_that_reads_like_a_latin_one_is_named() {
        let sosa = "\u{0441}\u{043e}\u{0441}\u{0430}.com";
        assert_eq!(
            shown(&format!("curl {sosa}")),
            [format!("{sosa} is not Latin and reads like coca.com: xn--80a1aib.com")]
        );
        for (text, like) in [("rm\u{1d5ba}", 'a'), ("paypa\u{217c}", 'l'), ("\u{1d7d6}", '8'), ("\u{2018}x", '\'')] {
            assert!(shown(text).iter().any(|found| found.ends_with(&format!("looks like {like}"))), "{text}");
        }
        assert!(shown("\u{13a1}m").first().is_some_and(|found| found.contains("mixes scripts")));
    }

    #[test]
    fn letters_that_a_terminal_may_draw_in_another_order_are_named() {
        let found = shown("cp \u{05d0}1 2\u{05d1} out");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|found| found.contains("right to left")), "{found:?}");
    }

    #[test]
    fn findings_beyond_the_bound_are_said_to_be_there() {
        let many: String = (0xFF01..=0xFF5E).filter_map(char::from_u32).collect();
        let found = shown(&many);
        assert_eq!(found.len(), FINDINGS + 1);
        assert_eq!(found.last().map(String::as_str), Some("more of it looks like something else"));
    }

    #[test]
    fn ordinary_text_of_one_script_is_left_alone() {
        for text in ["curl https://paypal.com", "привет мир", "漢字 kana かな", "naïve café", "λόγος", "a-b_1.2"]
        {
            assert_eq!(shown(text), Vec::<String>::new(), "{text}");
        }
    }
}
