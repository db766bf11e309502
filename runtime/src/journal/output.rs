//! A session's terminal output on its way into the journal.

use super::error::JournalError;
use super::{Entry, Journal};
use crate::redact::Stream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stockade_protocol::event::{Event, SessionEvent};
use stockade_protocol::ids::{RunId, SessionId};
use stockade_protocol::limits::OUTPUT_CHUNK_BYTES;

/// Redacts a session's output and journals it. What it returns is what was journaled: screens and answers are built
/// from that and from nothing else.
#[derive(Debug)]
pub struct OutputStream {
    journal: Journal,
    run: RunId,
    session: SessionId,
    stream: Stream,
}

impl OutputStream {
    pub(super) const fn new(journal: Journal, run: RunId, session: SessionId, stream: Stream) -> Self {
        Self { journal, run, session, stream }
    }

    /// Takes bytes as they came from the terminal. Plain text is released at once; only what may be the beginning of
    /// a secret is held back until more bytes decide it.
    ///
    /// # Errors
    /// When the journal does not accept records: nothing is released then.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<Vec<u8>, JournalError> {
        let mut released = Vec::new();
        let replaced = self.stream.write(bytes, &mut released);
        self.record(released, replaced).await
    }

    /// Releases what is held back: at a prompt that waits for input, and at the end.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn flush(&mut self) -> Result<Vec<u8>, JournalError> {
        let mut released = Vec::new();
        let replaced = self.stream.flush(&mut released);
        self.record(released, replaced).await
    }

    /// How many bytes are held back now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.stream.held()
    }

    async fn record(&self, released: Vec<u8>, replaced: bool) -> Result<Vec<u8>, JournalError> {
        for chunk in released.chunks(OUTPUT_CHUNK_BYTES) {
            let event = SessionEvent::Output { bytes: STANDARD.encode(chunk), redacted: replaced };
            let entry =
                Entry { run: Some(self.run), session: Some(self.session), call: None, event: Event::Session(event) };
            self.journal.append_redacted(entry).await?;
        }
        Ok(released)
    }
}
