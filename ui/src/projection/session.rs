//! Sessions: live terminals and their screens.

use super::row::cut;
use super::{CLOSED_SCREENS, Projection, SESSIONS};
use crate::pane::Pane;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stockade_protocol::event::{Enforcement, EventEnvelope, SessionEvent};
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

impl Projection {
    pub(super) fn apply_session(&mut self, envelope: &EventEnvelope, event: &SessionEvent) {
        let Some(id) = envelope.session else { return };
        if let SessionEvent::Opened { .. } = event {
            self.open_session(id, envelope, event);
            return;
        }
        let Some(session) = self.session_mut(id) else { return };
        match event {
            SessionEvent::Opened { .. } => {}
            SessionEvent::Ready {} => {
                if session.state == SessionState::Starting {
                    session.state = SessionState::Ready;
                }
            }
            SessionEvent::Input { .. } => {}
            SessionEvent::Output { bytes, redacted } => {
                session.redacted |= *redacted;
                if let (Some(pane), Ok(bytes)) = (session.pane.as_mut(), STANDARD.decode(bytes)) {
                    pane.advance(&bytes);
                }
            }
            SessionEvent::Resized { columns, rows } => {
                (session.columns, session.rows) = (*columns, *rows);
                if let Some(pane) = session.pane.as_mut() {
                    pane.resize(*columns, *rows);
                }
            }
            SessionEvent::TakenOver { by } => {
                session.touched = true;
                session.state = SessionState::TakenOver(by.clone());
            }
            SessionEvent::HandedBack { .. } => session.state = SessionState::Ready,
            SessionEvent::Closed { why, removal } => {
                session.state = SessionState::Closed { why: cut(why), removal: *removal };
                session.closed = Some(envelope.time);
                self.drop_old_screens();
            }
        }
    }

    fn open_session(&mut self, id: SessionId, envelope: &EventEnvelope, event: &SessionEvent) {
        let SessionEvent::Opened { tool, enforcement, network, columns, rows, deadline, .. } = event else { return };
        self.sessions.retain(|session| session.id != id);
        if self.sessions.len() >= SESSIONS {
            let at = self.sessions.iter().position(|session| !session.is_open()).unwrap_or(0);
            self.sessions.remove(at);
        }
        self.opened += 1;
        let command = self.calls.values().filter(|call| call.session == Some(id)).max_by_key(|call| call.since);
        let command = command.and_then(|call| call.tool.split_once('.')).map(|(_, command)| command.to_owned());
        self.sessions.push(Session {
            id,
            number: self.opened,
            run: envelope.run,
            tool: cut(tool),
            command: command.unwrap_or_default(),
            network: cut(network),
            enforcement: enforcement.clone(),
            opened: envelope.time,
            deadline: *deadline,
            closed: None,
            columns: *columns,
            rows: *rows,
            state: SessionState::Starting,
            interactions: 0,
            touched: false,
            redacted: false,
            pane: Some(Pane::new(*columns, *rows)),
        });
    }

    pub(super) fn drop_old_screens(&mut self) {
        let kept = |session: &&mut Session| !session.is_open() && session.pane.is_some();
        let closed = self.sessions.iter_mut().filter(kept).count();
        let mut extra = closed.saturating_sub(CLOSED_SCREENS);
        let mut old: Vec<&mut Session> = self.sessions.iter_mut().filter(kept).collect();
        old.sort_by_key(|session| (session.closed, session.number));
        for session in old {
            if extra == 0 {
                break;
            }
            session.pane = None;
            extra -= 1;
        }
    }
}
