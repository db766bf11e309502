//! What the workbench shows and where the person is in it. It changes in [`crate::update`] only; views read it.

use crate::card::{CardRow, Desk, Gate, rows};
use crate::io::{Mode, Options};
use crate::keymap::Context;
use crate::projection::{Projection, RunState, Session};
use crate::replay::Replay;
use crate::theme::Glyphs;
use crate::view::ink::Ink;
use crate::view::layout::{Layout, layout};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::ids::{CallId, Principal, RunId, SessionId};
use stockade_protocol::time::Timestamp;

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaneId {
    /// Runs and sessions.
    Runs,
    /// Files.
    Files,
    /// A session's terminal.
    Terminal(SessionId),
    /// The place of terminals while there are none.
    NoTerminal,
    /// A run's conversation.
    Talk,
    /// The journal.
    Journal,
}

/// A question before something is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// End the program.
    Quit,
    /// End a session.
    Session(SessionId),
    /// End a run.
    Run(RunId),
}

/// What lies over the panes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// Every key; the first row shown.
    Help(usize),
    /// A question.
    Question(Question),
    /// What to search for in a recording.
    Search(String),
}

/// What an answer will be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Decision(CallId),
    Keyboard(SessionId),
    Typing(SessionId),
    Closing,
    Size,
}

/// Which records the journal pane lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filter {
    /// All but terminal output.
    #[default]
    Acts,
    /// All.
    All,
}

/// What was on the screen of a card at one revision.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    pub revision: u64,
    pub call: CallId,
    pub from: usize,
    pub to: usize,
    pub rows: usize,
    pub gate: Gate,
}

/// Most frames on their way to the terminal that are remembered.
const SHOTS: usize = 256;

/// A card laid out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Laid {
    pub width: usize,
    pub rows: Vec<CardRow>,
    pub characters: Vec<usize>,
}

/// The workbench: the screens of a project, live or recorded.
#[derive(Debug)]
pub struct Workbench {
    pub(crate) ink: Ink,
    pub(crate) options: Options,
    /// Who sits here.
    pub(crate) me: Principal,
    pub(crate) zone: TimeZone,
    pub(crate) events: Vec<Arc<EventEnvelope>>,
    pub(crate) live: Projection,
    pub(crate) replay: Option<Replay>,
    /// The newest time that came in.
    pub(crate) tick: Timestamp,
    pub(crate) size: (u16, u16),
    pub(crate) revision: u64,
    pub(crate) focus: Option<PaneId>,
    /// Whether keys go into the focused terminal.
    pub(crate) inside: bool,
    pub(crate) zoom: bool,
    pub(crate) sidebar: Option<bool>,
    pub(crate) drawer: Option<bool>,
    pub(crate) tiles: Option<bool>,
    pub(crate) talk: bool,
    pub(crate) filter: Filter,
    /// The selected row of the tree.
    pub(crate) tree: Option<TreeKey>,
    /// Ended runs that are opened in the tree.
    pub(crate) expanded: BTreeSet<RunId>,
    /// The terminal looked at last.
    pub(crate) terminal: Option<SessionId>,
    /// Oldest line on the screen of terminals that are scrolled, counted from the oldest line kept.
    pub(crate) scrolled: BTreeMap<SessionId, usize>,
    /// The journal's last row on the screen, when it is scrolled.
    pub(crate) journal_at: Option<u64>,
    /// The conversation's last message on the screen, when it is scrolled.
    pub(crate) talk_at: Option<usize>,
    /// How far the list of files is scrolled up.
    pub(crate) files_up: usize,
    pub(crate) desk: Option<Desk>,
    pub(crate) laid: Laid,
    pub(crate) reason: Option<String>,
    pub(crate) over: Option<Over>,
    /// Something to say in the footer until the next key.
    pub(crate) notice: Option<String>,
    /// Why the journal could not be written and everything was ended. Said until the end.
    pub(crate) failed: Option<String>,
    pub(crate) next_id: u64,
    pub(crate) asked: BTreeMap<u64, About>,
    /// Terminal sizes asked for.
    pub(crate) sizes: BTreeMap<SessionId, (u16, u16)>,
    shots: VecDeque<Shot>,
}

