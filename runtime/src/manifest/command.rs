//! The `[command]` table: what a one-shot tool runs.

use super::argv::{self, ArgvTemplate, Piece};
use super::call::Oneshot;
use super::fault::{FaultKind, nearest};
use super::read::{Reader, Spot, Table};
use super::session;
use super::types::{Args, scalar_text};
use std::collections::BTreeMap;

/// Most elements of an `exec` array.
const EXEC_ELEMENTS: usize = 256;

/// Reads the table; `must` says whether `exec` has to be there.
pub(crate) fn read(table: Table<'_>, args: &Args, tool: &session::Tool<'_>, must: bool) -> Option<Oneshot> {
    let reader = table.reader;
    let built_now = "built now: exec, defaults and end_of_options";
    let later = table.refuse(&[
        ("template", "write exec = [\"program\", \"{argument}\"], one element an argv entry"),
        ("executor", built_now),
        ("mappings", built_now),
        ("conditionals", built_now),
    ]);
    let defaults = read_defaults(&table, args);
    let fence = table.string("end_of_options");
    if let Some(fence) = fence.as_ref().filter(|fence| fence.value != "--") {
        let what = format!("`{}` can only be \"--\"", table.name_of("end_of_options"));
        reader.value(&fence.span, what, "write \"--\", or leave it out");
    }
    let exec = table.strings("exec");
    if exec.is_none() && !table.has("exec") && !later && must {
        table.missing("exec", "list the program and its arguments: exec = [\"wc\", \"{path}\"]");
    }
    let name = table.name_of("exec");
    table.finish();
    let exec = exec?;
    if exec.value.is_empty() || exec.value.len() > EXEC_ELEMENTS {
        let what = format!("`{name}` has {} elements: it needs 1 to {EXEC_ELEMENTS}", exec.value.len());
        reader.value(&exec.span, what, "begin with the program");
        return None;
    }
    let mut slots = Vec::new();
    for (at, element) in exec.value.iter().enumerate() {
        match argv::pieces(&element.value) {
            Ok(pieces) => {
                check_placeholders(reader, &name, element, &pieces, args, &defaults);
                if at == 0 {
                    check_first(reader, &name, element, &pieces, tool);
                }
                slots.push(pieces);
            }
            Err(error) => {
                let hint = "write {{ and }} for braces, {argument} for a value";
                reader.value(&element.span, format!("`{name}`: {error}"), hint);
            }
        }
    }
    let template = ArgvTemplate::new(slots, fence.is_some(), |name| args.contains_key(name));
    Some(Oneshot { template, defaults })
}

fn check_first(reader: &Reader<'_>, name: &str, element: &Spot<String>, pieces: &[Piece], tool: &session::Tool<'_>) {
    let program = match pieces {
        [Piece::Text(program)] if !program.is_empty() => program,
        _ => {
            let what = format!("the first element of `{name}` must be a literal program");
            reader.value(&element.span, what, "no argument may choose what is run");
            return;
        }
    };
    if program.contains(|c: char| c.is_control() || c == ' ') {
        reader.value(&element.span, format!("the program's name in `{name}` holds a blank or control character"), "");
    } else if tool.binary.is_empty() {
        let what = format!("`{name}` runs {program}, but `tool.binary` is not set");
        reader.value(&element.span, what, format!("add binary = \"{}\" to [tool]", argv::base_name(program)));
    } else if let Some((what, hint)) = session::check_program(program, tool) {
        reader.value(&element.span, format!("`{name}`: {what}"), hint);
    }
}

fn check_placeholders(
    reader: &Reader<'_>,
    name: &str,
    element: &Spot<String>,
    pieces: &[Piece],
    args: &Args,
    defaults: &BTreeMap<String, String>,
) {
    if let Some(c) = element.value.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        reader.value(
            &element.span,
            format!("`{name}` holds the control character U+{:04X}", u32::from(c)),
            "remove it",
        );
    }
    for piece in pieces {
        let Piece::Value(value) = piece else { continue };
        if args.contains_key(value) || defaults.contains_key(value) {
            continue;
        }
        match value.as_str() {
            "_output_file" | "_evidence_dir" => {
                let what = format!("`{name}`: {{{value}}} would be a path of the host, and a worker sees none");
                reader.value(&element.span, what, "let the tool write to standard output");
            }
            value if value.starts_with('_') => {
                let what = format!("the placeholder {{{value}}} in `{name}`");
                reader.unsupported(&element.span, &what, "built now: {argument}, and names of [command.defaults]");
            }
            value => {
                let hint = nearest(value, args.keys().chain(defaults.keys()).map(String::as_str)).map_or_else(
                    || format!("declare [args.{value}], or set it in [command.defaults]"),
                    |near| format!("did you mean {{{near}}}?"),
                );
                reader.value(&element.span, format!("`{name}`: nothing declares {{{value}}}"), hint);
            }
        }
    }
}

fn read_defaults(parent: &Table<'_>, args: &Args) -> BTreeMap<String, String> {
    let mut defaults = BTreeMap::new();
    let Some(table) = parent.table("defaults") else { return defaults };
    let reader = table.reader;
    for (name, spot) in table.values() {
        let Some(text) = scalar_text(spot.value) else {
            let what = format!("`{}` must be a string, an integer or a boolean", table.name_of(&name));
            reader.fault(&spot.span, FaultKind::WrongType, what, "");
            continue;
        };
        if !argv::is_name(&name) {
            reader.value(&table.key_span(&name), format!("`{name}` cannot name a placeholder"), "begin with a letter");
        }
        if text.contains(char::is_control) {
            reader.value(&spot.span, format!("`{}` holds a control character", table.name_of(&name)), "remove it");
        }
        let text = match args.get(&name).and_then(Option::as_ref).map(|arg| arg.check(&text)) {
            Some(Err(unfit)) => {
                let what =
                    format!("`{}` would be refused as a value of the argument: {}", table.name_of(&name), unfit.why);
                reader.value(&spot.span, what, unfit.next);
                continue;
            }
            Some(Ok(text)) => text,
            None => text,
        };
        defaults.insert(name, text);
    }
    table.finish();
    defaults
}
