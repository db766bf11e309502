//! The approval card's keys.

use super::one_line;
use crate::card::{Desk, Gate, Off, QUIET_MS};
use crate::io::Effect;
use crate::keymap::{Action, Context, Judge, Move, Show, lookup};
use crate::model::{About, Workbench};
use crate::projection::Settled;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stockade_protocol::ids::CallId;
use stockade_protocol::limits::{APPROVE_MIN_SIZE, REASON_BYTES};
use stockade_protocol::receipt::Decision;

impl Workbench {
    /// Takes the oldest waiting card in hand, or the one after that in hand.
    pub(crate) fn open_card(&mut self) {
        let waiting = self.projection().waiting();
        let at = self.desk.as_ref().and_then(|desk| waiting.iter().position(|a| a.call == desk.call));
        let next = at.map_or(0, |at| (at + 1) % waiting.len().max(1));
        let Some(approval) = waiting.get(next) else {
            self.desk = None;
            self.notice = Some("nothing waits for you".into());
            return;
        };
        if self.desk.as_ref().is_some_and(|desk| desk.call == approval.call) {
            return;
        }
        self.desk = Some(Desk::new(approval.call, approval.contract, &approval.card, approval.shown));
        self.reason = None;
        self.relay_card();
    }

    /// After an event: what became of the card in hand.
    pub(crate) fn follow_card(&mut self) {
        let Some(desk) = &self.desk else { return };
        let (call, mine) = (desk.call, desk.sent.is_some());
        let Some(approval) = self.live.approval(call) else { return };
        match &approval.settled {
            None => {
                let same = approval.contract == desk.contract && approval.card == desk.card;
                if same {
                    return;
                }
                let mut fresh = Desk::new(call, approval.contract, &approval.card, approval.shown);
                fresh.note = Some("the call was asked anew: this is the new card".into());
                self.desk = Some(fresh);
                self.reason = None;
                self.relay_card();
            }
            Some(Settled::Decided { .. }) if mine => self.next_or_none(),
            Some(_) => {
                if let Some(desk) = &mut self.desk {
                    desk.sent = None;
                }
                self.reason = None;
            }
        }
    }

    /// After a decision: the next card, armed anew, or none.
    fn next_or_none(&mut self) {
        self.desk = None;
        self.reason = None;
        self.relay_card();
        if !self.live.waiting().is_empty() && self.replay.is_none() {
            self.open_card();
        }
    }

    pub(super) fn not_accepted(&mut self, call: CallId, id: u64, said: &str) {
        let now = self.tick;
        match &mut self.desk {
            Some(desk) if desk.call == call && desk.sent == Some(id) => {
                desk.sent = None;
                desk.note = Some(format!("not accepted: {said}"));
                desk.touched(now);
            }
            _ => self.notice = Some(format!("an answer was not accepted: {said}")),
        }
    }

    pub(super) fn card_key(&mut self, key: &KeyEvent) -> Vec<Effect> {
        let action = lookup(&[Context::Card], key);
        let now = self.tick;
        match action {
            Some(Action::Judge(judge)) => return self.judge(judge),
            Some(Action::Move(to)) => {
                self.scroll_card(to);
                if let Some(desk) = &mut self.desk {
                    desk.touched(now);
                }
            }
            Some(Action::Show(Show::Waiting)) => self.open_card(),
            Some(_) | None => {
                if let Some(desk) = &mut self.desk {
                    desk.swallow(now);
                    desk.note = Some("that key does nothing here; no key went anywhere else".into());
                }
            }
        }
        Vec::new()
    }

    pub(crate) fn scroll_card(&mut self, to: Move) {
        let Some(place) = self.layout().card else { return };
        let page = usize::from(place.text.height).max(1);
        let rows = self.laid.rows.len();
        let Some(desk) = &mut self.desk else { return };
        desk.note = None;
        let at = desk.scroll;
        // A page overlaps by a row, so that reading goes on where it stopped.
        let leap = page.saturating_sub(1).max(1);
        desk.scroll = match to {
            Move::Up => at.saturating_sub(1),
            Move::Down => at + 1,
            Move::PageUp => at.saturating_sub(leap),
            Move::PageDown => at + leap,
            Move::First => 0,
            Move::Last => rows,
        }
        .min(rows.saturating_sub(page));
    }

    pub(super) fn judge(&mut self, judge: Judge) -> Vec<Effect> {
        match judge {
            Judge::Leave => {
                self.desk = None;
                self.relay_card();
                Vec::new()
            }
            Judge::Copy => {
                let now = self.tick;
                let Some(desk) = &mut self.desk else { return Vec::new() };
                desk.touched(now);
                desk.note = Some("the contract digest is on the clipboard, if your terminal allows it".into());
                vec![Self::copy(&desk.contract.to_string())]
            }
            Judge::Refuse => self.refuse(None),
            Judge::RefuseWithReason => {
                if self.may_refuse() {
                    self.reason = Some(String::new());
                }
                Vec::new()
            }
            Judge::Approve => self.approve(),
        }
    }

