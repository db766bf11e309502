//! The files that decide what a project may do, read once as a whole: configuration, tools, policies, scope, agents.
//!
//! Trust is given to their digest. Nothing in them is followed anywhere else: a symbolic link, or anything but a
//! plain file or directory, is refused.

use super::ProjectError;
use super::configuration::CONFIGURATION_FILE;
use crate::canon;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use stockade_protocol::digest::Digest;

/// Plain files at the root that count.
const FILES: [&str; 2] = [CONFIGURATION_FILE, "toolclad.toml"];
/// Directories at the root that count, with all that is below them.
const DIRECTORIES: [&str; 4] = ["agents", "policies", "scope", "tools"];
/// Most files that count.
const MOST_FILES: usize = 4_096;
/// Largest of them, bytes.
const FILE_BYTES: u64 = 4 << 20;
/// Deepest directory below one of [`DIRECTORIES`].
const DEPTH: usize = 8;

/// The files that count: path relative to the root, and bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ControlFiles(BTreeMap<String, Vec<u8>>);

impl ControlFiles {
    /// Reads them all below `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let held = open(root, flags, Mode::empty()).map_err(|errno| unreadable(".", errno))?;
        let mut files = Self::default();
        for name in FILES {
            match files.take(&held, name, name) {
                Err(ProjectError::Unreadable { source: nix::errno::Errno::ENOENT, .. }) => {}
                other => other?,
            }
        }
        for name in DIRECTORIES {
            match open_below(&held, name, name, OFlag::O_DIRECTORY) {
                Ok(directory) => files.walk(&directory, name, 0)?,
                Err(ProjectError::Unreadable { source: nix::errno::Errno::ENOENT, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn walk(&mut self, directory: &OwnedFd, path: &str, depth: usize) -> Result<(), ProjectError> {
        if depth > DEPTH {
            return Err(ProjectError::Unfit {
                path: path.to_owned(),
                why: format!("lies deeper than {DEPTH} directories"),
            });
        }
        let again = open_below(directory, ".", path, OFlag::O_DIRECTORY)?;
        let mut listing = nix::dir::Dir::from_fd(again).map_err(|errno| unreadable(path, errno))?;
        for entry in listing.iter() {
            let entry = entry.map_err(|errno| unreadable(path, errno))?;
            let Ok(name) = entry.file_name().to_str() else {
                let why = "holds a name that is not text".to_owned();
                return Err(ProjectError::Unfit { path: path.to_owned(), why });
            };
            if name == "." || name == ".." {
                continue;
            }
            let below = format!("{path}/{name}");
            match open_below(directory, name, &below, OFlag::O_DIRECTORY) {
                Ok(deeper) => self.walk(&deeper, &below, depth + 1)?,
                Err(ProjectError::Unreadable { source: nix::errno::Errno::ENOTDIR, .. }) => {
                    self.take(directory, name, &below)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take(&mut self, directory: &OwnedFd, name: &str, path: &str) -> Result<(), ProjectError> {
        let unfit = |why: String| ProjectError::Unfit { path: path.to_owned(), why };
        if self.0.len() >= MOST_FILES {
            return Err(unfit(format!("is one of more than {MOST_FILES} files")));
        }
        let fd = open_below(directory, name, path, OFlag::O_NONBLOCK)?;
        let stat = fstat(&fd).map_err(|errno| unreadable(path, errno))?;
        if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
            return Err(unfit("is not a plain file".to_owned()));
        }
        let mut bytes = Vec::new();
        let read = File::from(fd).take(FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(path, nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or_default())))?;
        if bytes.len() as u64 > FILE_BYTES {
            return Err(unfit(format!("is larger than {FILE_BYTES} bytes")));
        }
        self.0.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// The text of one of them.
    pub(crate) fn text(&self, path: &str) -> Result<Option<&str>, ProjectError> {
        let Some(bytes) = self.0.get(path) else { return Ok(None) };
        let text = std::str::from_utf8(bytes);
        text.map(Some)
            .map_err(|error| ProjectError::Unfit { path: path.to_owned(), why: format!("is not text: {error}") })
    }

    /// The paths below a directory.
    pub(crate) fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter_map(move |path| path.strip_prefix(directory)?.strip_prefix('/').map(|_| path.as_str()))
    }

    /// The digest of each.
    pub(crate) fn digests(&self) -> BTreeMap<String, Digest> {
        self.0.iter().map(|(path, bytes)| (path.clone(), Digest::of(bytes))).collect()
    }
}

/// The digest of a set of files: SHA-256 of the canonical JSON object of path to SHA-256.
pub(crate) fn digest(digests: &BTreeMap<String, Digest>) -> Result<Digest, ProjectError> {
    canon::digest(digests).map_err(|error| ProjectError::Unfit { path: ".".to_owned(), why: error.to_string() })
}

/// Opens one component below a held directory, following nothing.
fn open_below(directory: &OwnedFd, name: &str, path: &str, flags: OFlag) -> Result<OwnedFd, ProjectError> {
    let flags = flags | OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(directory, name, flags, Mode::empty()).map_err(|errno| match errno {
        // What a symbolic link gives, with and without O_DIRECTORY.
        nix::errno::Errno::ELOOP => link(path),
        nix::errno::Errno::ENOTDIR if is_link(directory, name) => link(path),
        other => unreadable(path, other),
    })
}

fn is_link(directory: &OwnedFd, name: &str) -> bool {
    nix::sys::stat::fstatat(directory, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits())
}

fn link(path: &str) -> ProjectError {
    ProjectError::Unfit { path: path.to_owned(), why: "is a symbolic link".to_owned() }
}

fn unreadable(path: &str, source: nix::errno::Errno) -> ProjectError {
    ProjectError::Unreadable { path: path.to_owned(), source }
}
