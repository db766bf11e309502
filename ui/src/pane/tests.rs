//! What panes show, and that no bytes and no sizes break them.

use super::*;
use proptest::prelude::*;

fn pane(bytes: &[u8]) -> Pane {
    let mut pane = Pane::new(20, 4);
    pane.advance(bytes);
    pane
}

fn drawn(pane: &Pane, look: &Look) -> Buffer {
    let (columns, rows) = pane.size();
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    pane.draw(buffer.area, &mut buffer, look);
    buffer
}

fn cell(buffer: &Buffer, x: u16, y: u16) -> &ratatui::buffer::Cell {
    buffer.cell((x, y)).expect("inside")
}

const TRUE: Look = Look { offset: 0, color: ColorMode::True, ascii: false };

#[test]
fn a_program_draws_into_its_pane() {
    let pane = pane(b"one\r\ntwo\x1b[4;3Hfour");
    assert_eq!(pane.text(), ["one", "two", "", "  four"]);
    assert_eq!(pane.cursor(), Some(Cursor { column: 6, row: 3, visible: true }));
}

#[test]
fn colours_and_attributes_are_kept_as_far_as_the_terminal_has_them() {
    let pane = pane(b"\x1b[1;4;31mR\x1b[0;7;38;5;208mO\x1b[0;38;2;1;2;3;48;5;15mT\x1b[0;3;9;2mA");
    let buffer = drawn(&pane, &TRUE);
    assert_eq!(cell(&buffer, 0, 0).fg, Color::Red);
    assert_eq!(cell(&buffer, 0, 0).modifier, Modifier::BOLD | Modifier::UNDERLINED);
    assert_eq!(cell(&buffer, 1, 0).fg, Color::Indexed(208));
    assert_eq!(cell(&buffer, 1, 0).modifier, Modifier::REVERSED);
    assert_eq!((cell(&buffer, 2, 0).fg, cell(&buffer, 2, 0).bg), (Color::Rgb(1, 2, 3), Color::White));
    assert_eq!(cell(&buffer, 3, 0).modifier, Modifier::ITALIC | Modifier::CROSSED_OUT | Modifier::DIM);
    let plain = drawn(&pane, &Look { color: ColorMode::None, ..TRUE });
    for x in 0..4 {
        assert_eq!((cell(&plain, x, 0).fg, cell(&plain, x, 0).bg), (Color::Reset, Color::Reset));
        assert_eq!(cell(&plain, x, 0).modifier, cell(&buffer, x, 0).modifier, "attributes stay");
    }
}

#[test]
fn attributes_end_one_by_one_and_all_at_once() {
    let all = Modifier::BOLD | Modifier::ITALIC | Modifier::UNDERLINED | Modifier::REVERSED | Modifier::CROSSED_OUT;
    let buffer = drawn(&pane(b"\x1b[1;3;4;7;9ma\x1b[22mb\x1b[23mc\x1b[24md\x1b[27me\x1b[29mf\x1b[1;3mg\x1b[mh"), &TRUE);
    let mut left = all;
    for (x, ended) in [Modifier::empty(), Modifier::BOLD, Modifier::ITALIC, Modifier::UNDERLINED, Modifier::REVERSED]
        .into_iter()
        .enumerate()
    {
        left -= ended;
        assert_eq!(cell(&buffer, x as u16, 0).modifier, left, "{x}");
    }
    let later = [5, 6, 7].map(|x| cell(&buffer, x, 0).modifier);
    assert_eq!(later, [Modifier::empty(), Modifier::BOLD | Modifier::ITALIC, Modifier::empty()]);
    let colours = drawn(&pane(b"\x1b[92;45ma\x1b[39mb\x1b[49mc\x1b[38;5;16;48;5;255md\x1b[0me"), &TRUE);
    let colours = [0, 1, 2, 3, 4].map(|x| (cell(&colours, x, 0).fg, cell(&colours, x, 0).bg));
    let (green, magenta) = (Color::LightGreen, Color::Magenta);
    let [plain, indexed] = [(Color::Reset, Color::Reset), (Color::Indexed(16), Color::Indexed(255))];
    assert_eq!(colours, [(green, magenta), (Color::Reset, magenta), plain, indexed, plain]);
}

