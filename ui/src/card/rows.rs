//! A card as rows of a given width. Nothing is left out: what does not fit in a row goes on in the next.

use crate::text::{count, plural};
use crate::view::ink::{Ink, Line};
use ratatui::style::{Modifier, Style};
use stockade_protocol::card::{Card, Field};
use stockade_protocol::script::lookalikes;
use stockade_protocol::text::{PieceKind, SafeText};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// One row, and how many of the card's own characters it shows.
#[derive(Debug, Clone)]
pub(crate) struct CardRow {
    pub line: Line,
    pub characters: usize,
}

/// Widest column for labels.
const LABELS: usize = 14;
/// Narrowest column for values.
const VALUES: usize = 12;

/// What is never split: a grapheme, an escape, a folded run.
struct Atom {
    text: String,
    width: usize,
    style: Style,
    characters: usize,
}

/// Lays a card out.
pub(crate) fn rows(card: &Card, width: usize, ink: &Ink) -> Vec<CardRow> {
    let width = width.max(1);
    let theme = &ink.theme;
    let mut rows = Vec::new();
    let bold = theme.text.add_modifier(Modifier::BOLD);
    wrap(&mut rows, atoms(&card.title, bold, ink), width, &Line::new(), &Line::new());
    for warning in &card.warnings {
        let first = Line::new().own(ink.glyphs.waiting, theme.wait).gap(1);
        wrap(&mut rows, atoms(warning, theme.wait, ink), width, &first, &Line::new().gap(2));
    }
    blank(&mut rows);
    let labels = card.facts.iter().chain(&card.claims).map(|field| SafeText::line(&field.label).width()).max();
    let labels = labels.unwrap_or(0).min(LABELS).min(width.saturating_sub(VALUES + 2));
    for fact in &card.facts {
        field(&mut rows, fact, width, labels, false, ink);
    }
    if !card.claims.is_empty() {
        blank(&mut rows);
        let heading = Line::new()
            .own(ink.glyphs.gutter, theme.untrusted)
            .own(" said by the caller, checked by nobody", theme.dim)
            .fit(width, ink);
        rows.push(CardRow { line: heading, characters: 0 });
        for claim in &card.claims {
            field(&mut rows, claim, width, labels, true, ink);
        }
    }
    rows
}

fn blank(rows: &mut Vec<CardRow>) {
    rows.push(CardRow { line: Line::new(), characters: 0 });
}

fn field(rows: &mut Vec<CardRow>, field: &Field, width: usize, labels: usize, claim: bool, ink: &Ink) {
    let theme = &ink.theme;
    let gutter = || if claim { Line::new().own(ink.glyphs.gutter, theme.untrusted).gap(1) } else { Line::new() };
    let label = Line::new().drawn(ink.pieces(&SafeText::line(&field.label), theme.dim));
    let fits = label.width() <= labels;
    if !fits {
        wrap(rows, uncounted(atoms(&field.label, theme.dim, ink)), width, &gutter(), &gutter());
    }
    let several = field.lines.len() > 1 || field.label == "argv";
    let margin = if labels == 0 { 0 } else { labels + 2 };
    for (at, value) in field.lines.iter().enumerate() {
        let head = if at == 0 && fits { gutter().then(label.clone()) } else { gutter() };
        let rest = gutter().pad_to(gutter().width() + margin);
        let head = head.pad_to(gutter().width() + margin);
        if several {
            let index = format!("{at:>width$} ", width = (field.lines.len().saturating_sub(1)).to_string().len());
            let indent = index.len();
            let head = head.made(&index, theme.dim);
            let mut atoms = atoms(value, theme.text, ink);
            atoms.insert(0, mark("\"", theme.dim));
            atoms.push(mark("\"", theme.dim));
            wrap(rows, atoms, width, &head, &rest.gap(indent));
        } else {
            wrap(rows, value_atoms(field, value, claim, ink), width, &head, &rest);
        }
        notes(rows, value, width, &gutter().pad_to(gutter().width() + margin), ink);
    }
    if field.label == "command" && !claim {
        size(rows, field, width, ink);
    }
}

fn value_atoms(field: &Field, value: &str, claim: bool, ink: &Ink) -> Vec<Atom> {
    let act = !claim && field.label == "command";
    let style = if act { ink.theme.text.add_modifier(Modifier::BOLD) } else { ink.theme.text };
    atoms(value, style, ink)
}

/// What was made visible in a value, and which words look like others.
fn notes(rows: &mut Vec<CardRow>, value: &str, width: usize, margin: &Line, ink: &Ink) {
    let hidden = SafeText::line(value).hidden();
    let mut note = |text: String| {
        let first = margin.clone().own(ink.glyphs.waiting, ink.theme.wait).gap(1);
        let rest = margin.clone().gap(2);
        wrap(rows, uncounted(atoms(&text, ink.theme.wait, ink)), width, &first, &rest);
    };
    if hidden > 0 {
        note(format!("{} made visible", plural(hidden as u64, "hidden character")));
    }
    for found in lookalikes(value) {
        note(found.to_string());
    }
}

