//! Goal: rows show every character of a card. Method: arbitrary cards at every width.

use super::rows;
use crate::fixture::card;
use crate::theme::{Glyphs, Theme};
use crate::view::ink::Ink;
use proptest::prelude::*;
use stockade_protocol::card::{Card, Field};
use stockade_protocol::text::{SafeText, is_hidden};

fn ink(ascii: bool) -> Ink {
    Ink { theme: Theme::dark(), glyphs: Glyphs::new(ascii), ascii }
}

fn shown(card: &Card, width: usize, ascii: bool) -> Vec<String> {
    rows(card, width, &ink(ascii)).iter().map(|row| row.line.text()).collect()
}

proptest! {
    #[test]
    fn every_character_is_in_the_rows_and_no_row_is_too_wide(value in any::<String>(), width in 24_usize..130) {
        let card = Card { title: "t".into(), facts: vec![Field::one("command", value.clone())], claims: vec![], warnings: vec![] };
        let rows = rows(&card, width, &ink(false));
        prop_assert_eq!(rows.iter().map(|row| row.characters).sum::<usize>(), value.chars().count() + 1);
        for row in &rows {
            prop_assert!(row.line.width() <= width, "{:?}", row.line.text());
            prop_assert!(row.line.text().chars().all(|c| !is_hidden(c)));
        }
        let flat = |text: &str| text.chars().filter(|c| !matches!(c, ' ' | '·')).collect::<String>();
        let text: String = rows.iter().skip(2).map(|row| row.line.text().chars().skip(9).collect::<String>()).collect();
        prop_assert!(flat(&text).contains(&flat(&SafeText::folded(&value).to_string())));
    }

    #[test]
    fn ascii_rows_are_ascii(value in any::<String>(), width in 20_usize..130) {
        for row in shown(&card(&value, &value), width, true) {
            prop_assert!(row.is_ascii(), "{}", row);
        }
    }
}

#[test]
fn labels_stand_in_one_column_and_long_ones_in_a_row_of_their_own() {
    let mut long = card("ls", "because");
    long.facts.push(Field::one("a label that is far too long", "value"));
    let rows = shown(&long, 40, false);
    assert!(rows.contains(&"command           ls                 2 B".to_owned()), "{rows:#?}");
    let at = rows.iter().position(|row| row == "a label that is far too long").expect("the label");
    assert_eq!(rows[at + 1], "                  value");
    assert!(rows.contains(&"┆ reason  because".to_owned()), "{rows:#?}");
}

#[test]
fn what_will_run_fills_its_rows_and_everything_else_breaks_at_blanks() {
    let text = "one two three four five six seven eight nine ten";
    let rows = shown(&card(text, text), 40, false);
    let of = |first: &str| rows.iter().skip_while(|row| !row.starts_with(first)).take(2).cloned().collect::<Vec<_>>();
    assert_eq!(of("command"), ["command   one two three four five six se", "          ven eight nine ten        48 B"]);
    assert_eq!(of("┆ reason"), ["┆ reason  one two three four five six ", "┆         seven eight nine ten"]);
}

#[test]
fn narrow_cards_still_show_everything() {
    for width in 1..20 {
        let text = shown(&card("DROP TABLE invoices_2019", "x"), width, false).concat();
        let flat: String = text.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
        assert!(flat.contains("DROPTABLEinvoices_2019") || width < 14, "{width}: {text}");
    }
}
