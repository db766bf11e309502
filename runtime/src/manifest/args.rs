//! Arguments: their declared types, and the check of one value.

use super::pattern::Pattern;
use stockade_protocol::limits::{ARGUMENT_BYTES, PATH_BYTES};

/// The types this version builds.
#[derive(Debug, Clone)]
pub enum ArgType {
    /// Text that passed the hygiene of [`hygiene`].
    String,
    /// A whole number of 64 bits.
    Integer {
        /// Smallest.
        min: Option<i64>,
        /// Largest.
        max: Option<i64>,
        /// Whether a value out of bounds becomes the nearest bound instead of being refused.
        clamp: bool,
    },
    /// `true` or `false`.
    Boolean,
    /// One of a closed list.
    Enum {
        /// The list.
        allowed: Vec<String>,
    },
    /// A relative path that stays below where it starts, lexically.
    Path,
}

impl ArgType {
    /// The type's word in manifests.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer { .. } => "integer",
            Self::Boolean => "boolean",
            Self::Enum { .. } => "enum",
            Self::Path => "path",
        }
    }
}

/// One declared argument.
#[derive(Debug, Clone)]
pub struct ArgSpec {
    /// Its name.
    pub name: String,
    /// Its place in lists.
    pub position: i64,
    /// Its type.
    pub kind: ArgType,
    /// What it is for, from the manifest.
    pub description: String,
    /// Whether a call must give it.
    pub required: bool,
    /// What it is when a call does not give it; already checked.
    pub default: Option<String>,
    /// What the whole value must match: the argument's own pattern and its type's.
    pub patterns: Vec<Pattern>,
    /// Whether a value may begin with `-` or `+`.
    pub allow_leading_dash: bool,
    /// Whether a value may hold the plain space.
    pub allow_whitespace: bool,
}

/// Why a value is refused, and what to send instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Why.
    pub why: String,
    /// What to send instead.
    pub next: String,
}

fn unfit(why: impl Into<String>, next: impl Into<String>) -> Unfit {
    Unfit { why: why.into(), next: next.into() }
}

impl ArgSpec {
    /// Checks one value and gives its normalized form.
    ///
    /// # Errors
    /// The first rule that the value breaks.
    pub fn check(&self, value: &str) -> Result<String, Unfit> {
        if value.len() > ARGUMENT_BYTES {
            return Err(unfit(format!("it is longer than {ARGUMENT_BYTES} bytes"), "shorten it"));
        }
        if value.contains('\0') {
            return Err(unfit("it holds a NUL", "remove it"));
        }
        let value = match &self.kind {
            ArgType::String => hygiene(value, self.allow_leading_dash, self.allow_whitespace)?.to_owned(),
            ArgType::Path => path(hygiene(value, self.allow_leading_dash, self.allow_whitespace)?)?.to_owned(),
            ArgType::Integer { min, max, clamp } => self.integer(value, *min, *max, *clamp)?,
            ArgType::Boolean => boolean(value)?.to_owned(),
            ArgType::Enum { allowed } => member(value, allowed)?.to_owned(),
        };
        match self.patterns.iter().find(|pattern| !pattern.matches(&value)) {
            Some(pattern) => Err(unfit(
                format!("it does not match the pattern {}", pattern.as_str()),
                "send a value that matches it from its first to its last character",
            )),
            None => Ok(value),
        }
    }

    fn integer(&self, value: &str, min: Option<i64>, max: Option<i64>, clamp: bool) -> Result<String, Unfit> {
        let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unfit("it is not a whole number", "send decimal digits, with a sign if needed"));
        }
        let Ok(mut number) = value.parse::<i64>() else {
            return Err(unfit("it is beyond 64 bits", format!("send a number from {} to {}", i64::MIN, i64::MAX)));
        };
        for (bound, beyond) in [(min, std::cmp::Ordering::Less), (max, std::cmp::Ordering::Greater)] {
            if let Some(bound) = bound
                && number.cmp(&bound) == beyond
            {
                if !clamp {
                    return Err(unfit(format!("{number} is out of bounds"), bounds(min, max)));
                }
                number = bound;
            }
        }
        if number < 0 && !self.allow_leading_dash {
            return Err(unfit("it is negative, so its text begins with `-`", "send a number from 0 upward"));
        }
        Ok(number.to_string())
    }
}

fn bounds(min: Option<i64>, max: Option<i64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("send a number from {min} to {max}"),
        (Some(min), None) => format!("send a number from {min} upward"),
        (None, Some(max)) => format!("send a number up to {max}"),
        (None, None) => String::new(),
    }
}

fn boolean(value: &str) -> Result<&str, Unfit> {
    match value {
        "true" | "false" => Ok(value),
        _ => Err(unfit("it is neither `true` nor `false`", "send one of the two, in lower case")),
    }
}

fn member<'v>(value: &'v str, allowed: &[String]) -> Result<&'v str, Unfit> {
    if allowed.iter().any(|allowed| allowed == value) {
        return Ok(value);
    }
    let list: Vec<String> = allowed.iter().take(32).map(|allowed| format!("`{allowed}`")).collect();
    let more = if allowed.len() > 32 { ", …" } else { "" };
    Err(unfit("it is not one of the allowed values", format!("send one of {}{more}", list.join(", "))))
}

/// The rules every text passes, in this order; nothing is trimmed or changed (source: ToolClad's validators).
///
/// # Errors
/// The first rule that the value breaks: control characters; quotes and backslash; white space; a leading dash or
/// plus; characters that a shell would read; emptiness.
pub fn hygiene(value: &str, leading_dash: bool, whitespace: bool) -> Result<&str, Unfit> {
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        return Err(unfit(format!("it holds the control character U+{:04X}", u32::from(c)), "remove it"));
    }
    if let Some(c) = value.chars().find(|c| matches!(c, '\'' | '"' | '\\')) {
        return Err(unfit(format!("it holds {c}"), "send it without quotes and backslashes"));
    }
    if let Some(c) = value.chars().find(|c| c.is_whitespace() && !(*c == ' ' && whitespace)) {
        let next = if c == ' ' {
            "send it without spaces: the tool does not declare allow_whitespace"
        } else {
            "only the plain space is ever taken"
        };
        return Err(unfit(format!("it holds the white space U+{:04X}", u32::from(c)), next));
    }
    if value.starts_with(['-', '+']) && !leading_dash {
        return Err(unfit("it begins with `-` or `+`, which a program may read as an option", "begin it otherwise"));
    }
    if let Some(c) = value.chars().find(|c| SHELL.contains(c)) {
        return Err(unfit(format!("it holds {c}, which a shell would read"), "remove it"));
    }
    if value.is_empty() {
        return Err(unfit("it is empty", "send a value, or leave the argument out if it is optional"));
    }
    Ok(value)
}

/// Characters that a shell would read.
pub(crate) const SHELL: &[char] = &[';', '|', '&', '$', '`', '(', ')', '{', '}', '[', ']', '<', '>', '!'];

/// A relative path without a way up; its text alone decides, no file is looked at.
fn path(value: &str) -> Result<&str, Unfit> {
    if value.len() > PATH_BYTES {
        return Err(unfit(format!("the path is longer than {PATH_BYTES} bytes"), "shorten it"));
    }
    if value.starts_with('/') {
        return Err(unfit("the path is absolute", "send it relative to the project"));
    }
    if value.split('/').any(|part| part == "..") {
        return Err(unfit("the path goes up with `..`", "send a path that stays below the project"));
    }
    if value.chars().nth(1) == Some(':') && value.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(unfit("the path begins with a drive letter", "send it relative to the project"));
    }
    Ok(value)
}
