//! The opened project and the places that stockade keeps its own files in.

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

    /// The control socket of the runtime that has the project at `root` open. Short enough for a socket address.
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
