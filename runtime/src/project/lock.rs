//! One runtime a project: an advisory lock that the kernel lets go of however its holder ends.

use super::places::{PlaceError, Places, Privacy, PrivateDirectory};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The lock of one project, held until dropped.
#[derive(Debug)]
pub struct ProjectLock {
    root: PathBuf,
    _file: Flock<File>,
}

/// The lock could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Its directory is not fit.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The kernel refused.
    #[error("the lock of the project could not be taken in {path}: {source}")]
    Lock {
        /// The state directory.
        path: String,
        /// Why.
        source: Errno,
    },
}

impl ProjectLock {
    /// Takes the lock of the project at `root` when no other process has it; `None` when one has.
    ///
    /// # Errors
    /// When the state directory is not private or the kernel refuses.
    pub fn take(places: &Places, root: &Path) -> Result<Option<Self>, LockError> {
        PrivateDirectory::open(&places.state, Privacy::Closed)?;
        PrivateDirectory::open(&places.state.join("projects"), Privacy::Closed)?;
        let state = PrivateDirectory::open(&places.project_state(root), Privacy::Closed)?;
        let failed = |source| LockError::Lock { path: state.path().display().to_string(), source };
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(state.fd(), "lock", flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(failed)?;
        match Flock::lock(File::from(fd), FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { root: root.to_owned(), _file: file })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, source)) => Err(failed(source)),
        }
    }

    /// The project it holds.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
