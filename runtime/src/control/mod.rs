//! The control socket: how another `stockade` on this machine reaches the runtime that has a project open.
//!
//! The same [`Command`]s travel here as in process. The server knows who asks from the socket itself: the peer's uid
//! decides whether it may ask at all, and names the person; nothing a client writes does. A connection that ends takes
//! with it what it opened.
//!
//! Invariant: no command carries a principal, and none is made from what a client claims beyond an agent's name.

use std::future::Future;
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
