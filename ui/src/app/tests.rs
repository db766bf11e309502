//! The loop with a screen, a journal and a terminal made for the test.

use super::*;
use crate::theme::{ColorMode, Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::RuntimeEvent;
use stockade_protocol::ids::SessionId;
use stockade_protocol::text::SafeText;

const PATIENCE: Duration = Duration::from_secs(10);

/// Shows what it was told; keys: `q` quits, `c` copies, `s` asks the runtime, `x` changes nothing.
#[derive(Default)]
struct Probe {
    lines: Vec<String>,
    revision: u64,
    drawn: Vec<u64>,
    size: (u16, u16),
    ticks: u64,
    last: &'static str,
    events: u64,
    wake: Option<Timestamp>,
}

impl Screen for Probe {
    fn apply(&mut self, event: &Arc<EventEnvelope>) {
        assert_eq!(event.seq, self.events, "in order, without gaps");
        self.events += 1;
        self.revision += 1;
    }

    fn update(&mut self, input: Input) -> Vec<Effect> {
        if let Input::Tick(_) = input {
            self.ticks += 1;
            self.last = "tick";
            self.wake = None;
            return Vec::new();
        }
        assert_eq!(self.last, "tick", "the time is told before {input:?}");
        self.last = "input";
        match input {
            Input::Key(key) => match key.code {
                KeyCode::Char('q') => return vec![Effect::Quit],
                KeyCode::Char('c') => return vec![Effect::Copy(SafeText::line("copied"))],
                KeyCode::Char('s') => return vec![Effect::Send { id: 7, command: Command::Status }],
                KeyCode::Char('x') => {}
                code => {
                    self.lines.push(format!("key-{code}"));
                    self.revision += 1;
                }
            },
            Input::Resized(columns, rows) => {
                self.size = (columns, rows);
                self.revision += 1;
            }
            Input::Answer { id, .. } => {
                self.lines.push(format!("answer {id}"));
                self.revision += 1;
            }
            Input::Signal(_) => {}
            other => panic!("never delivered: {other:?}"),
        }
        Vec::new()
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        assert_eq!((area.width, area.height), self.size, "the frame is as large as was told");
        let hidden = self.lines.len().saturating_sub(usize::from(area.height));
        for (y, line) in self.lines.iter().skip(hidden).enumerate() {
            frame.buffer_mut().set_string(0, y as u16, line, ratatui::style::Style::new());
        }
    }

    fn drawn(&mut self, revision: u64, _: Timestamp) {
        self.drawn.push(revision);
    }

    fn focused_session(&self) -> Option<SessionId> {
        None
    }

    fn wake(&self) -> Option<Timestamp> {
        self.wake
    }
}

#[derive(Default)]
struct Source(Mutex<Vec<Arc<EventEnvelope>>>);

impl Source {
    fn with(count: u64) -> Self {
        let event = |seq| EventEnvelope {
            seq,
            time: Timestamp(seq),
            run: None,
            session: None,
            call: None,
            event: Event::Runtime(RuntimeEvent::Stopped {}),
        };
        Self(Mutex::new((0..count).map(|seq| Arc::new(event(seq))).collect()))
    }
}

impl EventSource for Source {
    fn pull(&self, from: u64, max: usize) -> Vec<Arc<EventEnvelope>> {
        self.0.lock().expect("a list").iter().skip(from as usize).take(max).cloned().collect()
    }

    fn len(&self) -> u64 {
        self.0.lock().expect("a list").len() as u64
    }
}

/// Answers at once.
struct Answering(Sender<Input>);

impl Port for Answering {
    fn perform(&mut self, effect: Effect) {
        let Effect::Send { id, .. } = effect else { panic!("never performed here: {effect:?}") };
        self.0.send(Input::Answer { id, reply: Reply::Done {} }).expect("the loop lives");
    }
}

/// A terminal that tells the test what it was given.
struct Glass(Sender<Vec<u8>>);

impl io::Write for Glass {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_closed| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn key(c: char) -> Input {
    Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))
}

