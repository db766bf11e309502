//! What programs send and what must be on the screen afterwards: small recordings, each of one thing that full-screen
//! and line programs rely on.

use super::Pane;

/// Name, size, bytes, rows.
type Recording = (&'static str, (u16, u16), &'static str, &'static [&'static str]);

const RECORDINGS: &[Recording] = &[
    (
        "a report at a prompt",
        (32, 6),
        "report> totals by region\r\nregion      orders      total\r\n\x1b[1mnorth\x1b[0m          412   18 204.00\r\n\
         south          377   15 930.50\r\nreport> ",
        &[
            "report> totals by region",
            "region      orders      total",
            "north          412   18 204.00",
            "south          377   15 930.50",
            "report>",
            "",
        ],
    ),
    (
        "a progress line rewritten in place",
        (20, 2),
        "copying  1%\r\x1b[Kcopying 50%\r\x1b[Kcopied\x1b[K\r\ndone",
        &["copied", "done"],
    ),
    ("a spinner with backspaces", (10, 1), "wait |\x08/\x08-\x08\\\x08 \x08ok", &["wait ok"]),
    ("long lines wrap", (5, 3), "abcdefghijkl", &["abcde", "fghij", "kl"]),
    ("no wrapping while it is off", (5, 2), "\x1b[?7labcdefgh\x1b[?7h\r\nx", &["abcdh", "x"]),
    ("tab stops", (24, 2), "a\tb\tc\r\n\x1b[3g\x1b[5G\x1bH\r\tx", &["a       b       c", "    x"]),
    ("lines drawn with the other character set", (6, 3), "\x1b(0lqk\r\nx x\r\nmqj\x1b(B q", &["┌─┐", "│ │", "└─┘ q"]),
    ("scrolling inside a region", (4, 4), "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx\x1b[r", &["a", "c", "x", "d"]),
    ("reverse index at the top", (4, 3), "a\r\nb\x1b[H\x1bMz", &["z", "a", "b"]),
    (
        "inserting and deleting",
        (8, 4),
        "abc\x1b[1;2H\x1b[2@\r\nx\r\ny\x1b[2;1H\x1b[L\x1b[1;1H\x1b[P",
        &["  bc", "", "x", "y"],
    ),
    ("insert mode", (8, 1), "abc\r\x1b[4hxy\x1b[4l", &["xyabc"]),
    ("a saved cursor comes back", (8, 2), "ab\x1b7\x1b[2;5Hcd\x1b8ef", &["abef", "    cd"]),
    (
        "a full-screen program leaves what was there",
        (10, 3),
        "$ edit\x1b[?1049h\x1b[2J\x1b[Htext\x1b[3;1H~\x1b[?1049l\r\n$ ",
        &["$ edit", "$", ""],
    ),
    ("erasing", (6, 3), "aaaaaa\r\nbbbbbb\r\ncccccc\x1b[2;3H\x1b[1J\x1b[K", &["", "", "cccccc"]),
    ("a wide character that does not fit goes to the next line", (3, 2), "ab漢c", &["ab", "漢c"]),
    ("half of a wide character overwritten", (6, 1), "漢字\x1b[1;2Hx", &[" x字"]),
    ("marks join the character before them", (6, 1), "e\u{301}a\u{308}x", &["éäx"]),
    ("repeats", (10, 1), "-\x1b[4bx", &["-----x"]),
];

#[test]
fn programs_look_as_they_should() {
    use unicode_segmentation::UnicodeSegmentation as _;
    for (name, (columns, rows), bytes, expected) in RECORDINGS {
        let mut pane = Pane::new(*columns, *rows);
        pane.advance(bytes.as_bytes());
        // Marks are kept apart on the grid and may be written together in an expectation.
        let composed =
            |row: &str| -> String { row.replace("e\u{301}", "é").replace("a\u{308}", "ä").graphemes(true).collect() };
        let text: Vec<String> = pane.text().iter().map(|row| composed(row)).collect();
        assert_eq!(text, *expected, "{name}");
    }
}

#[test]
fn lines_flow_again_when_the_size_changes() {
    let mut pane = Pane::new(10, 4);
    pane.advance(b"abcdefghijklmno\r\nxyz");
    assert_eq!(pane.text(), ["abcdefghij", "klmno", "xyz", ""]);
    pane.resize(20, 4);
    assert_eq!(pane.text(), ["abcdefghijklmno", "xyz", "", ""]);
    pane.resize(5, 4);
    assert_eq!(pane.text(), ["klmno", "xyz", "", ""], "new lines go above");
    assert_eq!(pane.scrollback_len(), 2);
    pane.resize(20, 4);
    assert_eq!(pane.text(), ["abcdefghijklmno", "xyz", "", ""]);
    pane.resize(20, 1);
    assert_eq!((pane.text(), pane.scrollback_len()), (vec!["xyz".to_owned()], 1));
}
