//! From a `tools/call` to the one request type, refusing whatever has no place in it.

use super::wire::UnknownFields;
use rmcp::model::{CallToolRequestParams, RequestMetaObject};
use serde_json::Value;
use std::collections::BTreeMap;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::ToolCallRequest;

/// The `_meta` member that holds the caller's own id for a call.
pub(crate) const INVOCATION_ID: &str = "stockade/invocation-id";
/// The `_meta` member that says what the call is for.
pub(crate) const REASON: &str = "stockade/reason";

/// Reads a call. Text stays as it is; whole numbers and booleans become their JSON text; anything else is refused, as
/// no argument type could mean it.
pub(crate) fn request_of(
    call: CallToolRequestParams,
    meta: &RequestMetaObject,
    unknown: Option<&UnknownFields>,
) -> Result<ToolCallRequest, Refusal> {
    if let Some(UnknownFields(fields)) = unknown {
        let reason = format!("the call has fields beside name and arguments: {}", fields.join(", "));
        let refusal = invalid(reason, "Send name and arguments only; approval is never the caller's to give.");
        return Err(refusal.by_rule(fields.first().cloned().unwrap_or_default()));
    }
    let mut arguments = BTreeMap::new();
    for (name, value) in call.arguments.unwrap_or_default() {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
            Value::Number(_) => return Err(unfit(&name, "a fraction")),
            Value::Null => return Err(unfit(&name, "null")),
            Value::Array(_) => return Err(unfit(&name, "a list")),
            Value::Object(_) => return Err(unfit(&name, "an object")),
        };
        arguments.insert(name, text);
    }
    let own = |key: &str| match meta.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(format!("_meta {key} is not text"), "Send it as a JSON string.").by_rule(key)),
    };
    Ok(ToolCallRequest {
        tool: call.name.into_owned(),
        arguments,
        invocation_id: own(INVOCATION_ID)?,
        reason: own(REASON)?,
    })
}

fn unfit(name: &str, what: &str) -> Refusal {
    invalid(format!("the argument `{name}` is {what}"), "Send text, a whole number, true or false.").by_rule(name)
}

fn invalid(reason: String, next: &str) -> Refusal {
    Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason).next(next)
}
