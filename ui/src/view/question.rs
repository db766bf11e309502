//! Questions before something is lost: what, with counts; the safe answer has focus.

use super::clear;
use super::frame::{Frame, Frames, inner};
use super::ink::Line;
use crate::model::{Question, Workbench};
use crate::text::plural;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

pub(super) fn draw(model: &Workbench, question: Question, body: Rect, frames: &mut Frames, buffer: &mut Buffer) {
    let ink = &model.ink;
    let (title, lines, yes) = match question {
        Question::Quit => ("Quit?", quit(model), "end everything and quit"),
        Question::Session(id) => ("End this session?", session(model, id), "end the session"),
        Question::Run(id) => ("End this run?", run(model, id), "end the run"),
    };
    let no = Line::new()
        .own("[n] keep everything", ink.theme.selection)
        .gap(4)
        .own("[Y]", ink.theme.danger)
        .gap(1)
        .own(yes, ink.theme.text);
    let widest = lines.iter().map(Line::width).chain([no.width()]).max().unwrap_or(0);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(body.width);
    let height = u16::try_from(lines.len() + 4).unwrap_or(u16::MAX).min(body.height);
    let area = Rect::new(body.x + (body.width - width) / 2, body.y + (body.height - height) / 3, width, height);
    clear(area, buffer);
    let title = Line::new().own(title, ink.theme.text.add_modifier(Modifier::BOLD));
    frames.cut(area);
    frames.layer(&[Frame { area, focused: true, title, facts: Line::new() }], &[], buffer, ink);
    let text = inner(area);
    let room = usize::from(text.width).saturating_sub(2);
    let answers = text.bottom().saturating_sub(1);
    for (line, y) in lines.iter().zip(text.y..answers) {
        line.clone().fit(room, ink).draw(buffer, text.x + 1, y, room);
    }
    no.fit(room, ink).draw(buffer, text.x + 1, answers, room);
}

fn quit(model: &Workbench) -> Vec<Line> {
    let text = model.ink.theme.text;
    let live = &model.live;
    let mut lines = Vec::new();
    let mut say = |n: usize, noun: &str, what: &str| {
        if n > 0 {
            lines.push(Line::new().made(format!("{}: {what}", plural(n as u64, noun)), text));
        }
    };
    say(live.running(), "running run", "ended as cancelled");
    say(live.open(), "live terminal", "closed, with everything started in them");
    say(live.waiting().len(), "waiting call", "cancelled; nobody has decided them");
    say(live.staged(), "staged file", "discarded, not published");
    lines.push(Line::new().own("the journal is sealed and closed", model.ink.theme.dim));
    lines
}

fn session(model: &Workbench, id: stockade_protocol::ids::SessionId) -> Vec<Line> {
    let ink = &model.ink;
    let Some(session) = model.live.session(id) else { return Vec::new() };
    let name = Line::new()
        .own("terminal ", ink.theme.text)
        .made(session.number.to_string(), ink.theme.text)
        .own(", ", ink.theme.text)
        .outside(&session.tool, ink.theme.text, ink)
        .fit(60, ink);
    let staged = model
        .live
        .files()
        .iter()
        .filter(|file| file.run == session.run && matches!(file.state, crate::projection::FileState::Staged))
        .count();
    let mut lines = vec![name, Line::new().own("its worker and all it started are removed", ink.theme.text)];
    if staged > 0 {
        let text = format!("{}: discarded, not published", plural(staged as u64, "staged file"));
        lines.push(Line::new().made(text, ink.theme.text));
    }
    lines
}

fn run(model: &Workbench, id: stockade_protocol::ids::RunId) -> Vec<Line> {
    let ink = &model.ink;
    let Some(run) = model.live.run(id) else { return Vec::new() };
    let sessions = model.live.sessions().iter().filter(|s| s.run == Some(id) && s.is_open()).count();
    let waiting = model.live.waiting().iter().filter(|approval| approval.run == Some(id)).count();
    let mut lines = vec![Line::new().outside(run.title.text.raw(), ink.theme.text, ink).fit(60, ink)];
    let text = format!(
        "{}: closed; {}: cancelled",
        plural(sessions as u64, "terminal"),
        plural(waiting as u64, "waiting call")
    );
    lines.push(Line::new().made(text, ink.theme.text));
    lines
}
