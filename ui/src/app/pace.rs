//! When to draw. Pure: time is passed in.

use std::time::Duration;

/// Shortest time between two frames: 60 a second.
pub const FRAME: Duration = Duration::from_micros(16_700);

/// How soon after a key a session's output counts as its echo.
pub const ECHO: Duration = Duration::from_millis(30);

/// How long the terminal's size must rest before it is taken over.
pub const REST: Duration = Duration::from_millis(30);

/// When the next frame is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// At this time.
    At(Duration),
    /// Not before something changes or the frame in flight has been written.
    Never,
}

/// Decides when to draw: nothing while nothing changes, the first change after a rest at once, then at most one frame
/// in [`FRAME`], except that output of the session in hand within [`ECHO`] of a key is drawn at once, one time a key.
/// Never while a frame is in flight.
#[derive(Debug, Default)]
pub struct Pace {
    dirty: bool,
    in_flight: bool,
    last: Option<Duration>,
    key: Option<Duration>,
    echo: bool,
}

impl Pace {
    /// What would be drawn has changed.
    pub const fn changed(&mut self) {
        self.dirty = true;
    }

    /// A key was pressed.
    pub const fn key(&mut self, now: Duration) {
        self.key = Some(now);
    }

    /// The session in hand printed something.
    pub fn output(&mut self, now: Duration) {
        if self.key.is_some_and(|key| now.saturating_sub(key) <= ECHO) {
            self.echo = true;
            self.key = None;
        }
    }

    /// When to draw.
    #[must_use]
    pub fn due(&self, now: Duration) -> Due {
        if !self.dirty || self.in_flight {
            return Due::Never;
        }
        match self.last.map(|last| last + FRAME) {
            Some(next) if next > now && !self.echo => Due::At(next),
            _ => Due::Now,
        }
    }

    /// A frame was drawn. `written` when it had no bytes and is on the terminal already.
    pub const fn drew(&mut self, now: Duration, written: bool) {
        self.dirty = false;
        self.echo = false;
        self.in_flight = !written;
        self.last = Some(now);
    }

    /// The frame in flight was written.
    pub const fn written(&mut self) {
        self.in_flight = false;
    }
}

/// Holds a new size back until it has rested for [`REST`]: dragging a window's edge gives many.
#[derive(Debug, Default)]
pub struct Settle {
    size: Option<((u16, u16), Duration)>,
}

impl Settle {
    /// The terminal has a new size.
    pub const fn resized(&mut self, now: Duration, size: (u16, u16)) {
        self.size = Some((size, now));
    }

    /// When the size will have rested.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.size.map(|(_, since)| since + REST)
    }

    /// The size, once it has rested, or at once with `force`: before a key is delivered the screens must know what
    /// the person looks at.
    pub fn take(&mut self, now: Duration, force: bool) -> Option<(u16, u16)> {
        match self.due() {
            Some(due) if force || due <= now => self.size.take().map(|(size, _)| size),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn nothing_is_drawn_while_nothing_changes() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(ms(0)), Due::Never);
        pace.changed();
        pace.drew(ms(0), true);
        for now in [1, 20, 1_000, 1_000_000] {
            assert_eq!(pace.due(ms(now)), Due::Never);
        }
        pace.key(ms(2_000_000));
        assert_eq!(pace.due(ms(2_000_000)), Due::Never, "a key that changes nothing draws nothing");
    }

    #[test]
    fn the_first_change_after_a_rest_is_drawn_at_once_and_the_next_waits() {
        let mut pace = Pace::default();
        pace.changed();
        assert_eq!(pace.due(ms(100)), Due::Now);
        pace.drew(ms(100), true);
        pace.changed();
        assert_eq!(pace.due(ms(101)), Due::At(ms(100) + FRAME));
        assert_eq!(pace.due(ms(100) + FRAME), Due::Now);
    }

    #[test]
    fn an_echo_is_drawn_at_once_one_time_a_key() {
        let mut pace = Pace::default();
        pace.changed();
        pace.drew(ms(100), true);
        pace.key(ms(101));
        pace.output(ms(102));
        pace.changed();
        assert_eq!(pace.due(ms(102)), Due::Now);
        pace.drew(ms(102), true);
        pace.output(ms(103));
        pace.changed();
        assert_eq!(pace.due(ms(103)), Due::At(ms(102) + FRAME), "the key's echo was drawn");
        pace.key(ms(104));
        pace.output(ms(104) + ECHO + ms(1));
        pace.drew(ms(140), true);
        pace.changed();
        assert_eq!(pace.due(ms(141)), Due::At(ms(140) + FRAME), "too late to be an echo");
    }

    #[test]
    fn a_flood_is_drawn_sixty_times_a_second() {
        let mut pace = Pace::default();
        let mut frames = 0;
        for tenth in 0..10_000_u64 {
            let now = Duration::from_micros(tenth * 100);
            pace.changed();
            pace.output(now);
            if pace.due(now) == Due::Now {
                pace.drew(now, true);
                frames += 1;
            }
        }
        assert!((58..=61).contains(&frames), "{frames} frames in a second");
    }

    #[test]
    fn a_slow_terminal_gets_one_frame_at_a_time() {
        let mut pace = Pace::default();
        pace.changed();
        pace.drew(ms(0), false);
        pace.changed();
        pace.key(ms(500));
        pace.output(ms(501));
        assert_eq!(pace.due(ms(501)), Due::Never, "even an echo waits for the frame in flight");
        pace.written();
        assert_eq!(pace.due(ms(501)), Due::Now);
    }

    #[test]
    fn a_size_is_taken_over_once_it_rests_or_a_key_comes() {
        let mut settle = Settle::default();
        assert_eq!(settle.take(ms(0), true), None);
        for now in 0..50 {
            settle.resized(ms(now), (80, 24 + now as u16));
            assert_eq!(settle.take(ms(now), false), None);
        }
        assert_eq!(settle.due(), Some(ms(49) + REST));
        assert_eq!(settle.take(ms(49) + REST, false), Some((80, 73)));
        assert_eq!(settle.take(ms(1_000), false), None);
        settle.resized(ms(1_000), (40, 10));
        assert_eq!(settle.take(ms(1_001), true), Some((40, 10)));
    }
}
