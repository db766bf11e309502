//! A disk that fails: no answer without durability, no record after a failure, and a repair by the next start.

use super::*;
use crate::ports::{Sink, SinkKind};
use std::io;
use tokio::sync::watch;

/// What a sink does at its nth write or sync from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// A write takes only some bytes.
    Short,
    /// A write fails.
    Full,
    /// A sync fails, once: a second one would claim success.
    Sync,
}

/// Whether to the records, and what.
type Write = (bool, Vec<u8>);

/// What the sinks did, and what they are to do.
#[derive(Debug, Clone)]
pub(super) struct Log {
    syncs: watch::Receiver<u64>,
    failure: Arc<Mutex<Option<(Failure, u64)>>>,
    /// Bytes of records that a sync has covered.
    durable: Arc<AtomicU64>,
    /// Every write, in order.
    writes: Arc<Mutex<Vec<Write>>>,
}

impl Log {
    pub(super) fn syncs(&self) -> u64 {
        *self.syncs.borrow()
    }

    pub(super) async fn wait_for_syncs(&self, count: u64) {
        self.syncs.clone().wait_for(|syncs| *syncs >= count).await.unwrap();
    }

    pub(super) fn writes(&self) -> Vec<Write> {
        self.writes.lock().unwrap().clone()
    }

    /// The `after`th operation of its kind from now on fails.
    fn fail(&self, failure: Failure, after: u64) {
        *self.failure.lock().unwrap() = Some((failure, after));
    }
}

struct Logged {
    inner: Box<dyn Sink>,
    log: Log,
    syncs: Option<Arc<watch::Sender<u64>>>,
    written: u64,
}

impl Logged {
    fn due(&self, kinds: &[Failure]) -> Option<Failure> {
        let mut failure = self.log.failure.lock().unwrap();
        match failure.as_mut() {
            Some((kind, 0)) if kinds.contains(kind) => failure.take().map(|(kind, _)| kind),
            Some((kind, after)) if kinds.contains(kind) => {
                *after -= 1;
                None
            }
            _ => None,
        }
    }
}

