//! What the runtime takes from outside itself: time and random bits. Tests put their own in.

use std::fmt;
use std::io;
use std::sync::Arc;
use stockade_protocol::time::Timestamp;

/// Where a journal's bytes go. One call of `write` is one write of the system: a short one is reported as such.
pub trait Sink: Send {
    /// Appends bytes; returns how many were taken.
    ///
    /// # Errors
    /// When the disk takes none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// When it is not known to be.
    fn sync(&mut self) -> io::Result<()>;
}

/// Which of a journal's files a sink is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    /// Its records.
    Records,
    /// Its checkpoints.
    Checkpoints,
}

type Through = dyn Fn(SinkKind, Box<dyn Sink>) -> Box<dyn Sink> + Send + Sync;

/// The wall clock, the random source, and what the journal's bytes go through. Deadlines never use this clock; they use
/// the monotonic one of `tokio`.
#[derive(Clone)]
pub struct Ports {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
    through: Option<Arc<Through>>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ports")
    }
}

impl Ports {
    /// The machine's clock and the kernel's random source.
    #[must_use]
    pub fn system() -> Self {
        Self::new(system_now, system_random)
    }

    /// Other sources, for tests and simulations.
    #[must_use]
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn() -> [u8; 16] + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), random: Arc::new(random), through: None }
    }

    /// The same, with every journal opened through them writing through `through`: a disk that can be made to fail.
    #[must_use]
    pub fn journal_through(
        mut self,
        through: impl Fn(SinkKind, Box<dyn Sink>) -> Box<dyn Sink> + Send + Sync + 'static,
    ) -> Self {
        self.through = Some(Arc::new(through));
        self
    }

    pub(crate) fn sink(&self, kind: SinkKind, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        match &self.through {
            Some(through) => through(kind, sink),
            None => sink,
        }
    }

    /// The wall clock's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// 128 random bits.
    #[must_use]
    pub fn random(&self) -> [u8; 16] {
        (self.random)()
    }
}

fn system_now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn system_random() -> [u8; 16] {
    let mut bits = [0; 16];
    // Without random bits no id, nonce or key is safe: there is no way to go on.
    #[allow(clippy::expect_used, reason = "the kernel's random source cannot fail once the machine is up")]
    getrandom::fill(&mut bits).expect("the kernel's random source answers");
    bits
}
