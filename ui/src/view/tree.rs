//! Runs and their sessions.

use super::empty;
use super::ink::Line;
use crate::model::{TreeKey, Workbench};
use crate::projection::{Run, RunState, Session, SessionState};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use stockade_protocol::event::RunOutcome;

/// A row of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeRow {
    pub key: TreeKey,
}

/// The rows: runs oldest first, the sessions of running and opened ones under them.
pub(crate) fn rows(model: &Workbench) -> Vec<TreeRow> {
    let projection = model.projection();
    let mut rows = Vec::new();
    for run in projection.runs() {
        rows.push(TreeRow { key: TreeKey::Run(run.id) });
        if opened(model, run) {
            let of_run = projection.sessions().iter().filter(|session| session.run == Some(run.id));
            rows.extend(of_run.map(|session| TreeRow { key: TreeKey::Session(session.id) }));
        }
    }
    let known = |session: &&Session| session.run.and_then(|run| projection.run(run)).is_none();
    rows.extend(projection.sessions().iter().filter(known).map(|s| TreeRow { key: TreeKey::Session(s.id) }));
    rows
}

fn opened(model: &Workbench, run: &Run) -> bool {
    (run.state == RunState::Running) != model.expanded.contains(&run.id)
}

/// The selected row.
pub(crate) fn selected(model: &Workbench, rows: &[TreeRow]) -> Option<usize> {
    let key = model.tree?;
    rows.iter().position(|row| row.key == key)
}

/// The row at a place.
pub(crate) fn at(model: &Workbench, area: Rect, at: Position) -> Option<TreeKey> {
    let rows = rows(model);
    let first = first(model, &rows, area);
    let row = first + usize::from(at.y.checked_sub(area.y)?);
    area.contains(at).then(|| rows.get(row).map(|row| row.key)).flatten()
}

/// The first row on the screen: the selected one is visible, else the newest.
fn first(model: &Workbench, rows: &[TreeRow], area: Rect) -> usize {
    let height = usize::from(area.height).max(1);
    let last = rows.len().saturating_sub(height);
    selected(model, rows).map_or(last, |at| at.saturating_sub(height / 2).min(last))
}

pub(super) fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let rows = rows(model);
    let facts = match selected(model, &rows) {
        Some(at) => Line::new().made(format!("{}/{}", at + 1, rows.len()), ink.theme.dim),
        None => Line::new(),
    };
    (Line::new().own("Runs", ink.theme.text), facts)
}

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let rows = rows(model);
    let ink = &model.ink;
    if rows.is_empty() {
        let lines = [
            Line::new().own("no runs yet", ink.theme.dim),
            Line::new().own("stockade run PROMPT", ink.theme.accent),
            Line::new().own("starts one; so does an", ink.theme.dim),
            Line::new().own("agent that calls over MCP", ink.theme.dim),
        ];
        empty(&lines, area, buffer);
        return;
    }
    let first = first(model, &rows, area);
    let selected = selected(model, &rows);
    let width = usize::from(area.width);
    for (at, (row, y)) in rows.iter().skip(first).zip(area.y..area.bottom()).enumerate() {
        let (left, right) = match row.key {
            TreeKey::Run(run) => match model.projection().run(run) {
                Some(run) => run_row(model, run),
                None => continue,
            },
            TreeKey::Session(session) => match model.projection().session(session) {
                Some(session) => session_row(model, session),
                None => continue,
            },
        };
        let left = left.fit(width.saturating_sub(right.width() + 1), ink);
        let line = left.pad_to(width.saturating_sub(right.width())).then(right);
        let line = if selected == Some(first + at) { line.patched(ink.theme.selection) } else { line };
        line.draw(buffer, area.x, y, width);
    }
}

fn run_row(model: &Workbench, run: &Run) -> (Line, Line) {
    let ink = &model.ink;
    let fold = if opened(model, run) { ink.glyphs.open } else { ink.glyphs.closed };
    let title = if run.title.text.raw().is_empty() { "untitled" } else { run.title.text.raw() };
    let left = Line::new().own(fold, ink.theme.dim).gap(1).outside(title, ink.theme.text, ink);
    (left, run_state(model, run))
}

/// A run's state, as a mark and a word.
pub(super) fn run_state(model: &Workbench, run: &Run) -> Line {
    let ink = &model.ink;
    let (mark, word, style) = match run.state {
        _ if model.projection().run_waits(run.id) => (ink.glyphs.waiting, "waiting", ink.theme.wait),
        RunState::Running => (ink.glyphs.running, "running", ink.theme.accent),
        RunState::Ended(RunOutcome::Done) => (ink.glyphs.done, "done", ink.theme.ok),
        RunState::Ended(outcome) => (ink.glyphs.failed, crate::projection::outcome_word(outcome), ink.theme.text),
    };
    Line::new().own(mark, style).gap(1).own(word, style)
}

fn session_row(model: &Workbench, session: &Session) -> (Line, Line) {
    let ink = &model.ink;
    let left = Line::new()
        .gap(2)
        .made(session.number.to_string(), ink.theme.accent)
        .gap(1)
        .own(ink.glyphs.session, ink.theme.dim)
        .gap(1)
        .outside(&session.tool, ink.theme.text, ink);
    let right = if model.projection().session_waits(session.id) {
        Line::new().own(ink.glyphs.waiting, ink.theme.wait).own(" waiting", ink.theme.wait)
    } else {
        match &session.state {
            SessionState::TakenOver(by) if *by == model.me => {
                Line::new().own(ink.glyphs.person, ink.theme.accent).own(" yours", ink.theme.accent)
            }
            SessionState::TakenOver(_) => {
                Line::new().own(ink.glyphs.person, ink.theme.accent).own(" taken over", ink.theme.accent)
            }
            SessionState::Closed { why, .. } => Line::new().outside(why, ink.theme.dim, ink).fit(12, ink),
            SessionState::Starting | SessionState::Ready | SessionState::Busy(_) => {
                Line::new().own(session.word(), ink.theme.dim)
            }
        }
    };
    (left, right)
}
