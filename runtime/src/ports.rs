//! What the runtime takes from outside itself: time and random bits. Tests put their own in.

use std::fmt;
use std::sync::Arc;
use stockade_protocol::time::Timestamp;

/// The wall clock and the random source. Deadlines never use this clock; they use the monotonic one of `tokio`.
#[derive(Clone)]
pub struct Ports {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
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
        Self { now: Arc::new(system_now), random: Arc::new(system_random) }
    }

    /// Other sources, for tests and simulations.
    #[must_use]
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn() -> [u8; 16] + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), random: Arc::new(random) }
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
