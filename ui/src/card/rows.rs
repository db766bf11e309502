//! A card as rows of a given width. Nothing is left out: what does not fit in a row goes on in the next.

use crate::text::{count, plural};
use crate::view::ink::{Ink, Line, columns};
use ratatui::style::{Modifier, Style};
use stockade_protocol::card::{Card, Field};
use stockade_protocol::script::{lookalike_words, lookalikes};
use stockade_protocol::text::{PieceKind, SafeText};
use unicode_segmentation::UnicodeSegmentation as _;

/// One row, and how many of the card's own characters it shows.
#[derive(Debug, Clone)]
pub(crate) struct CardRow {
    pub line: Line,
    pub characters: usize,
}

/// Widest column for labels.
const LABELS: usize = 16;
/// Narrowest column for values.
const VALUES: usize = 12;

/// Fields whose lines are the arguments of a program: each is quoted, so that its ends are seen.
const ARGVS: [&str; 2] = ["argv", "typed into"];

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
    let column = |fields: &[Field]| {
        let widest = fields.iter().map(|field| columns(&SafeText::line(&field.label).to_string())).max();
        widest.unwrap_or(0).min(LABELS).min(width.saturating_sub(VALUES + 2))
    };
    let labels = column(&card.facts);
    for fact in &card.facts {
        field(&mut rows, fact, width, labels, false, ink);
    }
    if !card.claims.is_empty() {
        blank(&mut rows);
        let heading = Line::new()
            .own(ink.glyphs.gutter, theme.untrusted)
            .own(" untrusted text, checked by nobody", theme.dim)
            .fit(width, ink);
        rows.push(CardRow { line: heading, characters: 0 });
        let labels = column(&card.claims);
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
    let quoted = ARGVS.contains(&field.label.as_str()) && !claim;
    let margin = match labels {
        0 => 0,
        // Beside labels this wide, a digest still fits in a row of 76 columns.
        11 => 12,
        _ => labels + 2,
    };
    for (at, value) in field.lines.iter().enumerate() {
        let head = if at == 0 && fits { gutter().then(label.clone()) } else { gutter() };
        let rest = gutter().pad_to(gutter().width() + margin);
        let head = head.pad_to(gutter().width() + margin);
        if quoted || field.lines.len() > 1 {
            let index = format!("{at:>width$} ", width = (field.lines.len().saturating_sub(1)).to_string().len());
            let rest = rest.gap(index.len());
            let head = head.made(&index, theme.dim);
            let mut atoms = atoms(value, theme.text, ink);
            if quoted {
                atoms.insert(0, mark("\"", theme.dim));
                atoms.push(mark("\"", theme.dim));
                fill(rows, atoms, width, &head, &rest);
            } else {
                wrap(rows, atoms, width, &head, &rest);
            }
        } else if field.label == "command" && !claim {
            let bold = theme.text.add_modifier(Modifier::BOLD);
            fill(rows, atoms(value, bold, ink), width, &head, &rest);
        } else {
            wrap(rows, atoms(value, theme.text, ink), width, &head, &rest);
        }
        notes(rows, value, claim, width, &gutter().pad_to(gutter().width() + margin), ink);
    }
    if field.label == "command" && !claim {
        size(rows, field, width, ink);
    }
}

/// What was made visible in a value, and which words look like others.
fn notes(rows: &mut Vec<CardRow>, value: &str, claim: bool, width: usize, margin: &Line, ink: &Ink) {
    let hidden = SafeText::line(value).hidden();
    let mut note = |text: String| {
        let first = margin.clone().own(ink.glyphs.waiting, ink.theme.wait).gap(1);
        let rest = margin.clone().gap(2);
        wrap(rows, uncounted(atoms(&text, ink.theme.wait, ink)), width, &first, &rest);
    };
    if hidden > 0 {
        note(format!("{} made visible", plural(hidden as u64, "hidden character")));
    }
    for found in if claim { lookalike_words(value) } else { lookalikes(value) } {
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
    Atom { text: text.to_owned(), width: columns(text), style, characters: 0 }
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
                        atoms.push(Atom { width: columns(&text), text, style, characters });
                    }
                }
            }
            PieceKind::Escape | PieceKind::Run => {
                let characters = if piece.kind == PieceKind::Escape { 1 } else { run_length(&piece.text) };
                debug_assert!(one.hidden() == 0, "a stand-in holds nothing hidden");
                let safe = stand_in(piece.kind, &piece.text, style, ink);
                atoms.push(Atom { width: columns(&safe.0), text: safe.0, style: safe.1, characters });
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
    rows.extend(broken(atoms, width, first, rest, true));
}

/// As [`wrap`], filling every row: what will run is not laid out for beauty.
fn fill(rows: &mut Vec<CardRow>, atoms: Vec<Atom>, width: usize, first: &Line, rest: &Line) {
    rows.extend(broken(atoms, width, first, rest, false));
}

/// Where blanks allow it, `soft` breaks behind one; the blank stays in its row, so that nothing is lost.
fn broken(atoms: Vec<Atom>, width: usize, first: &Line, rest: &Line, soft: bool) -> Vec<CardRow> {
    let mut rows = Vec::new();
    let mut row: Vec<Atom> = Vec::new();
    let mut used = first.width();
    for atom in atoms {
        if used + atom.width > width && !row.is_empty() {
            let cut = if soft { row.iter().rposition(|atom| atom.text == " ") } else { None };
            // A word that takes most of a row is broken: the row before it would be nearly empty.
            let cut = cut.filter(|at| row.iter().skip(at + 1).map(|atom| atom.width).sum::<usize>() <= width / 3);
            let next = cut.map_or_else(Vec::new, |at| row.split_off(at + 1));
            let head = if rows.is_empty() { first } else { rest };
            rows.push(joined(head, std::mem::replace(&mut row, next)));
            used = rest.width() + row.iter().map(|atom| atom.width).sum::<usize>();
        }
        used += atom.width;
        row.push(atom);
    }
    let head = if rows.is_empty() { first } else { rest };
    rows.push(joined(head, row));
    rows
}

fn joined(head: &Line, atoms: Vec<Atom>) -> CardRow {
    let characters = atoms.iter().map(|atom| atom.characters).sum();
    let mut pieces: Vec<(String, Style)> = Vec::new();
    for atom in atoms {
        match pieces.last_mut() {
            Some((text, style)) if *style == atom.style => text.push_str(&atom.text),
            _ => pieces.push((atom.text, atom.style)),
        }
    }
    CardRow { line: head.clone().drawn(pieces), characters }
}