#[test]
fn what_is_erased_or_scrolled_in_takes_the_background() {
    let rows = |bytes: &[u8]| {
        let buffer = drawn(&pane(bytes), &TRUE);
        [0, 1, 2, 3].map(|y| [0, 19].map(|x| cell(&buffer, x, y).bg == Color::Blue))
    };
    let (none, both) = ([false; 2], [true; 2]);
    assert_eq!(rows(b"a\x1b[44m\x1b[K"), [[false, true], none, none, none]);
    assert_eq!(rows(b"\x1b[2;1H\x1b[44m\x1b[J"), [none, both, both, both]);
    assert_eq!(rows(b"\x1b[4;1H\x1b[44m\n"), [none, none, none, both]);
    assert_eq!(rows(b"\x1b[2;1H\x1b[44m\x1b[L"), [none, both, none, none]);
    assert_eq!(rows(b"\x1b[44m\x1b[2J\x1b[0m\x1b[2;3r\x1b[S"), [both, both, none, both]);
}

#[test]
fn a_pane_hides_nothing_that_was_printed() {
    let pane = pane(b"\x1b[8mhid\x1b[0;30;40mtone\x1b[0;31;41m\xe2\x96\x84");
    let buffer = drawn(&pane, &TRUE);
    assert_eq!(cell(&buffer, 0, 0).modifier, Modifier::DIM, "concealed text is dim");
    assert_eq!((cell(&buffer, 3, 0).fg, cell(&buffer, 3, 0).bg), (Color::Reset, Color::Black));
    assert_eq!((cell(&buffer, 7, 0).fg, cell(&buffer, 7, 0).bg), (Color::Red, Color::Red), "a picture's block stays");
    assert_eq!(pane.text()[0], "hidtone▄");
}

#[test]
fn what_cannot_be_seen_is_drawn_as_something_that_can() {
    assert_eq!(pane("ad\u{200b}min\u{202e}x\u{2066}".as_bytes()).text()[0], "a\u{FFFD}mi\u{FFFD}\u{FFFD}");
    assert_eq!(pane("a\u{feff}\u{a0}b\u{3000}c".as_bytes()).text()[0], "\u{FFFD}␣b␣␣c");
    assert_eq!(pane("a\u{200d}b\u{fe0f}".as_bytes()).text()[0], "\u{FFFD}\u{FFFD}", "joiners hide nothing in ASCII");
    assert_eq!(pane("❤\u{fe0f} نم\u{200c}ی e\u{301}".as_bytes()).text()[0], "❤ نمی e\u{301}", "scripts are shaped");
    let ascii = Look { ascii: true, ..TRUE };
    assert_eq!(cell(&drawn(&pane("\u{feff}a\u{a0}".as_bytes()), &ascii), 1, 0).symbol(), "_");
}

#[test]
fn wide_characters_take_two_cells_and_never_reach_out_of_the_area() {
    let pane = pane("漢字x".as_bytes());
    let buffer = drawn(&pane, &TRUE);
    assert_eq!([0, 1, 2, 4].map(|x| cell(&buffer, x, 0).symbol()), ["漢", " ", "字", "x"]);
    let mut narrow = Buffer::with_lines(["######", "######", "######", "######"]);
    pane.draw(Rect::new(1, 1, 3, 2), &mut narrow, &TRUE);
    let expected = Buffer::with_lines(["######", "#漢\u{FFFD}##", "#   ##", "######"]);
    assert_eq!(narrow, expected);
}

