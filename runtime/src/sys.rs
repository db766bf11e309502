//! The one module that may hold `unsafe`: kernel interfaces that no safe wrapper covers. Each block says why it is
//! sound. Nothing here decides anything.
#![allow(unsafe_code, reason = "this module is the only one that may")]

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::unistd::{ForkResult, Pid};
use std::ffi::{CString, OsStr};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use tokio::io::unix::AsyncFd;

/// Most descriptors one message may carry: 32 inputs and what comes with them.
pub(crate) const MESSAGE_DESCRIPTORS: usize = 40;

/// Turns the result of a raw call into one with the kernel's error.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over a descriptor that the kernel has just made for this process.
///
/// Callers pass only what a successful call returned and nobody else has seen.
fn fresh(descriptor: RawFd) -> OwnedFd {
    // SAFETY: by this function's contract the descriptor is open and has no other owner.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Makes a descriptor's operations return instead of waiting.
pub(crate) fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Lets a runtime wait for a descriptor. Must be called inside one with I/O.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and the same until it is dropped, and the `AsyncFd` owns it.
    unsafe { AsyncFd::register(descriptor) }.map_err(io::Error::from)
}

/// Sends one message with descriptors.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
    let sent = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one message and the descriptors in it, which are closed on execution. Zero bytes are the end. A message
/// that did not fit is an error.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; MESSAGE_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            descriptors.extend(raw.into_iter().map(fresh));
        }
    }
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message did not fit its buffer"));
    }
    Ok((message.bytes, descriptors))
}

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Fork {
    /// The old process, with the new one's id.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks a process that has a single thread; refuses when it has more.
pub(crate) fn fork() -> io::Result<Fork> {
    // Every thread is a directory in there, and each directory adds a link to its parent.
    if std::fs::metadata("/proc/self/task")?.nlink() != 3 {
        return Err(io::Error::other("only a process with a single thread may fork"));
    }
    // SAFETY: with a single thread no lock can be held by a thread that the child does not have.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Fork::Parent(child),
        ForkResult::Child => Fork::Child,
    })
}

/// Ends the process at once, without running anything registered for its end.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// A descriptor that stands for a process and becomes readable when it has ended.
pub(crate) fn open_process(process: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor, closed on execution.
    let descriptor = check(unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) })?;
    RawFd::try_from(descriptor).map(fresh).map_err(io::Error::other)
}

/// Sends a signal to exactly the process a pidfd stands for.
pub(crate) fn signal_process(process: impl AsFd, signal: Signal) -> io::Result<()> {
    let (process, signal) = (process.as_fd().as_raw_fd(), signal as libc::c_int);
    // SAFETY: pidfd_send_signal takes two integers, an optional pointer that is null, and flags.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, std::ptr::null::<()>(), 0) }).map(drop)
}

/// Gives every signal that can have one its default action back.
pub(crate) fn default_signals() -> io::Result<()> {
    for signal in Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: the default action runs no code of this program.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Mount attributes of `mount_setattr(2)`: flags to add, and whether to the mounts below too.
pub(crate) fn set_mount_attributes(path: &str, flags: u64, below: bool) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let path = CString::new(path)?;
    let attributes = Attributes { set: flags, clear: 0, propagation: 0, user_namespace: 0 };
    let recursive = if below { libc::AT_RECURSIVE } else { 0 };
    let size = std::mem::size_of::<Attributes>();
    // SAFETY: the path ends with a zero byte, the structure has the size given, and both live over the call.
    check(unsafe {
        let attributes = &raw const attributes;
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), recursive, attributes, size)
    })
    .map(drop)
}

/// The version 3 of the kernel's capability interface.
const CAPABILITIES_V3: u32 = 0x2008_0522;

/// Sets the effective, permitted and inheritable capabilities, each all or nothing, of this thread.
fn set_capabilities(effective_and_permitted: [u32; 2], inheritable: [u32; 2]) -> io::Result<()> {
    let header = [CAPABILITIES_V3, 0];
    let [low, high] = effective_and_permitted;
    let data = [low, low, inheritable[0], high, high, inheritable[1]];
    // SAFETY: version 3 reads a header of two integers and two structures of three integers each.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) }).map(drop)
}

/// The highest capability number there can be, and some to spare: the kernel refuses numbers it does not know.
const CAPABILITIES: libc::c_ulong = 63;

/// Gives up every capability. With `bounding`, none can be gained by executing a file either.
pub(crate) fn drop_capabilities(bounding: bool) -> io::Result<()> {
    if bounding {
        for capability in 0..=CAPABILITIES {
            // SAFETY: PR_CAPBSET_DROP takes an integer.
            let dropped = check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }.into());
            match dropped {
                Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
                _ => {}
            }
        }
    }
    set_capabilities([0, 0], [0, 0])
}

/// Keeps this user namespace's capabilities across an execution. Only positive controls of tests come here.
pub(crate) fn keep_capabilities() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap_or_default();
    let all = u64::from_str_radix(permitted.trim(), 16).map_err(io::Error::other)?;
    let halves = [(all & 0xffff_ffff) as u32, (all >> 32) as u32];
    set_capabilities(halves, halves)?;
    for capability in (0..=CAPABILITIES).filter(|capability| all >> capability & 1 == 1) {
        // SAFETY: PR_CAP_AMBIENT takes integers.
        check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) }.into())?;
    }
    Ok(())
}

/// Marks every descriptor from 3 up to be closed on execution.
pub(crate) fn close_rest_on_execution() -> io::Result<()> {
    // SAFETY: close_range takes integers; with this flag nothing is closed yet.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// Closes every descriptor from 3 up. Only for a process that has just begun and has opened none of its own.
pub(crate) fn close_inherited() -> io::Result<()> {
    // SAFETY: close_range takes integers; by this function's contract nothing in this process owns any of them.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }).map(drop)
}

/// Lets every descriptor live through an execution. Only positive controls of tests come here.
pub(crate) fn keep_descriptors() {
    for descriptor in 3..256 {
        // SAFETY: F_SETFD takes an integer; on a closed descriptor it fails and changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
    }
}

/// Lets the other side of a terminal be opened.
pub(crate) fn unlock_terminal(master: BorrowedFd<'_>) -> io::Result<()> {
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one integer, which lives over the call.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) }.into()).map(drop)
}

/// Opens the other side of a terminal, whatever path it has.
pub(crate) fn open_terminal(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes open flags by value and returns a new descriptor.
    let descriptor = check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }.into())?;
    RawFd::try_from(descriptor).map(fresh).map_err(io::Error::other)
}

/// Makes a terminal the controlling one of this session.
pub(crate) fn control_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into()).map(drop)
}

/// Sets a terminal's size.
pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one `winsize`, which lives over the call.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }.into()).map(drop)
}

/// The kernel's Landlock ABI; 0 when it has none or has it switched off.
pub(crate) fn landlock_abi() -> u32 {
    // SAFETY: with this flag the call takes a null pointer and no size, and returns a number.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0, 1) };
    u32::try_from(abi).unwrap_or(0)
}

/// A string as the kernel takes it.
pub(crate) fn c_string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(text.as_ref().as_bytes())?)
}
