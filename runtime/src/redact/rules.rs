//! The forms of well-known secrets.
//!
//! A rule is a row of items, each a class of bytes and how often it may come; it is followed byte by byte and never
//! goes back. The first part, the lead (`password = `, `ghp_`), is no secret and is passed on at once; only what
//! follows it can be held back. So a prompt that ends in a lead is not delayed.

use std::sync::LazyLock;

/// A set of byte values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set([u64; 4]);

impl Set {
    const NONE: Self = Self([0; 4]);

    pub(super) const fn has(&self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] & (1 << (byte & 63)) != 0
    }

    const fn with(mut self, byte: u8) -> Self {
        self.0[(byte >> 6) as usize] |= 1 << (byte & 63);
        self
    }

    fn of(bytes: impl IntoIterator<Item = u8>) -> Self {
        bytes.into_iter().fold(Self::NONE, Self::with)
    }

    fn except(self, bytes: &[u8]) -> Self {
        Self::of((0..=u8::MAX).filter(|byte| self.has(*byte) && !bytes.contains(byte)))
    }

    pub(super) fn or(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a | e, b | f, c | g, d | h])
    }
}

/// One item of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) set: Set,
    pub(super) min: u16,
    pub(super) max: u16,
}

/// What belongs to a secret once its form is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Everything of this class.
    Class(Set),
    /// Everything up to five dashes, the end of a private key block.
    Dashes,
    /// Nothing: the last byte of the form (an `@`) is no part of the secret either.
    GiveBack,
}

/// One form.
#[derive(Debug)]
pub(super) struct Rule {
    /// The word in the replacement.
    pub(super) name: &'static str,
    /// Whether a letter, digit or underscore before it means that it is something else.
    pub(super) boundary: bool,
    pub(super) items: Vec<Item>,
    /// The first item that is secret.
    pub(super) secret: usize,
    pub(super) tail: Tail,
    /// Whether it is an assignment to a telling name.
    pub(super) assignment: bool,
}

/// All rules, and which of them begin with which three bytes.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    starts: Vec<Vec<u16>>,
    /// One bit a slot: whether any rule starts there.
    taken: Vec<u64>,
}

/// How many leading bytes a rule is looked up by. Each rule begins with that many single bytes.
pub(super) const LOOKUP: usize = 3;

impl Rules {
    /// The rules whose first three bytes these may be; the case of letters is not looked at.
    pub(super) fn starting(&self, last: [u8; LOOKUP]) -> &[u16] {
        self.starts.get(slot(last)).map_or(&[], Vec::as_slice)
    }

    /// How many bytes pass, after those before them, until one may complete the beginning of a rule.
    pub(super) fn plain(&self, before: [u8; LOOKUP], bytes: &[u8]) -> usize {
        let mut slot = slot(before);
        for (at, byte) in bytes.iter().enumerate() {
            slot = (slot << 5 | usize::from(byte & 31)) & (SLOTS - 1);
            if self.taken[slot >> 6] >> (slot & 63) & 1 == 1 {
                return at;
            }
        }
        bytes.len()
    }
}

/// Five bits of each byte that rules are looked up by.
const SLOTS: usize = 1 << (5 * LOOKUP);

fn slot(last: [u8; LOOKUP]) -> usize {
    last.iter().fold(0, |slot, byte| slot << 5 | usize::from(byte & 31))
}

/// The standard rules.
pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules = Vec::new();
    providers(&mut rules);
    headers(&mut rules);
    assignments(&mut rules);
    let mut starts = vec![Vec::new(); SLOTS];
    for (at, rule) in rules.iter().enumerate() {
        let first: Vec<&Set> = rule.items.iter().take(LOOKUP).map(|item| &item.set).collect();
        let &[a, b, c] = first.as_slice() else { continue };
        let any = |set: &Set| (0..=u8::MAX).find(|byte| set.has(*byte)).unwrap_or_default();
        if let (Some(list), Ok(at)) = (starts.get_mut(slot([any(a), any(b), any(c)])), u16::try_from(at)) {
            list.push(at);
        }
    }
    let mut taken = vec![0; SLOTS / 64];
    for (slot, word) in
        starts.iter().zip(0..SLOTS).filter_map(|(list, slot)| (!list.is_empty()).then_some((slot, slot >> 6)))
    {
        taken[word] |= 1_u64 << (slot & 63);
    }
    Rules { rules, starts, taken }
});

fn word() -> Set {
    Set::of((0..=u8::MAX).filter(u8::is_ascii_alphanumeric))
}

/// Letters, digits and these.
fn word_and(more: &[u8]) -> Set {
    word().or(Set::of(more.iter().copied()))
}

fn times(set: Set, min: u16, max: u16) -> Item {
    Item { set, min, max }
}

/// Exactly this text.
fn exact(text: &str) -> Vec<Item> {
    text.bytes().map(|byte| times(Set::of([byte]), 1, 1)).collect()
}

/// This text in any case; `?` stands for an optional `-` or `_`.
fn any_case(text: &str) -> Vec<Item> {
    let item = |byte: u8| match byte {
        b'?' => times(Set::of(*b"_-"), 0, 1),
        other => times(Set::of([other.to_ascii_lowercase(), other.to_ascii_uppercase()]), 1, 1),
    };
    text.bytes().map(item).collect()
}

fn blanks(min: u16, max: u16) -> Item {
    times(Set::of(*b" \t"), min, max)
}

