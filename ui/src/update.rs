//! How the workbench reacts: keys, mouse, pastes, answers and time.

mod card;
mod mouse;
mod panes;
mod winding;

use crate::io::{Effect, Input, Screen};
use crate::keymap::{Action, Context, lookup};
use crate::model::{About, Over, PaneId, Question, Workbench};
use crate::pane::keys;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use std::sync::Arc;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::ids::SessionId;
use stockade_protocol::text::Untrusted;
use stockade_protocol::time::Timestamp;

/// How long before its expiry a waiting call warns, milliseconds.
pub(crate) const EXPIRY_WARNING_MS: u64 = 30_000;
/// Longest text that is searched for, characters.
const NEEDLE: usize = 200;

impl Screen for Workbench {
    fn apply(&mut self, event: &Arc<EventEnvelope>) {
        self.events.push(Arc::clone(event));
        if self.recording() {
            if let Some(replay) = &mut self.replay {
                replay.read(event);
            }
        } else {
            self.live.apply(event);
            self.follow_card();
        }
        self.bump();
    }

    fn update(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = match input {
            Input::Key(key) => self.key(&key),
            Input::Mouse(event) => self.mouse(&event),
            Input::Paste(text) => self.paste(&text),
            Input::Resized(columns, rows) => {
                self.resized(columns, rows);
                Vec::new()
            }
            Input::Focus(gained) => {
                if gained && let Some(desk) = &mut self.desk {
                    desk.touched(self.tick);
                }
                Vec::new()
            }
            Input::Tick(now) => {
                self.ticked(now);
                return self.wanted_sizes();
            }
            Input::Answer { id, reply } => {
                self.answered(id, reply);
                Vec::new()
            }
            Input::Failed(why) => {
                self.failed = Some(why);
                Vec::new()
            }
            Input::Journal | Input::Written | Input::Signal(_) => return Vec::new(),
        };
        self.bump();
        effects.extend(self.wanted_sizes());
        effects
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let cursor = crate::view::draw(self, area, frame.buffer_mut());
        if let Some(cursor) = cursor {
            frame.set_cursor_position(cursor);
        }
    }

    fn drawn(&mut self, revision: u64, now: Timestamp) {
        self.written(revision, now);
    }

    fn focused_session(&self) -> Option<SessionId> {
        if self.typing() { self.focused_terminal().map(|session| session.id) } else { None }
    }

    fn wake(&self) -> Option<Timestamp> {
        if !self.size_wishes().is_empty() {
            return Some(self.tick);
        }
        let card = self.desk.as_ref().and_then(|desk| {
            let second = self.tick.plus_ms(1_000 - self.tick.0 % 1_000);
            let live = self.replay.is_none().then_some(second);
            desk.wake(self.tick, &self.gate()).into_iter().chain(live).min()
        });
        let expiry = self.live.waiting().iter().filter(|_| !self.recording()).flat_map(|approval| {
            let warning = Timestamp(approval.expires.0.saturating_sub(EXPIRY_WARNING_MS));
            [warning, approval.expires].into_iter().find(|at| *at > self.tick)
        });
        let playing = self.replay.as_ref().and_then(|replay| replay.playing);
        let minute = (!self.recording()).then(|| self.tick.plus_ms(60_000 - self.tick.0 % 60_000));
        card.into_iter().chain(expiry).chain(playing).chain(minute).min()
    }
}

impl Workbench {
    fn ticked(&mut self, now: Timestamp) {
        let before = self.tick;
        self.tick = now;
        let minute = before.0 / 60_000 != now.0 / 60_000;
        let warned = |at: Timestamp| {
            self.live.waiting().iter().any(|a| at.plus_ms(EXPIRY_WARNING_MS) >= a.expires || at >= a.expires)
        };
        let mut changed = minute || self.desk.is_some() || warned(before) != warned(now);
        if let Some(replay) = &mut self.replay
            && replay.playing.is_some()
        {
            replay.play(&self.events, now);
            changed = true;
        }
        if changed {
            self.bump();
        }
    }

    fn resized(&mut self, columns: u16, rows: u16) {
        if self.size != (columns, rows) {
            self.size = (columns, rows);
            if let Some(desk) = &mut self.desk {
                desk.resized(self.tick);
            }
            self.relay_card();
        }
    }

