//! Nothing a worker prints reaches the outer terminal: hostile output goes through a pane, a buffer, the sweep and the
//! canvas, and the bytes that come out are taken apart and read by another emulator in the outer terminal's place.

use super::*;
use crate::pane::{Look, Pane, Vt100Pane};
use crate::sweep::sweep;
use crate::theme::ColorMode;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, List, Paragraph, Row, Table, Tabs, Widget as _};
use stockade_protocol::text::is_hidden;

const SCREEN: (u16, u16) = (48, 9);
const AREA: Rect = Rect::new(10, 2, 24, 5);

/// Never in the bytes for the outer terminal.
const CANARY: &str = "CANARY";

/// Takes a frame apart; anything but cursor positions, colours, the frame's own marks and visible text is an error.
fn only_own(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c != '\u{1b}' {
            if is_hidden(c) {
                return Err(format!("{c:?} in the text"));
            }
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let known = ["\u{1b}[?2026h", "\u{1b}[?2026l", "\u{1b}[?25h", "\u{1b}[?25l", "\u{1b}[2J"];
        let plain = || {
            let body = rest.strip_prefix("\u{1b}[")?;
            let end = body.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            body[end..].starts_with(['H', 'm']).then_some(end + 3)
        };
        let length = known.iter().find(|own| rest.starts_with(**own)).map(|own| own.len()).or_else(plain);
        let length = length.ok_or_else(|| format!("a sequence of its own: {:?}", &rest[..rest.len().min(20)]))?;
        rest = &rest[length..];
    }
    Ok(())
}

/// The outer terminal: remembers every request that is not drawing.
#[derive(Default)]
struct Requests(Vec<String>);

impl vt100::Callbacks for Requests {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.0.push("bell".to_owned());
    }
    fn visual_bell(&mut self, _: &mut vt100::Screen) {
        self.0.push("flash".to_owned());
    }
    fn resize(&mut self, _: &mut vt100::Screen, size: (u16, u16)) {
        self.0.push(format!("resize {size:?}"));
    }
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.0.push(format!("title {title:?}"));
    }
    fn set_window_icon_name(&mut self, _: &mut vt100::Screen, name: &[u8]) {
        self.0.push(format!("icon {name:?}"));
    }
    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.0.push(format!("copy {data:?}"));
    }
    fn paste_from_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8]) {
        self.0.push("paste".to_owned());
    }
    fn unhandled_osc(&mut self, _: &mut vt100::Screen, parts: &[&[u8]]) {
        self.0.push(format!("osc {parts:?}"));
    }
    fn unhandled_control(&mut self, _: &mut vt100::Screen, byte: u8) {
        self.0.push(format!("control {byte}"));
    }
    fn unhandled_escape(&mut self, _: &mut vt100::Screen, _: Option<u8>, _: Option<u8>, byte: u8) {
        self.0.push(format!("escape {byte}"));
    }
    fn unhandled_csi(&mut self, _: &mut vt100::Screen, first: Option<u8>, _: Option<u8>, parts: &[&[u16]], last: char) {
        // Synchronized updates, focus reports and struck text: the workbench's own, unknown to this emulator.
        let own = match (first, last) {
            (Some(b'?'), 'h' | 'l') => matches!(parts, [[2026 | 1004]]),
            (None, 'm') => true,
            _ => false,
        };
        if !own {
            self.0.push(format!("csi {parts:?} {last}"));
        }
    }
}

/// The workbench's frame around one pane, and the terminal it is written to.
struct Glass {
    terminal: Terminal<Canvas>,
    outer: vt100::Parser<Requests>,
    color: ColorMode,
    ascii: bool,
}

impl Glass {
    fn new(color: ColorMode, ascii: bool) -> Self {
        let size = |count: u16| count.try_into().expect("not zero");
        let mut outer = vt100::Parser::new_with_callbacks(size(SCREEN.1), size(SCREEN.0), 0, Requests::default());
        outer.process(ENTER);
        let Ok(terminal) = Terminal::new(Canvas::new(SCREEN.0, SCREEN.1));
        Self { terminal, outer, color, ascii }
    }

