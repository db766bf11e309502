//! Focus, scrolling and what is shown.

use crate::io::Effect;
use crate::keymap::{Move, Show};
use crate::model::{About, Filter, Over, PaneId, Question, TreeKey, Workbench};
use crate::projection::RunState;
use crate::replay::Replay;
use crate::view::layout::BESIDE;
use crate::view::tree;
use stockade_protocol::command::Command;
use stockade_protocol::ids::SessionId;

impl Workbench {
    pub(crate) fn moved(&mut self, to: Move) {
        if let Some(Over::Help(at)) = &mut self.over {
            let page = usize::from(self.size.1).saturating_sub(4).max(1);
            *at = stepped(*at, to, page, crate::view::help::rows().len());
            return;
        }
        let layout = self.layout();
        let focus = self.focused(&layout);
        let height = layout.panes.iter().find(|pane| pane.id == focus).map_or(0, |pane| pane.area.height);
        let page = usize::from(height.saturating_sub(3)).max(1);
        match focus {
            PaneId::Runs => self.move_in_tree(to, page),
            PaneId::Terminal(id) => self.scroll_terminal(id, to, page),
            PaneId::Journal => self.scroll_journal(to, page),
            PaneId::Talk => self.scroll_talk(to),
            PaneId::Files => {
                let most = self.projection().files().len().saturating_sub(page);
                // Counted from the newest, at the bottom.
                self.files_up = most - stepped(most - self.files_up.min(most), to, page, most + 1).min(most);
            }
            PaneId::NoTerminal => {}
        }
    }

    fn move_in_tree(&mut self, to: Move, page: usize) {
        let rows = tree::rows(self);
        let at = tree::selected(self, &rows);
        let next = stepped(at.unwrap_or(rows.len().saturating_sub(1)), to, page, rows.len());
        if let Some(row) = rows.get(next) {
            self.select(row.key);
        }
    }

    /// Selects a row of the tree; a session's terminal is then the one looked at.
    pub(crate) fn select(&mut self, key: TreeKey) {
        self.tree = Some(key);
        self.talk_at = None;
        if let TreeKey::Session(session) = key {
            self.terminal = Some(session);
        }
    }

    pub(crate) fn scroll_terminal(&mut self, id: SessionId, to: Move, page: usize) {
        let Some(session) = self.projection().session(id) else { return };
        let history = session.pane.as_ref().map_or(0, crate::pane::Pane::scrollback_len);
        let top = history - self.offset(session).min(history);
        let top = stepped(top, to, page, history + 1);
        if top >= history {
            self.scrolled.remove(&id);
        } else {
            self.scrolled.insert(id, top);
        }
    }

    fn scroll_journal(&mut self, to: Move, page: usize) {
        let filter = self.filter;
        let rows = self.projection().rows();
        let listed: Vec<u64> = rows.iter().filter(|row| filter.lists(row.kind)).map(|row| row.seq).collect();
        let last = listed.len().saturating_sub(1);
        let at = self.journal_at.and_then(|seq| listed.iter().rposition(|listed| *listed <= seq)).unwrap_or(last);
        let next = stepped(at, to, page, listed.len()).max(page.min(last));
        self.journal_at = if next >= last { None } else { listed.get(next).copied() };
    }

    fn scroll_talk(&mut self, to: Move) {
        let Some(run) = self.talk_run().and_then(|id| self.projection().run(id)) else { return };
        let (first, count) = (run.dropped, run.talk.len());
        let last = (first + count).saturating_sub(1);
        let at = self.talk_at.unwrap_or(last).clamp(first, last.max(first)) - first;
        let next = stepped(at, to, 5, count);
        self.talk_at = if first + next >= last { None } else { Some(first + next) };
    }

    pub(crate) fn show(&mut self, what: Show) {
        match what {
            Show::Help => self.over = Some(Over::Help(0)),
            Show::Waiting => self.open_card(),
            Show::Sidebar => {
                let wide = self.size.0 >= BESIDE;
                self.sidebar = self.toggled(PaneId::Runs, self.sidebar.unwrap_or(wide));
            }
            Show::Journal => {
                let wide = self.layout().panes.iter().any(|pane| pane.id == PaneId::Journal);
                self.drawer = self.toggled(PaneId::Journal, self.drawer.unwrap_or(wide));
            }
            Show::Files => {
                let wide = self.size.0 >= BESIDE;
                self.sidebar = self.toggled(PaneId::Files, self.sidebar.unwrap_or(wide));
            }
            Show::Talk => {
                self.talk = !self.talk;
                self.focus = self.talk.then_some(PaneId::Talk).or(self.terminal.map(PaneId::Terminal));
            }
            Show::Tiles => {
                let tiled = self.tiles.unwrap_or(self.size.0 >= BESIDE);
                self.tiles = Some(!tiled);
            }
            Show::Zoom => {
                let focus = self.focused(&self.layout());
                self.focus = Some(focus);
                self.zoom = !self.zoom;
            }
            Show::Replay => {
                self.replay = Some(Replay::of(&self.events));
                self.inside = false;
                self.desk = None;
                self.relay_card();
            }
        }
        if !matches!(what, Show::Zoom | Show::Waiting | Show::Help) {
            self.zoom = false;
        }
    }

    /// A key that shows a pane first brings it up and focuses it; pressed there, it puts it away.
    fn toggled(&mut self, pane: PaneId, shown: bool) -> Option<bool> {
        if shown && self.focused(&self.layout()) == pane {
            self.focus = self.terminal.map(PaneId::Terminal);
            return Some(false);
        }
        self.focus = Some(pane);
        Some(true)
    }

