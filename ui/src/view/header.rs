//! The line at the top, which never scrolls away: project, counts, what waits, the boundary, the journal, the clock.

use super::ink::Line;
use crate::model::Workbench;
use crate::text::{clock_minutes, count, minutes, plural};
use crate::update::EXPIRY_WARNING_MS;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// One fact in its forms, longest first; the last may be empty.
struct Segment(Vec<Line>);

/// In which order facts shrink when there is no room: decoration first. What waits and the boundary stay to the end.
const SHRINK: [usize; 16] = [
    JOURNAL, UNENFORCED, NAME, COUNTS, UNENFORCED, JOURNAL, CLOCK, COUNTS, JOURNAL, WAITING, BOUNDARY, PROJECT,
    PROJECT, BOUNDARY, WAITING, WAITING,
];
const NAME: usize = 0;
const PROJECT: usize = 1;
const COUNTS: usize = 2;
const WAITING: usize = 3;
const BOUNDARY: usize = 4;
const UNENFORCED: usize = 5;
const JOURNAL: usize = 6;
const CLOCK: usize = 7;

pub(super) fn draw(model: &Workbench, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let segments = [
        name(model),
        project(model),
        counts(model),
        waiting(model),
        boundary(model),
        unenforced(model),
        journal(model),
        clock(model),
    ];
    let mut forms = [0_usize; 8];
    let pick = |forms: &[usize; 8]| -> Vec<Line> {
        let of = |(segment, form): (&Segment, &usize)| segment.0.get(*form).cloned().unwrap_or_default();
        segments.iter().zip(forms).map(of).collect()
    };
    let needs =
        |lines: &[Line]| lines.iter().filter(|line| line.width() > 0).map(|line| line.width() + 2).sum::<usize>();
    for shrink in SHRINK {
        if needs(&pick(&forms)) <= width {
            break;
        }
        if let (Some(form), Some(segment)) = (forms.get_mut(shrink), segments.get(shrink)) {
            *form = (*form + 1).min(segment.0.len().saturating_sub(1));
        }
    }
    let lines = pick(&forms);
    let spare = width.saturating_sub(needs(&lines));
    let mut line = Line::new().gap(1);
    for (at, segment) in lines.into_iter().enumerate() {
        if segment.width() == 0 {
            continue;
        }
        // What is left over separates who, what waits and the boundary, and puts the clock at the right.
        let gap = match at {
            CLOCK => width.saturating_sub(line.width() + segment.width() + 1),
            NAME => 0,
            WAITING | BOUNDARY | JOURNAL if spare >= 12 => 4,
            _ => 2,
        };
        line = if line.width() <= 1 { line.then(segment) } else { line.gap(gap).then(segment) };
    }
    line.fit(width, &model.ink).draw(buffer, area.x, area.y, width);
}

fn name(model: &Workbench) -> Segment {
    Segment(vec![Line::new().own("stockade", model.ink.theme.accent.add_modifier(Modifier::BOLD)), Line::new()])
}

fn project(model: &Workbench) -> Segment {
    let name = &model.projection().project.name;
    if name.is_empty() {
        return Segment(vec![Line::new().own("no project", model.ink.theme.dim)]);
    }
    let bold = model.ink.theme.text.add_modifier(Modifier::BOLD);
    let line = || Line::new().outside(name, bold, &model.ink);
    Segment(vec![line().fit_middle(40, &model.ink), line().fit_middle(14, &model.ink), line().fit(6, &model.ink)])
}

fn counts(model: &Workbench) -> Segment {
    let (runs, sessions) = (model.projection().running() as u64, model.projection().open() as u64);
    let (text, ink) = (model.ink.theme.text, &model.ink);
    let long = Line::new()
        .made(plural(runs, "run"), text)
        .gap(1)
        .own(ink.glyphs.dot, ink.theme.dim)
        .gap(1)
        .made(plural(sessions, "session"), text);
    let short = Line::new()
        .made(runs.to_string(), text)
        .own(ink.glyphs.running, ink.theme.dim)
        .gap(1)
        .made(sessions.to_string(), text)
        .own(ink.glyphs.session, ink.theme.dim);
    Segment(vec![long, short, Line::new()])
}

