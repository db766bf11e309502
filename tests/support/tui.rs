//! Drives the real program in a real terminal and reads its screen with an emulator that is not the one in its panes.

use super::pty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Long enough for anything on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program on its terminal.
pub struct Tui {
    child: Child,
    keyboard: File,
    /// Keeps the terminal alive after the program's end, so that its modes can be looked at.
    line: OwnedFd,
    before: Termios,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything it ever wrote.
    pub raw: Vec<u8>,
}

impl Tui {
    /// Starts the program with `arguments`. `setsid --ctty` gives it the terminal, as a shell would.
    pub fn start(arguments: &[&str], environment: &[(&str, &str)], columns: u16, rows: u16) -> Self {
        let (master, line) = pty::open(columns, rows);
        let before = tcgetattr(&line).unwrap();
        let end = || Stdio::from(line.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_stockade")]).args(arguments);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
        command.envs(environment.iter().copied()).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("setsid of util-linux is there");
        let mut reader = File::from(master.try_clone().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
        Self { child, keyboard: File::from(master), line, before, output, screen, raw: Vec::new() }
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The screen's text, a row a line.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen is as wanted.
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !wanted(&self.text()) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("the screen never showed {what}:\n{}", self.text()),
            }
        }
    }

    /// Reads until `text` is on the screen.
    pub fn sees(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    /// Opens the oldest card, waits until it takes answers, and presses `key` until it is taken: a program reads the
    /// screen faster than the workbench knows that its frame has been shown, and such a key is dropped.
    pub fn answer(&mut self, key: &str, taken: impl Fn(&str) -> bool) {
        self.keys("w");
        self.sees("APPROVE?");
        loop {
            self.until("an armed card", |screen| {
                screen.contains("approve once  armed") && !screen.contains("armed in")
            });
            self.keys(key);
            // A dropped key begins the second anew, which is seen as a countdown.
            self.until("the key's effect", |screen| taken(screen) || screen.contains("armed in"));
            if taken(&self.text()) {
                return;
            }
        }
    }

    /// Reads for this long, and returns how many bytes were written meanwhile.
    pub fn written_in(&mut self, window: Duration) -> usize {
        let (end, before) = (Instant::now() + window, self.raw.len());
        while let Ok(bytes) = self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.take(&bytes);
        }
        self.raw.len() - before
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        self.screen.process(bytes);
    }

    /// The pid of the program itself: the only child of `setsid`, or `setsid`'s own after it became the program.
    pub fn pid(&self) -> Pid {
        let parent = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        Pid::from_raw(child.unwrap_or(i32::try_from(parent).unwrap()))
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Takes the terminal away, as closing its window does, and waits for the program's end.
    pub fn hang_up(self) -> ExitStatus {
        let Self { mut child, mut keyboard, line, output, .. } = self;
        // The thread that reads the terminal has it open too; it ends with the next bytes that nobody takes.
        drop(output);
        keyboard.write_all(b"?").unwrap();
        drop((keyboard, line));
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the program goes on without its terminal");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the program's end and reads what is left.
    pub fn end(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            while let Ok(bytes) = self.output.try_recv() {
                self.take(&bytes);
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the program does not end:\n{}", self.text());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.take(&bytes);
            }
        };
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) {
            self.take(&bytes);
        }
        let after = tcgetattr(&self.line).unwrap();
        Ended { status, modes_restored: after == self.before, text: self.text(), raw: std::mem::take(&mut self.raw) }
    }
}

/// How the program left its terminal.
pub struct Ended {
    pub status: ExitStatus,
    /// Whether line discipline and echo are as they were.
    pub modes_restored: bool,
    pub text: String,
    pub raw: Vec<u8>,
}

impl Ended {
    /// Asserts that every mode that was set was unset after, and the cursor is shown.
    pub fn terminal_is_given_back(&self) {
        assert!(self.modes_restored, "the terminal's line modes were not restored");
        let raw = String::from_utf8_lossy(&self.raw);
        for mode in ["1049", "2004", "1000", "1002", "1003", "1006", "1004"] {
            let set = raw.rfind(&format!("\u{1b}[?{mode}h"));
            let unset = raw.rfind(&format!("\u{1b}[?{mode}l"));
            assert!(set.is_none() || unset > set, "mode {mode} was left on");
        }
        let shown = raw.rfind("\u{1b}[?25h");
        assert!(shown.is_some() && shown > raw.rfind("\u{1b}[?25l"), "the cursor was left hidden");
    }
}