/// A lead, and a secret of at least `min` bytes of one class.
fn prefixed(name: &'static str, lead: Vec<Item>, class: Set, min: u16) -> Rule {
    let secret = lead.len();
    let mut items = lead;
    items.push(times(class, min, min));
    Rule { name, boundary: true, items, secret, tail: Tail::Class(class), assignment: false }
}

/// Keys and tokens that are known by how they begin.
fn providers(rules: &mut Vec<Rule>) {
    let upper = Set::of((0..=u8::MAX).filter(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()));
    for lead in ["AKIA", "ASIA", "ABIA", "ACCA"] {
        rules.push(prefixed("aws-key", exact(lead), upper, 16));
    }
    let token = word_and(b"_-");
    for lead in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"] {
        rules.push(prefixed("github-token", exact(lead), token, 20));
    }
    for lead in ["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"] {
        rules.push(prefixed("gitlab-token", exact(lead), token.or(Set::of(*b".")), 16));
    }
    for lead in ["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xapp-"] {
        rules.push(prefixed("slack-token", exact(lead), token.or(Set::of(*b".")), 10));
    }
    for lead in ["sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_"] {
        rules.push(prefixed("api-key", exact(lead), token, 20));
    }
    rules.push(prefixed("google-key", exact("AIza"), token, 30));
    rules.push(prefixed("npm-token", exact("npm_"), word(), 30));
    rules.push(prefixed("pypi-token", exact("pypi-"), token, 40));
    rules.push(prefixed("huggingface-token", exact("hf_"), word(), 30));
    rules.push(web_token());
    rules.push(url_password());
    for kind in ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "] {
        rules.push(private_key(&format!("BEGIN {kind}PRIVATE KEY-----")));
    }
    rules.push(private_key("BEGIN PGP PRIVATE KEY BLOCK-----"));
}

/// A JSON web token: two parts that are JSON in base64url, and a signature.
fn web_token() -> Rule {
    let part = word_and(b"_-");
    let mut items = exact("eyJ");
    let secret = items.len();
    items.push(times(part, 8, 512));
    items.extend(exact(".eyJ"));
    Rule {
        name: "web-token",
        boundary: true,
        items,
        secret,
        tail: Tail::Class(part.or(Set::of(*b"."))),
        assignment: false,
    }
}

/// The password in `scheme://user:password@host`.
fn url_password() -> Rule {
    let user = word_and(b"_-.%+");
    let mut items = exact("://");
    items.push(times(user, 1, 64));
    items.extend(exact(":"));
    let secret = items.len();
    let printable = Set::of(0x21..=0x7e_u8);
    items.push(times(printable.except(b"/@\"'`<>\\"), 1, 128));
    items.extend(exact("@"));
    Rule { name: "url-password", boundary: false, items, secret, tail: Tail::GiveBack, assignment: false }
}

fn private_key(lead: &str) -> Rule {
    let mut items = exact(lead);
    let secret = items.len();
    items.push(times(Set::of(0..=u8::MAX), 6, 6));
    Rule { name: "private-key", boundary: false, items, secret, tail: Tail::Dashes, assignment: false }
}

/// Credentials in HTTP headers.
fn headers(rules: &mut Vec<Rule>) {
    let mut bearer = any_case("bearer");
    bearer.push(blanks(1, 4));
    rules.push(prefixed("bearer-token", bearer, word_and(b"._~+/=-"), 16));

    let mut basic = any_case("authorization");
    basic.push(times(Set::of(*b"\"'\\"), 0, 2));
    basic.push(blanks(0, 4));
    basic.push(times(Set::of(*b":="), 1, 1));
    basic.push(blanks(0, 4));
    basic.push(times(Set::of(*b"\"'\\"), 0, 2));
    basic.extend(any_case("basic"));
    basic.push(blanks(1, 4));
    rules.push(prefixed("credentials", basic, word_and(b"+/=_-"), 6));
}

/// `password = value` and the like: in configuration, JSON, YAML, shells, URLs and headers.
fn assignments(rules: &mut Vec<Rule>) {
    let names = [
        ("password", "password"),
        ("passwd", "password"),
        ("passphrase", "password"),
        ("pwd", "password"),
        ("secret", "secret"),
        ("token", "secret"),
        ("credential", "secret"),
        ("api?key", "secret"),
        ("access?key", "secret"),
        ("private?key", "secret"),
    ];
    for (word, name) in names {
        for suffixed in [false, true] {
            let mut lead = any_case(word);
            if suffixed {
                lead.push(times(Set::of(*b"_-"), 1, 1));
                lead.push(times(word_and(b"_-"), 0, 24));
            }
            lead.push(times(Set::of(*b"\"'\\"), 0, 2));
            lead.push(blanks(0, 8));
            lead.push(times(Set::of(*b":="), 1, 2));
            lead.push(times(Set::of(*b">"), 0, 1));
            lead.push(blanks(0, 8));
            let quotes = b"\"'`\\";
            // Printable ASCII and every byte of a longer character.
            let visible = Set::of(0x21..=0xff_u8).except(b"\x7f");
            rules.push(assigned(name, lead.clone(), visible.except(quotes).except(b"&")));
            lead.push(times(Set::of(*quotes), 1, 3));
            rules.push(assigned(name, lead, visible.or(Set::of(*b" \t")).except(quotes)));
        }
    }
}

fn assigned(name: &'static str, lead: Vec<Item>, class: Set) -> Rule {
    Rule { boundary: false, assignment: true, ..prefixed(name, lead, class, 6) }
}