fn options() -> Options {
    Options { color: ColorMode::Ansi16, ascii: false, theme: Theme::dark(), mode: crate::io::Mode::Live }
}

/// Runs the loop on a thread of its own while `play` acts; gives back the screen and how it ended.
fn played(
    events: u64,
    wake: Option<Timestamp>,
    play: impl FnOnce(&Sender<Input>, &Receiver<Vec<u8>>),
) -> (Probe, Exit) {
    let (sender, inputs) = channel();
    let (glass, frames) = channel();
    let looping = {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut screen = Probe { wake, ..Probe::default() };
            let bench = Workbench::new(Glass(glass), (20, 5), inputs, sender.clone(), &options()).expect("a workbench");
            let exit = bench.run(&mut screen, &Source::with(events), &mut Answering(sender));
            (screen, exit)
        })
    };
    play(&sender, &frames);
    looping.join().expect("the loop ends")
}

/// What a terminal shows after these frames, until a row holds `text`.
fn shown(frames: &Receiver<Vec<u8>>, text: &str) -> Vec<u8> {
    let mut all = Vec::new();
    let mut screen = vt100::Parser::default();
    while !screen.screen().contents().contains(text) {
        let frame = frames.recv_timeout(PATIENCE).expect("a frame");
        screen.process(&frame);
        all.extend(frame);
    }
    all
}

#[test]
fn keys_reach_the_screen_and_answers_come_back() {
    let (screen, exit) = played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        inputs.send(key('s')).expect("sent");
        shown(frames, "answer 7");
        inputs.send(key('q')).expect("sent");
    });
    assert_eq!(exit, Exit::Quit);
    assert_eq!(screen.lines, ["key-a", "answer 7"]);
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let (screen, _) = played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        // Each is delivered; none changes what is shown, so the next frame is the one of `b`.
        for _ in 0..50 {
            inputs.send(key('x')).expect("sent");
            inputs.send(Input::Journal).expect("sent");
        }
        inputs.send(key('b')).expect("sent");
        let frame = frames.recv_timeout(PATIENCE).expect("a frame");
        assert!(frame.windows(5).any(|part| part == b"key-b"), "{:?}", String::from_utf8_lossy(&frame));
        inputs.send(key('q')).expect("sent");
    });
    assert!(screen.ticks >= 52, "the time is told before every input");
}

#[test]
fn every_event_is_folded_in_order_and_keys_are_taken_between() {
    let (screen, exit) = played(20_000, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        inputs.send(Input::Signal(Ended::Terminate)).expect("sent");
    });
    assert_eq!(exit, Exit::Ended(Ended::Terminate));
    assert_eq!(screen.lines, ["key-a"]);
}

#[test]
fn a_screen_hears_of_a_frame_only_when_it_is_on_the_terminal() {
    let (screen, _) = played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        inputs.send(key('b')).expect("sent");
        shown(frames, "key-b");
        inputs.send(key('q')).expect("sent");
    });
    assert!(screen.drawn.is_sorted(), "{:?}", screen.drawn);
    assert!(screen.drawn.last().is_some_and(|last| *last <= screen.revision));
    assert!(screen.drawn.contains(&2), "the frame with the first key: {:?}", screen.drawn);
}

#[test]
fn a_new_size_is_told_once_it_rests_and_the_whole_frame_is_drawn_again() {
    let (screen, _) = played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        for columns in 21..=30 {
            inputs.send(Input::Resized(columns, 6)).expect("sent");
        }
        let frame = frames.recv_timeout(PATIENCE).expect("a frame");
        let text = String::from_utf8_lossy(&frame).into_owned();
        assert!(text.contains("\x1b[2J") && text.contains("key-a"), "{text:?}");
        inputs.send(key('q')).expect("sent");
    });
    assert_eq!(screen.size, (30, 6));
    assert_eq!(screen.revision, 3, "two sizes and a key");
}

