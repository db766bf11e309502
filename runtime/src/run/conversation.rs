//! The conversation of a run, as a projection of the journal.
//!
//! What a model is shown is built here and nowhere else, from journaled events only: a message that is not in the
//! journal cannot reach a model, and the digest of every request can be computed again from the records before it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use stockade_protocol::event::{CallEvent, Event, EventEnvelope, TurnEvent};
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::request::ToolCallRequest;
use stockade_protocol::result::CallResult;

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Callable tools, by name, sorted.
    pub tools: Vec<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A person's.
    Person {
        /// What was said.
        text: String,
    },
    /// The model's own.
    Model {
        /// What was said.
        text: String,
        /// What it proposed.
        calls: Vec<(CallId, ToolCallRequest)>,
    },
    /// What a call returned.
    Tool {
        /// The call.
        call: CallId,
        /// `done` or a refusal's code.
        outcome: String,
        /// What the model is told; never shaped like a tool's crash when a person or a rule refused.
        text: String,
    },
}

/// The request that the events of `run` amount to.
#[must_use]
pub fn project(events: &[Arc<EventEnvelope>], run: RunId, tools: &[String]) -> ModelRequest {
    let messages = events
        .iter()
        .filter(|envelope| envelope.run == Some(run))
        .filter_map(|envelope| message(&envelope.event))
        .collect();
    ModelRequest { tools: tools.to_vec(), messages }
}

fn message(event: &Event) -> Option<Message> {
    match event {
        Event::Turn(TurnEvent::Prompted { text }) => Some(Message::Person { text: text.raw().to_owned() }),
        Event::Turn(TurnEvent::ModelReplied { text, calls }) => Some(Message::Model {
            text: text.raw().to_owned(),
            calls: calls.iter().map(|proposed| (proposed.call, proposed.request.clone())).collect(),
        }),
        Event::Call(CallEvent::Finished { result }) => {
            Some(Message::Tool { call: result.call, outcome: result.outcome().to_owned(), text: told(result) })
        }
        _ => None,
    }
}

/// What a model is told of a result: the refusal first and in full, then what the tool printed.
#[must_use]
pub fn told(result: &CallResult) -> String {
    let mut text = String::new();
    if let Some(refusal) = &result.refusal {
        text.push_str(&format!("refused: {refusal}\n"));
    }
    text.push_str(&result.output);
    if !result.stderr.is_empty() {
        text.push_str("\n[standard error]\n");
        text.push_str(&result.stderr);
    }
    for file in &result.created_files {
        text.push_str(&format!("\npublished {} ({} bytes, sha256 {})", file.path, file.bytes, file.sha256));
    }
    text
}
