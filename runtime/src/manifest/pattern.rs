//! Patterns: regular expressions that must match a whole text, compiled once, bounded before they are compiled.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Flag, FlagsItemKind};
use std::ops::Range;
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
            Self::Large => "use `+` instead of a large count, and small classes such as [0-9A-Za-z_]",
        }
    }
}

impl Pattern {
    /// Compiles a pattern as `\A(?:pattern)\z`. In it `\d`, `\w` and `\s` mean ASCII only; where one stands in a
    /// negation it keeps its wide meaning, so that the pattern only ever takes less than it would.
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
        let classes = ast::visit(&tree, Walk::default()).map_err(PatternError::Flag)?;
        // The pattern parsed by itself, so no unbalanced bracket of it can end the group around it.
        let regex = RegexBuilder::new(&format!(r"\A(?:{})\z", ascii_classes(source, &classes)))
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

/// Puts ASCII classes where `\d`, `\w` and `\s` stand at these places.
fn ascii_classes(source: &str, places: &[(Range<usize>, &str)]) -> String {
    let mut text = String::with_capacity(source.len() + 16 * places.len());
    let mut from = 0;
    for (place, class) in places {
        text.push_str(source.get(from..place.start).unwrap_or_default());
        text.push_str(class);
        from = place.end;
    }
    text.push_str(source.get(from..).unwrap_or_default());
    text
}

/// Walks a pattern: finds flags that would let part of it mean something else than it shows, and the places of
/// `\d`, `\w` and `\s` that are not part of a negation.
#[derive(Default)]
struct Walk {
    classes: Vec<(Range<usize>, &'static str)>,
    /// For each class that is open: whether it, or one around it, takes things away.
    negations: Vec<bool>,
}

impl Walk {
    fn flags(flags: &ast::Flags) -> Result<(), char> {
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

    fn negated(&self) -> bool {
        self.negations.last().copied().unwrap_or(false)
    }

    fn class(&mut self, class: &ast::ClassPerl) {
        if !class.negated && !self.negated() {
            let ascii = match class.kind {
                ast::ClassPerlKind::Digit => "[0-9]",
                ast::ClassPerlKind::Word => "[0-9A-Za-z_]",
                ast::ClassPerlKind::Space => r"[\t\n\v\f\r ]",
            };
            self.classes.push((class.span.start.offset..class.span.end.offset, ascii));
        }
    }
}

impl ast::Visitor for Walk {
    type Output = Vec<(Range<usize>, &'static str)>;
    type Err = char;

    fn finish(mut self) -> Result<Self::Output, char> {
        self.classes.sort_by_key(|(place, _)| place.start);
        Ok(self.classes)
    }

    fn visit_pre(&mut self, tree: &ast::Ast) -> Result<(), char> {
        match tree {
            ast::Ast::Flags(set) => Self::flags(&set.flags)?,
            ast::Ast::Group(group) => group.flags().map_or(Ok(()), Self::flags)?,
            ast::Ast::ClassPerl(class) => self.class(class),
            ast::Ast::ClassBracketed(class) => self.negations.push(class.negated),
            _ => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, tree: &ast::Ast) -> Result<(), char> {
        if matches!(tree, ast::Ast::ClassBracketed(_)) {
            self.negations.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ast::ClassSetItem) -> Result<(), char> {
        match item {
            ast::ClassSetItem::Perl(class) => self.class(class),
            ast::ClassSetItem::Bracketed(class) => self.negations.push(self.negated() || class.negated),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_post(&mut self, item: &ast::ClassSetItem) -> Result<(), char> {
        if matches!(item, ast::ClassSetItem::Bracketed(_)) {
            self.negations.pop();
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ast::ClassSetBinaryOp) -> Result<(), char> {
        // Of a difference one side takes away; the classes of both keep their meaning.
        self.negations.push(true);
        Ok(())
    }

    fn visit_class_set_binary_op_post(&mut self, _: &ast::ClassSetBinaryOp) -> Result<(), char> {
        self.negations.pop();
        Ok(())
    }
}