fn waiting(model: &Workbench) -> Segment {
    let waiting = model.projection().waiting();
    let (ink, n) = (&model.ink, waiting.len() as u64);
    if n == 0 {
        let line = || Line::new().own("0 waiting", ink.theme.dim);
        return Segment(vec![line(), line(), Line::new().own("0w", ink.theme.dim)]);
    }
    let style = ink.theme.wait.add_modifier(Modifier::BOLD);
    let mark = || Line::new().own(ink.glyphs.waiting, style).gap(1);
    let now = model.now();
    let soon = waiting.iter().filter(|a| now.plus_ms(EXPIRY_WARNING_MS) >= a.expires && now < a.expires).count();
    let plain = || mark().made(format!("{n} waiting"), style);
    let short = mark().made(n.to_string(), style);
    if soon > 0 {
        let long = plain().own(", expires in under 30 s", style);
        return Segment(vec![long, plain().own(" expires", style), short]);
    }
    Segment(vec![plain(), plain(), short])
}

fn boundary(model: &Workbench) -> Segment {
    let (project, ink) = (&model.projection().project, &model.ink);
    if project.tier.is_empty() {
        return Segment(vec![
            Line::new().own("no boundary yet", ink.theme.dim),
            Line::new().own("no tier", ink.theme.dim),
        ]);
    }
    let tier_style = if project.tier == "none" { ink.theme.danger } else { ink.theme.text };
    let net_style = if project.network == "none" { ink.theme.text } else { ink.theme.danger };
    let tier = || Line::new().outside(&project.tier, tier_style, ink).fit(16, ink);
    let net = || Line::new().own("net ", net_style).outside(&project.network, net_style, ink).fit(16, ink);
    let dot = || Line::new().gap(1).own(ink.glyphs.dot, ink.theme.dim).gap(1);
    let long = tier().then(dot()).then(net());
    let short = tier().fit(6, ink).gap(1).then(net()).fit(15, ink);
    Segment(vec![long, short.clone(), short])
}

fn unenforced(model: &Workbench) -> Segment {
    let what = &model.projection().project.unenforced;
    if what.is_empty() {
        return Segment(vec![Line::new()]);
    }
    let (ink, n) = (&model.ink, what.len());
    let named = Line::new().own("not enforced: ", ink.theme.dim).outside(&what.join(", "), ink.theme.text, ink);
    let counted = Line::new().made(format!("{n} not enforced"), ink.theme.text);
    if named.width() <= 40 { Segment(vec![named, counted, Line::new()]) } else { Segment(vec![counted, Line::new()]) }
}

fn journal(model: &Workbench) -> Segment {
    let (journal, ink) = (&model.projection().journal, &model.ink);
    let now = model.now();
    if model.failed.is_some() {
        return Segment(vec![Line::new().own("JOURNAL FAILED", ink.theme.danger)]);
    }
    if journal.records == 0 {
        return Segment(vec![Line::new().own("journal empty", ink.theme.dim), Line::new()]);
    }
    if journal.unsealed > 0 {
        let n = count(journal.unsealed);
        let since = journal.sealed.map(|at| format!(", sealed {} ago", minutes(now.since(at)))).unwrap_or_default();
        let word = || Line::new().own("journal ", ink.theme.dim);
        return Segment(vec![
            word().made(format!("{n} unsealed{since}"), ink.theme.text),
            word().made(format!("{n} unsealed"), ink.theme.text),
            Line::new().made(format!("{n} unsealed"), ink.theme.text),
            Line::new(),
        ]);
    }
    let age = journal.sealed.map(|at| minutes(now.since(at))).unwrap_or_default();
    let mark = || Line::new().own("journal ", ink.theme.dim).own(ink.glyphs.done, ink.theme.ok);
    let word = if journal.closed { " closed and sealed " } else { " sealed " };
    let short = mark().gap(1).made(&age, ink.theme.text);
    Segment(vec![mark().own(word, ink.theme.text).made(&age, ink.theme.text), short, mark(), Line::new()])
}

fn clock(model: &Workbench) -> Segment {
    let time = clock_minutes(model.now(), &model.zone);
    Segment(vec![Line::new().made(time, model.ink.theme.dim), Line::new()])
}