impl Sink for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match self.due(&[Failure::Short, Failure::Full]) {
            Some(Failure::Full) => return Err(io::ErrorKind::StorageFull.into()),
            Some(_) => self.inner.write(&bytes[..bytes.len() / 2])?,
            None => self.inner.write(bytes)?,
        };
        self.written += taken as u64;
        self.log.writes.lock().unwrap().push((self.syncs.is_some(), bytes[..taken].to_vec()));
        Ok(taken)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.due(&[Failure::Sync]).is_some() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inner.sync()?;
        if let Some(syncs) = &self.syncs {
            self.log.durable.store(self.written, Ordering::SeqCst);
            syncs.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

/// Sinks that count and fail; only those of the records are counted.
pub(super) fn logged() -> (Ports, Log) {
    let (sender, receiver) = watch::channel(0);
    let log = Log { syncs: receiver, failure: Arc::default(), durable: Arc::default(), writes: Arc::default() };
    let (given, sender) = (log.clone(), Arc::new(sender));
    let through = move |kind, inner| -> Box<dyn Sink> {
        let syncs = (kind == SinkKind::Records).then(|| sender.clone());
        Box::new(Logged { inner, log: given.clone(), syncs, written: 0 })
    };
    (ports().journal_through(through), log)
}

fn open_logged(place: &Place) -> (Journal, Log) {
    let (ports, log) = logged();
    (Journal::open(&place.dir(), &place.key(), Redactor::standard(), ports).unwrap().0, log)
}

#[tokio::test]
async fn an_answer_comes_only_after_the_sync() {
    let place = Place::new();
    let (journal, log) = open_logged(&place);
    for n in 0..20 {
        let entry = if n % 4 == 0 { sealing() } else { plain("x") };
        journal.append(entry).await.unwrap();
        let durable = log.durable.load(Ordering::SeqCst);
        assert!(durable >= place.bytes("records.jsonl").len() as u64, "{n}");
    }
}

#[tokio::test]
async fn after_any_failure_nothing_is_accepted_and_the_next_start_repairs() {
    for failure in [Failure::Short, Failure::Full, Failure::Sync] {
        for after in 0..4 {
            for durable in [true, false] {
                let place = Place::new();
                let (journal, log) = open_logged(&place);
                journal.append(plain("before")).await.unwrap();
                log.fail(failure, after);
                let mut accepted = vec!["before".to_owned()];
                let mut failed = None;
                for n in 0..60 {
                    let text = format!("n{n}");
                    let entry = plain(&text);
                    let result = if durable { journal.append(entry).await } else { journal.append_soon(entry).await };
                    match result {
                        Ok(_) if failed.is_none() => accepted.push(text),
                        Ok(_) => panic!("{failure:?} {after}: accepted after a failure"),
                        Err(JournalError::Poisoned { why }) => {
                            assert_eq!(failed.get_or_insert_with(|| why.clone()), &why, "always the first reason");
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                    if !durable {
                        // Let the timer's sync come as well.
                        log.clone().wait_a_sync_or_failure().await;
                    }
                    if n % 3 == 2 {
                        let _ = journal.append(sealing()).await;
                    }
                }
                assert!(failed.is_some(), "{failure:?} {after} {durable}");
                assert!(matches!(journal.append(sealing()).await, Err(JournalError::Poisoned { .. })));
                assert!(journal.close().await.is_err());
                drop(journal);
                let journal = place.open();
                let texts: Vec<String> = journal
                    .events()
                    .pull(0, 1000)
                    .iter()
                    .filter(|envelope| matches!(envelope.event, Event::Turn(_)))
                    .map(|envelope| text_of(envelope).to_owned())
                    .collect();
                assert!(texts.starts_with(&accepted) || !durable, "{failure:?} {after}: {accepted:?} {texts:?}");
                journal.append(plain("after")).await.unwrap();
                journal.close().await.unwrap();
                let report = place.verify();
                assert!(report.is_intact(), "{failure:?} {after} {durable}: {report:?}");
            }
        }
    }
}

impl Log {
    /// Waits until nothing written is waiting to become durable, or the failure has come.
    async fn wait_a_sync_or_failure(self) {
        let seen = self.syncs();
        let pending = self.failure.lock().unwrap().is_some();
        if pending {
            let mut syncs = self.syncs.clone();
            let _ = tokio::time::timeout(std::time::Duration::from_millis(40), syncs.wait_for(|now| *now > seen)).await;
        }
    }
}

#[tokio::test]
async fn a_failed_sync_is_not_repeated_as_a_success() {
    let place = Place::new();
    let (journal, log) = open_logged(&place);
    log.fail(Failure::Sync, 0);
    let syncs = log.syncs();
    assert!(matches!(journal.append(plain("lost?")).await, Err(JournalError::Poisoned { .. })));
    assert!(matches!(journal.append(plain("no")).await, Err(JournalError::Poisoned { .. })));
    assert!(journal.close().await.is_err());
    assert_eq!(log.syncs(), syncs, "no later sync was tried");
}

#[tokio::test]
async fn a_failed_checkpoint_stops_the_journal_too() {
    let place = Place::new();
    let (journal, log) = open_logged(&place);
    // The record's own write comes first, the checkpoint's second.
    log.fail(Failure::Full, 1);
    journal.append(sealing()).await.unwrap();
    assert!(matches!(journal.append(plain("no")).await, Err(JournalError::Poisoned { .. })));
    drop(journal);
    let journal = place.open();
    assert_eq!(journal.events().len(), 2);
    journal.append(plain("yes")).await.unwrap();
}

#[tokio::test]
async fn a_group_that_waits_is_written_and_synced_once() {
    let place = Place::new();
    let (journal, log) = open_logged(&place);
    let before = log.syncs();
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..400 {
        let journal = journal.clone();
        waiting.spawn(async move { journal.append(plain(&n.to_string())).await.unwrap() });
    }
    let seqs = waiting.join_all().await;
    assert_eq!(seqs.len(), 400);
    let syncs = log.syncs() - before;
    assert!(syncs < 200, "{syncs} syncs for 400 records");
}