    /// A number for an effect whose answer will be about something.
    pub(crate) fn ask(&mut self, about: About) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, about);
        id
    }

    pub(crate) fn send(&mut self, about: About, command: Command) -> Effect {
        Effect::Send { id: self.ask(about), command }
    }

    fn answered(&mut self, id: u64, reply: Reply) {
        let Some(about) = self.asked.remove(&id) else { return };
        let Reply::Refused { refusal } = reply else { return };
        let said = refusal.to_string();
        match about {
            About::Decision(call) => self.not_accepted(call, id, &said),
            About::Keyboard(session) => {
                let number = self.projection().session(session).map_or(0, |session| session.number);
                self.notice = Some(format!("the keyboard of terminal {number} was not given: {said}"));
            }
            About::Typing(_) => self.notice = Some(format!("a key was not typed: {said}")),
            About::Closing => self.notice = Some(format!("it was not ended: {said}")),
            About::Size => {}
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Vec<Effect> {
        self.notice = None;
        let contexts = self.contexts();
        let inner = contexts.first().copied().unwrap_or(Context::Workbench);
        match inner {
            Context::Typing => self.type_key(key),
            Context::Reason => self.reason_key(key),
            Context::Search => {
                self.search_key(key);
                Vec::new()
            }
            Context::Card => self.card_key(key),
            _ => match lookup(&contexts, key) {
                Some(action) => self.act(action),
                None => {
                    self.unknown_key(inner, key);
                    if is_interrupt(key) { self.act(Action::Quit) } else { Vec::new() }
                }
            },
        }
    }

    fn unknown_key(&mut self, inner: Context, key: &KeyEvent) {
        if inner == Context::Scrolling && matches!(key.code, KeyCode::Char(_)) && self.replay.is_none() {
            self.notice = Some("keys scroll here; k asks for the keyboard, Esc leaves".into());
        }
    }

    pub(crate) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Move(to) => self.moved(to),
            Action::Show(what) => self.show(what),
            Action::Judge(judge) => return self.judge(judge),
            Action::Wind(wind) => return self.wind(wind),
            Action::Next => self.cycle(true),
            Action::Previous => self.cycle(false),
            Action::Terminal(number) => self.go_to_terminal(number),
            Action::Enter => self.enter(),
            Action::Leave => self.leave(),
            Action::Keyboard => return self.keyboard(),
            Action::Filter => self.switch_filter(),
            Action::Close => self.ask_to_close(),
            Action::Quit => return self.ask_to_quit(),
            Action::No => self.over = None,
            Action::Yes => return self.confirmed(),
            Action::Send => {}
        }
        Vec::new()
    }

    fn leave(&mut self) {
        if matches!(self.over, Some(Over::Help(_))) {
            self.over = None;
        } else {
            self.inside = false;
        }
    }

    fn type_key(&mut self, key: &KeyEvent) -> Vec<Effect> {
        if lookup(&[Context::Typing], key) == Some(Action::Leave) {
            self.inside = false;
            return Vec::new();
        }
        let Some(session) = self.focused_terminal() else { return Vec::new() };
        let id = session.id;
        let modes = session.pane.as_ref().map(crate::pane::Pane::modes).unwrap_or_default();
        self.scrolled.remove(&id);
        match keys::encode(key, modes) {
            Some(bytes) => vec![self.typed(id, &bytes)],
            None => Vec::new(),
        }
    }

    fn typed(&mut self, session: SessionId, bytes: &[u8]) -> Effect {
        let bytes = STANDARD.encode(bytes);
        self.send(About::Typing(session), Command::Type { session, bytes })
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        self.notice = None;
        if self.desk.is_some() {
            self.paste_on_card(text);
        } else if let Some(Over::Search(needle)) = &mut self.over {
            let room = NEEDLE.saturating_sub(needle.chars().count());
            needle.extend(text.chars().map(one_line).take(room));
        } else if self.over.is_none() && self.typing() {
            if let Some(session) = self.focused_terminal() {
                let id = session.id;
                let modes = session.pane.as_ref().map(crate::pane::Pane::modes).unwrap_or_default();
                let bytes = keys::paste(text, modes);
                return vec![self.typed(id, &bytes)];
            }
        } else {
            self.notice = Some("pasted text does nothing here".into());
        }
        Vec::new()
    }

    fn search_key(&mut self, key: &KeyEvent) {
        let action = lookup(&[Context::Search], key);
        let Some(Over::Search(needle)) = &mut self.over else { return };
        match (action, key.code) {
            (Some(Action::Send), _) => {
                let needle = std::mem::take(needle);
                self.over = None;
                self.search(needle);
            }
            (Some(_), _) => self.over = None,
            (None, KeyCode::Backspace) => _ = needle.pop(),
            (None, KeyCode::Char(c)) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                if needle.chars().count() < NEEDLE {
                    needle.push(c);
                }
            }
            (None, _) => {}
        }
    }

    fn ask_to_quit(&mut self) -> Vec<Effect> {
        let live = &self.live;
        let nothing = live.running() == 0 && live.open() == 0 && live.waiting().is_empty() && live.staged() == 0;
        if self.recording() || nothing {
            return vec![Effect::Quit];
        }
        self.over = Some(Over::Question(Question::Quit));
        Vec::new()
    }

    fn confirmed(&mut self) -> Vec<Effect> {
        let Some(Over::Question(question)) = self.over.take() else { return Vec::new() };
        match question {
            Question::Quit => vec![Effect::Quit],
            Question::Session(session) => vec![self.send(About::Closing, Command::CloseSession { session })],
            Question::Run(run) => vec![self.send(About::Closing, Command::EndRun { run })],
        }
    }

    /// Sizes that terminals on the screen should have and do not.
    fn size_wishes(&self) -> Vec<(SessionId, u16, u16)> {
        if self.replay.is_some() {
            return Vec::new();
        }
        let layout = self.layout();
        let mut wishes = Vec::new();
        for placed in &layout.panes {
            let PaneId::Terminal(id) = placed.id else { continue };
            let Some(session) = self.live.session(id).filter(|session| session.is_open()) else { continue };
            let inner = crate::view::frame::inner(placed.area);
            let size = (inner.width.max(crate::pane::SIZE_MIN.0), inner.height.max(crate::pane::SIZE_MIN.1));
            let asked = self.sizes.get(&id).copied().unwrap_or((session.columns, session.rows));
            if inner.width > 0 && inner.height > 0 && size != asked {
                wishes.push((id, size.0, size.1));
            }
        }
        wishes
    }

    fn wanted_sizes(&mut self) -> Vec<Effect> {
        let wishes = self.size_wishes();
        let mut effects = Vec::with_capacity(wishes.len());
        for (session, columns, rows) in wishes {
            self.sizes.insert(session, (columns, rows));
            effects.push(self.send(About::Size, Command::Resize { session, columns, rows }));
        }
        effects
    }

    /// Text that a person wants on the clipboard.
    pub(crate) fn copy(text: &str) -> Effect {
        Effect::Copy(Untrusted::new(text).safe())
    }
}

/// A pasted character in a text of one line.
pub(crate) fn one_line(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

fn is_interrupt(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