    pub(crate) fn cycle(&mut self, forward: bool) {
        let layout = self.layout();
        let focus = self.focused(&layout);
        let count = layout.panes.len();
        let at = layout.panes.iter().position(|pane| pane.id == focus).unwrap_or(0);
        let next = if forward { at + 1 } else { at + count.saturating_sub(1) };
        if let Some(pane) = layout.panes.get(next % count.max(1)) {
            self.focus_on(pane.id);
        }
    }

    pub(crate) fn focus_on(&mut self, pane: PaneId) {
        if self.focus != Some(pane) {
            self.inside = false;
        }
        self.focus = Some(pane);
        if let PaneId::Terminal(session) = pane {
            self.terminal = Some(session);
        }
    }

    pub(crate) fn go_to_terminal(&mut self, number: usize) {
        let found = self.projection().sessions().iter().rev().find(|session| session.number == number);
        match found.map(|session| session.id) {
            Some(id) => {
                self.talk = false;
                self.zoom = false;
                self.focus_on(PaneId::Terminal(id));
            }
            None => self.notice = Some(format!("there is no terminal {number}")),
        }
    }

    pub(crate) fn enter(&mut self) {
        match self.focused(&self.layout()) {
            PaneId::Terminal(id) => {
                self.focus_on(PaneId::Terminal(id));
                self.inside = true;
            }
            PaneId::Runs => self.enter_tree(),
            PaneId::Files | PaneId::Talk | PaneId::Journal => self.enter_terminal(),
            PaneId::NoTerminal => {}
        }
    }

    /// From another pane: into the terminal that was looked at last, or the first that is shown.
    fn enter_terminal(&mut self) {
        if self.projection().sessions().is_empty() {
            return;
        }
        (self.talk, self.zoom) = (false, false);
        if self.size.0 < BESIDE {
            (self.sidebar, self.drawer) = (Some(false), Some(false));
        }
        let layout = self.layout();
        let terminals = layout.panes.iter().map(|pane| pane.id).filter(|id| matches!(id, PaneId::Terminal(_)));
        let last = self.terminal.map(PaneId::Terminal);
        if let Some(pane) = terminals.clone().find(|id| Some(*id) == last).or_else(|| terminals.clone().next()) {
            self.focus_on(pane);
            self.inside = true;
        }
    }

    fn enter_tree(&mut self) {
        let rows = tree::rows(self);
        let Some(row) = tree::selected(self, &rows).and_then(|at| rows.get(at)) else { return };
        match row.key {
            TreeKey::Session(session) => {
                if self.size.0 < BESIDE {
                    self.sidebar = Some(false);
                }
                self.talk = false;
                self.focus_on(PaneId::Terminal(session));
            }
            TreeKey::Run(run) => {
                self.tree = Some(row.key);
                if !self.expanded.remove(&run) {
                    self.expanded.insert(run);
                }
            }
        }
    }

    pub(crate) fn keyboard(&mut self) -> Vec<Effect> {
        if self.replay.is_some() {
            self.notice = Some("a recording takes no keys".into());
            return Vec::new();
        }
        let Some(session) = self.focused_terminal() else { return Vec::new() };
        let (id, number) = (session.id, session.number);
        if !session.is_open() {
            self.notice = Some(format!("terminal {number} has ended"));
            return Vec::new();
        }
        if session.held_by(&self.me) {
            return vec![self.send(About::Keyboard(id), Command::HandBack { session: id })];
        }
        self.focus_on(PaneId::Terminal(id));
        self.inside = true;
        self.notice = Some(format!("asked for the keyboard of terminal {number}; the agent pauses while you have it"));
        vec![self.send(About::Keyboard(id), Command::TakeOver { session: id })]
    }

    pub(crate) fn switch_filter(&mut self) {
        self.journal_at = None;
        self.filter = match self.filter {
            Filter::Acts => Filter::All,
            Filter::All => Filter::Acts,
        };
    }

    pub(crate) fn ask_to_close(&mut self) {
        if self.replay.is_some() {
            self.notice = Some("a recording ends nothing".into());
            return;
        }
        let focus = self.focused(&self.layout());
        let question = match (focus, self.tree) {
            (PaneId::Terminal(session), _) | (PaneId::Runs, Some(TreeKey::Session(session))) => {
                let open = self.live.session(session).is_some_and(crate::projection::Session::is_open);
                open.then_some(Question::Session(session))
            }
            (PaneId::Runs, Some(TreeKey::Run(run))) => {
                let running = self.live.run(run).is_some_and(|run| run.state == RunState::Running);
                running.then_some(Question::Run(run))
            }
            _ => None,
        };
        match question {
            Some(question) => self.over = Some(Over::Question(question)),
            None => self.notice = Some("select a running run or an open session first".into()),
        }
    }
}

impl Filter {
    /// Whether a record of this type is listed.
    pub(crate) fn lists(self, kind: &str) -> bool {
        self == Self::All || !matches!(kind, "session.output" | "session.resized")
    }
}

/// A position after a movement among `count`.
fn stepped(at: usize, to: Move, page: usize, count: usize) -> usize {
    match to {
        Move::Up => at.saturating_sub(1),
        Move::Down => at + 1,
        Move::PageUp => at.saturating_sub(page),
        Move::PageDown => at + page,
        Move::First => 0,
        Move::Last => count,
    }
    .min(count.saturating_sub(1))
}
