//! The real terminal: taken, written to, and given back on every way out.

mod paint;
#[cfg(test)]
mod tests;
mod writer;

pub use paint::Canvas;
pub(crate) use writer::Writer;

use crate::contain::is_contained;
use crossterm::terminal::WindowSize;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Why the terminal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OuterError {
    /// Input or output is not a terminal.
    #[error("the workbench needs a terminal, and {0} is not one; `stockade run` works without")]
    NotATerminal(&'static str),
    /// The terminal could not be taken.
    #[error("the terminal could not be set up ({0}); run `stockade` in another terminal")]
    SetUp(#[source] io::Error),
    /// The workbench is already open in this process.
    #[error("the workbench is already open in this process; quit it first")]
    Taken,
}

/// Alternate screen, mouse clicks and drags in their plain form, marked pastes, focus, cursor hidden.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[0m\x1b[2J\x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?1004h\x1b[?25l";

/// Ends a sequence that was cut off, then undoes [`ENTER`] and whatever a frame had begun.
const LEAVE: &[u8] = b"\x1b\\\x1b[?2026l\x1b[0m\x1b[?1004l\x1b[?2004l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\
\x1b[?1049l\x1b[?25h";

/// How long a terminal may take to accept its last bytes. A terminal stopped by its person would otherwise keep the
/// program from ending.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most panics of other threads kept until the terminal is given back.
const MESSAGES: usize = 16;

static TAKEN: AtomicBool = AtomicBool::new(false);
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());
static HOOK: Once = Once::new();

/// The terminal while the workbench has it. Dropping gives it back; so does a panic of the thread that took it.
#[derive(Debug)]
pub struct Outer {
    output: File,
}

impl Outer {
    /// Takes the terminal that standard input and output are.
    pub fn take() -> Result<Self, OuterError> {
        if !io::stdin().is_terminal() {
            return Err(OuterError::NotATerminal("standard input"));
        }
        if !io::stdout().is_terminal() {
            return Err(OuterError::NotATerminal("standard output"));
        }
        // A descriptor of its own: the lock of standard output could be held by a write that blocks.
        let output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(OuterError::SetUp)?);
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(OuterError::Taken);
        }
        // From here on every way out passes through `give_back`.
        let outer = Self { output };
        *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        HOOK.call_once(set_hook);
        crossterm::terminal::enable_raw_mode().map_err(OuterError::SetUp)?;
        (&outer.output).write_all(ENTER).map_err(OuterError::SetUp)?;
        Ok(outer)
    }

    /// Columns and rows; 80 by 24 where the terminal does not say.
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        // Not crossterm's `size`: where no terminal answers, that starts `tput`.
        match crossterm::terminal::window_size() {
            Ok(WindowSize { columns: columns @ 1.., rows: rows @ 1.., .. }) => (columns, rows),
            _ => (80, 24),
        }
    }

    /// A second descriptor for the writer thread.
    pub(crate) fn output(&self) -> Result<File, OuterError> {
        self.output.try_clone().map_err(OuterError::SetUp)
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back if it is taken. Safe to call at any time, any number of times, from any thread.
pub fn give_back() {
    if !TAKEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    if let Ok(mut output) = output {
        let (told, heard) = sync_channel(1);
        let writing = thread::Builder::new().spawn(move || {
            _ = output.write_all(LEAVE);
            _ = told.send(());
        });
        if writing.is_ok() {
            _ = heard.recv_timeout(PATIENCE);
        }
    }
    // What cannot be undone here cannot be undone anywhere: there is nobody left to tell.
    _ = crossterm::terminal::disable_raw_mode();
    for message in KEPT.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        _ = writeln!(io::stderr(), "{message}");
    }
}

/// A panic inside a pane's emulator is silent: the pane says that it failed. One of the thread that has the terminal
/// gives it back first, so that the message can be read. One of any other thread is kept and printed at the end.
fn set_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if is_contained() {
            return;
        }
        let owner = *OWNER.lock().unwrap_or_else(PoisonError::into_inner);
        if TAKEN.load(Ordering::Acquire) && owner != Some(thread::current().id()) {
            let name = thread::current().name().unwrap_or("unnamed").to_owned();
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < MESSAGES {
                kept.push(format!("thread {name:?}: {info}"));
            }
            return;
        }
        give_back();
        before(info);
    }));
}
