//! A person in front of the workbench, for tests: presses keys, reads the screen, and sees frames written as the loop
//! writes them.

use crate::fixture::{Script, me};
use crate::io::{Effect, Input, Mode, Options, Screen as _};
use crate::model::Workbench;
use crate::sweep::sweep;
use crate::theme::{ColorMode, Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::sync::Arc;
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::time::Timestamp;

pub(crate) struct Bench {
    pub screen: Workbench,
    pub now: u64,
    pub effects: Vec<Effect>,
    pub size: (u16, u16),
}

pub(crate) fn options(mode: Mode) -> Options {
    Options { color: ColorMode::Ansi16, ascii: false, theme: Theme::dark(), mode }
}

impl Bench {
    pub(crate) fn new(size: (u16, u16)) -> Self {
        Self::with(size, options(Mode::Live))
    }

    pub(crate) fn with(size: (u16, u16), options: Options) -> Self {
        let screen = Workbench::new(options, me(), TimeZone::UTC);
        let mut bench = Self { screen, now: crate::fixture::START, effects: Vec::new(), size };
        bench.resize(size);
        bench
    }

    /// A live workbench that has seen a journal.
    pub(crate) fn seeing(script: &Script, size: (u16, u16)) -> Self {
        let mut bench = Self::new(size);
        bench.read(&script.events);
        bench
    }

    /// Events arrive, and the time they happened at.
    pub(crate) fn read(&mut self, events: &[Arc<EventEnvelope>]) -> &mut Self {
        for event in events {
            self.now = self.now.max(event.time.0);
            self.screen.apply(event);
        }
        self.give(None)
    }

    /// Delivers an input as the loop does: the time first, then a frame.
    fn give(&mut self, input: Option<Input>) -> &mut Self {
        self.tick();
        if let Some(input) = input {
            let effects = self.screen.update(input);
            self.effects.extend(effects);
        }
        self.frame();
        self
    }

    fn tick(&mut self) {
        let effects = self.screen.update(Input::Tick(Timestamp(self.now)));
        self.effects.extend(effects);
    }

    /// Draws and writes a frame.
    pub(crate) fn frame(&mut self) {
        let revision = self.screen.revision();
        self.screen.drawn(revision, Timestamp(self.now));
    }

    pub(crate) fn resize(&mut self, size: (u16, u16)) -> &mut Self {
        self.size = size;
        self.give(Some(Input::Resized(size.0, size.1)))
    }

    pub(crate) fn press(&mut self, code: KeyCode) -> &mut Self {
        self.give(Some(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))))
    }

    pub(crate) fn control(&mut self, c: char) -> &mut Self {
        self.give(Some(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))))
    }

    pub(crate) fn keys(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            self.press(if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) });
        }
        self
    }

    pub(crate) fn input(&mut self, input: Input) -> &mut Self {
        self.give(Some(input))
    }

    /// Time passes, in the steps in which the screen asks to be woken.
    pub(crate) fn wait(&mut self, ms: u64) -> &mut Self {
        let until = self.now + ms;
        while let Some(at) = self.screen.wake().filter(|at| at.0 <= until) {
            self.now = at.0.max(self.now + 1);
            self.tick();
            self.frame();
        }
        self.now = until;
        self.tick();
        self.frame();
        self
    }

    pub(crate) fn buffer(&self) -> Buffer {
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        let mut buffer = Buffer::empty(area);
        crate::view::draw(&self.screen, area, &mut buffer);
        buffer
    }

    /// The screen as text, as it is written.
    pub(crate) fn text(&self) -> String {
        let mut buffer = self.buffer();
        sweep(&mut buffer, self.screen.options.color, self.screen.ink.ascii);
        text(&buffer)
    }

    pub(crate) fn decisions(&self) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| matches!(effect, Effect::Decide { .. })).collect()
    }
}

pub(crate) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut lines = Vec::new();
    for row in buffer.content.chunks(width.max(1)) {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
            line.push_str(cell.symbol());
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}
