//! The terminal is given back on every way out of the workbench.
//!
//! Each test runs itself a second time as the foreground program of a real pseudo-terminal; there it is the workbench.
#![allow(clippy::expect_used, clippy::panic, reason = "a test says what it expected")]

#[path = "../../tests/support/pty.rs"]
mod pty;

use crossterm::event::KeyCode;
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use ratatui::Frame;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use stockade_protocol::event::{EventEnvelope, EventSource};
use stockade_protocol::ids::SessionId;
use stockade_protocol::time::Timestamp;
use stockade_ui::app::{self, Exit};
use stockade_ui::io::{Effect, Ended, Input, Mode, Options, Port, Screen};
use stockade_ui::pane::Pane;
use stockade_ui::theme::{ColorMode, Theme};

/// Set in the second run.
const INSIDE: &str = "STOCKADE_TEST_TERMINAL";
const PATIENCE: Duration = Duration::from_secs(30);

/// The workbench of these tests. Keys: `q` quits, `p` panics while drawing, `t` panics in another thread, `e` makes a
/// pane's emulator fail, `s` is a signal, any other is shown.
struct Glass {
    revision: u64,
    shown: String,
    panics: bool,
    sender: Sender<Input>,
}

impl Glass {
    fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        match code {
            KeyCode::Char('q') => return vec![Effect::Quit],
            KeyCode::Char('p') => self.panics = true,
            KeyCode::Char('t') => {
                let other = thread::Builder::new().name("other".to_owned()).spawn(|| panic!("panic of the other"));
                assert!(other.expect("a thread").join().is_err());
                self.shown = "other-is-gone".to_owned();
            }
            KeyCode::Char('e') => {
                let mut pane = Pane::with(|| panic!("panic of an emulator"), 10, 2);
                pane.advance(b"x");
                self.shown = format!("emulator-failed-{}", pane.failed());
            }
            KeyCode::Char('s') => _ = self.sender.send(Input::Signal(Ended::Terminate)),
            code => self.shown = format!("key-{code}"),
        }
        Vec::new()
    }
}

impl Screen for Glass {
    fn apply(&mut self, _: &Arc<EventEnvelope>) {}

    fn update(&mut self, input: Input) -> Vec<Effect> {
        self.revision += 1;
        match input {
            Input::Key(key) => return self.key(key.code),
            Input::Resized(columns, rows) => self.shown = format!("size-{columns}x{rows}"),
            Input::Paste(text) => self.shown = format!("paste-{text}"),
            _ => self.revision -= 1,
        }
        Vec::new()
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        assert!(!self.panics, "panic while drawing");
        frame.buffer_mut().set_string(0, 0, &self.shown, ratatui::style::Style::new());
    }

    fn drawn(&mut self, _: u64, _: Timestamp) {}

    fn focused_session(&self) -> Option<SessionId> {
        None
    }

    fn wake(&self) -> Option<Timestamp> {
        None
    }
}

struct Nothing;

impl EventSource for Nothing {
    fn pull(&self, _: u64, _: usize) -> Vec<Arc<EventEnvelope>> {
        Vec::new()
    }
    fn len(&self) -> u64 {
        0
    }
}

impl Port for Nothing {
    fn perform(&mut self, _: Effect) {}
}

/// The workbench, when this is the second run; ends the process with what `run` returned.
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let (sender, inputs) = channel();
    let options = Options { color: ColorMode::Ansi16, ascii: false, theme: Theme::dark(), mode: Mode::Live };
    let mut screen = Glass { revision: 0, shown: String::new(), panics: false, sender: sender.clone() };
    let exit = app::run(&mut screen, &Nothing, &mut Nothing, inputs, sender, &options).expect("a terminal");
    std::process::exit(match exit {
        Exit::Quit => 0,
        Exit::Ended(Ended::Terminate) => 15,
        Exit::Ended(_) => 1,
    });
}

/// A pseudo-terminal with the workbench in it.
struct Terminal {
    child: Child,
    keys: File,
    output: Receiver<Vec<u8>>,
    all: Vec<u8>,
    /// Kept open, so that the modes can be read after the workbench has ended.
    line: OwnedFd,
    before: Termios,
}

