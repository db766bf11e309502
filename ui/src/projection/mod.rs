//! What is known from the journal: a total, deterministic fold of its events.
//!
//! Live view and replay fold the same events through [`Projection::apply`] and so show the same. There is no clock and
//! no input or output in here; time is the time of events. Every collection is bounded: what falls out is counted, so
//! that a screen can say that more is in the journal. No order of events, however wrong, makes the fold fail.

mod apply;
mod call;
mod files;
mod row;
mod run;
mod session;
#[cfg(test)]
mod tests;

pub use call::{Approval, Call, Settled, Step};
pub use files::{FileRow, FileState};
pub(crate) use row::outcome_word;
pub use row::{Mark, Row, kind, mark};
pub use run::{Message, Run, RunState, Speaker};
pub use session::{Session, SessionState};

use std::collections::{BTreeMap, VecDeque};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::text::Untrusted;
use stockade_protocol::time::Timestamp;

/// Most runs remembered; ended ones go first.
pub const RUNS: usize = 1024;
/// Most sessions remembered; closed ones go first.
pub const SESSIONS: usize = 256;
/// Most closed sessions whose last screen is kept.
pub const CLOSED_SCREENS: usize = 8;
/// Most calls remembered.
pub const CALLS: usize = 4096;
/// Most journal rows kept for the list.
pub const ROWS: usize = 4096;
/// Most file rows kept.
pub const FILES: usize = 512;
/// Most messages of one run's conversation kept.
pub const MESSAGES: usize = 512;
/// Most settled approvals remembered, to say what became of a card that is still on the screen.
pub const SETTLED: usize = 64;

/// Text from outside, cut to a bound, with what was cut off counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clipped {
    /// The beginning.
    pub text: Untrusted,
    /// Characters that are not in it.
    pub omitted: usize,
}

impl Clipped {
    /// Keeps at most `bytes` bytes, cut between characters.
    #[must_use]
    pub fn new(text: &str, bytes: usize) -> Self {
        let mut end = bytes.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (kept, rest) = text.split_at(end);
        Self { text: Untrusted::new(kept), omitted: rest.chars().count() }
    }
}

/// Facts about the project and the boundary in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Project {
    /// Its name; empty before a runtime has started.
    pub name: String,
    /// Absolute path.
    pub root: String,
    /// Version of stockade that wrote last.
    pub version: String,
    /// Sandbox tier.
    pub tier: String,
    /// Network mode.
    pub network: String,
    /// What the tier cannot enforce here.
    pub unenforced: Vec<String>,
    /// How many tools can be called.
    pub tools: usize,
    /// Whether a runtime runs, as far as the journal says.
    pub running: bool,
}

/// Facts about the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalFacts {
    /// Records so far.
    pub records: u64,
    /// Records after the newest one that a signed checkpoint follows at once, see `Event::seals`; fewer may be unsealed.
    pub unsealed: u64,
    /// When that one was written.
    pub sealed: Option<Timestamp>,
    /// Bytes that were cut off a torn tail, when there were any.
    pub cut_bytes: u64,
    /// Whether it was closed cleanly and nothing was written since.
    pub closed: bool,
}

/// Everything screens show.
#[derive(Debug, Default)]
pub struct Projection {
    /// Facts about the project.
    pub project: Project,
    /// Facts about the journal.
    pub journal: JournalFacts,
    /// When the newest event happened.
    pub time: Timestamp,
    runs: Vec<Run>,
    dropped_runs: usize,
    sessions: Vec<Session>,
    opened: usize,
    calls: BTreeMap<CallId, Call>,
    call_order: VecDeque<CallId>,
    waiting: Vec<Approval>,
    settled: VecDeque<Approval>,
    files: VecDeque<FileRow>,
    rows: VecDeque<Row>,
}

impl Projection {
    /// Runs, oldest first.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many ended runs are no longer remembered.
    #[must_use]
    pub const fn dropped_runs(&self) -> usize {
        self.dropped_runs
    }

    /// One run.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.id == id)
    }

    /// Sessions in the order they opened.
    #[must_use]
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// One session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.iter().rev().find(|session| session.id == id)
    }

    /// One session, to scroll its screen.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.iter_mut().rev().find(|session| session.id == id)
    }

    /// One call.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id)
    }

    /// The calls that wait for a person, oldest first.
    #[must_use]
    pub fn waiting(&self) -> &[Approval] {
        &self.waiting
    }

    /// An approval that waits, or what became of it.
    #[must_use]
    pub fn approval(&self, call: CallId) -> Option<&Approval> {
        let of_call = |approval: &&Approval| approval.call == call;
        self.waiting.iter().find(of_call).or_else(|| self.settled.iter().rev().find(of_call))
    }

    /// Files read and created, oldest first.
    #[must_use]
    pub fn files(&self) -> &VecDeque<FileRow> {
        &self.files
    }

    /// The newest journal rows, oldest first. [`JournalFacts::records`] counts all of them.
    #[must_use]
    pub fn rows(&self) -> &VecDeque<Row> {
        &self.rows
    }

    /// Whether a call of this session waits for a person.
    #[must_use]
    pub fn session_waits(&self, session: SessionId) -> bool {
        self.waiting.iter().any(|approval| approval.session == Some(session))
    }

    /// Whether a call of this run waits for a person.
    #[must_use]
    pub fn run_waits(&self, run: RunId) -> bool {
        self.waiting.iter().any(|approval| approval.run == Some(run))
    }

    /// How many runs have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.runs.iter().filter(|run| run.state == RunState::Running).count()
    }

    /// How many sessions are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.sessions.iter().filter(|session| session.is_open()).count()
    }

    /// How many outputs are staged and neither published nor discarded.
    #[must_use]
    pub fn staged(&self) -> usize {
        self.files.iter().filter(|file| matches!(file.state, FileState::Staged | FileState::Publishing)).count()
    }
}
