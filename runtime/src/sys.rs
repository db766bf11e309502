//! The one module that may hold `unsafe`: kernel interfaces that no safe wrapper covers. Each block says why it is
//! sound. Nothing here decides anything.
#![allow(unsafe_code, reason = "this module is the only one that may")]

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

/// Turns the result of a raw call into one with the kernel's error.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a descriptor's operations return instead of waiting.
pub(crate) fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Sets a terminal's size.
pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one `winsize`, which lives over the call.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }.into()).map(drop)
}

/// Sends a signal to exactly the process a pidfd stands for.
pub(crate) fn signal_process(process: impl AsFd, signal: Signal) -> io::Result<()> {
    let (process, signal) = (process.as_fd().as_raw_fd(), signal as libc::c_int);
    // SAFETY: pidfd_send_signal takes two integers, an optional pointer that is null, and flags.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, std::ptr::null::<()>(), 0) }).map(drop)
}
