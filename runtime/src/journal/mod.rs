//! stub
use std::path::Path;
use std::sync::Arc;
use stockade_protocol::event::*;
use stockade_protocol::ids::*;
use stockade_protocol::refusal::*;
#[derive(Debug, Clone)]
pub struct Entry {
    pub run: Option<RunId>,
    pub session: Option<SessionId>,
    pub call: Option<CallId>,
    pub event: Event,
}
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("x")]
    X,
}
impl JournalError {
    pub fn refusal(&self) -> Refusal {
        Refusal::new(RefusalCode::Unavailable, Authority::Journal, "x")
    }
}
#[derive(Debug, Clone)]
pub struct Journal;
#[derive(Debug)]
pub struct Opened;
#[derive(Debug)]
pub struct OutputStream;
impl OutputStream {
    pub async fn write(&mut self, _: &[u8]) -> Result<Vec<u8>, JournalError> {
        Err(JournalError::X)
    }
    pub async fn flush(&mut self) -> Result<Vec<u8>, JournalError> {
        Err(JournalError::X)
    }
}
#[derive(Debug, Clone)]
pub struct JournalEvents;
impl JournalEvents {
    pub async fn changed(&self, _: u64) {}
}
impl EventSource for JournalEvents {
    fn pull(&self, _: u64, _: usize) -> Vec<Arc<EventEnvelope>> {
        vec![]
    }
    fn len(&self) -> u64 {
        0
    }
}
impl Journal {
    pub fn open(
        _: &Path,
        _: &Path,
        _: crate::redact::Redactor,
        _: crate::ports::Ports,
    ) -> Result<(Journal, Opened), JournalError> {
        Err(JournalError::X)
    }
    pub async fn append(&self, _: Entry) -> Result<u64, JournalError> {
        Err(JournalError::X)
    }
    pub fn output(&self, _: RunId, _: SessionId) -> OutputStream {
        OutputStream
    }
    pub fn events(&self) -> JournalEvents {
        JournalEvents
    }
    pub async fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}
