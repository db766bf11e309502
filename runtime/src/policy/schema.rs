//! The Cedar schema that every policy and every question is checked against, generated from the tools.

use crate::manifest::{ArgType, ToolSet};
use cedar_policy::Schema;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stockade_protocol::digest::Digest;

/// One attribute of the context: its name, its Cedar type and what it says.
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) what: &'static str,
}

/// Cedar types of context attributes.
pub(super) enum Kind {
    Text,
    Number,
    Boolean,
    Texts,
    Record(&'static [Attribute]),
    /// Present for sessions only.
    OptionalText,
    /// One optional text for each argument that any tool declares.
    Arguments,
    /// One optional number for each argument that any tool declares as an integer.
    Numbers,
}

const fn attribute(name: &'static str, kind: Kind, what: &'static str) -> Attribute {
    Attribute { name, kind, what }
}

/// The context of every question. `docs/policy.md` holds the same table, and a test compares the two.
pub(super) const CONTEXT: &[Attribute] = &[
    attribute("tool", Kind::Text, "the callable's name, e.g. `report.query`"),
    attribute("command", Kind::OptionalText, "the line to be typed; only for session tools"),
    attribute("arguments", Kind::Arguments, "normalized arguments, each optional"),
    attribute("numbers", Kind::Numbers, "the arguments of type integer as numbers, each optional"),
    attribute(
        "risk_tier",
        Kind::Text,
        "`info`, `low`, `medium`, `high` or `critical`: the higher one of tool and command",
    ),
    attribute("risk_level", Kind::Number, "the same as a number, from 0 to 4"),
    attribute("human_approval", Kind::Boolean, "whether the manifest demands a person"),
    attribute("execution_transport", Kind::Text, "how it runs, e.g. `native_pipes` or `native_pty`"),
    attribute(
        "sandbox",
        Kind::Record(&[
            attribute("tier", Kind::Text, "e.g. `native`"),
            attribute("profile", Kind::Text, "digest of the profile, hex"),
            attribute("network", Kind::Text, "e.g. `none`"),
        ]),
        "the boundary",
    ),
    attribute(
        "files",
        Kind::Record(&[
            attribute("read", Kind::Texts, "paths of the inputs, relative to the project"),
            attribute("create", Kind::Texts, "paths of the outputs"),
            attribute("digests", Kind::Texts, "SHA-256 of the inputs, hex"),
            attribute("read_bytes", Kind::Number, "sum of the inputs' sizes"),
            attribute("max_file_bytes", Kind::Number, "largest size of any of them"),
        ]),
        "the file grant",
    ),
    attribute("session_finalizes", Kind::Boolean, "whether the command ends its session and publishes"),
    attribute(
        "session_state",
        Kind::Text,
        "`none` for one-shot tools, `new` before a session is started, then its state",
    ),
    attribute("interaction_count", Kind::Number, "commands the session has had"),
    attribute("environment", Kind::Text, "`production`, `development` or another word, from STOCKADE_ENV"),
    attribute(
        "caller",
        Kind::Record(&[
            attribute("kind", Kind::Text, "`person` or `agent`"),
            attribute("name", Kind::Text, "the principal's name"),
            attribute("origin", Kind::Text, "`loop`, `mcp`, `cli` or `workbench`"),
        ]),
        "who asks, and by which channel",
    ),
];

/// The context as a Markdown table: attribute, Cedar type, meaning.
#[must_use]
pub fn context_reference() -> String {
    let mut table = "| attribute | type | meaning |\n| --- | --- | --- |\n".to_owned();
    rows("context", CONTEXT, &mut table);
    table
}

fn rows(path: &str, attributes: &[Attribute], table: &mut String) {
    for Attribute { name, kind, what } in attributes {
        let word = match kind {
            Kind::Text => "String",
            Kind::Number => "Long",
            Kind::Boolean => "Bool",
            Kind::Texts => "Set of String",
            Kind::Record(_) => "record",
            Kind::OptionalText => "String, optional",
            Kind::Arguments => "record of optional String",
            Kind::Numbers => "record of optional Long",
        };
        table.push_str(&format!("| `{path}.{name}` | {word} | {what} |\n"));
        if let Kind::Record(inner) = kind {
            rows(&format!("{path}.{name}"), inner, table);
        }
    }
}

/// What policy knows of one callable.
#[derive(Debug, Clone)]
pub(super) struct KnownTool {
    pub(super) resource_type: String,
    pub(super) action: String,
    pub(super) tool: String,
    pub(super) version: String,
    pub(super) manifest: Digest,
    pub(super) integers: HashSet<String>,
}

/// The names a project's policies can use.
#[derive(Debug, Clone, Default)]
pub(super) struct Vocabulary {
    pub(super) tools: BTreeMap<String, KnownTool>,
    resource_types: BTreeSet<String>,
    /// Actions other than `call`, with the resource types they apply to.
    actions: BTreeMap<String, BTreeSet<String>>,
    arguments: BTreeSet<String>,
    integers: BTreeSet<String>,
}

/// The action of every tool that names no other, and the group of all other tool actions.
const CALL: &str = "call";

impl Vocabulary {
    pub(super) fn of(set: &ToolSet) -> Self {
        let mut vocabulary = Self::default();
        vocabulary.resource_types.insert("Tool".to_owned());
        vocabulary.actions.entry(CALL.to_owned()).or_default().insert("Tool".to_owned());
        for callable in set.iter() {
            let integers: HashSet<String> = callable
                .args
                .values()
                .filter(|arg| matches!(arg.kind, ArgType::Integer { .. }))
                .map(|arg| arg.name.clone())
                .collect();
            vocabulary.resource_types.insert(callable.cedar.resource_type.clone());
            vocabulary
                .actions
                .entry(callable.cedar.action.clone())
                .or_default()
                .insert(callable.cedar.resource_type.clone());
            vocabulary.arguments.extend(callable.args.keys().cloned());
            if callable.session().is_some() {
                vocabulary.arguments.insert(crate::manifest::COMMAND_ARGUMENT.to_owned());
            }
            vocabulary.integers.extend(integers.iter().cloned());
            vocabulary.tools.insert(
                callable.name.clone(),
                KnownTool {
                    resource_type: callable.cedar.resource_type.clone(),
                    action: callable.cedar.action.clone(),
                    tool: callable.tool.clone(),
                    version: callable.version.clone(),
                    manifest: callable.manifest,
                    integers,
                },
            );
        }
        vocabulary
    }

