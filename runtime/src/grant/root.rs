//! The project's root, held open, and the walk from it to what a grant names.

use super::destination::Method;
use super::error::GrantError;
use super::kernel::{self, Identity, OwnFiles};
use super::path::{self, GrantPath};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::Path;
use std::sync::OnceLock;

/// A project's directory, held open, and the places inside that no grant reaches.
///
/// Grants are resolved from the held directory, never from its path, so a directory that is put at the project's
/// path later is not mistaken for the project.
#[derive(Debug)]
pub struct ProjectRoot {
    directory: OwnedFd,
    identity: Identity,
    owner: u32,
    path: String,
    ceilings: Vec<Ceiling>,
    own: OwnFiles,
    method: OnceLock<Method>,
}

/// A place that no grant reaches, known by what it is and not by what it is called.
#[derive(Debug)]
struct Ceiling {
    identity: Identity,
    path: String,
}

/// A directory reached by the walk.
struct Step {
    directory: OwnedFd,
    /// Whether it has a `stockade.toml` of its own, so that more names in it are closed.
    in_project: bool,
}

impl ProjectRoot {
    /// Opens the project at `path`. `ceilings` are stockade's own directories (configuration, state, sockets): they
    /// stay closed wherever they lie and whatever they are called, and must exist.
    ///
    /// # Errors
    /// When the path is not a directory with a UTF-8 name, when a ceiling is relative, missing or a symbolic link,
    /// when the project lies inside a ceiling, or when the kernel lacks `openat2` or `/proc`.
    pub fn open(path: &Path, ceilings: &[&Path]) -> Result<Self, GrantError> {
        let wrong = |why: &str| GrantError::Root { path: path.to_string_lossy().into_owned(), why: why.to_owned() };
        let real = path.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        let text = real.to_str().ok_or_else(|| wrong("its name is not UTF-8"))?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&real, flags, Mode::empty()).map_err(|errno| wrong(&errno.to_string()))?;
        let (identity, stat) = Identity::of(&directory).map_err(|errno| wrong(&errno.to_string()))?;
        kernel::open_component(&directory, ".", OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| GrantError::Kernel { what: "openat2", errno })?;
        let ceilings = ceilings.iter().map(|path| Ceiling::hold(path)).collect::<Result<Vec<_>, _>>()?;
        for above in real.ancestors() {
            let stat = rustix::fs::stat(above).map_err(|errno| wrong(&errno.to_string()))?;
            if let Some(ceiling) = ceilings.iter().find(|ceiling| ceiling.identity.same_file(&stat)) {
                return Err(wrong(&format!("it lies inside {}, which is stockade's own", ceiling.path)));
            }
        }
        let own = OwnFiles::open()?;
        Ok(Self { directory, identity, owner: stat.st_uid, path: text, ceilings, own, method: OnceLock::new() })
    }

    /// The project's absolute path, without links, as it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Makes sure that the project's path still leads to the directory that is held; else every path in a receipt
    /// would name another file.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_place(&self) -> Result<(), GrantError> {
        match rustix::fs::statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if self.identity.same_file(&stat) => Ok(()),
            Ok(_) | Err(_) => Err(GrantError::Changed {
                path: self.path.clone(),
                what: "the project's directory was moved or replaced",
            }),
        }
    }

    pub(super) const fn owner(&self) -> u32 {
        self.owner
    }

    pub(super) const fn own(&self) -> &OwnFiles {
        &self.own
    }

    pub(super) const fn method(&self) -> &OnceLock<Method> {
        &self.method
    }

    /// Absolute path of a granted one.
    pub(super) fn host_path(&self, path: &GrantPath) -> String {
        format!("{}/{}", self.path.trim_end_matches('/'), path.as_str())
    }

    /// Holds an input by a handle that cannot read yet: nothing is opened before it is known to be a file, because
    /// opening alone wakes pipes and devices.
    pub(super) fn hold_file(&self, path: &GrantPath) -> Result<(OwnedFd, Identity, Stat), GrantError> {
        let step = self.walk(path)?;
        let held = self.enter(step.directory.as_fd(), step.in_project, path, path.name(), OFlags::PATH)?;
        let (identity, stat) = Identity::of(&held).map_err(|errno| kernel::lookup_error(path.as_str(), errno))?;
        Ok((held, identity, stat))
    }

    /// Opens the directory that a path's last component is in, readable so that it can be made durable.
    pub(super) fn open_parent(&self, path: &GrantPath) -> Result<(OwnedFd, Identity, Stat), GrantError> {
        let step = self.walk(path)?;
        if path::is_closed(path.name(), step.in_project) {
            return Err(protected(path, path.name()));
        }
        let failed = |errno| kernel::lookup_error(path.as_str(), errno);
        let directory =
            kernel::open_component(&step.directory, ".", OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let (identity, stat) = Identity::of(&directory).map_err(failed)?;
        Ok((directory, identity, stat))
    }

    /// Goes from the root through every directory of a path, one held handle at a time, so that what was checked is
    /// what is entered next.
    fn walk(&self, path: &GrantPath) -> Result<Step, GrantError> {
        let start = kernel::open_component(&self.directory, ".", OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| kernel::lookup_error(path.as_str(), errno))?;
        let mut step = Step { directory: start, in_project: true };
        for name in path.directories() {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let directory = self.enter(step.directory.as_fd(), step.in_project, path, name, flags)?;
            // A directory that cannot be looked into counts as a project: that closes more.
            let in_project = !matches!(kernel::look(&directory, "stockade.toml"), Err(Errno::NOENT));
            step = Step { directory, in_project };
        }
        Ok(step)
    }

    /// Opens one component and refuses it when it is closed, by name or by what it turned out to be.
    fn enter(
        &self,
        directory: BorrowedFd<'_>,
        in_project: bool,
        path: &GrantPath,
        name: &str,
        flags: OFlags,
    ) -> Result<OwnedFd, GrantError> {
        if path::is_closed(name, in_project) {
            return Err(protected(path, name));
        }
        let failed = |errno| kernel::lookup_error(path.as_str(), errno);
        let entered = kernel::open_component(directory, name, flags).map_err(failed)?;
        let (identity, _) = Identity::of(&entered).map_err(failed)?;
        if let Some(ceiling) = self.ceilings.iter().find(|ceiling| ceiling.matches(&identity)) {
            return Err(protected(path, &ceiling.path));
        }
        // A file system may know a closed entry by further names: short ones, decomposed ones.
        let in_projects = path::CLOSED_IN_PROJECTS.iter().filter(|_| in_project);
        for closed in path::CLOSED_ANYWHERE.iter().chain(in_projects) {
            if kernel::look(directory, closed).is_ok_and(|stat| identity.same_file(&stat)) {
                return Err(protected(path, closed));
            }
        }
        Ok(entered)
    }
}

impl Ceiling {
    fn hold(path: &Path) -> Result<Self, GrantError> {
        let text = path.to_string_lossy().into_owned();
        let wrong = |why: String| GrantError::Ceiling { path: text.clone(), why };
        if !path.is_absolute() {
            return Err(wrong("it is a relative path".to_owned()));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| wrong(errno.to_string()))?;
        let (identity, stat) = Identity::of(&held).map_err(|errno| wrong(errno.to_string()))?;
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => Ok(Self { identity, path: text }),
            _ => Err(wrong(format!("it is a {}", kernel::kind(&stat)))),
        }
    }

    fn matches(&self, identity: &Identity) -> bool {
        self.identity.device == identity.device && self.identity.inode == identity.inode
    }
}

fn protected(path: &GrantPath, what: &str) -> GrantError {
    GrantError::Protected { path: path.to_owned_text(), what: what.to_owned() }
}
