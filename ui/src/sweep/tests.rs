use super::*;
use proptest::prelude::*;
use ratatui::layout::Rect;

fn swept(symbols: &[&str], ascii: bool) -> Vec<String> {
    let mut buffer = Buffer::empty(Rect::new(0, 0, symbols.len() as u16, 1));
    for (cell, symbol) in buffer.content.iter_mut().zip(symbols) {
        cell.set_symbol(symbol);
    }
    sweep(&mut buffer, ColorMode::True, ascii);
    buffer.content.iter().map(|cell| cell.symbol().to_owned()).collect()
}

#[test]
fn what_would_not_be_seen_is_replaced_by_something_of_the_same_width() {
    assert_eq!(swept(&["\u{1b}", "a\u{202e}", "\u{200b}", "\u{9b}"], false), ["\u{FFFD}"; 4]);
    assert_eq!(swept(&["\u{a0}", "\u{2003}", "\u{2800}", "x"], false), ["␣", "␣", "␣", "x"]);
    assert_eq!(swept(&["\u{3000}", " ", "x"], false), ["␣", "␣", "x"]);
    assert_eq!(swept(&["\u{1b}", "\u{a0}", "\u{fffd}"], true), ["?", "_", "?"]);
}

#[test]
fn ordinary_symbols_are_left_alone() {
    let symbols = ["a", "é", "漢", " ", "e\u{301}", "│", "🙂", " ", "م"];
    assert_eq!(swept(&symbols, false), symbols);
}

#[test]
fn a_symbol_never_reaches_past_its_cells() {
    assert_eq!(swept(&["a", "漢"], false), ["a", "\u{FFFD}"], "no room for its second half");
    assert_eq!(swept(&["漢", "x", "y"], false), ["漢", " ", "y"], "the second half belongs to the first");
    let heap = format!("a{}", "\u{301}".repeat(40));
    assert_eq!(swept(&[&heap, "b"], false), ["\u{FFFD}", "b"]);
    assert_eq!(swept(&["abc", "d", "e"], false), ["\u{FFFD}", "\u{FFFD}", "e"]);
    assert_eq!(swept(&["", "d"], false), ["\u{FFFD}", "d"]);
}

#[test]
fn ascii_means_ascii() {
    assert_eq!(swept(&["─", "│", "┼", "…", "é", "漢", " "], true), ["-", "|", "+", "~", "?", "?", "?"]);
}

#[test]
fn hidden_text_is_drawn_dim_and_missing_colours_are_replaced() {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 1, 1));
    let cell = buffer.content.first_mut().expect("a cell");
    cell.set_symbol("s").modifier = Modifier::HIDDEN | Modifier::SLOW_BLINK | Modifier::REVERSED;
    cell.fg = Color::Rgb(255, 0, 0);
    sweep(&mut buffer, ColorMode::None, false);
    let cell = buffer.content.first().expect("a cell");
    assert_eq!((cell.symbol(), cell.fg), ("s", Color::Reset));
    assert_eq!(cell.modifier, Modifier::DIM | Modifier::REVERSED);
}

proptest! {
    #[test]
    fn nothing_hidden_is_left_and_every_row_adds_up(
        symbols in proptest::collection::vec(any::<String>().prop_map(|s| s.chars().take(6).collect::<String>()), 1..24),
        ascii in any::<bool>(),
    ) {
        let borrowed: Vec<&str> = symbols.iter().map(String::as_str).collect();
        let swept = swept(&borrowed, ascii);
        let mut at = 0;
        while let Some(symbol) = swept.get(at) {
            prop_assert!(symbol.chars().all(|c| !is_hidden(c)), "{symbol:?}");
            prop_assert!(symbol.len() <= SYMBOL_BYTES);
            prop_assert!(!ascii || symbol.is_ascii());
            let columns = symbol.width();
            prop_assert!((1..=2).contains(&columns), "{symbol:?}");
            at += columns;
        }
        prop_assert_eq!(at, swept.len(), "no symbol reaches past the row");
    }
}
