//! Redaction of an event's body: every string, except where the field's meaning forbids it.

use super::rules::RULES;
use super::{MARK, Redactor, SHORTEST_VALUE};
use serde_json::{Map, Value};

/// Fields that hold ids, digests, keys, signatures, encoded bytes, or a word of a closed vocabulary. Text in them is
/// left alone; an object under one of these names is looked into.
const STRUCTURAL: [&str; 36] = [
    "authority",
    "bytes",
    "call",
    "code",
    "configuration",
    "contract",
    "contract_digest",
    "cut_sha256",
    "decision",
    "demands",
    "digest",
    "execution",
    "file_publication",
    "in_doubt_calls",
    "interrupted_runs",
    "key",
    "kind",
    "lost_calls",
    "manifest",
    "nonce",
    "origin",
    "outcome",
    "policy",
    "profile",
    "receipt",
    "removal",
    "request",
    "risk_tier",
    "run",
    "session",
    "sha256",
    "shown",
    "signature",
    "specification",
    "state",
    "why",
];

/// Fields whose members are named by others: nothing in them is structural, and a telling name gives a secret away.
const NAMED_BY_OTHERS: [&str; 2] = ["arguments", "environment"];

pub(super) fn redact(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => replace(redactor, text),
        Value::Array(items) => items.iter_mut().fold(false, |replaced, item| redact(redactor, item) | replaced),
        Value::Object(members) => {
            let mut replaced = false;
            for (name, value) in members.iter_mut() {
                replaced |= match value {
                    Value::String(_) if STRUCTURAL.contains(&name.as_str()) => false,
                    Value::Array(items)
                        if STRUCTURAL.contains(&name.as_str()) && items.iter().all(Value::is_string) =>
                    {
                        false
                    }
                    Value::Object(named) if NAMED_BY_OTHERS.contains(&name.as_str()) => redact_named(redactor, named),
                    other => redact(redactor, other),
                };
            }
            replaced
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_named(redactor: &Redactor, members: &mut Map<String, Value>) -> bool {
    let mut replaced = false;
    for (name, value) in std::mem::take(members) {
        let mut value = value;
        replaced |= match (&mut value, secret_name(&name)) {
            (Value::String(text), Some(kind)) if text.len() >= SHORTEST_VALUE => {
                let whole = !(text.starts_with(MARK) && text.ends_with(']'));
                if whole {
                    *text = format!("{MARK}{kind}]");
                }
                whole
            }
            (value, _) => redact(redactor, value),
        };
        let (safe, hit) = redactor.text(&name);
        replaced |= hit;
        members.insert(safe, value);
    }
    replaced
}

fn replace(redactor: &Redactor, text: &mut String) -> bool {
    let (safe, replaced) = redactor.text(text);
    if replaced {
        *text = safe;
    }
    replaced
}

/// The kind of secret that a member of this name holds, when its name says that it holds one.
fn secret_name(name: &str) -> Option<&'static str> {
    let assignment = format!("{name}=");
    let bytes = assignment.as_bytes();
    RULES.rules.iter().filter(|rule| rule.assignment).find_map(|rule| {
        let leads = (0..bytes.len()).any(|start| {
            let mut rest = bytes.get(start..).unwrap_or_default();
            for item in rule.items.get(..rule.secret).unwrap_or_default() {
                let count = rest.iter().take(item.max.into()).take_while(|byte| item.set.has(**byte)).count();
                if count < item.min.into() {
                    return false;
                }
                rest = rest.get(count..).unwrap_or_default();
            }
            rest.is_empty()
        });
        leads.then_some(rule.name)
    })
}
