//! What callers may know of a tool: names, and the arguments as JSON Schema.

use super::args::{ArgSpec, ArgType};
use super::call::{COMMAND_ARGUMENT, Callable};
use serde_json::{Map, Value, json};
use stockade_protocol::limits::COMMAND_BYTES;
use stockade_protocol::request::ToolInfo;

impl Callable {
    /// The callable as lists and clients show it.
    #[must_use]
    pub fn info(&self) -> ToolInfo {
        ToolInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema().to_string(),
            risk_tier: self.risk_tier.word().to_owned(),
            human_approval: self.human_approval,
            mode: self.mode_word().to_owned(),
        }
    }

    /// The arguments as JSON Schema. It only helps callers: what is taken is decided by [`Callable::validate`].
    #[must_use]
    pub fn input_schema(&self) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if let Some((_, command)) = self.session() {
            let mut line = json!({ "type": "string", "minLength": 1, "maxLength": COMMAND_BYTES });
            let what = "One line, without its end. The whole line must match";
            describe(&mut line, &format!("{what} {}", command.pattern.as_str()), &[command.pattern.as_str()]);
            properties.insert(COMMAND_ARGUMENT.to_owned(), line);
            required.push(COMMAND_ARGUMENT.to_owned());
        }
        let mut args: Vec<&ArgSpec> = self.args.values().collect();
        args.sort_by_key(|arg| arg.position);
        for arg in args {
            properties.insert(arg.name.clone(), property(arg));
            if arg.required && arg.default.is_none() {
                required.push(arg.name.clone());
            }
        }
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }
}

fn property(arg: &ArgSpec) -> Value {
    let mut value = match &arg.kind {
        ArgType::String | ArgType::Path => json!({ "type": "string", "minLength": 1 }),
        ArgType::Boolean => json!({ "type": "boolean" }),
        ArgType::Enum { allowed } => json!({ "type": "string", "enum": allowed }),
        ArgType::Integer { min, max, clamp } => {
            let mut value = json!({ "type": "integer" });
            for (key, bound) in [("minimum", min), ("maximum", max)] {
                if let (Some(bound), false, Some(object)) = (bound, clamp, value.as_object_mut()) {
                    object.insert(key.to_owned(), (*bound).into());
                }
            }
            value
        }
    };
    let patterns: Vec<&str> = arg.patterns.iter().map(super::pattern::Pattern::as_str).collect();
    let mut description = arg.description.clone();
    if matches!(arg.kind, ArgType::Path) {
        description.push_str(if description.is_empty() { "" } else { " " });
        description.push_str("(a relative path)");
    }
    describe(&mut value, &description, &patterns);
    if let (Some(default), Some(object)) = (&arg.default, value.as_object_mut()) {
        let default = match arg.kind {
            ArgType::Integer { .. } => default.parse::<i64>().map_or(Value::Null, Value::from),
            ArgType::Boolean => Value::Bool(default == "true"),
            _ => Value::String(default.clone()),
        };
        object.insert("default".to_owned(), default);
    }
    value
}

/// Adds description and pattern. A pattern goes in as one only where JSON Schema's dialect reads it the same way;
/// otherwise a client would refuse what the tool takes.
fn describe(value: &mut Value, description: &str, patterns: &[&str]) {
    let Some(object) = value.as_object_mut() else { return };
    if !description.is_empty() {
        object.insert("description".to_owned(), description.into());
    }
    if let [pattern] = patterns
        && !["(?", "\\A", "\\z", "\\p", "\\P", "\\x", "\\u", "\\U", "\\b", "\\d", "\\w", "\\s", "[[", "[^", "&&", "--"]
            .iter()
            .any(|foreign| pattern.contains(foreign))
        && pattern.is_ascii()
    {
        object.insert("pattern".to_owned(), format!("^(?:{pattern})$").into());
    }
}
