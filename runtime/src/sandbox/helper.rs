//! What supervisor, launcher and init have in common at their start.

use crate::sys;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Closes whatever the program was itself started with and passed on unknowingly, such as the master of its own
/// terminal, which would then never hang up. Moves the socket away from descriptor 0, puts an empty device there, and
/// names the process in process lists. The first thing a helper does.
pub(super) fn take_socket(name: &str) -> io::Result<OwnedFd> {
    sys::close_inherited()?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    nothing_on_standard_streams()?;
    prctl::set_name(&CString::new(name)?)?;
    Ok(socket)
}

/// Puts this root's empty device on descriptors 0, 1 and 2.
pub(super) fn nothing_on_standard_streams() -> io::Result<()> {
    let nothing: File = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    Ok(())
}

/// Whether the other side of a socket is closed.
pub(super) fn is_closed(socket: &OwnedFd) -> io::Result<bool> {
    let mut ends = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut ends, PollTimeout::ZERO)?;
    Ok(ends.iter().any(|end| end.any().unwrap_or(true)))
}