impl Terminal {
    fn start(test: &str) -> Self {
        let (master, line) = pty::open(80, 24);
        let before = tcgetattr(&line).expect("modes");
        let end = || line.try_clone().expect("a descriptor");
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(INSIDE, "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid of util-linux");
        let keys = File::from(master);
        let mut reading = keys.try_clone().expect("a descriptor");
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut chunk) {
                if sender.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, output, all: Vec::new(), line, before }
    }

    fn modes(&self) -> Termios {
        tcgetattr(self.line.as_fd()).expect("modes")
    }

    /// Waits until the screen holds `text`.
    fn until(&mut self, text: &str) {
        let mut screen = vt100::Parser::default();
        screen.process(&self.all);
        while !screen.screen().contents().contains(text) {
            let chunk = self.output.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!("never saw {text:?} in {:?}", String::from_utf8_lossy(&self.all));
            });
            screen.process(&chunk);
            self.all.extend(chunk);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("written");
    }

    /// Waits for the end; holds that everything is as before; gives what was printed after the terminal was given back.
    fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("an end");
        while let Ok(chunk) = self.output.recv_timeout(Duration::from_millis(300)) {
            self.all.extend(chunk);
        }
        assert_eq!(self.modes(), self.before, "the line's modes");
        let text = String::from_utf8_lossy(&self.all).into_owned();
        let (_, after) = text.rsplit_once("\x1b[?1049l").expect("the alternate screen was left");
        let undone = &text[text.len() - after.len() - 120..];
        for sequence in
            ["\x1b[?1000l", "\x1b[?1002l", "\x1b[?1003l", "\x1b[?1006l", "\x1b[?2004l", "\x1b[?1004l", "\x1b[?25h"]
        {
            assert!(undone.contains(sequence), "{sequence:?} in {undone:?}");
        }
        (status, after.to_owned())
    }
}

fn open(test: &str) -> Terminal {
    let mut terminal = Terminal::start(test);
    terminal.until("size-80x24");
    assert!(!terminal.modes().local_flags.intersects(LocalFlags::ECHO | LocalFlags::ICANON), "the line is raw");
    terminal
}

#[test]
fn a_person_types_pastes_resizes_and_quits() {
    inside();
    let mut terminal = open("a_person_types_pastes_resizes_and_quits");
    terminal.press("a");
    terminal.until("key-a");
    terminal.press("\x1b[200~two words\x1b[201~");
    terminal.until("paste-two words");
    terminal.press("\x1b[A");
    terminal.until("key-Up");
    let line = terminal.line.try_clone().expect("a descriptor");
    let resized = Command::new("stty").args(["rows", "10", "cols", "40"]).stdin(line).status().expect("stty");
    assert!(resized.success());
    terminal.until("size-40x10");
    terminal.press("q");
    let (status, after) = terminal.ended();
    assert_eq!((status.code(), after.as_str()), (Some(0), "\x1b[?25h"));
}

#[test]
fn a_panic_gives_the_terminal_back_and_can_be_read() {
    inside();
    let mut terminal = open("a_panic_gives_the_terminal_back_and_can_be_read");
    terminal.press("p");
    let (status, after) = terminal.ended();
    assert_eq!(status.code(), Some(101));
    assert!(after.contains("panic while drawing"), "{after:?}");
}

#[test]
fn a_panic_of_another_thread_leaves_the_screen_alone_and_is_told_at_the_end() {
    inside();
    let mut terminal = open("a_panic_of_another_thread_leaves_the_screen_alone_and_is_told_at_the_end");
    terminal.press("t");
    terminal.until("other-is-gone");
    assert!(!String::from_utf8_lossy(&terminal.all).contains("panic of the other"));
    terminal.press("q");
    let (status, after) = terminal.ended();
    assert_eq!(status.code(), Some(0));
    assert!(after.contains("panic of the other"), "{after:?}");
}

#[test]
fn a_failing_emulator_is_silent() {
    inside();
    let mut terminal = open("a_failing_emulator_is_silent");
    terminal.press("e");
    terminal.until("emulator-failed-true");
    terminal.press("q");
    let (status, after) = terminal.ended();
    assert_eq!((status.code(), after.as_str()), (Some(0), "\x1b[?25h"));
}

#[test]
fn a_signal_gives_the_terminal_back() {
    inside();
    let mut terminal = open("a_signal_gives_the_terminal_back");
    terminal.press("s");
    let (status, after) = terminal.ended();
    assert_eq!((status.code(), after.as_str()), (Some(15), "\x1b[?25h"));
}

#[test]
fn without_a_terminal_nothing_is_changed_and_the_reason_is_said() {
    let (sender, inputs) = channel();
    let options = Options { color: ColorMode::Ansi16, ascii: false, theme: Theme::dark(), mode: Mode::Live };
    let mut screen = Glass { revision: 0, shown: String::new(), panics: false, sender: sender.clone() };
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        // Run by hand in a terminal: take one away by running again with input from elsewhere.
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "without_a_terminal_nothing_is_changed_and_the_reason_is_said"])
            .stdin(std::process::Stdio::null())
            .status()
            .expect("a second run");
        assert!(status.success());
        return;
    }
    let error = app::run(&mut screen, &Nothing, &mut Nothing, inputs, sender, &options).expect_err("no terminal");
    assert!(error.to_string().contains("needs a terminal"), "{error}");
}