/// A row of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKey {
    /// A run.
    Run(RunId),
    /// A session.
    Session(SessionId),
}

impl Workbench {
    /// A workbench in front of a person. Times are shown in `zone`.
    #[must_use]
    pub fn new(options: Options, me: Principal, zone: TimeZone) -> Self {
        let theme = options.theme.degraded(options.color);
        let ink = Ink { theme, glyphs: Glyphs::new(options.ascii), ascii: options.ascii };
        let replay = match options.mode {
            Mode::Live => None,
            Mode::Replay { run } => Some(Replay::recording(run)),
        };
        Self {
            ink,
            options,
            me,
            zone,
            events: Vec::new(),
            live: Projection::default(),
            replay,
            tick: Timestamp::default(),
            size: (80, 24),
            revision: 0,
            focus: None,
            inside: false,
            zoom: false,
            sidebar: None,
            drawer: None,
            tiles: None,
            talk: false,
            filter: Filter::default(),
            tree: None,
            expanded: BTreeSet::new(),
            terminal: None,
            scrolled: BTreeMap::new(),
            journal_at: None,
            talk_at: None,
            files_up: 0,
            desk: None,
            laid: Laid::default(),
            reason: None,
            over: None,
            notice: None,
            failed: None,
            next_id: 1,
            asked: BTreeMap::new(),
            sizes: BTreeMap::new(),
            shots: VecDeque::new(),
        }
    }

