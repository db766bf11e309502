//! Where an output will appear: its directory, held open, and proof that it can appear there in one step.

use super::error::GrantError;
use super::kernel::{self, Identity};
use super::path::{GrantPath, TEMPORARY_PREFIX};
use super::root::ProjectRoot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use stockade_protocol::contract::OutputFile;

/// How a file can appear under a name without replacing anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// A file without a name is given one. Until then nothing of it can be seen, and a crash leaves nothing.
    Nameless,
    /// A file under a temporary name is renamed by a kind of rename that refuses to replace.
    Temporary,
}

/// The declared output's place.
#[derive(Debug)]
pub(super) struct Destination {
    path: GrantPath,
    host_path: String,
    parent: OwnedFd,
    identity: Identity,
    method: Method,
}

/// How many names are tried before giving up.
const NAMES: usize = 64;

impl Destination {
    /// Holds the directory of an output that does not exist yet.
    pub(super) fn prepare(root: &ProjectRoot, path: GrantPath) -> Result<Self, GrantError> {
        let (parent, identity, stat) = root.open_parent(&path)?;
        check_owner(root, &path, &stat)?;
        let host_path = root.host_path(&path);
        let mut destination = Self { path, host_path, parent, identity, method: Method::Nameless };
        destination.check_absent()?;
        destination.method = destination.prove(root)?;
        Ok(destination)
    }

    /// Makes sure that the path still leads to the held directory, and that nothing is at the output's place.
    pub(super) fn recheck(&self, root: &ProjectRoot) -> Result<(), GrantError> {
        self.check_directory(root)?;
        self.check_absent()
    }

    /// Makes sure that the path still leads to the held directory.
    pub(super) fn check_directory(&self, root: &ProjectRoot) -> Result<(), GrantError> {
        root.check_place()?;
        let what = "its directory was moved or replaced";
        match root.open_parent(&self.path) {
            Ok((_, identity, _)) if identity == self.identity => Ok(()),
            Ok(_) | Err(GrantError::Missing { .. } | GrantError::NotDirectory { .. } | GrantError::Escape { .. }) => {
                Err(GrantError::Changed { path: self.path.to_owned_text(), what })
            }
            Err(other) => Err(other),
        }
    }