    /// Draws a frame and holds everything that must hold of it. Gives its bytes.
    fn show(&mut self, pane: &Pane) -> Vec<u8> {
        let look = Look { color: self.color, ascii: self.ascii, ..Look::default() };
        let mut finished = Buffer::default();
        let Ok(_) = self.terminal.draw(|frame| {
            let buffer = frame.buffer_mut();
            for y in 0..SCREEN.1 {
                for x in 0..SCREEN.0 {
                    buffer.cell_mut((x, y)).expect("inside").set_symbol(neighbour(x, y));
                }
            }
            let cursor = pane.draw(AREA, buffer, &look);
            sweep(buffer, self.color, self.ascii);
            finished = buffer.clone();
            if let Some(cursor) = cursor {
                frame.set_cursor_position(cursor);
            }
        });
        let bytes = self.terminal.backend_mut().take();
        assert_eq!(only_own(&bytes), Ok(()));
        assert!(!bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "the canary is out");
        self.outer.process(readable(&String::from_utf8_lossy(&bytes)).as_bytes());
        assert_eq!(self.outer.callbacks().0, Vec::<String>::new(), "the outer terminal was asked for something");
        self.holds(&finished);
        bytes
    }

    /// The outer terminal shows the buffer, and its modes are those the workbench set.
    fn holds(&self, finished: &Buffer) {
        let screen = self.outer.screen();
        assert!(screen.alternate_screen() && screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::ButtonMotion);
        assert_eq!(screen.mouse_protocol_encoding(), vt100::MouseProtocolEncoding::Sgr);
        assert_eq!(screen.size(), (SCREEN.1.try_into().expect("rows"), SCREEN.0.try_into().expect("columns")));
        for y in 0..SCREEN.1 {
            for x in 0..SCREEN.0 {
                let cell = screen.cell(y, x).expect("inside");
                let drawn = finished.cell((x, y)).expect("inside");
                if !AREA.contains((x, y).into()) {
                    assert_eq!(cell.contents(), neighbour(x, y), "a neighbour changed at {x},{y}");
                    assert!(!cell.bold() && !cell.inverse() && cell.bgcolor() == vt100::Color::Default);
                } else if !cell.is_wide_continuation() {
                    let shown = if cell.has_contents() { cell.contents() } else { " " };
                    assert_eq!(shown, readable(drawn.symbol()), "the pane at {x},{y}");
                }
            }
        }
    }
}

/// The emulator that stands for the outer terminal draws nothing for a replacement character.
fn readable(text: &str) -> String {
    text.replace('\u{FFFD}', "¿")
}

fn neighbour(x: u16, y: u16) -> &'static str {
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"][usize::from((x + 3 * y) % 10)]
}