#[test]
fn a_copy_is_one_sequence_with_the_text_encoded() {
    played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        inputs.send(key('c')).expect("sent");
        let frame = frames.recv_timeout(PATIENCE).expect("a frame");
        assert_eq!(frame, b"\x1b[?2026h\x1b]52;c;Y29waWVk\x1b\\\x1b[?2026l");
        inputs.send(key('q')).expect("sent");
    });
}

#[test]
fn a_wanted_tick_comes_without_any_input() {
    let (screen, _) = played(0, Some(Timestamp(wall().0 + 50)), |inputs, frames| {
        frames.recv_timeout(Duration::from_millis(200)).expect_err("a tick alone draws nothing");
        inputs.send(key('q')).expect("sent");
    });
    assert_eq!(screen.wake, None, "it was told");
}

#[test]
fn a_terminal_that_goes_away_ends_the_workbench() {
    let (_, exit) = played(0, None, |inputs, frames| {
        inputs.send(key('a')).expect("sent");
        shown(frames, "key-a");
        // A terminal that is gone: every write fails from now on.
        inputs.send(Input::Signal(Ended::HangUp)).expect("sent");
    });
    assert_eq!(exit, Exit::Ended(Ended::HangUp));

    struct Gone;
    impl io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (sender, inputs) = channel();
    sender.send(key('a')).expect("sent");
    let bench = Workbench::new(Gone, (20, 5), inputs, sender.clone(), &options()).expect("a workbench");
    let exit = bench.run(&mut Probe::default(), &Source::default(), &mut Answering(sender));
    assert_eq!(exit, Exit::Ended(Ended::HangUp));
}

/// A terminal that takes one frame each time the test lets it, and tells when it is given one.
struct Slow {
    given: Sender<()>,
    gate: Receiver<()>,
    out: Sender<Vec<u8>>,
}

impl io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.given.send(()).map_err(|_closed| io::ErrorKind::BrokenPipe)?;
        self.gate.recv().map_err(|_closed| io::ErrorKind::BrokenPipe)?;
        self.out.send(bytes.to_vec()).map_err(|_closed| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tells the test what was asked of it.
struct Telling(Sender<u64>);

impl Port for Telling {
    fn perform(&mut self, effect: Effect) {
        if let Effect::Send { id, .. } = effect {
            self.0.send(id).expect("the test listens");
        }
    }
}

#[test]
fn a_stalled_terminal_holds_up_neither_keys_nor_the_runtime() {
    let ((sender, inputs), (asked, asks)) = (channel(), channel());
    let ((given, gives), (open, gate), (out, frames)) = (channel(), channel(), channel());
    let looping = {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut screen = Probe::default();
            let slow = Slow { given, gate, out };
            let bench = Workbench::new(slow, (20, 5), inputs, sender, &options()).expect("a workbench");
            bench.run(&mut screen, &Source::default(), &mut Telling(asked));
            screen
        })
    };
    sender.send(key('a')).expect("sent");
    gives.recv_timeout(PATIENCE).expect("a frame in flight, and it stays there");
    for _ in 0..100 {
        sender.send(key('b')).expect("sent");
        sender.send(key('s')).expect("sent");
        assert_eq!(asks.recv_timeout(PATIENCE), Ok(7), "keys are taken while the terminal stalls");
    }
    sender.send(key('z')).expect("sent");
    sender.send(key('s')).expect("sent");
    assert_eq!(asks.recv_timeout(PATIENCE), Ok(7));
    // It wakes: one frame was in flight, and the next shows the newest state.
    let mut shown = vt100::Parser::default();
    for last in ["key-a", "key-z"] {
        open.send(()).expect("open");
        shown.process(&frames.recv_timeout(PATIENCE).expect("a frame"));
        assert!(shown.screen().contents().ends_with(last), "{:?}", shown.screen().contents());
    }
    sender.send(key('q')).expect("sent");
    drop(open);
    let screen = looping.join().expect("the loop ends");
    assert_eq!(screen.lines.len(), 102);
    assert!(screen.drawn.len() <= 3, "a hundred changes, and frames only as the terminal took them");
}