    fn check_absent(&self) -> Result<(), GrantError> {
        match self.look(self.path.name()) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) => Err(GrantError::Exists { path: self.path.to_owned_text() }),
            Err(errno) => Err(self.failed("looking for", errno)),
        }
    }

    /// Proves that this directory takes a new file by one of the two methods, by doing it with an empty one that
    /// is gone again before this returns.
    fn prove(&self, root: &ProjectRoot) -> Result<Method, GrantError> {
        match root.method().get() {
            Some(Method::Nameless) => match self.create_nameless() {
                Ok(_) => return Ok(Method::Nameless),
                Err(errno) if lacks(errno) => {}
                Err(errno) => return Err(self.failed("creating a file beside", errno)),
            },
            Some(Method::Temporary) => {}
            None => match self.prove_nameless(root) {
                Ok(()) => return Ok(*root.method().get_or_init(|| Method::Nameless)),
                Err(errno) if lacks(errno) => {}
                Err(errno) => return Err(self.failed("creating a file beside", errno)),
            },
        }
        self.sweep();
        self.prove_rename()?;
        root.method().get_or_init(|| Method::Temporary);
        Ok(Method::Temporary)
    }

    fn prove_nameless(&self, root: &ProjectRoot) -> Result<(), Errno> {
        self.sweep();
        let file = self.create_nameless()?;
        let name =
            self.with_new_name(|name| root.own().link(file.as_fd(), &self.parent, name).map(|()| name.to_owned()));
        match name {
            Ok(name) => self.unlink(&name),
            // Whatever keeps a nameless file from being linked, renaming may still work.
            Err(_) => Err(Errno::OPNOTSUPP),
        }
    }

    fn prove_rename(&self) -> Result<(), GrantError> {
        let (_file, name) = self.create_temporary().map_err(|errno| self.failed("creating a file beside", errno))?;
        let renamed = self.with_new_name(|new| self.rename(&name, new).map(|()| new.to_owned()));
        let left = renamed.as_ref().unwrap_or(&name);
        self.unlink(left).map_err(|errno| self.failed("removing a temporary file beside", errno))?;
        renamed.map(|_| ()).map_err(|errno| GrantError::FileSystem { path: self.path.to_owned_text(), errno })
    }

    /// A file without a name, in the held directory.
    pub(super) fn create_nameless(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, c".", flags, Mode::RUSR | Mode::WUSR)
    }

    /// A file under a name that nothing else has, in the held directory. It stays locked while its handle lives, so
    /// that it can be told from one that a crash left.
    pub(super) fn create_temporary(&self) -> Result<(OwnedFd, String), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, name) = self.with_new_name(|name| {
            rustix::fs::openat(&self.parent, name, flags, Mode::RUSR | Mode::WUSR).map(|file| (file, name.to_owned()))
        })?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok((file, name)),
            Err(errno) => {
                self.unlink(&name)?;
                Err(errno)
            }
        }
    }

    /// Removes temporary files that a crash left in the held directory: those of this program's naming and user
    /// that no living handle has locked. What cannot be removed is left; it is never mistaken for an output.
    fn sweep(&self) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.parent) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !name.starts_with(TEMPORARY_PREFIX) {
                continue;
            }
            let ours = |stat: &Stat| {
                kernel::is_regular(stat) && stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw()
            };
            if !self.look(name).is_ok_and(|stat| ours(&stat)) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let Ok(file) = kernel::open_component(&self.parent, name, flags) else { continue };
            let ours = rustix::fs::fstat(&file).is_ok_and(|stat| ours(&stat));
            if ours && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Failing only means that it stays.
                let _ = self.unlink(name);
            }
        }
    }

    /// Tries names of the broker's own until one is free.
    pub(super) fn with_new_name<T>(&self, mut attempt: impl FnMut(&str) -> Result<T, Errno>) -> Result<T, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            match attempt(&format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id())) {
                Err(Errno::EXIST) => {}
                other => return other,
            }
        }
        Err(Errno::EXIST)
    }

    pub(super) fn look(&self, name: &str) -> Result<Stat, Errno> {
        kernel::look(&self.parent, name)
    }

    pub(super) fn unlink(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.parent, name, AtFlags::empty())
    }

    /// Renames inside the held directory; a taken name is an error, whatever has it.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.parent, from, &self.parent, to, RenameFlags::NOREPLACE)
    }

    pub(super) fn sync(&self) -> Result<(), Errno> {
        rustix::fs::fsync(&self.parent)
    }

    pub(super) const fn parent(&self) -> &OwnedFd {
        &self.parent
    }

    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) const fn method(&self) -> Method {
        self.method
    }

    pub(super) const fn path(&self) -> &GrantPath {
        &self.path
    }

    pub(super) fn host_path(&self) -> &str {
        &self.host_path
    }

    pub(super) fn contract(&self) -> OutputFile {
        OutputFile {
            path: self.path.to_owned_text(),
            parent_device: self.identity.device,
            parent_inode: self.identity.inode,
        }
    }

    pub(super) fn failed(&self, doing: &'static str, errno: Errno) -> GrantError {
        GrantError::Io { path: self.path.to_owned_text(), doing, errno }
    }
}

/// Whether the file system lacks an operation, rather than refusing it.
fn lacks(errno: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOSYS].contains(&errno)
}

/// A directory that strangers can rearrange is no place to publish into.
fn check_owner(root: &ProjectRoot, path: &GrantPath, stat: &Stat) -> Result<(), GrantError> {
    let unfit = |why| Err(GrantError::Directory { path: path.to_owned_text(), why });
    let mode = Mode::from_raw_mode(stat.st_mode);
    let known = [rustix::process::geteuid().as_raw(), root.owner(), 0];
    if !known.contains(&stat.st_uid) {
        return unfit("it belongs to another user");
    }
    if mode.contains(Mode::WOTH) && !mode.contains(Mode::SVTX) {
        return unfit("every user of this machine may write to it");
    }
    Ok(())
}