#[test]
fn a_low_area_shows_the_cursor_and_scrolling_goes_back() {
    let mut pane = Pane::new(10, 4);
    for line in 0..50 {
        pane.advance(format!("\r\nline {line}").as_bytes());
    }
    assert_eq!(pane.scrollback_len(), 47);
    let rows = |height: u16, offset: usize| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, height));
        let cursor = pane.draw(buffer.area, &mut buffer, &Look { offset, ..TRUE });
        (buffer.content.chunks(10).map(row_text).collect::<Vec<_>>(), cursor)
    };
    assert_eq!(rows(2, 0), (vec!["line 48".to_owned(), "line 49".to_owned()], Some(Position::new(7, 1))));
    assert_eq!(rows(2, 10).0, ["line 38", "line 39"]);
    assert_eq!(rows(2, 10).1, None, "the cursor is below");
    assert_eq!(rows(4, usize::MAX).0, ["", "line 0", "line 1", "line 2"]);
    assert_eq!(rows(6, 0).0, ["line 46", "line 47", "line 48", "line 49", "", ""]);
}

#[test]
fn history_is_bounded_by_lines_and_by_cells() {
    for (columns, most) in [(20, HISTORY_LINES), (800, HISTORY_CELLS / 800)] {
        let mut pane = Pane::new(columns, 3);
        pane.advance("x\r\n".repeat(5_000).as_bytes());
        assert_eq!(pane.scrollback_len(), most);
        pane.resize(1_000, 3);
        assert!(pane.scrollback_len() * 1_000 <= HISTORY_CELLS);
        pane.resize(2, 3);
        assert!(pane.scrollback_len() <= HISTORY_LINES);
    }
}

#[test]
fn modes_title_and_the_older_alternate_screens() {
    let mut pane = pane(b"main\x1b[?1h\x1b[?2004h\x1b]0;a\x1b[31m title\x07\x1b]2;another\x1b\\");
    assert_eq!(pane.modes(), Modes { app_cursor: true, bracketed_paste: true, alternate_screen: false });
    assert_eq!(pane.title(), Some(Untrusted::new("another")));
    pane.advance(format!("\x1b]0;{}\x07", "é".repeat(5_000)).as_bytes());
    assert_eq!(pane.title().map(|title| title.raw().chars().count()), Some(TITLE_CHARS));
    for mode in ["47", "1047", "1049"] {
        pane.advance(format!("\x1b[?{mode}h\x1b[2J\x1b[Hother").as_bytes());
        assert_eq!((pane.text()[0].as_str(), pane.modes().alternate_screen), ("other", true), "{mode}");
        pane.advance(format!("\x1b[?{mode}l").as_bytes());
        assert_eq!((pane.text()[0].as_str(), pane.modes().alternate_screen), ("main title", false), "{mode}");
    }
    pane.advance(b"\x1bc");
    assert_eq!((pane.title(), pane.modes()), (None, Modes::default()));
}

#[test]
fn sizes_are_clamped() {
    let mut pane = Pane::new(0, 0);
    assert_eq!(pane.size(), (2, 1));
    pane.advance("漢字".as_bytes());
    assert_eq!(pane.text(), ["字"]);
    pane.resize(u16::MAX, u16::MAX);
    assert_eq!(pane.size(), SIZE_MAX);
    pane.resize(1, 1);
    assert_eq!(pane.size(), (2, 1));
    assert!(!pane.failed());
}

/// Bytes by which a program makes the second emulator fail at 80 by 24.
const FATAL: &[u8] = b"\x1b[24;80H\xe2\x9d\xa4\xef\xb8\x8f\x1b[23;80Ha";

