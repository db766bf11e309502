//! The approval card: the exact text a person is shown before signing.
//!
//! The runtime builds a card from the frozen contract and journals it with the question. Screens draw all of it and
//! nothing else; the receipt binds the digest of what was drawn, and the runtime refuses a receipt over any other.

use crate::digest::Digest;
use crate::text::{SafeText, is_hidden};
use serde::{Deserialize, Serialize};

/// Labels of the facts that say what will happen. A card without any of them, or with nothing in them, is malformed and
/// cannot be approved.
pub const ACTS: [&str; 3] = ["command", "argv", "hands over"];

/// A card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// One line naming the act, e.g. `agent nightly-report asks to run report.save`.
    pub title: String,
    /// Facts the runtime knows, in the order to draw them.
    pub facts: Vec<Field>,
    /// What the agent or the tool says; drawn apart, marked untrusted, never styled.
    pub claims: Vec<Field>,
    /// What to be wary of, e.g. `3 hidden characters in command`.
    pub warnings: Vec<String>,
}

/// One labelled field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The label, stockade's own word.
    pub label: String,
    /// The value's lines: an argv has one argument a line; every other value has one. Each may hold anything.
    pub lines: Vec<String>,
}

impl Field {
    /// A field of one line.
    #[must_use]
    pub fn one(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), lines: vec![value.into()] }
    }

    /// A field of several lines.
    #[must_use]
    pub fn many(label: impl Into<String>, lines: Vec<String>) -> Self {
        Self { label: label.into(), lines }
    }
}

impl Card {
    /// The exact text: a line for the title, one for each field's line with its label, claims under a rule, warnings.
    /// Every value is made safe, so two different values never give the same text by hiding something.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", SafeText::line(&self.title));
        let mut fields = |fields: &[Field], gutter: &str| {
            for field in fields {
                for (at, line) in field.lines.iter().enumerate() {
                    text.push_str(gutter);
                    text.push_str(&field.label);
                    text.push_str(&format!("[{at}]: {}\n", SafeText::line(line)));
                }
            }
        };
        fields(&self.facts, "");
        fields(&self.claims, "┆ ");
        for warning in &self.warnings {
            text.push_str(&format!("! {}\n", SafeText::line(warning)));
        }
        text
    }

    /// Whether it says what will happen: one of [`ACTS`] is among its facts and holds something that can be seen.
    #[must_use]
    pub fn names_act(&self) -> bool {
        let seen = |line: &String| line.chars().any(|c| !c.is_whitespace() && !is_hidden(c));
        self.facts.iter().any(|fact| ACTS.contains(&fact.label.as_str()) && fact.lines.iter().any(seen))
    }

    /// The digest that a receipt's `shown` must equal.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(facts: Vec<Field>) -> Card {
        Card { title: "t".into(), facts, claims: Vec::new(), warnings: Vec::new() }
    }

    #[test]
    fn a_card_names_an_act_only_when_something_of_it_can_be_seen() {
        assert!(card(vec![Field::one("command", "ls")]).names_act());
        assert!(card(vec![Field::many("argv", vec!["git".into(), String::new()])]).names_act());
        assert!(!card(vec![Field::one("command", " \u{200b}\n")]).names_act());
        assert!(!card(vec![Field::one("runs in", "native")]).names_act());
        assert!(!card(Vec::new()).names_act());
    }

    #[test]
    fn other_boundaries_between_arguments_give_another_digest() {
        let joined = card(vec![Field::many("argv", vec!["git".into(), "push --force".into()])]);
        let split = card(vec![Field::many("argv", vec!["git".into(), "push".into(), "--force".into()])]);
        assert_ne!(joined.digest(), split.digest());
    }
}
