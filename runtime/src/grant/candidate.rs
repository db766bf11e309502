//! The output on its way from the worker's private file into the project.

use super::destination::{Destination, Method};
use super::error::GrantError;
use super::kernel::{self, CopyFault, Identity};
use super::root::ProjectRoot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::sync::Arc;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::PublicationIntent;
use stockade_protocol::result::CreatedFile;

/// Every published file has this mode, whatever the worker set.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// A verified copy of the worker's output, on the file system it will appear on but not visible there yet.
///
/// Dropping it leaves nothing behind.
#[derive(Debug)]
#[must_use = "a candidate that is dropped is discarded"]
pub struct Candidate {
    root: Arc<ProjectRoot>,
    destination: Arc<Destination>,
    file: OwnedFd,
    identity: Identity,
    bytes: u64,
    sha256: Digest,
    temporary: Option<Temporary>,
}

/// The name a candidate has meanwhile, where it cannot be without one. Dropping removes the entry if it is still
/// that candidate.
#[derive(Debug)]
struct Temporary {
    destination: Arc<Destination>,
    name: String,
    identity: Identity,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_there() {
            // Nothing more can be done here; the next grant for this directory sweeps what is left.
            let _ = self.destination.unlink(&self.name);
        }
    }
}

impl Temporary {
    fn is_there(&self) -> bool {
        self.destination.look(&self.name).is_ok_and(|stat| self.identity.same_file(&stat))
    }
}

impl Candidate {
    /// Copies the bytes, and only the bytes, of the worker's output.
    pub(super) fn stage(
        root: Arc<ProjectRoot>,
        destination: Arc<Destination>,
        staged: &OwnedFd,
        limit: u64,
    ) -> Result<Self, GrantError> {
        let path = || destination.path().to_owned_text();
        let before = rustix::fs::fstat(staged).map_err(|errno| destination.failed("reading", errno))?;
        if !kernel::is_regular(&before) {
            return Err(GrantError::Kind { path: path(), kind: kernel::kind(&before) });
        }
        match u64::try_from(before.st_size) {
            Ok(0) => return Err(GrantError::Empty { path: path() }),
            Ok(size) if size <= limit => {}
            Ok(_) | Err(_) => return Err(GrantError::TooLarge { path: path(), limit }),
        }
        let creating = |errno| destination.failed("creating", errno);
        let (file, name) = match destination.method() {
            Method::Nameless => (destination.create_nameless().map_err(creating)?, None),
            Method::Temporary => {
                let (file, name) = destination.create_temporary().map_err(creating)?;
                (file, Some(name))
            }
        };
        let (identity, _) = Identity::of(&file).map_err(creating)?;
        // From here on an early return removes the entry again.
        let temporary = name.map(|name| Temporary { destination: Arc::clone(&destination), name, identity });
        let (bytes, sha256) = copy(&destination, staged, &file, limit)?;
        let after = rustix::fs::fstat(staged).map_err(|errno| destination.failed("reading", errno))?;
        if bytes == 0 || !kernel::untouched(&before, &after) || before.st_size.try_into() != Ok(bytes) {
            return Err(GrantError::Restless { path: path() });
        }
        settle(&file).map_err(|errno| destination.failed("writing", errno))?;
        Ok(Self { root, destination, file, identity, bytes, sha256, temporary })
    }

    /// What is about to happen. It must be durable before [`Self::publish`] is called.
    #[must_use]
    pub fn intent(&self) -> PublicationIntent {
        let parent = self.destination.identity();
        PublicationIntent {
            path: self.destination.path().to_owned_text(),
            host_path: self.destination.host_path().to_owned(),
            bytes: self.bytes,
            sha256: self.sha256,
            device: self.identity.device,
            inode: self.identity.inode,
            parent_device: parent.device,
            parent_inode: parent.inode,
            temporary: self.temporary.as_ref().map(|temporary| temporary.name.clone()),
        }
    }

    /// Lets the file appear in the project: in one step, under a name that nothing has, durable when this returns.
    ///
    /// # Errors
    /// [`GrantError::Unpublished`] when it did not appear, or appeared where it should not and was taken back:
    /// nothing of it is left. [`GrantError::InDoubt`] when it may be there and could not be taken back.
    pub fn publish(self) -> Result<CreatedFile, GrantError> {
        let unpublished = |error| GrantError::Unpublished(Box::new(error));
        self.check().map_err(unpublished)?;
        self.appear().map_err(unpublished)?;
        match self.confirm() {
            Ok(()) => Ok(self.receipt()),
            Err(error) => Err(self.withdraw(error)),
        }
    }

