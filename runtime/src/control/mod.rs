//! The control socket: how another `stockade` on this machine reaches the runtime that has a project open.
//!
//! The same [`Command`]s travel here as in process. The server knows who asks from the socket itself: the peer's uid
//! decides whether it may ask at all, and names the person; nothing a client writes does. A connection that ends takes
//! with it what it opened.
//!
//! Invariant: no command carries a principal, and none is made from what a client claims beyond an agent's name.

mod client;
mod frame;
mod server;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use frame::FrameError;
pub use server::{Account, Server, login_name, own_account};

use crate::project::{PlaceError, Places, Privacy, PrivateDirectory};
use std::future::Future;
use std::path::{Path, PathBuf};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::ids::Principal;
use stockade_protocol::request::Origin;

/// Who asks, as the channel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The person at this machine, or the agent behind an MCP client.
    pub principal: Principal,
    /// The way in.
    pub origin: Origin,
    /// What the client calls itself. Untrusted; for records only.
    pub client: String,
    /// Tells connections of one runtime apart. Two connections never share one; in process it is 0.
    pub connection: u64,
}

/// What answers commands: the runtime, and in tests a stand-in.
///
/// Cancelling: when the future of a [`Command::Call`] is dropped before it is ready, the caller has gone away or asked
/// to cancel, and that call must be cancelled: it is never dispatched after that, or its worker is stopped. Futures of
/// every other command but [`Command::Events`] are always driven to their end by the ways in, so they need not be safe
/// to drop half way.
pub trait Serve: Clone + Send + Sync + 'static {
    /// Answers one command. Several may be in progress for one caller at once.
    fn command(&self, caller: &Caller, command: Command) -> impl Future<Output = Reply> + Send;

    /// The caller's connection has ended. Whatever it opened (runs, waiting calls, terminals taken over) is ended;
    /// ready when that is done.
    fn caller_gone(&self, caller: &Caller) -> impl Future<Output = ()> + Send;
}

/// The principal behind an MCP client of this name. The mark in front keeps it apart from the project's own agents,
/// whose names cannot hold a colon: a client that calls itself like one of them is not taken for it.
#[must_use]
pub fn agent_of(client: &str) -> Principal {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = client.chars().take(64).map(fits).collect();
    let name = name.trim_matches('-');
    Principal::agent(format!("mcp:{}", if name.is_empty() { "unknown" } else { name }))
}

/// Name of the file in the project's state directory that says where its runtime listens.
const SOCKET_RECORD: &str = "socket";
/// Longest path in it, bytes.
const SOCKET_RECORD_BYTES: u64 = 4_096;

/// Records where the runtime of a project listens, for clients whose runtime directory is another.
fn record(places: &Places, root: &Path, socket: &Path) -> Result<(), ControlError> {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = PrivateDirectory::open(&places.project_state(root), Privacy::Closed)?;
    let (fresh, place) = (directory.through("socket.new"), directory.through(SOCKET_RECORD));
    let written = std::fs::write(&fresh, socket.as_os_str().as_bytes()).and_then(|()| std::fs::rename(&fresh, &place));
    written.map_err(|source| ControlError::Socket { path: directory.path().join(SOCKET_RECORD), source })
}

/// Where the runtime of a project said that it listens.
fn recorded(places: &Places, root: &Path) -> Option<PathBuf> {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStringExt as _;
    let state = places.project_state(root);
    std::fs::symlink_metadata(&state).ok()?;
    let directory = PrivateDirectory::open(&state, Privacy::Closed).ok()?;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(directory.through(SOCKET_RECORD)).ok()?;
    file.take(SOCKET_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// The control socket could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its directory is not private.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No runtime has the project open.
    #[error("no stockade has the project open: nothing answers at {}", path.display())]
    NoRuntime {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is where the socket belongs.
    #[error("{} is not a socket of yours, so it is left alone. Remove it and try again", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// The socket answers for someone else.
    #[error("{} is answered by uid {uid}, who is neither you nor root: it is not used", path.display())]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// Who answers.
        uid: u32,
    },
    /// The kernel refused.
    #[error("the control socket {} failed: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime would not talk.
    #[error("the runtime that has the project open refused the connection: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The runtime took too long to answer the first frame.
    #[error("the runtime that has the project open does not answer. It may be stopped; look for its process")]
    Silent,
    /// The runtime went away.
    #[error("the runtime went away before it answered: {reason}")]
    Lost {
        /// What was seen.
        reason: String,
    },
    /// A frame was not fit.
    #[error(transparent)]
    Frame(#[from] FrameError),
}
