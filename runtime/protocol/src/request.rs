//! The one request type in which every way in ends: built-in loop, MCP, command line, a person at the keyboard.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A proposed use of a tool. It is untrusted and carries no authority: no field of it names a principal, an
/// approval, a sandbox or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCallRequest {
    /// The tool, e.g. `wordcount`, or for a session tool `report.query`.
    pub tool: String,
    /// Arguments by name. Values are text, as in ToolClad; integers and booleans arrive in their JSON form's text.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// The caller's own id for this call, at most [`crate::limits::INVOCATION_ID_BYTES`]: the same id never runs
    /// twice; a repeat returns the recorded result or says in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// What the caller says it is for. Untrusted text, shown apart on the approval card, never part of a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The channel a request came by; the runtime fills it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The built-in agent loop.
    Loop,
    /// A client over MCP.
    Mcp,
    /// `stockade call`.
    Cli,
    /// The workbench.
    Workbench,
}

/// What a caller may know of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// The callable name.
    pub name: String,
    /// The manifest's description; comes from the operator but may hold anything: draw through `SafeText`.
    pub description: String,
    /// JSON Schema of the arguments, as JSON text.
    pub input_schema: String,
    /// Effective risk tier: info, low, medium, high or critical.
    pub risk_tier: String,
    /// Whether a person must approve every use.
    pub human_approval: bool,
    /// `oneshot` or `session`.
    pub mode: String,
}
