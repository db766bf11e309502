//! The journal's records in memory, for screens and waiters.

use std::sync::{Arc, PoisonError, RwLock};
use stockade_protocol::event::{EventEnvelope, EventSource};
use tokio::sync::watch;

/// Every record of the journal so far, those of earlier runtimes first. Cheap to clone; reading never holds up the
/// writer for longer than copying references takes.
#[derive(Debug, Clone)]
pub struct JournalEvents {
    list: Arc<RwLock<Vec<Arc<EventEnvelope>>>>,
    count: watch::Receiver<u64>,
}

/// The writer's end.
#[derive(Debug)]
pub(super) struct Publisher {
    list: Arc<RwLock<Vec<Arc<EventEnvelope>>>>,
    count: watch::Sender<u64>,
}

/// A list that begins with these records.
pub(super) fn list(records: Vec<Arc<EventEnvelope>>) -> (Publisher, JournalEvents) {
    let (sender, receiver) = watch::channel(records.len() as u64);
    let list = Arc::new(RwLock::new(records));
    (Publisher { list: list.clone(), count: sender }, JournalEvents { list, count: receiver })
}

impl Publisher {
    pub(super) fn publish(&self, records: impl IntoIterator<Item = Arc<EventEnvelope>>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.extend(records);
        let count = list.len() as u64;
        drop(list);
        self.count.send_replace(count);
    }
}

impl JournalEvents {
    /// Waits until there are more than `seen` records and returns how many. `None` when the journal is closed and
    /// there will be no more.
    pub async fn changed(&self, seen: u64) -> Option<u64> {
        self.count.clone().wait_for(|count| *count > seen).await.ok().map(|count| *count)
    }

    /// A receiver of the count, to wait on several things at once.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.count.clone()
    }
}

impl EventSource for JournalEvents {
    fn pull(&self, from: u64, max: usize) -> Vec<Arc<EventEnvelope>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        list.get(from..).unwrap_or_default().iter().take(max).cloned().collect()
    }

    fn len(&self) -> u64 {
        *self.count.borrow()
    }
}
