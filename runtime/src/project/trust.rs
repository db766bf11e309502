//! Which projects a person has trusted, and in which state: `trusted.toml` among the person's settings, mode 0600.

use super::places::{PlaceError, Places, Privacy, PrivateDirectory, owned_and_closed};
use nix::fcntl::{Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use stockade_protocol::digest::Digest;

/// How a project stands with the person who opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Trusted in exactly this state.
    Trusted,
    /// Never trusted on this machine.
    New,
    /// Trusted before, and changed since.
    Changed {
        /// What changed, one sentence a file, sorted by path.
        changes: Vec<String>,
    },
}

/// The record of trusted projects could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Its directory or file is not private.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Reading or writing failed.
    #[error("{} could not be {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what stockade writes.
    #[error("{} is not a record of trusted projects: {why}. Nothing is trusted until it is repaired or removed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

const FILE: &str = "trusted.toml";
/// Largest record, bytes.
const BYTES: u64 = 8 << 20;
const HEAD: &str = "# Projects that you trusted, and the state they were in. Written by stockade; remove an entry to be\n\
                    # asked again.\n\n";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(default)]
    project: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    root: String,
    digest: Digest,
    files: BTreeMap<String, Digest>,
}

/// How the project at `root` stands.
pub(crate) fn state(
    places: &Places,
    root: &str,
    digest: Digest,
    files: &BTreeMap<String, Digest>,
) -> Result<Trust, TrustError> {
    let record = read(places)?;
    Ok(match record.project.iter().find(|entry| entry.root == root) {
        None => Trust::New,
        Some(entry) if entry.digest == digest => Trust::Trusted,
        Some(entry) => Trust::Changed { changes: changes(&entry.files, files) },
    })
}

/// Records that the project at `root` is trusted in this state.
pub(crate) fn record(
    places: &Places,
    root: &str,
    digest: Digest,
    files: &BTreeMap<String, Digest>,
) -> Result<(), TrustError> {
    let directory = PrivateDirectory::open(&places.config, Privacy::Guarded)?;
    let path = places.trusted();
    let failed = |error: std::io::Error| TrustError::File { path: path.clone(), what: "written", source: error };
    let create = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let private = Mode::S_IRUSR | Mode::S_IWUSR;
    let lock = openat(directory.fd(), "trusted.lock", create, private).map_err(|errno| failed(errno.into()))?;
    let _lock = Flock::lock(File::from(lock), FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))?;
    let mut record = read(places)?;
    record.project.retain(|entry| entry.root != root);
    record.project.push(Entry { root: root.to_owned(), digest, files: files.clone() });
    record.project.sort_by(|a, b| a.root.cmp(&b.root));
    let text =
        toml::to_string(&record).map_err(|error| TrustError::Damaged { path: path.clone(), why: error.to_string() })?;
    let fresh = openat(directory.fd(), "trusted.new", create | OFlag::O_TRUNC, private);
    let mut fresh = File::from(fresh.map_err(|errno| failed(errno.into()))?);
    fresh.write_all(HEAD.as_bytes()).and_then(|()| fresh.write_all(text.as_bytes())).map_err(failed)?;
    fresh.sync_all().map_err(failed)?;
    renameat(directory.fd(), "trusted.new", directory.fd(), FILE).map_err(|errno| failed(errno.into()))
}

fn read(places: &Places) -> Result<Record, TrustError> {
    let path = places.trusted();
    let failed = |error: std::io::Error| TrustError::File { path: path.clone(), what: "read", source: error };
    let directory = PrivateDirectory::open(&places.config, Privacy::Guarded)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let fd = match openat(directory.fd(), FILE, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(nix::errno::Errno::ENOENT) => return Ok(Record::default()),
        Err(errno) => return Err(failed(errno.into())),
    };
    let stat = fstat(&fd).map_err(|errno| failed(errno.into()))?;
    owned_and_closed(&path, stat.st_uid, stat.st_mode, Privacy::Closed, 0o600)?;
    let mut text = String::new();
    let length = File::from(fd).take(BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > BYTES {
        return Err(TrustError::Damaged { path, why: format!("it is larger than {BYTES} bytes") });
    }
    toml::from_str(&text).map_err(|error| TrustError::Damaged { path, why: error.message().to_owned() })
}

fn changes(before: &BTreeMap<String, Digest>, after: &BTreeMap<String, Digest>) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for (path, digest) in after {
        match before.get(path) {
            None => changes.push(format!("{path} is new")),
            Some(old) if old != digest => changes.push(format!("{path} changed")),
            Some(_) => {}
        }
    }
    changes.extend(before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("{path} is gone")));
    changes.sort();
    changes
}
