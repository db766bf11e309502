//! What became of a publication whose end was never recorded.

use super::error::GrantError;
use super::kernel::{self, Identity};
use super::path::{GrantPath, TEMPORARY_PREFIX};
use super::root::ProjectRoot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use stockade_protocol::event::PublicationIntent;
use stockade_protocol::result::CreatedFile;

/// What a later start found of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciliation {
    /// The very file that was staged is at the target, with the bytes that were staged.
    Published(CreatedFile),
    /// Nothing is at the target, and its directory is the one that was prepared: it did not happen.
    Discarded,
    /// Anything else. A person must look; nothing is repeated and nothing is removed.
    InDoubt {
        /// What was found, one sentence.
        why: String,
    },
}

impl Reconciliation {
    /// The journal's word for what a person must look at.
    pub const IN_DOUBT: &'static str = "in_doubt";

    /// The word the journal uses.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Published(_) => "published",
            Self::Discarded => "discarded",
            Self::InDoubt { .. } => Self::IN_DOUBT,
        }
    }
}

/// Settles an intent that has no recorded end, by looking only. The one thing it removes is the temporary file that
/// the intent names, and only while that is still the file the intent describes.
#[must_use]
pub fn reconcile(root: &ProjectRoot, intent: &PublicationIntent) -> Reconciliation {
    settle(root, intent).unwrap_or_else(|error| Reconciliation::InDoubt { why: error.to_string() })
}

fn settle(root: &ProjectRoot, intent: &PublicationIntent) -> Result<Reconciliation, GrantError> {
    let path = GrantPath::parse(&intent.path)?;
    root.check_place()?;
    let (parent, identity, _) = root.open_parent(&path)?;
    let doubt = |why: &str| Ok(Reconciliation::InDoubt { why: format!("{}: {why}", path.as_str()) });
    if intent.host_path != root.host_path(&path) {
        return doubt("the project is at another path now");
    }
    let there = match kernel::look(&parent, path.name()) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(kernel::lookup_error(path.as_str(), errno)),
    };
    match there {
        Some(stat) if is_candidate(intent, &stat) => confirm(root, intent, &path, &parent),
        Some(_) => doubt("another file is at its place"),
        None if !(identity.device == intent.parent_device && identity.inode == intent.parent_inode) => {
            doubt("its directory was replaced")
        }
        None => {
            remove_temporary(intent, &parent);
            Ok(Reconciliation::Discarded)
        }
    }
}

/// The file at the target is the staged one; now its bytes, and that they stay.
fn confirm(
    root: &ProjectRoot,
    intent: &PublicationIntent,
    path: &GrantPath,
    parent: &OwnedFd,
) -> Result<Reconciliation, GrantError> {
    let doubt = |why: &str| Ok(Reconciliation::InDoubt { why: format!("{}: {why}", path.as_str()) });
    let failed = |errno| GrantError::Io { path: path.to_owned_text(), doing: "reading", errno };
    let (held, _, stat) = root.hold_file(path)?;
    if !is_candidate(intent, &stat) {
        return doubt("another file is at its place");
    }
    let file = root.own().reopen(held.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK).map_err(failed)?;
    match kernel::pump(&file, intent.bytes, |_| Ok(())) {
        Ok((bytes, sha256)) if bytes == intent.bytes && sha256 == intent.sha256 => {}
        Ok(_) | Err(kernel::CopyFault::TooLarge) => return doubt("it was published or staged and changed since"),
        Err(kernel::CopyFault::Read(errno) | kernel::CopyFault::Write(errno)) => return Err(failed(errno)),
    }
    rustix::fs::fsync(&file).and_then(|()| rustix::fs::fsync(parent)).map_err(failed)?;
    Ok(Reconciliation::Published(CreatedFile {
        path: intent.path.clone(),
        host_path: intent.host_path.clone(),
        bytes: intent.bytes,
        sha256: intent.sha256,
    }))
}

fn is_candidate(intent: &PublicationIntent, stat: &rustix::fs::Stat) -> bool {
    let expected = Identity { device: intent.device, inode: intent.inode, mount: None };
    kernel::is_regular(stat) && expected.same_file(stat)
}

fn remove_temporary(intent: &PublicationIntent, parent: &OwnedFd) {
    let Some(name) = intent.temporary.as_deref() else { return };
    if !name.starts_with(TEMPORARY_PREFIX) || name.contains('/') {
        return;
    }
    if kernel::look(parent, name).is_ok_and(|stat| is_candidate(intent, &stat)) {
        // Failing only means that it stays; the next grant for this directory sweeps it.
        let _ = rustix::fs::unlinkat(parent, name, AtFlags::empty());
    }
}