    /// The schema as Cedar's JSON. Names go in as JSON values; nothing is pasted into text.
    pub(super) fn json(&self) -> Value {
        let named = json!({ "type": "Record", "attributes": { "name": { "type": "String" } } });
        let tool = json!({ "type": "Record", "attributes": {
            "name": { "type": "String" }, "tool": { "type": "String" },
            "version": { "type": "String" }, "manifest": { "type": "String" },
        } });
        let mut namespaces: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        let plain = namespaces.entry(String::new()).or_default();
        plain.insert("Person".to_owned(), json!({ "shape": named }));
        plain.insert("Agent".to_owned(), json!({ "shape": named }));
        let session = json!({ "type": "Record", "attributes": { "tool": { "type": "String" } } });
        plain.insert("Session".to_owned(), json!({ "shape": session, "memberOfTypes": self.resource_types }));
        for kind in &self.resource_types {
            let (namespace, base) = kind.rsplit_once("::").unwrap_or(("", kind));
            let entity = json!({ "shape": tool, "memberOfTypes": [kind] });
            namespaces.entry(namespace.to_owned()).or_default().insert(base.to_owned(), entity);
        }
        let mut actions = Map::new();
        for (action, resources) in &self.actions {
            let groups: &[&str] = if action == CALL { &[] } else { &[CALL] };
            actions.insert(action.clone(), self.action(&["Person", "Agent"], &json!(resources), groups));
        }
        actions.insert("take_over".to_owned(), self.action(&["Person"], &json!(["Session"]), &[]));
        let mut schema = Map::new();
        for (namespace, entities) in namespaces {
            let mut fragment = json!({ "entityTypes": entities, "actions": {} });
            if namespace.is_empty()
                && let Some(fragment) = fragment.as_object_mut()
            {
                fragment.insert("actions".to_owned(), Value::Object(std::mem::take(&mut actions)));
                fragment.insert("commonTypes".to_owned(), json!({ "Context": self.record(CONTEXT) }));
            }
            schema.insert(namespace, fragment);
        }
        Value::Object(schema)
    }

    fn action(&self, principals: &[&str], resources: &Value, groups: &[&str]) -> Value {
        let groups: Vec<Value> = groups.iter().map(|group| json!({ "id": group })).collect();
        json!({
            "memberOf": groups,
            "appliesTo": {
                "principalTypes": principals, "resourceTypes": resources, "context": { "type": "Context" },
            },
        })
    }

    fn record(&self, attributes: &[Attribute]) -> Value {
        let attributes: Map<String, Value> =
            attributes.iter().map(|attribute| (attribute.name.to_owned(), self.kind(&attribute.kind))).collect();
        json!({ "type": "Record", "attributes": attributes })
    }

    fn kind(&self, kind: &Kind) -> Value {
        let optional = |names: &BTreeSet<String>, kind: &str| {
            let attributes: Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!({ "type": kind, "required": false }))).collect();
            json!({ "type": "Record", "attributes": attributes })
        };
        match kind {
            Kind::Text => json!({ "type": "String" }),
            Kind::OptionalText => json!({ "type": "String", "required": false }),
            Kind::Number => json!({ "type": "Long" }),
            Kind::Boolean => json!({ "type": "Boolean" }),
            Kind::Texts => json!({ "type": "Set", "element": { "type": "String" } }),
            Kind::Record(attributes) => self.record(attributes),
            Kind::Arguments => optional(&self.arguments, "String"),
            Kind::Numbers => optional(&self.integers, "Long"),
        }
    }

    /// The schema, checked by Cedar.
    pub(super) fn schema(&self) -> Result<Schema, String> {
        Schema::from_json_value(self.json()).map_err(|error| error.to_string())
    }
}
