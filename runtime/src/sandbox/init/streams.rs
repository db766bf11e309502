//! The worker's standard streams, made inside so that nothing of the host's is behind them.

use super::super::fault::{Fault, Step as _};
use super::super::profile::Rule;
use super::super::spec::{Stdio, WorkerSpec};
use crate::sys;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;
use nix::sys::termios::{self, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use std::os::fd::{AsFd as _, OwnedFd};

/// Both sides of the streams.
pub(super) struct Streams {
    /// The worker's: one terminal, or standard input, output and error.
    pub(super) worker: Vec<OwnedFd>,
    /// The program's: one terminal master, or the other sides of the three pipes in the same order.
    pub(super) program: Vec<OwnedFd>,
}

/// One terminal.
fn open_pty(columns: u16, rows: u16, path: &str) -> Result<Streams, Fault> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = fcntl::open(path, flags, Mode::empty()).step(format!("open {path}"))?;
    sys::unlock_terminal(master.as_fd()).step("unlock the terminal")?;
    let terminal = sys::open_terminal(master.as_fd()).step("open the terminal")?;
    let mut settings = termios::tcgetattr(&terminal).step("read the terminal's settings")?;
    quiet(&mut settings);
    termios::tcsetattr(&terminal, SetArg::TCSANOW, &settings).step("set the terminal's settings")?;
    sys::set_window_size(terminal.as_fd(), columns, rows).step("size the terminal")?;
    Ok(Streams { worker: vec![terminal], program: vec![master] })
}

/// Echo off and input noncanonical, so that a line of any length arrives whole (source: seed on interactive
/// terminals). Output stops for nobody's ^S. Signal keys stay: a person who takes over expects them, and a command's
/// pattern cannot hold them.
fn quiet(settings: &mut Termios) {
    settings
        .local_flags
        .remove(LocalFlags::ECHO | LocalFlags::ECHOE | LocalFlags::ECHOK | LocalFlags::ECHONL | LocalFlags::ICANON);
    settings.input_flags.remove(InputFlags::IXON | InputFlags::IXOFF);
    settings.input_flags.insert(InputFlags::IUTF8);
    settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
    settings.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
}

/// Makes the streams that the specification asks for.
pub(super) fn open(spec: &WorkerSpec) -> Result<Streams, Fault> {
    match spec.stdio {
        Stdio::Pty { columns, rows } => {
            let private = spec.profile.has(Rule::PrivateTerminals);
            open_pty(columns, rows, if private { "/dev/pts/ptmx" } else { "/dev/ptmx" })
        }
        Stdio::Pipes => {
            let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC).step("make a pipe");
            let (stdin, to_stdin) = pipe()?;
            let (from_stdout, stdout) = pipe()?;
            let (from_stderr, stderr) = pipe()?;
            Ok(Streams { worker: vec![stdin, stdout, stderr], program: vec![to_stdin, from_stdout, from_stderr] })
        }
    }
}
