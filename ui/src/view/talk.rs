//! A run's conversation: what the person, the agent and the tools said. All of it comes from outside and stands behind
//! a gutter.

use super::empty;
use super::ink::Line;
use super::tree::run_state;
use crate::model::Workbench;
use crate::projection::{Call, Message, Speaker, Step};
use crate::text::{clock, count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stockade_protocol::text::SafeText;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Most rows of one message; the rest is counted.
const ROWS: usize = 40;
/// Most rows of a tool's output.
const OUTPUT_ROWS: usize = 8;

pub(super) fn titles(model: &Workbench) -> (Line, Line) {
    let ink = &model.ink;
    let Some(run) = model.talk_run().and_then(|id| model.projection().run(id)) else {
        return (Line::new().own("Messages", ink.theme.text), Line::new());
    };
    let title = Line::new().own("Messages", ink.theme.text).gap(1).own(ink.glyphs.dot, ink.theme.dim).gap(1);
    (title.outside(run.title.text.raw(), ink.theme.text, ink), run_state(model, run))
}

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let ink = &model.ink;
    let run = model.talk_run().and_then(|id| model.projection().run(id));
    let Some(run) = run.filter(|run| !run.talk.is_empty()) else {
        let lines = [
            Line::new().own("nothing said yet", ink.theme.text),
            Line::new().own("the prompt, the agent's words and its calls will be here", ink.theme.dim),
            Line::new().own("m", ink.theme.accent).own(" back to the terminals", ink.theme.dim),
        ];
        empty(&lines, area, buffer);
        return;
    };
    let last = model.talk_at.map_or(run.talk.len(), |at| (at + 1).saturating_sub(run.dropped)).clamp(1, run.talk.len());
    let height = usize::from(area.height);
    let mut lines: Vec<Line> = Vec::new();
    for message in run.talk.iter().take(last).rev() {
        let mut block = block(model, message, usize::from(area.width));
        block.push(Line::new());
        block.append(&mut lines);
        lines = block;
        if lines.len() > height {
            break;
        }
    }
    lines.pop();
    let skip = lines.len().saturating_sub(height);
    for (line, y) in lines.iter().skip(skip).zip(area.y..area.bottom()) {
        line.draw(buffer, area.x, y, usize::from(area.width));
    }
}

fn block(model: &Workbench, message: &Message, width: usize) -> Vec<Line> {
    let ink = &model.ink;
    let theme = &ink.theme;
    let call = message.call.and_then(|call| model.projection().call(call));
    let time = Line::new().made(clock(message.time, &model.zone), theme.dim).gap(1);
    let (head, most) = match message.speaker {
        Speaker::Person => (time.own("you", theme.accent), ROWS),
        Speaker::Agent => (time.own("the agent says", theme.text), ROWS),
        Speaker::Proposal => return vec![proposal(model, message, call, time, width)],
        Speaker::Tool => (
            time.own("answer of ", theme.dim).outside(call.map_or("", |call| &call.tool), theme.text, ink),
            OUTPUT_ROWS,
        ),
        Speaker::End => (time.own("the run ended", theme.text), ROWS),
    };
    let mut lines = vec![head.fit(width, ink)];
    let mut hidden = message.text.omitted;
    let mut left = most;
    for text in SafeText::lines(message.text.text.raw().trim_end_matches(['\n', '\r'])) {
        for row in wrapped(model, &text, width.saturating_sub(4)) {
            if left == 0 {
                hidden += row.width();
                continue;
            }
            left -= 1;
            lines.push(Line::new().gap(2).own(ink.glyphs.gutter, theme.untrusted).gap(1).then(row));
        }
    }
    if hidden > 0 {
        let more = format!("  {} {} more characters in the journal", ink.glyphs.ellipsis, count(hidden as u64));
        lines.push(Line::new().made(more, theme.dim));
    }
    lines
}

fn proposal(model: &Workbench, message: &Message, call: Option<&Call>, time: Line, width: usize) -> Line {
    let ink = &model.ink;
    let theme = &ink.theme;
    let (mark, word, style) = match call.map(|call| &call.step) {
        None | Some(Step::Proposed) => (ink.glyphs.dot, "proposed", theme.dim),
        Some(Step::Judged) => (ink.glyphs.dot, "judged", theme.dim),
        Some(Step::Waiting) => (ink.glyphs.waiting, "waits for you [w]", theme.wait),
        Some(Step::Passed) => (ink.glyphs.dot, "about to run", theme.dim),
        Some(Step::Running) => (ink.glyphs.running, "running", theme.accent),
        Some(Step::Ended { outcome: "done", .. }) => (ink.glyphs.done, "done", theme.ok),
        Some(Step::Ended { outcome, .. }) => (ink.glyphs.failed, *outcome, theme.text),
    };
    let state = Line::new().own(mark, style).gap(1).own(word, style);
    let mut line = time.own("calls ", theme.dim).outside(message.text.text.raw(), theme.text, ink);
    if let Some(act) = call.map(|call| call.act.as_str()).filter(|act| !act.is_empty()) {
        line = line.gap(1).own(ink.glyphs.gutter, theme.untrusted).gap(1).outside(act, theme.text, ink);
    }
    line = line.fit(width.saturating_sub(state.width() + 2), ink);
    line.pad_to(width.saturating_sub(state.width())).then(state)
}

/// Breaks safe text at blanks where it can, into rows of at most `width` columns.
fn wrapped(model: &Workbench, text: &SafeText, width: usize) -> Vec<Line> {
    let width = width.max(1);
    let mut rows = vec![Line::new()];
    for (piece, style) in model.ink.pieces(text, model.ink.theme.text) {
        for word in piece.split_word_bounds() {
            let used = rows.last().map_or(0, Line::width);
            if used + word.width() > width && used > 0 {
                rows.push(Line::new());
                if word == " " {
                    continue;
                }
            }
            for grapheme in word.graphemes(true) {
                if rows.last().map_or(0, Line::width) + grapheme.width() > width {
                    rows.push(Line::new());
                }
                if let Some(row) = rows.last_mut() {
                    *row = std::mem::take(row).drawn(vec![(grapheme.to_owned(), style)]);
                }
            }
        }
    }
    rows
}