#[test]
fn a_failing_emulator_is_one_pane_that_says_so() {
    let mut second = Pane::with(|| Box::new(Vt100Pane::new(80, 24)), 80, 24);
    second.advance(b"fine");
    assert!(!second.failed());
    second.advance(FATAL);
    assert!(second.failed());
    second.advance(b"more");
    second.resize(40, 10);
    assert_eq!(&second.text()[..3], ["this terminal's emulator failed", "its output is whole in the journal", ""]);
    assert_eq!((second.cursor(), second.title(), second.scrollback_len()), (None, None, 0));

    let mut first = Pane::new(80, 24);
    first.advance(FATAL);
    assert_eq!((first.failed(), first.text()[22].ends_with('a')), (false, true));
}

/// Fails at whatever it is told to.
struct Fails(&'static str);

impl Fails {
    fn at(&self, act: &str) {
        assert!(self.0 != act, "told to");
    }
}

impl Drop for Fails {
    fn drop(&mut self) {
        self.at("drop");
    }
}

impl PaneTerm for Fails {
    fn advance(&mut self, _: &[u8]) {
        self.at("advance");
        assert!(self.0 != "drop", "told to");
    }
    fn resize(&mut self, _: u16, _: u16) {
        self.at("resize");
    }
    fn size(&self) -> (u16, u16) {
        (10, 2)
    }
    fn history(&self) -> usize {
        self.at("history");
        0
    }
    fn line(&self, _: i32, _: &mut dyn FnMut(u16, PaneCell<'_>)) {
        self.at("line");
    }
    fn cursor(&self) -> Cursor {
        Cursor { column: 99, row: 99, visible: true }
    }
    fn modes(&self) -> Modes {
        Modes::default()
    }
    fn title(&self) -> Option<&Untrusted> {
        self.at("title");
        None
    }
}

#[test]
fn no_failure_of_an_emulator_leaves_its_pane() {
    for act in ["advance", "resize", "history", "line", "title", "drop", "nothing"] {
        let mut pane = Pane::with(|| Box::new(Fails(act)), 10, 2);
        pane.advance(b"x");
        pane.resize(12, 3);
        _ = pane.title();
        let text = pane.text();
        let says_so = text[0].starts_with("this termi");
        assert_eq!(says_so, !matches!(act, "title" | "nothing"), "{act}: {text:?}");
    }
    let unborn = Pane::with(|| panic!("at birth"), 10, 2);
    assert!(unborn.failed());
}

/// Bytes a program might print, weighted towards what emulators find hard.
pub(crate) fn output() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(0_u16), 1..30_u16, Just(65_535)];
    let csi = (number.clone(), number, proptest::sample::select(b"@ABCDEFGHIJKLMPSTXZ`abcdefghlmnrsuqt".to_vec()))
        .prop_map(|(a, b, last)| format!("\x1b[{a};{b}{}", char::from(last)).into_bytes());
    let private = (proptest::sample::select(vec![1, 3, 6, 7, 25, 47, 1047, 1049, 2004, 2026]), any::<bool>())
        .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes());
    let text = proptest::sample::select(vec![
        "a",
        "ab",
        " ",
        "漢",
        "é",
        "e\u{301}",
        "❤\u{fe0f}",
        "👨\u{200d}👩",
        "\u{200b}",
        "\u{202e}",
        "\r\n",
        "\t",
        "\u{8}",
        "\n",
        "\u{e}",
        "\u{f}",
        "\u{1b}(0",
        "\u{1b}(B",
        "\u{1b}M",
        "\u{1b}D",
        "\u{1b}E",
        "\u{1b}7",
        "\u{1b}8",
        "\u{1b}c",
        "\u{1b}#8",
        "\u{1b}H",
        "\u{1b}[4h",
        "\u{1b}[4l",
        "\u{1b}]0;t\u{7}",
        "\u{1b}P1000p",
        "\u{1b}\\",
        "\u{1b}_x",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    let raw = proptest::collection::vec(any::<u8>(), 0..8);
    proptest::collection::vec(prop_oneof![4 => text, 3 => csi, 1 => private, 1 => raw], 0..60)
        .prop_map(|parts| parts.concat())
}

#[derive(Debug, Clone)]
enum Act {
    Print(Vec<u8>),
    Resize(u16, u16),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![3 => output().prop_map(Act::Print), 1 => (0..30_u16, 0..12_u16).prop_map(|(c, r)| Act::Resize(c, r))];
    proptest::collection::vec(act, 1..12)
}

fn act(pane: &mut Pane, act: &Act) {
    match act {
        Act::Print(bytes) => pane.advance(bytes),
        Act::Resize(columns, rows) => pane.resize(*columns, *rows),
    }
}

/// Everything a pane shows.
fn shows(pane: &Pane) -> (Buffer, Option<Cursor>, Modes, Option<Untrusted>, usize) {
    (drawn(pane, &TRUE), pane.cursor(), pane.modes(), pane.title(), pane.scrollback_len())
}

fn is_fit(buffer: &Buffer) -> bool {
    buffer.content.iter().all(|cell| {
        let symbol = cell.symbol();
        symbol.chars().all(|c| !is_hidden(c)) && symbol.len() <= SYMBOL_BYTES && (1..=2).contains(&symbol.width())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_and_no_sizes_break_a_pane(list in acts(), columns in 0..30_u16, rows in 0..12_u16) {
        let mut first = Pane::new(columns, rows);
        let mut second = Pane::with(|| Box::new(Vt100Pane::new(columns.max(2), rows.max(1))), columns, rows);
        for one in &list {
            act(&mut first, one);
            act(&mut second, one);
            prop_assert!(!first.failed(), "{:?}", one);
            for pane in [&first, &second] {
                prop_assert!(is_fit(&drawn(pane, &TRUE)));
                let scrolled = Look { offset: 3, ascii: true, color: ColorMode::None };
                prop_assert!(is_fit(&drawn(pane, &scrolled)));
            }
        }
    }

    #[test]
    fn how_output_is_split_changes_nothing(list in acts(), size in 1..7_usize) {
        let mut whole = Pane::new(20, 6);
        let mut split = Pane::new(20, 6);
        for one in &list {
            act(&mut whole, one);
            match one {
                Act::Print(bytes) => bytes.chunks(size).for_each(|chunk| split.advance(chunk)),
                other => act(&mut split, other),
            }
        }
        prop_assert_eq!(shows(&whole), shows(&split));
    }

    #[test]
    fn both_emulators_agree_where_both_are_complete(parts in proptest::collection::vec(agreed(), 0..80)) {
        let mut first = Pane::new(20, 6);
        let mut second = Pane::with(|| Box::new(Vt100Pane::new(20, 6)), 20, 6);
        let bytes = parts.concat();
        first.advance(&bytes);
        second.advance(&bytes);
        prop_assert_eq!(first.text(), second.text());
        prop_assert_eq!(first.cursor(), second.cursor());
    }
}

/// Output that both emulators are known to handle alike. Wide characters are left out: one that does not fit blanks the
/// last column in one and not in the other. Moves and erasures begin at a named place: whether the cursor
/// waits in or behind the last column is where the two differ.
fn agreed() -> impl Strategy<Value = Vec<u8>> {
    let place = (1..8_u16, 1..25_u16).prop_map(|(y, x)| format!("\x1b[{y};{x}H"));
    let moved = (1..25_u16, proptest::sample::select(b"ABCDGd".to_vec()));
    let erased = (0..3_u16, proptest::sample::select(b"JK".to_vec()));
    prop_oneof![
        4 => "[a-z]{1,6}".prop_map(String::into_bytes),
        2 => Just(b"\r\n".to_vec()),
        1 => Just("é".as_bytes().to_vec()),
        2 => (place, prop_oneof![moved, erased])
            .prop_map(|(place, (n, last))| format!("{place}\x1b[{n}{}", char::from(last)).into_bytes()),
        1 => proptest::sample::select(vec!["\x1b[0m", "\x1b[1m", "\x1b[31;44m", "\x1b[7m", "\x1b[38;5;99m"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}
