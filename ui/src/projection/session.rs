//! Sessions: live terminals and their screens.

use crate::pane::Pane;
use stockade_protocol::event::Enforcement;
use stockade_protocol::ids::{CallId, Principal, RunId, SessionId};
use stockade_protocol::result::Removal;
use stockade_protocol::time::Timestamp;

/// What a session is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionState {
    /// Its ready prompt has not been seen yet.
    Starting,
    /// It waits for a command.
    Ready,
    /// A call runs in it.
    Busy(CallId),
    /// A person has its keyboard.
    TakenOver(Principal),
    /// It ended.
    Closed {
        /// Why.
        why: String,
        /// Whether its processes are known to be gone.
        removal: Removal,
    },
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its number on the screen, from 1, in the order of opening.
    pub number: usize,
    /// Its run.
    pub run: Option<RunId>,
    /// Its tool: from outside.
    pub tool: String,
    /// The newest command called in it: from outside; empty before the first.
    pub command: String,
    /// Network mode.
    pub network: String,
    /// What the boundary measured of itself when it was opened.
    pub enforcement: Enforcement,
    /// When it was opened and its boundary measured.
    pub opened: Timestamp,
    /// When it is ended at the latest.
    pub deadline: Timestamp,
    /// When it was closed.
    pub closed: Option<Timestamp>,
    /// Terminal size.
    pub columns: u16,
    /// Terminal size.
    pub rows: u16,
    /// What it is doing.
    pub state: SessionState,
    /// Calls that ended in it.
    pub interactions: u32,
    /// Whether a person has ever typed into it.
    pub touched: bool,
    /// Whether a secret was replaced in its output.
    pub redacted: bool,
    /// Its screen; `None` when it has been closed for long.
    pub pane: Option<Pane>,
}

impl Session {
    /// Whether it lives.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, SessionState::Closed { .. })
    }

    /// One word for its state.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self.state {
            SessionState::Starting => "starting",
            SessionState::Ready => "ready",
            SessionState::Busy(_) => "busy",
            SessionState::TakenOver(_) => "taken over",
            SessionState::Closed { .. } => "closed",
        }
    }

    /// Whether this person has its keyboard.
    #[must_use]
    pub fn held_by(&self, person: &Principal) -> bool {
        matches!(&self.state, SessionState::TakenOver(by) if by == person)
    }
}