    /// What is on the screen: the live state, or a recording at its cursor.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        self.replay.as_ref().map_or(&self.live, |replay| &replay.projection)
    }

    /// Whether this is a recording and nothing else.
    pub(crate) const fn recording(&self) -> bool {
        matches!(self.options.mode, Mode::Replay { .. })
    }

    /// The time that screens show: now, or that of the recording's event.
    pub(crate) fn now(&self) -> Timestamp {
        if self.replay.is_some() { self.projection().time } else { self.tick.max(self.live.time) }
    }

    pub(crate) fn layout(&self) -> Layout {
        layout(self)
    }

    /// The pane that has focus.
    pub(crate) fn focused(&self, layout: &Layout) -> PaneId {
        let placed = |id: &PaneId| layout.panes.iter().any(|pane| pane.id == *id);
        let wanted = self.focus.filter(placed);
        let terminal = self.terminal.map(PaneId::Terminal).filter(placed);
        let main = |id: &PaneId| matches!(id, PaneId::Terminal(_) | PaneId::NoTerminal | PaneId::Talk);
        let first = || layout.panes.iter().map(|pane| pane.id).find(main);
        wanted
            .or(terminal)
            .or_else(first)
            .or_else(|| layout.panes.first().map(|pane| pane.id))
            .unwrap_or(PaneId::NoTerminal)
    }

    /// The session whose terminal has focus.
    pub(crate) fn focused_terminal(&self) -> Option<&Session> {
        match self.focused(&self.layout()) {
            PaneId::Terminal(id) => self.projection().session(id),
            PaneId::Runs | PaneId::Files | PaneId::NoTerminal | PaneId::Talk | PaneId::Journal => None,
        }
    }

    /// Whether keys are typed into the focused terminal.
    pub(crate) fn typing(&self) -> bool {
        self.inside && self.replay.is_none() && self.focused_terminal().is_some_and(|s| s.held_by(&self.me))
    }

    /// Where a key would be pressed now, innermost first.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        match &self.over {
            Some(Over::Help(_)) => return vec![Context::Help],
            Some(Over::Question(_)) => return vec![Context::Question],
            Some(Over::Search(_)) => return vec![Context::Search],
            None => {}
        }
        if self.desk.is_some() {
            return vec![if self.reason.is_some() { Context::Reason } else { Context::Card }];
        }
        let layout = self.layout();
        let pane = self.focused(&layout);
        if self.inside && matches!(pane, PaneId::Terminal(_)) {
            return vec![if self.typing() { Context::Typing } else { Context::Scrolling }];
        }
        let mut contexts = Vec::new();
        if self.replay.is_some() {
            contexts.push(Context::Replay);
        }
        contexts.push(match pane {
            PaneId::Runs => Context::Runs,
            PaneId::Files => Context::Files,
            PaneId::Terminal(_) | PaneId::NoTerminal => Context::Terminal,
            PaneId::Talk => Context::Talk,
            PaneId::Journal => Context::Journal,
        });
        contexts.push(Context::Workbench);
        contexts
    }

    /// The run whose conversation is shown: that of the selected row, of the terminal, or the newest.
    pub(crate) fn talk_run(&self) -> Option<RunId> {
        let projection = self.projection();
        let selected = match self.tree {
            Some(TreeKey::Run(run)) => Some(run),
            Some(TreeKey::Session(session)) => projection.session(session).and_then(|session| session.run),
            None => None,
        };
        let of_terminal = || self.terminal.and_then(|id| projection.session(id)).and_then(|session| session.run);
        let runs = projection.runs();
        let running = || runs.iter().rev().find(|run| run.state == RunState::Running).map(|run| run.id);
        let known = |id: &RunId| projection.run(*id).is_some();
        selected
            .filter(known)
            .or_else(|| of_terminal().filter(known))
            .or_else(running)
            .or_else(|| runs.last().map(|run| run.id))
    }

    /// How many lines a terminal is scrolled up.
    pub(crate) fn offset(&self, session: &Session) -> usize {
        let Some(pane) = &session.pane else { return 0 };
        match self.scrolled.get(&session.id) {
            // The oldest line, also while the pane is lower on the screen than its terminal.
            Some(0) => usize::MAX,
            Some(top) => pane.scrollback_len().saturating_sub(*top),
            None => 0,
        }
    }

    /// What the approve key does now.
    pub(crate) fn gate(&self) -> Gate {
        use crate::card::Off;
        let Some(desk) = &self.desk else { return Gate::Off(Off::Settled) };
        if self.replay.is_some() {
            return Gate::Off(Off::Replay);
        }
        if self.failed.is_some() {
            return Gate::Off(Off::Settled);
        }
        let waits = self.live.waiting().iter().find(|approval| approval.call == desk.call);
        if waits.is_none_or(|approval| self.tick >= approval.expires) {
            return Gate::Off(Off::Settled);
        }
        desk.gate(self.tick, self.size, &self.laid.characters)
    }

    /// Something that is drawn may have changed.
    pub(crate) fn bump(&mut self) {
        self.revision += 1;
        self.lay_card();
        let Some(desk) = &self.desk else { return };
        let Some(card) = self.layout().card else { return };
        let from = desk.scroll.min(self.laid.rows.len());
        let to = (from + usize::from(card.text.height)).min(self.laid.rows.len());
        let gate = self.gate();
        let shot = Shot { revision: self.revision, call: desk.call, from, to, rows: self.laid.rows.len(), gate };
        if self.shots.len() >= SHOTS {
            self.shots.pop_front();
        }
        self.shots.push_back(shot);
    }

    fn lay_card(&mut self) {
        let Some(desk) = &mut self.desk else {
            self.laid = Laid::default();
            return;
        };
        let width = crate::view::layout::card_width(self.size);
        if self.laid.width != width || self.laid.rows.is_empty() {
            let rows = rows(&desk.card, width, &self.ink);
            let characters = rows.iter().map(|row| row.characters).collect();
            self.laid = Laid { width, rows, characters };
        }
        if let Some(card) = layout(self).card
            && let Some(desk) = &mut self.desk
        {
            desk.scroll = desk.scroll.min(self.laid.rows.len().saturating_sub(usize::from(card.text.height)));
        }
    }

    /// Forgets how the card was laid out: another one is taken in hand.
    pub(crate) fn relay_card(&mut self) {
        self.laid = Laid::default();
        self.shots.clear();
    }

    /// The frame of a revision has been written to the terminal.
    pub(crate) fn written(&mut self, revision: u64, now: Timestamp) {
        while self.shots.front().is_some_and(|shot| shot.revision < revision) {
            self.shots.pop_front();
        }
        let Some(shot) = self.shots.front().filter(|shot| shot.revision == revision).cloned() else { return };
        let Some(desk) = &mut self.desk else { return };
        if desk.call == shot.call && shot.rows == self.laid.rows.len() {
            desk.drawn(shot.from, shot.to, shot.rows, &shot.gate, now);
            self.tick = self.tick.max(now);
            if self.gate() != shot.gate {
                self.bump();
            }
        }
    }
}
