//! The loop: the only place in the workbench with input and output.
//!
//! One thread folds events, delivers inputs and draws; another reads the terminal; a third writes frames. The loop
//! blocks only while it waits for an input, never on the terminal, the runtime or the journal.

mod pace;
#[cfg(test)]
mod tests;

pub use pace::{Due, ECHO, FRAME, Pace, REST, Settle};

use crate::io::{Effect, Ended, Input, Options, Port, Screen};
use crate::outer::{Canvas, Outer, OuterError, Writer};
use crate::sweep::sweep;
use crossterm::event::{self, KeyEventKind};
use ratatui::Terminal;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stockade_protocol::event::{Event, EventEnvelope, EventSource, SessionEvent};
use stockade_protocol::time::Timestamp;

/// How the workbench ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// A person quit.
    Quit,
    /// A signal, or a terminal that went away, which counts as [`Ended::HangUp`].
    Ended(Ended),
}

/// Why the workbench could not go on.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// The terminal could not be used.
    #[error(transparent)]
    Outer(#[from] OuterError),
    /// A thread could not be started.
    #[error("a thread of the workbench could not be started ({0}); raise the limit on processes (`ulimit -u`)")]
    Thread(#[source] io::Error),
}

/// Longest the loop folds events before it looks for keys again.
const FOLD: Duration = Duration::from_millis(4);

/// Events asked for at once.
const PULL: usize = 64;

/// Inputs taken before the loop draws.
const BATCH: usize = 256;

/// How often the reading thread looks whether it should end.
const LOOK: Duration = Duration::from_millis(200);

/// How long the reading thread may take to see that it should end.
const PARTING: Duration = Duration::from_millis(1_000);

/// How long the last frame may take once the workbench ends.
const LAST: Duration = Duration::from_millis(500);

/// Takes the terminal and shows `screen` until a person quits or a signal comes. `inputs` and `sender` are the two
/// ends of one channel: the binary keeps clones of `sender` for [`Input::Journal`], [`Input::Answer`] and
/// [`Input::Signal`]; the loop adds keys and sizes. The terminal is given back before this returns, and on a panic.
pub fn run<S: Screen>(
    screen: &mut S,
    source: &dyn EventSource,
    port: &mut dyn Port,
    inputs: Receiver<Input>,
    sender: Sender<Input>,
    options: &Options,
) -> Result<Exit, UiError> {
    let outer = Outer::take()?;
    let size = outer.size();
    let output = outer.output()?;
    let reader = Reader::spawn(sender.clone())?;
    let result = Workbench::new(output, size, inputs, sender, options)?.run(screen, source, port);
    reader.finish();
    drop(outer);
    Ok(result)
}

/// The thread that reads the terminal.
struct Reader {
    stop: Arc<AtomicBool>,
    /// Closed by the thread's end.
    ended: Receiver<()>,
}

impl Reader {
    fn spawn(sender: Sender<Input>) -> Result<Self, UiError> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (ending, ended) = channel::<()>();
        let reading = move || {
            let _ending = ending;
            if read(&sender, &flag).is_err() {
                _ = sender.send(Input::Signal(Ended::HangUp));
            }
        };
        thread::Builder::new().name("stockade-reader".to_owned()).spawn(reading).map_err(UiError::Thread)?;
        Ok(Self { stop, ended })
    }

    /// Ends the thread, so that what is typed later goes to whoever reads the terminal next. It is not waited for
    /// without end: on a terminal that has gone away crossterm reads nothing again and again and never comes back.
    fn finish(self) {
        self.stop.store(true, Ordering::Release);
        _ = self.ended.recv_timeout(PARTING);
    }
}

