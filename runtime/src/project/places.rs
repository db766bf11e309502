//! The places that stockade keeps its own files in, and the private directories they lie in.

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use std::fs::DirBuilder;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use stockade_protocol::digest::Digest;

/// Where stockade keeps what is not the project's. The binary reads the environment; the runtime is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Person-wide settings and the approver's key, e.g. `~/.config/stockade`.
    pub config: PathBuf,
    /// Journals, keys and state, e.g. `~/.local/state/stockade`. Mode 0700, never inside a workspace.
    pub state: PathBuf,
    /// Sockets, e.g. `$XDG_RUNTIME_DIR/stockade`; where that is unset, `run` below `state`.
    pub runtime: PathBuf,
}

impl Places {
    /// The approver's private key of this person, 0600.
    #[must_use]
    pub fn approver_key(&self) -> PathBuf {
        self.config.join("approver.key")
    }

    /// The record of trusted projects, 0600.
    #[must_use]
    pub fn trusted(&self) -> PathBuf {
        self.config.join("trusted.toml")
    }

    /// The state directory of the project at `root`, an absolute canonical path.
    #[must_use]
    pub fn project_state(&self, root: &Path) -> PathBuf {
        let name: String = root
            .file_name()
            .map(|name| {
                name.to_string_lossy().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect()
            })
            .unwrap_or_default();
        self.state.join("projects").join(format!("{name}-{}", project_key(root)))
    }

    /// The journal directory of the project at `root`.
    #[must_use]
    pub fn journal(&self, root: &Path) -> PathBuf {
        self.project_state(root).join("journal")
    }

    /// The journal's private key, 0600, beside the journal and never in it.
    #[must_use]
    pub fn journal_key(&self, root: &Path) -> PathBuf {
        self.project_state(root).join("journal.key")
    }

    /// The control socket of the runtime that has the project at `root` open.
    #[must_use]
    pub fn control_socket(&self, root: &Path) -> PathBuf {
        self.runtime.join(format!("{}.sock", project_key(root)))
    }
}

/// Sixteen hex digits that tell projects apart by their path.
fn project_key(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    Digest::of(root.as_os_str().as_bytes()).to_string().chars().take(16).collect()
}

/// A place of stockade's own is not as private as it must be, or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It could not be made or opened.
    #[error("{} could not be opened as a directory of stockade's own: {source}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It belongs to someone else.
    #[error("{} belongs to uid {owner}, not to you (uid {own}): nothing in it can be relied on. Remove it, or choose \
             another place", path.display())]
    Owner {
        /// The directory or file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who runs stockade.
        own: u32,
    },
    /// Others may use it.
    #[error("{} has mode {mode:04o}, so others can {what} it. Run: chmod {fix:o} {}", path.display(), path.display())]
    Mode {
        /// The directory or file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// `reach` or `change`.
        what: &'static str,
        /// The mode it should have.
        fix: u32,
    },
}

/// How private a directory must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// Nobody else may even reach it: sockets, state.
    Closed,
    /// Nobody else may change it: settings, which people also make by hand.
    Guarded,
}

/// A directory of stockade's own, held open, so that nothing swapped in at its path later is ever used.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    fd: OwnedFd,
}

impl PrivateDirectory {
    /// Opens the directory, making it (and what is missing above it) with mode 0700.
    ///
    /// # Errors
    /// When it is a symbolic link, belongs to another uid, or others have more access than `privacy` allows.
    pub fn open(path: &Path, privacy: Privacy) -> Result<Self, PlaceError> {
        let failed = |source: std::io::Error| PlaceError::Open { path: path.to_owned(), source };
        if std::fs::symlink_metadata(path).is_err() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let stat = fstat(&fd).map_err(|errno| failed(errno.into()))?;
        owned_and_closed(path, stat.st_uid, stat.st_mode, privacy, 0o700)?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The held directory.
    #[must_use]
    pub const fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// A path to `name` that goes through the held directory and is always short enough for a socket address. Good
    /// only inside this process and while `self` lives.
    #[must_use]
    pub fn through(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd()))
    }
}

/// Checks owner and mode of a directory or file of stockade's own.
pub(crate) fn owned_and_closed(
    path: &Path,
    owner: u32,
    mode: u32,
    privacy: Privacy,
    fix: u32,
) -> Result<(), PlaceError> {
    let own = nix::unistd::geteuid().as_raw();
    if owner != own {
        return Err(PlaceError::Owner { path: path.to_owned(), owner, own });
    }
    let (forbidden, what) = match privacy {
        Privacy::Closed => (0o077, "reach"),
        Privacy::Guarded => (0o022, "change"),
    };
    if mode & forbidden != 0 {
        return Err(PlaceError::Mode { path: path.to_owned(), mode: mode & 0o7777, what, fix });
    }
    Ok(())
}
