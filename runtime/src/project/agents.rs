//! Agents: `agents/NAME.toml`, see `docs/agents.md`.

use super::reader::{Reader, Span, kind};
use crate::manifest::{Fault, Source};
use std::collections::BTreeMap;
use stockade_protocol::limits;
use stockade_protocol::request::ToolCallRequest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An agent of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name: that of its file, without the ending.
    pub name: String,
    /// What it is for, in the operator's words.
    pub description: String,
    /// What answers in place of a model, or which model.
    pub provider: Provider,
    /// Most turns of one run.
    pub max_turns: u32,
    /// Longest a run may take, milliseconds.
    pub deadline_ms: u64,
}

/// What speaks for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// Turns written down beforehand, said in order whatever the tools answer.
    Scripted {
        /// The turns; the last one proposes no call.
        turns: Vec<Turn>,
    },
}

/// One turn of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the agent says.
    pub say: String,
    /// The calls it proposes, in order. A turn without any ends the run.
    pub calls: Vec<ToolCallRequest>,
}

/// What a name of an agent may be, for messages.
pub(crate) const NAME_RULE: &str = "use 1 to 64 of a-z, 0-9, - and _, starting with a letter";

/// Whether a text may name an agent.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
}

/// Most turns in a script, and most a run may be given.
const TURNS: u64 = 1_000;
/// Turns of a run where the file says nothing.
const DEFAULT_TURNS: u32 = 50;
/// Length of a run where the file says nothing, seconds.
const DEFAULT_DEADLINE_SECONDS: u64 = 3_600;

impl Agent {
    /// Reads one agent file.
    pub(crate) fn parse(source: &Source, name: &str) -> Result<Self, Vec<Fault>> {
        let (mut reader, root) = Reader::parse(source);
        let top = root.span().start..root.span().start;
        let root = root.get_ref();
        reader.only(root, "", &["description", "provider", "max_turns", "deadline_seconds", "turn"]);
        let description = reader.text(root, "description").map_or(String::new(), |(text, _)| text.to_owned());
        match reader.text(root, "provider") {
            Some(("scripted", _)) => {}
            Some((other, span)) => {
                let what = format!("the provider `{other}` is unavailable in this version");
                reader.unsupported(&span, what, "use provider = \"scripted\"");
            }
            None if root.contains_key("provider") => {}
            None => reader.missing(&top, "`provider` is missing", "write provider = \"scripted\""),
        }
        let max_turns = reader.number(root, "max_turns", 1..=TURNS).and_then(|turns| u32::try_from(turns).ok());
        let deadline = reader.number(root, "deadline_seconds", 1..=86_400).unwrap_or(DEFAULT_DEADLINE_SECONDS);
        let turns = read_turns(&mut reader, root, &top);
        let agent = Self {
            name: name.to_owned(),
            description,
            provider: Provider::Scripted { turns },
            max_turns: max_turns.unwrap_or(DEFAULT_TURNS),
            deadline_ms: deadline * 1000,
        };
        reader.finish(agent)
    }
}

fn read_turns(reader: &mut Reader<'_>, root: &DeTable<'_>, top: &Span) -> Vec<Turn> {
    const SHAPE: &str = "write [[turn]] with say = \"…\" below it";
    let Some(value) = root.get("turn") else {
        reader.missing(top, "the script has no turns", SHAPE);
        return Vec::new();
    };
    let Some(list) = value.get_ref().as_array() else {
        reader.fault(&value.span(), format!("`turn` is {}, not a list of turns", kind(value.get_ref())), SHAPE);
        return Vec::new();
    };
    let mut turns = Vec::new();
    for item in list.iter() {
        match item.get_ref() {
            DeValue::Table(table) => turns.push(read_turn(reader, table, &item.span())),
            other => reader.fault(&item.span(), format!("a turn is {}, not a table", kind(other)), SHAPE),
        }
    }
    match (list.iter().next_back(), turns.last()) {
        (Some(item), Some(last)) if !last.calls.is_empty() => {
            let what = "the last turn proposes calls, so a run of it could not end";
            reader.fault(&item.span(), what, "add a [[turn]] with `say` only");
        }
        _ => {}
    }
    turns
}

fn read_turn(reader: &mut Reader<'_>, table: &DeTable<'_>, span: &Span) -> Turn {
    reader.only(table, " in [[turn]]", &["say", "call"]);
    let say = reader.text(table, "say").map_or(String::new(), |(text, _)| text.to_owned());
    let mut calls = Vec::new();
    if let Some(value) = table.get("call") {
        match value.get_ref() {
            DeValue::Array(list) => calls.extend(list.iter().filter_map(|call| read_call(reader, call))),
            _ => calls.extend(read_call(reader, value)),
        }
    }
    if say.is_empty() && calls.is_empty() {
        reader.fault(span, "the turn says and proposes nothing", "give it `say`, or a [[turn.call]]");
    }
    Turn { say, calls }
}

fn read_call(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<ToolCallRequest> {
    let Some(table) = value.get_ref().as_table() else {
        let what = format!("a call is {}, not a table", kind(value.get_ref()));
        reader.fault(&value.span(), what, "write [[turn.call]] with tool = \"…\" below it");
        return None;
    };
    reader.only(table, " in [[turn.call]]", &["tool", "arguments", "reason", "invocation_id"]);
    let tool = reader.text(table, "tool").map(|(tool, _)| tool.to_owned());
    if tool.is_none() && !table.contains_key("tool") {
        reader.missing(&value.span(), "the call names no tool", "write tool = \"…\"");
    }
    let mut arguments = BTreeMap::new();
    if let Some(given) = reader.table(table, "arguments") {
        for (name, value) in given.iter() {
            match argument(value.get_ref()) {
                Some(text) => {
                    arguments.insert(name.get_ref().to_string(), text);
                }
                None => {
                    let what = format!("the argument `{}` is {}", name.get_ref(), kind(value.get_ref()));
                    reader.fault(&value.span(), what, "give text, a whole number, true or false");
                }
            }
        }
    }
    let invocation_id = reader.text(table, "invocation_id").and_then(|(id, span)| {
        let fits = !id.is_empty() && id.len() <= limits::INVOCATION_ID_BYTES;
        if !fits {
            let hint = format!("give 1 to {} bytes", limits::INVOCATION_ID_BYTES);
            reader.fault(&span, "`invocation_id` is empty or too long", hint);
        }
        fits.then(|| id.to_owned())
    });
    let reason = reader.text(table, "reason").map(|(reason, _)| reason.to_owned());
    tool.map(|tool| ToolCallRequest { tool, arguments, invocation_id, reason })
}

/// An argument's text: arguments travel as text, as a model's whole numbers and booleans do.
fn argument(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