/// What programs have attacked terminals with, each with what it would set off.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let text = [
        ("title", "\x1b]0;CANARY\x07\x1b]2;CANARY\nmore\x1b\\\x1b]1;CANARY\x07\x1b[22;0t\x1b[23;0t"),
        ("title report", "\x1b]2;CANARY\x07\x1b[21t\x1b[20t"),
        ("hyperlink", "\x1b]8;;file:///CANARY\x07link\x1b]8;;\x07"),
        ("clipboard", "\x1b]52;c;Q0FOQVJZ\x07\x1b]52;c;?\x07\x1b]52;p;CANARY\x1b\\"),
        ("colours", "\x1b]4;1;rgb:ff/00/00\x07\x1b]10;?\x07\x1b]11;?\x07\x1b]104\x07\x1b]12;CANARY\x07"),
        ("font", "\x1b]50;?CANARY\x07\x1bGQ"),
        ("control mode", "\x1bP1000pCANARY\n%begin\x1b\\"),
        ("status string", "\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1bP$qCANARY\x1b\\"),
        ("sixel", "\x1bPq#0;2;0;0;0#0~~@@vv@@~~CANARY\x1b\\"),
        ("graphics", "\x1b_Ga=T,f=24;CANARY\x1b\\\x1b]1337;File=name=CANARY:AAAA\x07"),
        ("privacy", "\x1b^CANARY\x1b\\\x1bXCANARY\x1b\\"),
        ("reports", "\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?6n\x1b[>q\x1b[?1$p\x1b[18t\x1b[14t\x1b[x\x05\x1bZ"),
        ("modes", "\x1b[?1049h\x1b[?1003h\x1b[?1006l\x1b[?2004l\x1b[?25l\x1b[?7l\x1b[?6h\x1b[4h\x1b[?1004h\x1b[?9h"),
        ("reset", "x\x1bc\x1b[!py"),
        ("keyboard", "\x1b[>31u\x1b[=5;1u\x1b[?u\x1b[>4;2m\x1b="),
        ("size", "\x1b[8;65535;65535t\x1b[8;0;0t\x1b[4;1;1t\x1b[3;0;0t\x1b[9;1t\x1b[?3h\x1b[?40h\x1b[132$|"),
        ("places", "\x1b[65535;65535HX\x1b[0;0HY\x1b[2;999HZ\x1b[65535BX\x1b[65535C!"),
        ("scrolling", "\x1b[1;2r\x1b[65535S\x1b[65535T\x1b[65535L\x1b[65535M\x1b[65535@\x1b[65535P\x1b[65535X"),
        ("charset", "\x1b(0lqqk\x1b)0\x0exxx\x0f\x1b%@\x1b%G\x1bN\x1bO"),
        ("bell", "\x07\x07\x1bg\x1b[?5h"),
        ("hidden", "a\u{202e}b\u{2066}c\u{2069}\u{200b}d\u{feff}e\u{ad}f\u{e0041}g\u{2028}h\u{85}i\u{9b}31mj"),
        ("joined", "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} 🏴\u{e0067}\u{e0062} 1\u{20e3} 👍🏽 🇩🇪"),
        ("wide", "漢字漢字漢字漢字漢字漢字漢字漢字\u{3000}\x1b[1;24H漢\x1b[1;2H\x1b[1@"),
        ("media", "\x1b[5i\x1b[4i\x1b[?5i\x1b]777;notify;CANARY;x\x07\x1b]9;CANARY\x07\x1b]633;P;x=CANARY\x07"),
        ("unfinished", "\x1b]0;CANARY"),
        ("cut off", "\x1b[38;5"),
    ];
    let mut attacks: Vec<(&str, Vec<u8>)> = text.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect();
    attacks.extend([
        ("eight bits", b"\x9b31mx\x9d0;t\x07\x90q\x9c\x84\x85\x8d\x98x\x9c\x9ex\x9c\x9fx\x9c".to_vec()),
        ("overlong", b"\xc0\x9b31m\xe0\x80\x9b\xf0\x80\x80\x9b\xc1\xbf".to_vec()),
        ("not UTF-8", b"\xff\xfe\xed\xa0\x80\xed\xb0\x80\xf4\x90\x80\x80\xc3\x28\xe2\x82".to_vec()),
        ("every byte", (0..=255).collect()),
        (
            "numbers",
            [b"\x1b[".as_slice(), b"1;".repeat(100_000).as_slice(), b"m\x1b[", &b"9".repeat(100_000), b"H."].concat(),
        ),
        ("long title", [b"\x1b]0;".as_slice(), b"CANARY".repeat(200_000).as_slice(), b"\x07after"].concat()),
        ("long string", [b"\x1bP".as_slice(), b"CANARY".repeat(200_000).as_slice(), b"\x1b\\after"].concat()),
        ("marks", [b"a".as_slice(), "\u{301}".repeat(1_000_000).as_bytes(), b"b"].concat()),
        ("marks again", [b"a\xcc\x81".as_slice(), b"\x1b[D\x1b[C\xcc\x81".repeat(50_000).as_slice()].concat()),
        ("repeats", [b"x".as_slice(), b"\x1b[65535b".repeat(2_000).as_slice()].concat()),
        ("resets", b"x\x1bc\x1b#8\x1b[2J\x1b[3J".repeat(500)),
    ]);
    attacks
}