    fn may_refuse(&mut self) -> bool {
        let (now, gate) = (self.tick, self.gate());
        let Some(desk) = &mut self.desk else { return false };
        if let Gate::Off(Off::Settled | Off::Replay) = gate {
            desk.swallow(now);
            desk.note = Some(gate_words(&gate));
            return false;
        }
        let ready = desk.refuse_ready(now);
        if ready {
            desk.touched(now);
        } else {
            desk.swallow(now);
            desk.note = Some("too soon after the card appeared: that key was dropped".into());
        }
        ready
    }

    fn refuse(&mut self, reason: Option<String>) -> Vec<Effect> {
        if self.may_refuse() { self.decide(Decision::Reject, reason) } else { Vec::new() }
    }

    fn approve(&mut self) -> Vec<Effect> {
        let gate = self.gate();
        let now = self.tick;
        let Some(desk) = &mut self.desk else { return Vec::new() };
        if gate != Gate::Armed || !desk.offered() {
            desk.swallow(now);
            desk.note = Some(gate_words(&gate));
            return Vec::new();
        }
        self.decide(Decision::Approve, None)
    }

    /// Decides the call as it was drawn, if that is still what is asked.
    fn decide(&mut self, decision: Decision, reason: Option<String>) -> Vec<Effect> {
        let Some(desk) = &self.desk else { return Vec::new() };
        let (call, contract, shown) = (desk.call, desk.contract, desk.shown);
        let same =
            self.live.waiting().iter().any(|approval| {
                approval.call == call && approval.contract == contract && approval.card.digest() == shown
            });
        if !same {
            if let Some(desk) = &mut self.desk {
                desk.swallow(self.tick);
                desk.note = Some("this is no longer what is asked; nothing was decided".into());
            }
            return Vec::new();
        }
        let id = self.ask(About::Decision(call));
        if let Some(desk) = &mut self.desk {
            desk.sent = Some(id);
            desk.note = None;
        }
        self.reason = None;
        vec![Effect::Decide { id, call, contract, shown, decision, reason }]
    }

    pub(super) fn reason_key(&mut self, key: &KeyEvent) -> Vec<Effect> {
        let now = self.tick;
        if let Some(desk) = &mut self.desk {
            desk.touched(now);
        }
        let action = lookup(&[Context::Reason], key);
        let Some(text) = &mut self.reason else { return Vec::new() };
        match (action, key.code) {
            (Some(Action::Send), _) => {
                let text = text.trim().to_owned();
                let gate = self.gate();
                if let Gate::Off(Off::Settled | Off::Replay) | Gate::Sent = gate {
                    self.reason = None;
                    if let Some(desk) = &mut self.desk {
                        desk.note = Some(gate_words(&gate));
                    }
                    return Vec::new();
                }
                return self.decide(Decision::Reject, (!text.is_empty()).then_some(text));
            }
            (Some(_), _) => self.reason = None,
            (None, KeyCode::Backspace) => _ = text.pop(),
            (None, KeyCode::Char(c)) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                if text.len() + c.len_utf8() <= REASON_BYTES {
                    text.push(c);
                }
            }
            (None, _) => {}
        }
        Vec::new()
    }

    pub(super) fn paste_on_card(&mut self, pasted: &str) {
        let now = self.tick;
        if let Some(desk) = &mut self.desk {
            desk.swallow(now);
            if self.reason.is_none() {
                desk.note = Some("a paste decides nothing".into());
            }
        }
        if let Some(text) = &mut self.reason {
            for c in pasted.chars().map(one_line) {
                if text.len() + c.len_utf8() > REASON_BYTES {
                    break;
                }
                text.push(c);
            }
        }
    }
}

/// Why a press decided nothing.
fn gate_words(gate: &Gate) -> String {
    match gate {
        Gate::Off(Off::Small) => {
            format!("too small to approve: needs {}x{}", APPROVE_MIN_SIZE.0, APPROVE_MIN_SIZE.1)
        }
        Gate::Off(Off::Malformed) => "malformed: this card cannot be approved".into(),
        Gate::Off(Off::Settled) => "this call no longer waits; nothing was decided".into(),
        Gate::Off(Off::Replay) => "a recording decides nothing".into(),
        Gate::Unseen { .. } => "read to the end first: PgDn".into(),
        Gate::Arming(_) => {
            format!("that key came too soon and was dropped; wait {} s without any key", QUIET_MS / 1_000)
        }
        Gate::Armed => "the key was not offered yet; it was dropped".into(),
        Gate::Sent => "an answer is on its way".into(),
    }
}
