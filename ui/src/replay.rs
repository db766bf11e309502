//! A recording: the same events, folded up to a cursor.

use crate::projection::{Mark, Projection, mark};
use std::sync::Arc;
use stockade_protocol::event::{CallEvent, Event, EventEnvelope, SessionEvent};
use stockade_protocol::ids::RunId;
use stockade_protocol::time::Timestamp;

/// Speeds of playing, times real time.
pub(crate) const SPEEDS: [u64; 6] = [1, 2, 5, 10, 60, 600];
/// Longest pause that is played in full, milliseconds of the recording: nobody watches a terminal wait.
const LONGEST_PAUSE_MS: u64 = 2_000;

/// A recording and where one is in it.
#[derive(Debug)]
pub(crate) struct Replay {
    pub projection: Projection,
    /// Events that are folded in.
    pub cursor: usize,
    /// The run looked at; all when there is none.
    pub run: Option<RunId>,
    /// When the next event is due, while it plays.
    pub playing: Option<Timestamp>,
    /// Index into [`SPEEDS`].
    pub speed: usize,
    /// Whether the time line is hidden.
    pub hidden: bool,
    /// What was searched last.
    pub needle: String,
    /// Whether the first event of interest has been found.
    anchored: bool,
}

impl Replay {
    /// A recording that begins at the first event of `run`.
    pub(crate) fn recording(run: Option<RunId>) -> Self {
        Self {
            projection: Projection::default(),
            cursor: 0,
            run,
            playing: None,
            speed: 0,
            hidden: false,
            needle: String::new(),
            anchored: false,
        }
    }

    /// All of what has happened so far, at its end.
    pub(crate) fn of(events: &[Arc<EventEnvelope>]) -> Self {
        let mut replay = Self { anchored: true, ..Self::recording(None) };
        replay.seek(events, events.len());
        replay
    }

    /// A recorded event was read. The cursor comes to stand on the first event of interest.
    pub(crate) fn read(&mut self, event: &EventEnvelope) {
        if !self.anchored {
            self.projection.apply(event);
            self.cursor += 1;
            self.anchored = self.run.is_none() || event.run == self.run;
        }
    }

    /// The first and last cursor of interest.
    pub(crate) fn bounds(&self, events: &[Arc<EventEnvelope>]) -> (usize, usize) {
        let Some(run) = self.run else { return (usize::from(!events.is_empty()), events.len()) };
        let of_run = |event: &Arc<EventEnvelope>| event.run == Some(run);
        match (events.iter().position(of_run), events.iter().rposition(of_run)) {
            (Some(first), Some(last)) => (first + 1, last + 1),
            _ => (usize::from(!events.is_empty()), events.len()),
        }
    }

    /// Puts the cursor after `cursor` events. Backwards folds anew from the start.
    pub(crate) fn seek(&mut self, events: &[Arc<EventEnvelope>], cursor: usize) {
        let cursor = cursor.min(events.len());
        if cursor < self.cursor {
            self.projection = Projection::default();
            self.cursor = 0;
        }
        for event in events.iter().take(cursor).skip(self.cursor) {
            self.projection.apply(event);
        }
        self.cursor = cursor;
        self.anchored = true;
    }

    /// Moves by events, inside the bounds.
    pub(crate) fn step(&mut self, events: &[Arc<EventEnvelope>], by: isize) {
        let (first, last) = self.bounds(events);
        let to = self.cursor.saturating_add_signed(by).clamp(first.min(last), last);
        self.seek(events, to);
    }