#[test]
fn the_checks_find_what_they_look_for() {
    assert_eq!(only_own("\u{1b}[?2026h\u{1b}[3;4H\u{1b}[0;1;31mé漢\u{1b}[0m\u{1b}[?2026l".as_bytes()), Ok(()));
    for bad in ["\u{1b}]0;t\u{7}", "\u{1b}[6n", "\u{1b}c", "\u{1b}[?1049h", "\u{7}", "\u{202e}", "\u{9b}1m", "\u{1b}[1"]
    {
        assert!(only_own(bad.as_bytes()).is_err(), "{bad:?}");
    }
    for asks in ["\u{1b}]0;t\u{7}", "\u{1b}]52;c;?\u{7}", "\u{1b}]52;c;QQ\u{7}", "\u{1b}[6n", "\u{7}", "\u{1b}[8;9;9t"]
    {
        let mut glass = Glass::new(ColorMode::True, false);
        glass.outer.process(asks.as_bytes());
        assert_ne!(glass.outer.callbacks().0, Vec::<String>::new(), "{asks:?}");
    }
}

#[test]
fn no_attack_reaches_the_outer_terminal() {
    for (name, bytes) in attacks() {
        for (color, ascii) in [(ColorMode::True, false), (ColorMode::None, true)] {
            let mut glass = Glass::new(color, ascii);
            let mut pane = Pane::new(AREA.width, AREA.height);
            pane.advance(b"before");
            glass.show(&pane);
            pane.advance(&bytes);
            assert!(!pane.failed(), "{name}");
            glass.show(&pane);
            // Whatever it left unfinished ends here; the pane still works, and so do its neighbours.
            pane.advance(b"\x18\x1b\\\x1bc\x1b(Bafter");
            glass.show(&pane);
            assert_eq!(pane.text()[0], "after", "{name}");
        }
    }
}

#[test]
fn no_attack_reaches_it_through_the_second_emulator_either() {
    for (name, bytes) in attacks() {
        let mut glass = Glass::new(ColorMode::Ansi256, false);
        let mut pane = Pane::with(|| Box::new(Vt100Pane::new(AREA.width, AREA.height)), AREA.width, AREA.height);
        pane.advance(&bytes);
        glass.show(&pane);
        pane.resize(AREA.width, 3);
        glass.show(&pane);
        let text = pane.text();
        assert_eq!(pane.failed(), text[0].starts_with("this terminal's emul"), "{name}: {text:?}");
    }
}

#[test]
fn what_a_program_draws_does_reach_it() {
    let mut glass = Glass::new(ColorMode::Ansi16, false);
    let mut pane = Pane::new(AREA.width, AREA.height);
    pane.advance(b"\x1b[1;31mbold red\x1b[0m\r\n\x1b[7mreversed\x1b[0m \xe6\xbc\xa2");
    let bytes = glass.show(&pane);
    let screen = glass.outer.screen();
    let first = screen.cell(AREA.y, AREA.x).expect("inside");
    assert_eq!((first.contents(), first.bold(), first.fgcolor()), ("b", true, vt100::Color::Idx(1)));
    assert!(screen.cell(AREA.y + 1, AREA.x).expect("inside").inverse());
    assert!(screen.cell(AREA.y + 1, AREA.x + 9).expect("inside").is_wide());
    assert_eq!(screen.cursor_position(), (AREA.y + 1, AREA.x + 11));
    assert!(!screen.hide_cursor());
    assert!(bytes.starts_with(b"\x1b[?2026h") && bytes.ends_with(b"\x1b[?25h\x1b[?2026l"));
    assert_eq!(glass.show(&pane), b"", "the same again costs nothing");
    pane.advance(b"\x1b[?25l");
    assert_eq!(glass.show(&pane), b"\x1b[?2026h\x1b[?25l\x1b[?2026l");
}

