//! Runs and their conversation.

use super::{Clipped, MESSAGES};
use std::collections::VecDeque;
use stockade_protocol::event::RunOutcome;
use stockade_protocol::ids::{CallId, Principal, RunId};
use stockade_protocol::request::Origin;
use stockade_protocol::time::Timestamp;

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It goes on.
    Running,
    /// It ended.
    Ended(RunOutcome),
}

/// Who says something in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A person.
    Person,
    /// The agent.
    Agent,
    /// The agent proposes a call; its tool is the text.
    Proposal,
    /// A call's output.
    Tool,
    /// The run's end.
    End,
}

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When.
    pub time: Timestamp,
    /// Who.
    pub speaker: Speaker,
    /// What.
    pub text: Clipped,
    /// The call it is about.
    pub call: Option<CallId>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its title: from outside.
    pub title: Clipped,
    /// Who proposes calls in it.
    pub principal: Option<Principal>,
    /// The way in.
    pub origin: Option<Origin>,
    /// Whether it goes on.
    pub state: RunState,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why, when it did not end well: from outside.
    pub reason: Option<Clipped>,
    /// Calls so far.
    pub calls: usize,
    /// Its conversation, oldest first.
    pub talk: VecDeque<Message>,
    /// Messages that are no longer in it.
    pub dropped: usize,
}

impl Run {
    pub(super) fn new(id: RunId, started: Timestamp) -> Self {
        Self {
            id,
            title: Clipped::default(),
            principal: None,
            origin: None,
            state: RunState::Running,
            started,
            ended: None,
            reason: None,
            calls: 0,
            talk: VecDeque::new(),
            dropped: 0,
        }
    }

    pub(super) fn say(&mut self, message: Message) {
        if self.talk.len() >= MESSAGES {
            self.talk.pop_front();
            self.dropped += 1;
        }
        self.talk.push_back(message);
    }
}
