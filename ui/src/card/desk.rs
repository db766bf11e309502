//! The card in hand: what of it has been on the screen, and which keys decide.
//!
//! Time comes in with inputs. A card is armed by what was drawn, never by what was computed: [`Desk::drawn`] is told
//! after a frame has been written to the terminal.

use stockade_protocol::card::Card;
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::CallId;
use stockade_protocol::limits::APPROVE_MIN_SIZE;
use stockade_protocol::time::Timestamp;

/// How long no key may have come before approve works, milliseconds.
pub(crate) const QUIET_MS: u64 = 1_000;
/// How long a card must have been on the screen before refuse works, milliseconds.
pub(crate) const REFUSE_MS: u64 = 500;
/// Steps of the countdown.
pub(crate) const STEPS: u64 = 4;

/// What the approve key does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing is decided here, and why.
    Off(Off),
    /// Not all of it has been on the screen at this size.
    Unseen {
        /// Characters seen.
        seen: usize,
        /// Characters in all.
        total: usize,
    },
    /// It will work when no key comes for this long, milliseconds.
    Arming(u64),
    /// It works.
    Armed,
    /// An answer is on its way.
    Sent,
}

/// Why nothing is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Off {
    /// The terminal is too small to read it.
    Small,
    /// The card does not say what would happen, or its digest is not that of its text.
    Malformed,
    /// It is over.
    Settled,
    /// This is a recording.
    Replay,
}

/// The card in hand.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    /// The call it is about.
    pub call: CallId,
    /// Digest of its contract, as drawn.
    pub contract: Digest,
    /// Digest of its text, computed from what is drawn.
    pub shown: Digest,
    /// The card, as drawn.
    pub card: Card,
    /// Whether it can be approved at all.
    pub sound: bool,
    /// First row on the screen.
    pub scroll: usize,
    /// An answer that is on its way.
    pub sent: Option<u64>,
    /// Something to say beside the keys.
    pub note: Option<String>,
    /// When it was first written to the terminal.
    first_drawn: Option<Timestamp>,
    /// When the newest key or change of size came, or it was first drawn.
    quiet_since: Option<Timestamp>,
    /// When the newest key came that did nothing here.
    swallowed: Option<Timestamp>,
    /// Rows that have been on the screen at this size.
    seen: Vec<bool>,
    /// Whether a frame that offers approve has been written.
    offered: bool,
}

impl Desk {
    /// Takes a card in hand. `said` is the digest that the runtime names.
    pub(crate) fn new(call: CallId, contract: Digest, card: &Card, said: Digest) -> Self {
        let shown = card.digest();
        Self {
            call,
            contract,
            shown,
            card: card.clone(),
            sound: card.names_act() && shown == said,
            scroll: 0,
            sent: None,
            note: None,
            first_drawn: None,
            quiet_since: None,
            swallowed: None,
            seen: Vec::new(),
            offered: false,
        }
    }

    /// A key, a click or the like came: the wait begins again.
    pub(crate) fn touched(&mut self, now: Timestamp) {
        self.offered = false;
        if self.first_drawn.is_some() {
            self.quiet_since = Some(now);
        }
    }

    /// A key came that does nothing here: it must not decide by being held down.
    pub(crate) fn swallow(&mut self, now: Timestamp) {
        self.touched(now);
        self.swallowed = Some(now);
    }

    /// The terminal changed its size: what was seen was seen in another form.
    pub(crate) fn resized(&mut self, now: Timestamp) {
        self.seen.clear();
        self.scroll = 0;
        self.touched(now);
    }

    /// A frame with rows `from..to` of `rows` has been written, with what the gate said in it.
    pub(crate) fn drawn(&mut self, from: usize, to: usize, rows: usize, gate: &Gate, now: Timestamp) {
        if self.first_drawn.is_none() {
            self.first_drawn = Some(now);
            self.quiet_since = Some(now);
        }
        if self.seen.len() != rows {
            self.seen = vec![false; rows];
        }
        let before = self.all_seen(rows);
        for row in self.seen.iter_mut().take(to).skip(from) {
            *row = true;
        }
        if !before && self.all_seen(rows) {
            self.quiet_since = Some(now);
        }
        self.offered = *gate == Gate::Armed;
    }

    fn all_seen(&self, rows: usize) -> bool {
        self.seen.len() == rows && self.seen.iter().all(|seen| *seen)
    }

    /// Whether refuse works: at any size, once the card has been there for a moment.
    pub(crate) fn refuse_ready(&self, now: Timestamp) -> bool {
        let shown = self.first_drawn.is_some_and(|drawn| now.since(drawn) >= REFUSE_MS);
        let calm = self.swallowed.is_none_or(|key| now.since(key) >= REFUSE_MS);
        self.sent.is_none() && shown && calm
    }

    /// Whether approve works this very moment: the key was offered in a frame that has been written.
    pub(crate) const fn offered(&self) -> bool {
        self.offered
    }

    /// What the approve key does, for a card laid out in these rows (characters a row).
    pub(crate) fn gate(&self, now: Timestamp, size: (u16, u16), characters: &[usize]) -> Gate {
        if self.sent.is_some() {
            return Gate::Sent;
        }
        if !self.sound {
            return Gate::Off(Off::Malformed);
        }
        if size.0 < APPROVE_MIN_SIZE.0 || size.1 < APPROVE_MIN_SIZE.1 {
            return Gate::Off(Off::Small);
        }
        if !self.all_seen(characters.len()) {
            let of = |(at, n): (usize, &usize)| if self.seen.get(at) == Some(&true) { *n } else { 0 };
            let seen = characters.iter().enumerate().map(of).sum();
            return Gate::Unseen { seen, total: characters.iter().sum() };
        }
        match self.quiet_since {
            Some(since) if now.since(since) >= QUIET_MS => Gate::Armed,
            Some(since) => Gate::Arming(QUIET_MS - now.since(since)),
            None => Gate::Arming(QUIET_MS),
        }
    }

    /// When the drawing of the gate changes by itself, if it does.
    pub(crate) fn wake(&self, now: Timestamp, gate: &Gate) -> Option<Timestamp> {
        match gate {
            Gate::Arming(left) => {
                let step = QUIET_MS / STEPS;
                let into = left % step;
                Some(now.plus_ms(if into == 0 { step } else { into }))
            }
            Gate::Off(_) | Gate::Unseen { .. } | Gate::Armed | Gate::Sent => None,
        }
    }
}
