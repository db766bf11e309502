//! What flows between the workbench and the world: inputs in, effects out.
//!
//! The screens are pure: they see [`Input`]s and events and answer with [`Effect`]s. Only [`crate::app`] reads the
//! terminal and writes to it, and only the binary's [`Port`] talks to the runtime.

use crate::theme::{ColorMode, Theme};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::Frame;
use std::sync::Arc;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::receipt::Decision;
use stockade_protocol::text::SafeText;
use stockade_protocol::time::Timestamp;

/// Something that happened outside the screens.
#[derive(Debug, Clone)]
pub enum Input {
    /// A key was pressed or repeats. Releases are never delivered.
    Key(KeyEvent),
    /// The mouse acted inside the terminal.
    Mouse(MouseEvent),
    /// Text was pasted, without the paste marks. It comes from outside.
    Paste(String),
    /// The terminal has this size now, columns and rows. The first input of every run is one of these.
    Resized(u16, u16),
    /// The terminal window gained or lost the keyboard.
    Focus(bool),
    /// The time. One comes before every other input and when [`Screen::wake`] asked for it; never for its own sake.
    Tick(Timestamp),
    /// There are new events to pull. Handled by the loop, never delivered to a screen.
    Journal,
    /// The frame in flight has reached the terminal. Handled by the loop, never delivered to a screen.
    Written,
    /// The runtime's answer to the [`Effect::Send`] or [`Effect::Decide`] with this id.
    Answer {
        /// The id the effect carried.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// The runtime's journal could not be written, for this reason: everything was ended and nothing more is begun.
    Failed(String),
    /// The program was asked to end. The loop ends after delivering it.
    Signal(Ended),
}

/// Which signal asked the program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal may be gone.
    HangUp,
    /// SIGINT from outside; Ctrl-C in the terminal is a key.
    Interrupt,
    /// SIGQUIT.
    Quit,
}

/// Something a screen wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the runtime; the answer comes back as [`Input::Answer`] with the same id.
    Send {
        /// Chosen by the screen, unique in this run of the workbench.
        id: u64,
        /// What to ask.
        command: Command,
    },
    /// A person decided a card. The port signs a receipt over exactly these digests and sends it; the answer comes
    /// back as [`Input::Answer`] with the same id.
    Decide {
        /// Chosen by the screen, unique in this run of the workbench.
        id: u64,
        /// The call that was shown.
        call: CallId,
        /// Digest of its contract.
        contract: Digest,
        /// Digest of the text that was drawn.
        shown: Digest,
        /// The answer.
        decision: Decision,
        /// Why, in the person's words.
        reason: Option<String>,
    },
    /// Put text on the person's clipboard. Only ever text that was on the screen because a person asked for it.
    Copy(SafeText),
    /// End the workbench.
    Quit,
}

/// Does what screens want. Implemented by the binary; it must not block.
pub trait Port {
    /// Starts doing it. [`Effect::Quit`] and [`Effect::Copy`] are done by the loop and never arrive here.
    fn perform(&mut self, effect: Effect);
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The running project.
    #[default]
    Live,
    /// A recorded journal, which changes nothing and answers nothing.
    Replay {
        /// The run to show; all of them when there is none.
        run: Option<RunId>,
    },
}

/// How the workbench looks and what it shows.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many colours the terminal has.
    pub color: ColorMode,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// The colours.
    pub theme: Theme,
    /// What is looked at.
    pub mode: Mode,
}

/// The screens, as the loop sees them. Nothing here reads a clock or performs input or output.
pub trait Screen {
    /// Folds in one event, in journal order.
    fn apply(&mut self, event: &Arc<EventEnvelope>);
    /// Reacts to an input.
    fn update(&mut self, input: Input) -> Vec<Effect>;
    /// Grows whenever what would be drawn may have changed; the loop draws only when it has.
    fn revision(&self) -> u64;
    /// Draws everything. The frame's area is the size of the last [`Input::Resized`].
    fn draw(&self, frame: &mut Frame<'_>);
    /// The frame drawn at this revision has been written to the terminal. A card may be armed only after this: a
    /// slow terminal then never shows less than what is decided.
    fn drawn(&mut self, revision: u64, now: Timestamp);
    /// The session whose terminal has the keyboard: its output right after a key is drawn without waiting.
    fn focused_session(&self) -> Option<SessionId>;
    /// When a [`Input::Tick`] is wanted although nothing else happens. `None` lets the workbench sleep.
    fn wake(&self) -> Option<Timestamp>;
}