#[test]
fn one_changed_cell_costs_a_few_bytes() {
    let mut glass = Glass::new(ColorMode::Ansi16, false);
    let mut pane = Pane::new(AREA.width, AREA.height);
    pane.advance(b"\x1b[?25l");
    glass.show(&pane);
    pane.advance(b"x");
    let bytes = glass.show(&pane);
    assert!(bytes.len() < 40, "{}", String::from_utf8_lossy(&bytes));
}

/// Screens make text safe before they lay it out. This holds what happens if one forgets.
#[test]
fn no_widget_lets_a_control_or_an_invisible_character_through() {
    let hostile = "a\u{1b}[2Jb\u{202e}c\u{200b}d\u{9b}e\u{7}f\u{ad}";
    let area = Rect::new(0, 0, 40, 3);
    let block = Block::bordered().title(hostile).title_bottom(Line::from(hostile));
    type Draw = Box<dyn Fn(&mut Buffer)>;
    let widgets: [Draw; 9] = [
        Box::new(move |buffer| Span::raw(hostile).render(area, buffer)),
        Box::new(move |buffer| Line::from(hostile).red().render(area, buffer)),
        Box::new(move |buffer| Paragraph::new(hostile).render(area, buffer)),
        Box::new(move |buffer| ratatui::widgets::Widget::render(List::new([hostile, hostile]), area, buffer)),
        Box::new(move |buffer| {
            let table = Table::new([Row::new([hostile, hostile])], [Constraint::Fill(1), Constraint::Fill(1)]);
            ratatui::widgets::Widget::render(table, area, buffer);
        }),
        Box::new(move |buffer| Tabs::new([hostile, hostile]).render(area, buffer)),
        Box::new(move |buffer| block.clone().render(area, buffer)),
        Box::new(move |buffer| buffer.set_string(0, 0, hostile, Style::new())),
        Box::new(move |buffer| {
            for (cell, c) in buffer.content.iter_mut().zip(hostile.chars()) {
                cell.set_char(c);
            }
        }),
    ];
    for (nth, draw) in widgets.iter().enumerate() {
        let Ok(mut terminal) = Terminal::new(Canvas::new(area.width, area.height));
        let Ok(_) = terminal.draw(|frame| {
            draw(frame.buffer_mut());
            sweep(frame.buffer_mut(), ColorMode::Ansi16, false);
        });
        let bytes = terminal.backend_mut().take();
        assert_eq!(only_own(&bytes), Ok(()), "widget {nth}");
        assert!(bytes.len() > 20, "widget {nth} drew");
    }
}

#[test]
fn what_is_undone_is_what_was_done() {
    let size = |count: u16| count.try_into().expect("not zero");
    let mut outer = vt100::Parser::new_with_callbacks(size(24), size(80), 0, Requests::default());
    outer.process(b"$ stockade");
    let before = outer.screen().state_formatted();
    outer.process(ENTER);
    assert_ne!(outer.screen().state_formatted(), before);
    // A frame cut off in the middle of a sequence.
    outer.process(b"\x1b[?2026h\x1b[3;3Hframe\x1b[38;5");
    outer.process(LEAVE);
    assert_eq!(outer.screen().state_formatted(), before);
    assert_eq!(outer.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    assert!(!outer.screen().bracketed_paste() && !outer.screen().alternate_screen());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_output_reaches_the_outer_terminal(parts in proptest::collection::vec(crate::pane::tests::output(), 1..5)) {
        let mut glass = Glass::new(ColorMode::Ansi256, false);
        let mut pane = Pane::new(AREA.width, AREA.height);
        for part in parts {
            pane.advance(&part);
            glass.show(&pane);
        }
    }
}
