//! Moving through a recording.

use crate::io::Effect;
use crate::keymap::Wind;
use crate::model::{Over, Workbench};
use crate::replay::SPEEDS;

impl Workbench {
    pub(super) fn wind(&mut self, wind: Wind) -> Vec<Effect> {
        let tick = self.tick;
        let recording = self.recording();
        let Some(replay) = &mut self.replay else { return Vec::new() };
        let events = &self.events;
        if !matches!(wind, Wind::Faster | Wind::Slower | Wind::Play | Wind::Hide) {
            replay.playing = None;
        }
        match wind {
            Wind::Back => replay.step(events, -1),
            Wind::On => replay.step(events, 1),
            Wind::CallBack => replay.step_call(events, false),
            Wind::CallOn => replay.step_call(events, true),
            Wind::Start => replay.step(events, isize::MIN),
            Wind::End => replay.step(events, isize::MAX),
            Wind::Play => {
                let at_end = replay.cursor >= replay.bounds(events).1;
                if replay.playing.is_none() && at_end {
                    replay.step(events, isize::MIN);
                }
                replay.playing = if replay.playing.is_some() { None } else { Some(tick) };
            }
            Wind::Faster => replay.speed = (replay.speed + 1).min(SPEEDS.len() - 1),
            Wind::Slower => replay.speed = replay.speed.saturating_sub(1),
            Wind::Hide => replay.hidden = !replay.hidden,
            Wind::Search => self.over = Some(Over::Search(String::new())),
            Wind::Leave if recording => self.notice = Some("this is a recording; q ends it".into()),
            Wind::Leave => {
                self.replay = None;
                self.desk = None;
                self.relay_card();
            }
        }
        self.follow_recorded_card();
        Vec::new()
    }

    pub(super) fn search(&mut self, needle: String) {
        let Some(replay) = &mut self.replay else { return };
        if !needle.is_empty() {
            replay.needle = needle;
        }
        if !replay.needle.is_empty() && !replay.search(&self.events) {
            self.notice = Some(format!("no record holds {}", replay.needle));
        }
        self.follow_recorded_card();
    }

    /// A card that does not wait at the cursor is put away.
    fn follow_recorded_card(&mut self) {
        let Some(desk) = &self.desk else { return };
        if !self.projection().waiting().iter().any(|approval| approval.call == desk.call) {
            self.desk = None;
            self.relay_card();
        }
    }
}
