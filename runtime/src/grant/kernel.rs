//! The few kernel operations the broker is made of. Nothing here decides anything.

use super::error::{Escape, GrantError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use stockade_protocol::digest::Digest;

/// Every lookup: stay below the directory, follow no link of any kind, enter no other mount.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// How often a lookup that collided with a rename is tried again.
const ATTEMPTS: usize = 64;

/// Bytes moved at a time.
const CHUNK: usize = 64 * 1024;

/// Which file this is, whatever it is called. The mount is known on Linux 5.8 and later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) mount: Option<u64>,
}

impl Identity {
    /// The same inode, on whichever mount it was seen.
    pub(super) const fn same_file(&self, stat: &Stat) -> bool {
        self.device == stat.st_dev && self.inode == stat.st_ino
    }

    /// What was opened, and its facts.
    pub(super) fn of(fd: impl AsFd) -> Result<(Self, Stat), Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        let mount = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
            .ok()
            .filter(|facts| facts.stx_mask & StatxFlags::MNT_ID.bits() != 0)
            .map(|facts| facts.stx_mnt_id);
        Ok((Self { device: stat.st_dev, inode: stat.st_ino, mount }, stat))
    }
}

/// Opens one component of a directory.
pub(super) fn open_component(directory: impl AsFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(&directory, name, flags | OFlags::CLOEXEC, Mode::empty(), RESOLVE) {
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
            other => return other,
        }
    }
    Err(last)
}

/// What an entry is, without following it.
pub(super) fn look(directory: impl AsFd, name: &str) -> Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// A refused lookup, as the broker reports it.
pub(super) fn lookup_error(path: &str, errno: Errno) -> GrantError {
    let path = path.to_owned();
    match errno {
        Errno::LOOP => GrantError::Escape { path, how: Escape::Link },
        Errno::XDEV => GrantError::Escape { path, how: Escape::Mount },
        Errno::NOENT => GrantError::Missing { path },
        Errno::NOTDIR => GrantError::NotDirectory { path },
        Errno::NAMETOOLONG => GrantError::Path { path, fault: super::error::PathFault::TooLong },
        errno => GrantError::Io { path, doing: "opening", errno },
    }
}

/// This process's own table of open files: the one way to open or link what is already held, without its path.
#[derive(Debug)]
pub(super) struct OwnFiles(OwnedFd);

impl OwnFiles {
    /// Finds it, and makes sure it is the kernel's and not a directory somebody put there.
    pub(super) fn open() -> Result<Self, GrantError> {
        let missing = |errno| GrantError::Kernel { what: "/proc/self/fd", errno };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open("/proc/self/fd", flags, Mode::empty()).map_err(missing)?;
        let system = rustix::fs::fstatfs(&directory).map_err(missing)?;
        if system.f_type != rustix::fs::PROC_SUPER_MAGIC {
            return Err(missing(Errno::NOTSUP));
        }
        Ok(Self(directory))
    }

    /// Opens a held file anew: an own offset, an own access mode.
    pub(super) fn reopen(&self, held: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.0, own_name(held), flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Gives a held, nameless file its first name. Fails when the name is taken, by whatever.
    pub(super) fn link(&self, held: BorrowedFd<'_>, directory: impl AsFd, name: &str) -> Result<(), Errno> {
        rustix::fs::linkat(&self.0, own_name(held), directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

fn own_name(held: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd as _;
    held.as_raw_fd().to_string()
}

/// Why a copy ended before the end of the file.
pub(super) enum CopyFault {
    /// There was at least one byte more than allowed.
    TooLarge,
    /// The source could not be read.
    Read(Errno),
    /// The destination did not take the bytes.
    Write(Errno),
}

/// Reads a file from its beginning to its end, at most `limit` bytes, whatever size it claims to have. Each chunk is
/// hashed and handed on. Never reads more than one byte past the limit.
pub(super) fn pump(
    source: impl AsFd,
    limit: u64,
    mut sink: impl FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(u64, Digest), CopyFault> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut total: u64 = 0;
    loop {
        let room = usize::try_from(limit.saturating_add(1).saturating_sub(total)).unwrap_or(CHUNK).min(CHUNK);
        let window = buffer.get_mut(..room).unwrap_or_default();
        let count = match rustix::io::pread(&source, window, total) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(CopyFault::Read(errno)),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok((total, Digest::from_bytes(hash.finalize().into())));
        }
        total = total.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if total > limit {
            return Err(CopyFault::TooLarge);
        }
        hash.update(bytes);
        sink(bytes).map_err(CopyFault::Write)?;
    }
}

/// Writes all of it.
pub(super) fn write_all(target: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&target, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whether a file was left alone between two looks.
pub(super) const fn untouched(before: &Stat, after: &Stat) -> bool {
    before.st_size == after.st_size
        && before.st_mtime == after.st_mtime
        && before.st_mtime_nsec == after.st_mtime_nsec
        && before.st_ctime == after.st_ctime
        && before.st_ctime_nsec == after.st_ctime_nsec
}

/// Whether it is a regular file.
pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// What to call it.
pub(super) fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "file of unknown kind",
    }
}
