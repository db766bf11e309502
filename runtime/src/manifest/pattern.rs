//! Patterns: regular expressions that must match a whole text, compiled once, bounded before they are compiled.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Flag, FlagsItemKind};
use stockade_protocol::limits::{PATTERN_BYTES, PATTERN_COMPILED_BYTES};

/// Deepest nesting of groups, repetitions and classes.
const NEST: u32 = 32;
/// Memory a match may use for its automaton's cache, bytes.
const MATCH_BYTES: usize = 256 * 1024;

/// A pattern that matches whole texts only, in time linear in the text.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    regex: Regex,
}

/// A pattern that is refused at load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`PATTERN_BYTES`].
    #[error("the pattern is {0} bytes long: at most {PATTERN_BYTES} are taken")]
    Long(usize),
    /// Not a regular expression.
    #[error("not a regular expression: {0}")]
    Syntax(String),
    /// A flag that changes what anchors, blanks or line ends mean.
    #[error("the flag `{0}` would change what anchors, blanks or line ends in the pattern mean")]
    Flag(char),
    /// Compiled, it would be larger than [`PATTERN_COMPILED_BYTES`].
    #[error("the pattern is too large: compiled it would pass {} KiB", PATTERN_COMPILED_BYTES / 1024)]
    Large,
}

impl PatternError {
    /// What to write instead.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Long(_) => "shorten it",
            Self::Syntax(_) => "see https://docs.rs/regex/latest/regex/#syntax",
            Self::Flag(_) => "remove the flag: a pattern always has to match the whole text",
            Self::Large => "use smaller repetitions, and classes such as [0-9A-Za-z_] instead of \\w",
        }
    }
}

impl Pattern {
    /// Compiles a pattern as `\A(?:pattern)\z`.
    ///
    /// # Errors
    /// When it is too long, does not parse by itself, uses the flags `m`, `x` or `R`, nests too deep or compiles to
    /// more than [`PATTERN_COMPILED_BYTES`]. Each is found before much work is done.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        if source.len() > PATTERN_BYTES {
            return Err(PatternError::Long(source.len()));
        }
        let tree = ast::parse::ParserBuilder::new()
            .nest_limit(NEST)
            .build()
            .parse(source)
            .map_err(|error| PatternError::Syntax(error.kind().to_string()))?;
        if let Err(flag) = ast::visit(&tree, AnchorFlags) {
            return Err(PatternError::Flag(flag));
        }
        // The pattern parsed by itself, so no unbalanced bracket of it can end the group around it.
        let regex = RegexBuilder::new(&format!(r"\A(?:{source})\z"))
            .size_limit(PATTERN_COMPILED_BYTES)
            .dfa_size_limit(MATCH_BYTES)
            .nest_limit(NEST + 4)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::Large,
                error => PatternError::Syntax(error.to_string()),
            })?;
        Ok(Self { source: source.to_owned(), regex })
    }

    /// Whether the whole text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as the manifest has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

/// Finds flags that would let part of a pattern mean something else than it shows.
struct AnchorFlags;

impl AnchorFlags {
    fn check(flags: &ast::Flags) -> Result<(), char> {
        for item in &flags.items {
            match item.kind {
                FlagsItemKind::Flag(Flag::MultiLine) => return Err('m'),
                FlagsItemKind::Flag(Flag::IgnoreWhitespace) => return Err('x'),
                FlagsItemKind::Flag(Flag::CRLF) => return Err('R'),
                _ => {}
            }
        }
        Ok(())
    }
}

impl ast::Visitor for AnchorFlags {
    type Output = ();
    type Err = char;

    fn finish(self) -> Result<(), char> {
        Ok(())
    }

    fn visit_pre(&mut self, tree: &ast::Ast) -> Result<(), char> {
        match tree {
            ast::Ast::Flags(set) => Self::check(&set.flags),
            ast::Ast::Group(group) => group.flags().map_or(Ok(()), Self::check),
            _ => Ok(()),
        }
    }
}