fn read(sender: &Sender<Input>, stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Acquire) {
        if !event::poll(LOOK)? {
            continue;
        }
        let input = match event::read()? {
            event::Event::Key(key) if key.kind == KeyEventKind::Release => continue,
            event::Event::Key(key) => Input::Key(key),
            event::Event::Mouse(mouse) => Input::Mouse(mouse),
            event::Event::Paste(text) => Input::Paste(text),
            event::Event::Resize(columns, rows) => Input::Resized(columns, rows),
            event::Event::FocusGained => Input::Focus(true),
            event::Event::FocusLost => Input::Focus(false),
        };
        if sender.send(input).is_err() {
            break;
        }
    }
    Ok(())
}

/// The loop's own state.
pub(crate) struct Workbench {
    terminal: Terminal<Canvas>,
    writer: Writer,
    inputs: Receiver<Input>,
    options: Options,
    start: Instant,
    pace: Pace,
    settle: Settle,
    /// Events folded so far.
    seen: u64,
    /// Revision of the last frame drawn.
    drawn: Option<u64>,
    /// Revision of the frame in flight.
    flying: Option<u64>,
    /// When the last tick was told.
    ticked: Timestamp,
    exit: Option<Exit>,
}

impl Workbench {
    pub(crate) fn new(
        output: impl io::Write + Send + 'static,
        (columns, rows): (u16, u16),
        inputs: Receiver<Input>,
        sender: Sender<Input>,
        options: &Options,
    ) -> Result<Self, UiError> {
        let writer = Writer::spawn(output, move |result| {
            _ = sender.send(if result.is_ok() { Input::Written } else { Input::Signal(Ended::HangUp) });
        })
        .map_err(UiError::Thread)?;
        let Ok(terminal) = Terminal::new(Canvas::new(columns, rows));
        Ok(Self {
            terminal,
            writer,
            inputs,
            options: options.clone(),
            start: Instant::now(),
            pace: Pace::default(),
            settle: Settle::default(),
            seen: 0,
            drawn: None,
            flying: None,
            ticked: Timestamp::default(),
            exit: None,
        })
    }

