//! Inputs: what a file held when the call was prepared, sealed in memory.

use super::error::GrantError;
use super::kernel::{self, CopyFault, Identity};
use super::path::GrantPath;
use super::root::ProjectRoot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use stockade_protocol::contract::InputFile;
use stockade_protocol::digest::Digest;
use stockade_protocol::limits::GRANT_TOTAL_BYTES;

/// A sealed copy of one input.
#[derive(Debug)]
pub(super) struct Snapshot {
    path: GrantPath,
    identity: Identity,
    bytes: u64,
    sha256: Digest,
    memory: OwnedFd,
}

/// What is read of a file, and what it turned out to be.
struct Reading {
    identity: Identity,
    bytes: u64,
    sha256: Digest,
}

impl Snapshot {
    /// Copies a file, at most `limit` bytes and at most the `left` bytes of the whole grant.
    pub(super) fn take(root: &ProjectRoot, path: GrantPath, limit: u64, left: u64) -> Result<Self, GrantError> {
        let memory = create_memory().map_err(|errno| GrantError::Kernel { what: "sealed memory files", errno })?;
        let reading = read(root, &path, limit.min(left), |bytes| kernel::write_all(&memory, bytes)).map_err(
            |error| match error {
                GrantError::TooLarge { path, .. } if left < limit => {
                    GrantError::TotalTooLarge { path, limit: GRANT_TOTAL_BYTES }
                }
                GrantError::TooLarge { path, .. } => GrantError::TooLarge { path, limit },
                other => other,
            },
        )?;
        seal(&memory).map_err(|errno| GrantError::Kernel { what: "sealed memory files", errno })?;
        let Reading { identity, bytes, sha256 } = reading;
        Ok(Self { path, identity, bytes, sha256, memory })
    }

    /// Makes sure that the file on disk is still the one that was copied, byte by byte.
    pub(super) fn recheck(&self, root: &ProjectRoot) -> Result<(), GrantError> {
        let changed = |what| GrantError::Changed { path: self.path.to_owned_text(), what };
        let now = match read(root, &self.path, self.bytes, |_| Ok(())) {
            Err(GrantError::TooLarge { .. } | GrantError::Restless { .. }) => {
                return Err(changed("its content changed"));
            }
            other => other?,
        };
        if now.identity != self.identity {
            return Err(changed("another file is at its place"));
        }
        if now.bytes != self.bytes || now.sha256 != self.sha256 {
            return Err(changed("its content changed"));
        }
        Ok(())
    }

    pub(super) fn contract(&self) -> InputFile {
        InputFile { path: self.path.to_owned_text(), bytes: self.bytes, sha256: self.sha256 }
    }

    /// A handle of its own on the sealed bytes: read-only, at their beginning, whatever other handles do.
    pub(super) fn handle(&self, root: &ProjectRoot) -> Result<OwnedFd, GrantError> {
        root.own().reopen(self.memory.as_fd(), OFlags::RDONLY).map_err(|errno| GrantError::Io {
            path: self.path.to_owned_text(),
            doing: "opening the snapshot of",
            errno,
        })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) const fn path(&self) -> &GrantPath {
        &self.path
    }
}

fn read(
    root: &ProjectRoot,
    path: &GrantPath,
    limit: u64,
    sink: impl FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<Reading, GrantError> {
    let failed = |errno| GrantError::Io { path: path.to_owned_text(), doing: "reading", errno };
    let (held, identity, stat) = root.hold_file(path)?;
    if !kernel::is_regular(&stat) {
        return Err(GrantError::Kind { path: path.to_owned_text(), kind: kernel::kind(&stat) });
    }
    if stat.st_nlink != 1 {
        return Err(GrantError::HardLinked { path: path.to_owned_text() });
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = root.own().reopen(held.as_fd(), flags).map_err(failed)?;
    let before = rustix::fs::fstat(&file).map_err(failed)?;
    let (bytes, sha256) = kernel::pump(&file, limit, sink).map_err(|fault| match fault {
        CopyFault::TooLarge => GrantError::TooLarge { path: path.to_owned_text(), limit },
        CopyFault::Read(errno) => failed(errno),
        CopyFault::Write(errno) => GrantError::Io { path: path.to_owned_text(), doing: "keeping a snapshot of", errno },
    })?;
    let after = rustix::fs::fstat(&file).map_err(failed)?;
    let whole = u64::try_from(after.st_size).is_ok_and(|size| size == bytes);
    if !whole || !identity.same_file(&before) || !kernel::untouched(&before, &after) {
        return Err(GrantError::Restless { path: path.to_owned_text() });
    }
    Ok(Reading { identity, bytes, sha256 })
}

fn create_memory() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Inputs are data. Kernels before 6.3 do not know the flag; there the copy's mode says the same.
    match rustix::fs::memfd_create(c"stockade-input", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(c"stockade-input", flags),
        other => other,
    }
}

fn seal(memory: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::fchmod(memory, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(memory, seals)
}