/// The size of a command, at the right of its last row or in a row of its own.
fn size(rows: &mut Vec<CardRow>, field: &Field, width: usize, ink: &Ink) {
    let bytes: usize = field.lines.iter().map(String::len).sum();
    let size = Line::new().made(format!("{} B", count(bytes as u64)), ink.theme.dim);
    let column = width.saturating_sub(size.width());
    match rows.last_mut() {
        Some(last) if last.line.width() < column => {
            last.line = std::mem::take(&mut last.line).pad_to(column).then(size);
        }
        _ => rows.push(CardRow { line: Line::new().pad_to(column).then(size), characters: 0 }),
    }
}

/// Words of this program, which are not part of what there is to read.
fn uncounted(mut atoms: Vec<Atom>) -> Vec<Atom> {
    for atom in &mut atoms {
        atom.characters = 0;
    }
    atoms
}

fn mark(text: &str, style: Style) -> Atom {
    Atom { text: text.to_owned(), width: text.width(), style, characters: 0 }
}

/// A value as atoms. Blanks at its ends, which nobody would see, are drawn as dots.
fn atoms(value: &str, style: Style, ink: &Ink) -> Vec<Atom> {
    let mut atoms = Vec::new();
    for piece in SafeText::folded(value).pieces() {
        let one = SafeText::line(&piece.text);
        match piece.kind {
            PieceKind::Plain => {
                for grapheme in piece.text.graphemes(true) {
                    let characters = grapheme.chars().count();
                    // In ASCII a grapheme becomes several pieces; only the first carries its characters.
                    for (at, (text, style)) in ink.pieces(&SafeText::line(grapheme), style).into_iter().enumerate() {
                        let characters = if at == 0 { characters } else { 0 };
                        atoms.push(Atom { width: text.width(), text, style, characters });
                    }
                }
            }
            PieceKind::Escape | PieceKind::Run => {
                let characters = if piece.kind == PieceKind::Escape { 1 } else { run_length(&piece.text) };
                debug_assert!(one.hidden() == 0, "a stand-in holds nothing hidden");
                let safe = stand_in(piece.kind, &piece.text, style, ink);
                atoms.push(Atom { width: safe.0.width(), text: safe.0, style: safe.1, characters });
            }
        }
    }
    show_end_blanks(&mut atoms, ink);
    atoms
}

/// The drawable form of one escape or run.
fn stand_in(kind: PieceKind, text: &str, style: Style, ink: &Ink) -> (String, Style) {
    let shown = match (ink.ascii, kind) {
        (true, PieceKind::Run) => text.replace('·', "_").replace('⏎', "\\n").replace('×', "x"),
        (true, _) => text.replace('⏎', "\\n"),
        (false, _) => text.to_owned(),
    };
    let dim = if kind == PieceKind::Run { style.patch(ink.theme.dim) } else { style };
    (shown, dim.add_modifier(Modifier::REVERSED))
}

fn run_length(text: &str) -> usize {
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

fn show_end_blanks(atoms: &mut [Atom], ink: &Ink) {
    let dot = if ink.ascii { "_" } else { "·" };
    let show = |atom: &mut Atom| {
        let blank = atom.text == " ";
        if blank {
            atom.text = dot.to_owned();
            atom.style = atom.style.patch(ink.theme.dim).add_modifier(Modifier::REVERSED);
        }
        blank
    };
    for atom in atoms.iter_mut() {
        if !show(atom) {
            break;
        }
    }
    for atom in atoms.iter_mut().rev() {
        if !show(atom) {
            break;
        }
    }
}

/// Breaks atoms into rows. `first` and `rest` stand before the first and the other rows.
fn wrap(rows: &mut Vec<CardRow>, atoms: Vec<Atom>, width: usize, first: &Line, rest: &Line) {
    let mut line = first.clone();
    let mut start = line.width();
    let mut characters = 0;
    let mut run = (String::new(), Style::new());
    let flush = |line: &mut Line, run: &mut (String, Style)| {
        if !run.0.is_empty() {
            *line = std::mem::take(line).drawn(vec![std::mem::take(run)]);
        }
    };
    let mut used = start;
    for atom in atoms {
        if used + atom.width > width && used > start {
            flush(&mut line, &mut run);
            rows.push(CardRow { line, characters });
            line = rest.clone();
            start = line.width();
            used = start;
            characters = 0;
        }
        if run.1 != atom.style {
            flush(&mut line, &mut run);
            run.1 = atom.style;
        }
        run.0.push_str(&atom.text);
        used += atom.width;
        characters += atom.characters;
    }
    flush(&mut line, &mut run);
    rows.push(CardRow { line, characters });
}
