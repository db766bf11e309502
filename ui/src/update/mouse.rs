//! The mouse: it focuses, selects and scrolls. It decides nothing.

use crate::io::Effect;
use crate::keymap::Move;
use crate::model::{Over, PaneId, Workbench};
use crate::view::{frame, tree};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// Rows a turn of the wheel moves.
const WHEEL: usize = 3;

impl Workbench {
    pub(super) fn mouse(&mut self, event: &MouseEvent) -> Vec<Effect> {
        let at = Position::new(event.column, event.row);
        match event.kind {
            MouseEventKind::Down(MouseButton::Left) => self.click(at),
            MouseEventKind::ScrollUp => self.wheel(at, Move::Up),
            MouseEventKind::ScrollDown => self.wheel(at, Move::Down),
            MouseEventKind::Down(_)
            | MouseEventKind::Up(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => {}
        }
        Vec::new()
    }

    fn click(&mut self, at: Position) {
        let now = self.tick;
        if let Some(desk) = &mut self.desk {
            desk.swallow(now);
            desk.note = Some("the mouse decides nothing; use the keys below".into());
            return;
        }
        if self.over.is_some() {
            return;
        }
        self.notice = None;
        let layout = self.layout();
        if let Some(line) = layout.timeline.filter(|line| line.contains(at)) {
            self.click_time_line(frame::inner(line), at);
            return;
        }
        if let Some(tabs) = layout.tabs.filter(|tabs| tabs.contains(at)) {
            if let Some(id) = crate::view::tabs::at(self, tabs, at.x) {
                self.focus_on(PaneId::Terminal(id));
            }
            return;
        }
        let Some(pane) = layout.panes.iter().rev().find(|pane| pane.area.contains(at)) else { return };
        self.focus_on(pane.id);
        if pane.id == PaneId::Runs
            && let Some(key) = tree::at(self, frame::inner(pane.area), at)
        {
            self.select(key);
        }
    }

    fn click_time_line(&mut self, inner: Rect, at: Position) {
        let column = usize::from(at.x.saturating_sub(inner.x));
        if let Some(replay) = &mut self.replay {
            replay.playing = None;
            let to = replay.at_column(&self.events, column, usize::from(inner.width));
            replay.seek(&self.events, to);
        }
    }

    fn wheel(&mut self, at: Position, to: Move) {
        let now = self.tick;
        if self.desk.is_some() {
            for _ in 0..WHEEL {
                self.scroll_card(to);
            }
            if let Some(desk) = &mut self.desk {
                desk.touched(now);
            }
            return;
        }
        if let Some(Over::Help(_)) = self.over {
            self.moved(to);
            return;
        }
        let layout = self.layout();
        let Some(pane) = layout.panes.iter().rev().find(|pane| pane.area.contains(at)) else { return };
        // The pane under the pointer scrolls; focus stays where it is.
        let focus = self.focus.replace(pane.id);
        for _ in 0..WHEEL {
            self.moved(to);
        }
        self.focus = focus;
    }
}
