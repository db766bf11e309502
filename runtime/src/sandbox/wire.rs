//! What the four processes say to each other: one JSON message a packet, with descriptors beside it.

use super::error::Failure;
use super::worker::Exit;
use crate::sys;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::Enforcement;

/// Largest packet, bytes. Specifications travel in memory files, so that packets stay small.
const PACKET_BYTES: usize = 32 * 1024;

/// From the program to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    /// Start a worker. Descriptors: leash, specification, inputs.
    Launch {
        /// Its number, chosen by the program, never used twice.
        id: u64,
        /// What process lists show.
        label: String,
        /// What the specification must hash to.
        digest: Digest,
    },
    /// Kill every worker and end.
    Stop {},
}

/// From the supervisor to the program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Tell {
    /// The supervisor stands.
    Ready {},
    /// The worker's program has begun. Descriptors: its init as pidfd, its streams, its output if declared.
    Launched {
        /// Which.
        id: u64,
        /// What it measured of itself.
        enforcement: Enforcement,
    },
    /// It did not begin, and nothing of it is left.
    Failed {
        /// Which.
        id: u64,
        /// Where it failed.
        failure: Failure,
    },
    /// It ended.
    Removed {
        /// Which.
        id: u64,
        /// How its program ended.
        exit: Exit,
        /// Whether the kernel reported the end of the whole namespace.
        confirmed: bool,
    },
    /// Every worker is gone; the supervisor ends.
    Stopped {},
}

/// From the supervisor to a launcher. Descriptors: specification, filters, inputs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// What the specification must hash to.
    pub(super) digest: Digest,
    /// The namespaces the program is in, by name, so that the worker can tell which it is not in.
    pub(super) namespaces: BTreeMap<String, String>,
    /// Do everything but execute the worker's program.
    pub(super) rehearse: bool,
}

/// From a launcher or an init to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Report {
    /// The namespace's first process exists. Descriptor: its pidfd.
    Init {},
    /// The worker's program has begun. Descriptors: its streams, its output if declared.
    Started {
        /// What it measured of itself.
        enforcement: Enforcement,
    },
    /// A step failed.
    Failed {
        /// Which, and how.
        failure: Failure,
    },
    /// The worker's program ended.
    Exited {
        /// How.
        exit: Exit,
    },
}

/// Sends a message.
pub(super) fn send(socket: impl AsFd, message: &impl Serialize, with: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > PACKET_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is longer than a packet may be"));
    }
    sys::send(socket.as_fd(), &bytes, with)
}

/// Receives a message; `None` when the other side is closed.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = vec![0; PACKET_BYTES];
    let (count, descriptors) = sys::receive(socket.as_fd(), &mut buffer)?;
    if count == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(buffer.get(..count).unwrap_or_default())?;
    Ok(Some((message, descriptors)))
}

/// The namespaces this process is in, by name, as the kernel writes them.
pub(super) fn namespaces() -> io::Result<BTreeMap<String, String>> {
    ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        .into_iter()
        .map(|name| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}"))?;
            Ok((name.to_owned(), link.to_string_lossy().into_owned()))
        })
        .collect()
}
