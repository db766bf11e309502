//! What a tool's output means: text as it is, or JSON, checked against the manifest's schema.

use super::read::Table;
use super::schema::{Schema, SchemaError};
use serde_json::Value;
use stockade_protocol::limits::INTERACTION_BYTES;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// The formats this version builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Text, white space kept.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

/// The `[output]` table.
#[derive(Debug, Clone)]
pub struct OutputSpec {
    /// The format of standard output.
    pub format: OutputFormat,
    /// What it must look like: the value for JSON, `{"raw_output": …}` for text.
    pub schema: Option<Schema>,
    /// Bytes kept of each stream; what comes after is cut and said to be.
    pub max_bytes: usize,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self { format: OutputFormat::Text, schema: None, max_bytes: INTERACTION_BYTES }
    }
}

/// Output that was understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpreted {
    /// The value as compact JSON text, for tools that declare JSON.
    pub structured: Option<String>,
}

/// Output that is not what the manifest declares.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// Not JSON.
    #[error("the tool's output is not JSON: {0}")]
    Json(String),
    /// JSON or text that breaks `[output.schema]`.
    #[error("the tool's output breaks its schema at {0}")]
    Schema(SchemaError),
}

impl OutputError {
    /// The refusal a call ends with.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let rule = match self {
            Self::Json(_) => "output.format",
            Self::Schema(_) => "output.schema",
        };
        Refusal::new(RefusalCode::Failed, Authority::Manifest, self.to_string())
            .by_rule(rule)
            .next("correct the tool or its manifest: output that is not as declared is not passed on as a value")
    }
}

/// Reads a tool's whole standard output as its manifest declares it.
///
/// # Errors
/// When JSON is declared and it is none, or when it breaks the schema.
pub fn interpret(spec: &OutputSpec, bytes: &[u8]) -> Result<Interpreted, OutputError> {
    match spec.format {
        OutputFormat::Text => {
            if let Some(schema) = &spec.schema {
                let value = serde_json::json!({ "raw_output": String::from_utf8_lossy(bytes) });
                schema.check(&value).map_err(OutputError::Schema)?;
            }
            Ok(Interpreted::default())
        }
        OutputFormat::Json => {
            let value: Value = serde_json::from_slice(bytes).map_err(|error| OutputError::Json(error.to_string()))?;
            if let Some(schema) = &spec.schema {
                schema.check(&value).map_err(OutputError::Schema)?;
            }
            Ok(Interpreted { structured: Some(value.to_string()) })
        }
    }
}

/// Reads the table.
pub(crate) fn read(root: &Table<'_>) -> OutputSpec {
    let mut spec = OutputSpec::default();
    let Some(table) = root.table("output") else { return spec };
    if let Some(format) = table.string("format") {
        match format.value.as_str() {
            "text" => {}
            "json" => spec.format = OutputFormat::Json,
            "xml" | "csv" | "jsonl" => {
                let what = format!("the output format `{}` in [output]", format.value);
                table.reader.unsupported(&format.span, &what, "built now: text and json");
            }
            other => table.reader.value(
                &format.span,
                format!("there is no output format `{other}`"),
                "use \"text\" or \"json\"",
            ),
        }
    }
    if let Some(parser) = table.string("parser") {
        let fits = match parser.value.as_str() {
            "builtin:text" => Some(OutputFormat::Text),
            "builtin:json" => Some(OutputFormat::Json),
            _ => None,
        };
        match fits {
            Some(format) => spec.format = format,
            None if parser.value.starts_with("custom:") || parser.value.starts_with("builtin:") => {
                let what = format!("the parser `{}` in [output]", parser.value);
                table.reader.unsupported(&parser.span, &what, "built now: builtin:text and builtin:json");
            }
            None => table.reader.value(
                &parser.span,
                format!("there is no parser `{}`", parser.value),
                "use \"builtin:text\" or \"builtin:json\"",
            ),
        }
    }
    // Every result comes in stockade's own envelope, so both values mean the same here.
    table.boolean("envelope");
    let kept = INTERACTION_BYTES as u64;
    let max_bytes = table.bounded("max_bytes", kept, 1..=1 << 30).min(kept);
    spec.max_bytes = usize::try_from(max_bytes).unwrap_or(INTERACTION_BYTES);
    spec.schema = table.table("schema").map(|schema| Schema::read(&schema));
    table.finish();
    spec
}
