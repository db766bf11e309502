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
    ("places outside of the screen are its edges", (6, 3), "\x1b[9;9Hx\x1b[Hy\x1b[3;0Hz", &["y", "", "z    x"]),
    (
        "moves by a count stop at the edges",
        (6, 3),
        "\x1b[2;3Ha\x1b[99Ab\x1b[99Bc\x1b[99Dd\x1b[99Ce",
        &["   b", "  a", "d   ce"],
    ),
    ("lines on and back begin at the left", (4, 3), "ab\x1b[2Ec\x1b[Fd", &["ab", "d", "c"]),
    (
        "columns and rows by number and by distance",
        (6, 3),
        "\x1b[3Ga\x1b[2db\x1b[6`c\x1b[H\x1b[2e\x1b[2ax",
        &["  a", "   b c", "  x"],
    ),
    ("the screen scrolled up", (3, 3), "a\r\nb\r\nc\x1b[S", &["b", "c", ""]),
    ("the screen scrolled down", (3, 3), "a\r\nb\r\nc\x1b[2T", &["", "", "a"]),
    ("a line put into a region", (3, 4), "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2;1H\x1b[L", &["a", "", "b", "d"]),
    ("a line taken out of a region", (3, 4), "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2;1H\x1b[M", &["a", "c", "", "d"]),
    (
        "outside of its region nothing is put in",
        (3, 4),
        "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[4;1H\x1b[L",
        &["a", "b", "c", "d"],
    ),
    (
        "places counted from a region's top",
        (3, 4),
        "\x1b[2;3r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy\x1b[?6l\x1b[1;1Hz",
        &["z", "x", "y", ""],
    ),
    ("characters erased in place", (6, 1), "abcdef\x1b[1;2H\x1b[3X", &["a   ef"]),
    ("all below erased", (4, 3), "aa\r\nbb\r\ncc\x1b[2;1H\x1b[Jx", &["aa", "x", ""]),
    ("all above erased, the cursor's cell included", (4, 3), "aa\r\nbbb\r\ncc\x1b[2;2H\x1b[1J", &["", "  b", "cc"]),
    ("erasing everything leaves the cursor", (4, 2), "ab\x1b[2Jc", &["  c", ""]),
    ("a sequence that is cancelled does nothing", (6, 1), "a\x1b[3\x18b\x1b]0;t\x18c", &["abc"]),
    ("backspace stops at the left", (6, 1), "\x08\x08ab\x08\x08\x08\x08c", &["cb"]),
    ("a return on a full line stays on it", (3, 2), "abc\rx", &["xbc", ""]),
    ("tabs by a count, on and back", (20, 1), "\x1b[2Ix\x1b[Zy", &["                y"]),
    ("the alignment pattern", (3, 2), "ab\x1b#8", &["EEE", "EEE"]),
    ("a reset begins anew", (3, 3), "abc\x1b[4h\x1b[2;3r\x1b(0\x1bcq\r\x1b[Cx", &["qx", "", ""]),
    ("the other way to save a cursor", (6, 2), "ab\x1b[s\x1b[2;1Hcd\x1b[uef", &["abef", "cd"]),
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

/// Neither half a sequence nor an overlong form of a control is ever taken for what it could have been.
#[test]
fn bytes_that_are_no_text_are_replaced_and_control_nothing() {
    let shown = |bytes: &[u8]| {
        let mut pane = Pane::new(20, 2);
        pane.advance(bytes);
        (pane.text().join("|"), pane.title().is_some())
    };
    for (bytes, kept) in [
        (&b"a\xffb"[..], "b"),
        (b"a\xc0\x9b2Jb", "2Jb"),
        (b"a\xc1\x9b2Jb", "2Jb"),
        (b"a\xe0\x80\x9b2Jb", "2Jb"),
        (b"a\xed\xa0\x80b", "b"),
        (b"a\xf4\x90\x80\x80b", "b"),
        (b"a\xe2\x82b", "b"),
        (b"a\xe2\x82\r\nb", "|b"),
    ] {
        let (text, titled) = shown(bytes);
        let middle = text.strip_prefix('a').and_then(|rest| rest.trim_end_matches('|').strip_suffix(kept));
        assert!(middle.is_some_and(|middle| middle.contains('\u{FFFD}')), "{bytes:x?}: {text:?}");
        assert!(!titled, "{bytes:x?}");
    }
    // A control of eight bits begins nothing.
    assert_eq!(shown(b"a\x9d0;t\x07b"), ("a0;tb|".to_owned(), false));
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
