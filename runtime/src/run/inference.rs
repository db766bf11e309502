//! Model clients, behind one small trait. The scripted one stands here; clients of real models come beside it.

use super::conversation::{Message, ModelRequest};
use crate::project::{Provider, Turn};
use std::pin::Pin;
use stockade_protocol::request::ToolCallRequest;

/// What a model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// What it says.
    pub text: String,
    /// What it proposes, in order. None ends the run.
    pub calls: Vec<ToolCallRequest>,
}

/// A model could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// The script has no turn for this point of the conversation.
    #[error("the script has {turns} turns and was asked for one more. Give it a last turn without calls")]
    ScriptEnded {
        /// Turns in the script.
        turns: usize,
    },
}

/// The future of a reply.
pub type Completion<'a> = Pin<Box<dyn Future<Output = Result<ModelReply, InferenceError>> + Send + 'a>>;

/// A model client.
pub trait Inference: Send + Sync + std::fmt::Debug {
    /// Provider and model, as journaled.
    fn model(&self) -> String;
    /// Asks the model. The request is all it may use.
    fn complete<'a>(&'a self, request: &'a ModelRequest) -> Completion<'a>;
}

/// The client for an agent's provider.
#[must_use]
pub fn client(provider: &Provider) -> Box<dyn Inference> {
    match provider {
        Provider::Scripted { turns } => Box::new(Scripted { turns: turns.clone() }),
    }
}

/// A script of turns: deterministic, for demos and tests. The turn is chosen by how many replies the conversation
/// holds, so the same journal always gives the same reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripted {
    turns: Vec<Turn>,
}

impl Inference for Scripted {
    fn model(&self) -> String {
        "scripted".to_owned()
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest) -> Completion<'a> {
        let replies = request.messages.iter().filter(|message| matches!(message, Message::Model { .. })).count();
        let ended = InferenceError::ScriptEnded { turns: self.turns.len() };
        let turn = self.turns.get(replies).ok_or(ended);
        let reply = turn.map(|turn| ModelReply { text: turn.say.clone(), calls: turn.calls.clone() });
        Box::pin(std::future::ready(reply))
    }
}