    /// The place is as it was prepared, and the candidate is as it was staged.
    pub(super) fn check(&self) -> Result<(), GrantError> {
        self.destination.check_directory(&self.root)?;
        let changed = || GrantError::Changed {
            path: self.destination.path().to_owned_text(),
            what: "the staged copy was changed",
        };
        if self.temporary.as_ref().is_some_and(|temporary| !temporary.is_there()) {
            return Err(changed());
        }
        match kernel::pump(&self.file, self.bytes, |_| Ok(())) {
            Ok((bytes, sha256)) if bytes == self.bytes && sha256 == self.sha256 => Ok(()),
            Ok(_) | Err(CopyFault::TooLarge) => Err(changed()),
            Err(CopyFault::Read(errno) | CopyFault::Write(errno)) => Err(self.destination.failed("reading", errno)),
        }
    }

    pub(super) fn appear(&self) -> Result<(), GrantError> {
        let name = self.destination.path().name();
        let done = match &self.temporary {
            None => self.root.own().link(self.file.as_fd(), self.destination.parent(), name),
            Some(temporary) => self.destination.rename(&temporary.name, name),
        };
        done.map_err(|errno| match errno {
            Errno::EXIST => GrantError::Exists { path: self.destination.path().to_owned_text() },
            errno => self.destination.failed("publishing", errno),
        })
    }

    /// The file is durably where the path says, and it is this one and no other.
    pub(super) fn confirm(&self) -> Result<(), GrantError> {
        self.destination.sync().map_err(|errno| self.destination.failed("making durable", errno))?;
        self.destination.check_directory(&self.root)?;
        let there = self.destination.look(self.destination.path().name());
        if there.is_ok_and(|stat| self.identity.same_file(&stat) && stat.st_nlink == 1) {
            return Ok(());
        }
        Err(GrantError::Changed {
            path: self.destination.path().to_owned_text(),
            what: "another file took its place while it was published",
        })
    }

    /// Takes back a file that appeared but could not be confirmed. It is first moved to a name of the broker's own,
    /// so that what is removed is surely this file and never one that took its name.
    pub(super) fn withdraw(&self, error: GrantError) -> GrantError {
        let name = self.destination.path().name();
        let moved =
            self.destination.with_new_name(|aside| self.destination.rename(name, aside).map(|()| aside.to_owned()));
        let gone = match moved {
            Ok(aside) if self.destination.look(&aside).is_ok_and(|stat| self.identity.same_file(&stat)) => {
                self.destination.unlink(&aside).and_then(|()| self.destination.sync()).is_ok()
            }
            Ok(aside) => {
                // Not ours: it goes back where it was.
                let _ = self.destination.rename(&aside, name);
                false
            }
            Err(_) => false,
        };
        if gone { GrantError::Unpublished(Box::new(error)) } else { GrantError::InDoubt(Box::new(error)) }
    }

    #[cfg(test)]
    pub(super) const fn file_for_test(&self) -> &OwnedFd {
        &self.file
    }

    fn receipt(&self) -> CreatedFile {
        CreatedFile {
            path: self.destination.path().to_owned_text(),
            host_path: self.destination.host_path().to_owned(),
            bytes: self.bytes,
            sha256: self.sha256,
        }
    }
}

fn copy(destination: &Destination, staged: &OwnedFd, file: &OwnedFd, limit: u64) -> Result<(u64, Digest), GrantError> {
    kernel::pump(staged, limit, |bytes| kernel::write_all(file, bytes)).map_err(|fault| match fault {
        CopyFault::TooLarge => GrantError::TooLarge { path: destination.path().to_owned_text(), limit },
        CopyFault::Read(errno) => destination.failed("reading the staged copy of", errno),
        CopyFault::Write(errno) => destination.failed("writing", errno),
    })
}

/// Fixes the mode, takes off an access list the directory may have put on, and makes the bytes durable.
fn settle(file: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fremovexattr(file, c"system.posix_acl_access") {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::fchmod(file, MODE)?;
    rustix::fs::fsync(file)
}