    /// Moves to the next or previous end of a call.
    pub(crate) fn step_call(&mut self, events: &[Arc<EventEnvelope>], forward: bool) {
        let (first, last) = self.bounds(events);
        let ends = |event: &Arc<EventEnvelope>| {
            let of_run = self.run.is_none() || event.run == self.run;
            of_run
                && matches!(
                    event.event,
                    Event::Call(CallEvent::Finished { .. } | CallEvent::Lost {} | CallEvent::InDoubt {})
                )
        };
        let found = if forward {
            events.iter().skip(self.cursor).position(ends).map(|at| self.cursor + at + 1)
        } else {
            let before = self.cursor.saturating_sub(1).min(events.len());
            events.iter().take(before).rposition(ends).map(|at| at + 1)
        };
        let to = found.unwrap_or(if forward { last } else { first });
        self.seek(events, to.clamp(first.min(last), last));
    }

    /// Plays on: folds in what is due and says when the next is.
    pub(crate) fn play(&mut self, events: &[Arc<EventEnvelope>], now: Timestamp) {
        let (_, last) = self.bounds(events);
        while let Some(due) = self.playing {
            if due > now {
                return;
            }
            if self.cursor >= last {
                self.playing = None;
                return;
            }
            let pause = self.pause(events);
            self.seek(events, self.cursor + 1);
            self.playing = Some(due.plus_ms(pause));
        }
    }

    /// How long to wait after the next event, milliseconds.
    fn pause(&self, events: &[Arc<EventEnvelope>]) -> u64 {
        let time = |at: usize| events.get(at).map(|event| event.time);
        match (time(self.cursor), time(self.cursor + 1)) {
            (Some(this), Some(next)) => {
                let speed = SPEEDS.get(self.speed).copied().unwrap_or(1);
                next.since(this).min(LONGEST_PAUSE_MS) / speed
            }
            _ => 0,
        }
    }

    /// Moves to the next event whose row holds the needle; starts over at the end. Says whether one was found.
    pub(crate) fn search(&mut self, events: &[Arc<EventEnvelope>]) -> bool {
        let (first, last) = self.bounds(events);
        let needle = self.needle.to_lowercase();
        let mut probe = Projection::default();
        let mut before = None;
        let mut after = None;
        for (at, event) in events.iter().enumerate().take(last) {
            if matches!(event.event, Event::Session(SessionEvent::Output { .. })) {
                continue;
            }
            probe.apply(event);
            let Some(row) = probe.rows().back() else { continue };
            let text = format!("{} {} {}", row.kind, row.subject, row.detail).to_lowercase();
            if at + 1 < first || !text.contains(&needle) {
                continue;
            }
            if at >= self.cursor {
                after = Some(at + 1);
                break;
            }
            before = before.or(Some(at + 1));
        }
        let found = after.or(before);
        if let Some(to) = found {
            self.seek(events, to);
        }
        found.is_some()
    }

    /// The marks of a time line this wide: for each column the weightiest mark of its events.
    pub(crate) fn marks(&self, events: &[Arc<EventEnvelope>], width: usize) -> Vec<Mark> {
        let (first, last) = self.bounds(events);
        let mut marks = vec![Mark::Plain; width];
        for at in first.saturating_sub(1)..last {
            let Some(event) = events.get(at) else { break };
            if self.run.is_some() && event.run != self.run {
                continue;
            }
            let column = column(at + 1, (first, last), width);
            if let Some(mark) = marks.get_mut(column) {
                *mark = (*mark).max(self::mark(&event.event));
            }
        }
        marks
    }

    /// The column of the cursor on a time line this wide.
    pub(crate) fn column(&self, events: &[Arc<EventEnvelope>], width: usize) -> usize {
        column(self.cursor, self.bounds(events), width)
    }

    /// The cursor under a column of a time line this wide.
    pub(crate) fn at_column(&self, events: &[Arc<EventEnvelope>], at: usize, width: usize) -> usize {
        let (first, last) = self.bounds(events);
        first + (last.saturating_sub(first)) * at / width.saturating_sub(1).max(1)
    }
}

fn column(cursor: usize, (first, last): (usize, usize), width: usize) -> usize {
    let span = last.saturating_sub(first).max(1);
    (cursor.saturating_sub(first) * width.saturating_sub(1) / span).min(width.saturating_sub(1))
}