    pub(crate) fn run<S: Screen>(mut self, screen: &mut S, source: &dyn EventSource, port: &mut dyn Port) -> Exit {
        let size = self.terminal.backend().size_now();
        self.deliver(screen, port, Input::Resized(size.0, size.1));
        loop {
            self.fold(screen, source);
            self.draw_if_due(screen);
            if let Some(exit) = self.exit {
                self.writer.finish(LAST);
                return exit;
            }
            let wait = self.wait(screen, source);
            self.take_inputs(screen, port, wait);
            if let Some((columns, rows)) = self.settle.take(self.now(), false) {
                self.resize(screen, port, columns, rows);
            }
            if screen.wake().is_some_and(|at| at <= wall()) {
                self.tick(screen, port);
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Folds what is new, for a bounded time.
    fn fold<S: Screen>(&mut self, screen: &mut S, source: &dyn EventSource) {
        let until = self.now() + FOLD;
        while self.seen < source.len() && self.now() < until {
            let events = source.pull(self.seen, PULL);
            if events.is_empty() {
                break;
            }
            for event in &events {
                screen.apply(event);
                self.seen += 1;
                if is_output_of(event, screen) {
                    self.pace.output(self.now());
                }
                if self.now() >= until {
                    break;
                }
            }
        }
    }

    fn draw_if_due<S: Screen>(&mut self, screen: &mut S) {
        if self.flying.is_some() && !self.writer.is_busy() {
            self.landed(screen);
        }
        let revision = screen.revision();
        if self.drawn != Some(revision) {
            self.pace.changed();
        }
        let now = self.now();
        if self.pace.due(now) != Due::Now {
            return;
        }
        let (color, ascii) = (self.options.color, self.options.ascii);
        let Ok(_) = self.terminal.draw(|frame| {
            screen.draw(frame);
            sweep(frame.buffer_mut(), color, ascii);
        });
        let bytes = self.terminal.backend_mut().take();
        let written = bytes.is_empty();
        if !written && !self.writer.offer(bytes) {
            // The writing thread is gone; its last word, a hang-up, is in the channel.
            return;
        }
        self.drawn = Some(revision);
        self.flying = Some(revision);
        self.pace.drew(now, written);
        if written {
            self.landed(screen);
        }
    }

    /// The frame in flight is on the terminal.
    fn landed<S: Screen>(&mut self, screen: &mut S) {
        self.pace.written();
        if let Some(revision) = self.flying.take() {
            screen.drawn(revision, wall());
        }
    }

    /// How long nothing will have to be done unless an input comes.
    fn wait<S: Screen>(&self, screen: &S, source: &dyn EventSource) -> Option<Duration> {
        if self.seen < source.len() {
            return Some(Duration::ZERO);
        }
        let now = self.now();
        let frame = match self.pace.due(now) {
            Due::Now => Some(Duration::ZERO),
            Due::At(at) => Some(at.saturating_sub(now)),
            // A change that has not been looked at yet.
            Due::Never if self.drawn != Some(screen.revision()) && self.flying.is_none() => Some(Duration::ZERO),
            Due::Never => None,
        };
        let size = self.settle.due().map(|at| at.saturating_sub(now));
        let tick = screen.wake().map(|at| match at > self.ticked {
            true => Duration::from_millis(at.since(wall())),
            // It asks for a time that it has been told: never more often than frames.
            false => FRAME,
        });
        [frame, size, tick].into_iter().flatten().min()
    }

    fn take_inputs<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port, wait: Option<Duration>) {
        let first = match wait {
            None => self.inputs.recv().map_err(|_closed| RecvTimeoutError::Disconnected),
            Some(wait) => self.inputs.recv_timeout(wait),
        };
        match first {
            Ok(input) => self.take(screen, port, input),
            Err(RecvTimeoutError::Timeout) => return,
            // Nobody is left who could quit.
            Err(RecvTimeoutError::Disconnected) => self.exit = Some(Exit::Ended(Ended::HangUp)),
        }
        for _ in 1..BATCH {
            match self.inputs.try_recv() {
                Ok(input) if self.exit.is_none() => self.take(screen, port, input),
                _ => break,
            }
        }
    }

    fn take<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port, input: Input) {
        match input {
            Input::Journal | Input::Written => {}
            Input::Resized(columns, rows) => self.settle.resized(self.now(), (columns, rows)),
            input => {
                if let Some((columns, rows)) = self.settle.take(self.now(), true) {
                    self.resize(screen, port, columns, rows);
                }
                if matches!(input, Input::Key(_) | Input::Paste(_)) {
                    self.pace.key(self.now());
                }
                self.deliver(screen, port, input);
            }
        }
    }

    fn resize<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port, columns: u16, rows: u16) {
        self.terminal.backend_mut().set_size(columns, rows);
        self.drawn = None;
        self.deliver(screen, port, Input::Resized(columns, rows));
    }

    /// Tells the time, then the input.
    fn deliver<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port, input: Input) {
        self.tick(screen, port);
        let signal = if let Input::Signal(ended) = input { Some(ended) } else { None };
        self.hand_over(screen, port, input);
        if let Some(ended) = signal {
            self.exit = Some(Exit::Ended(ended));
        }
    }

    fn tick<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port) {
        self.ticked = wall();
        self.hand_over(screen, port, Input::Tick(self.ticked));
    }

    fn hand_over<S: Screen>(&mut self, screen: &mut S, port: &mut dyn Port, input: Input) {
        for effect in screen.update(input) {
            match effect {
                Effect::Quit => self.exit = self.exit.or(Some(Exit::Quit)),
                Effect::Copy(text) => {
                    self.terminal.backend_mut().copy(&text);
                    self.drawn = None;
                }
                effect => port.perform(effect),
            }
        }
    }
}

fn is_output_of<S: Screen>(event: &EventEnvelope, screen: &S) -> bool {
    matches!(event.event, Event::Session(SessionEvent::Output { .. }))
        && event.session.is_some()
        && event.session == screen.focused_session()
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
