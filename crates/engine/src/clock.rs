//! The engine's only source of time and randomness, so that a test can be another.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::{Millis, RunId};

/// Where time and randomness come from.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Millis;

    /// Ten random bytes, enough for an id.
    fn random(&self) -> [u8; 10];

    /// A new run's id.
    fn new_run_id(&self) -> RunId {
        RunId::new(self.now(), self.random())
    }

    /// Eight random bytes as a number.
    fn random_u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.random();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// The machine's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn random(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        getrandom::fill(&mut bytes).expect("the operating system provides randomness");
        bytes
    }
}
