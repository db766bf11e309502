//! A terminal for the program under test. Both of its ends are closed by `exec`: only what is handed over on purpose
//! reaches a program, so that a terminal whose reader has gone is noticed, and programs of other tests hold none of it.

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::os::fd::OwnedFd;

/// The two ends of a new terminal: the one that is read and typed on, and the one a program is given.
pub(crate) fn open(columns: u16, rows: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a pseudo-terminal");
    grantpt(&master).expect("its other end is ours");
    unlockpt(&master).expect("its other end is open");
    let line = ioctl_tiocgptpeer(&master, flags).expect("its other end");
    tcsetwinsize(&line, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
    (master, line)
}
