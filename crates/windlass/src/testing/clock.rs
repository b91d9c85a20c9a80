//! A clock that follows tokio's paused time, and randomness that repeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use windlass_core::Millis;
use windlass_engine::Clock;

/// When virtual time begins: 2026-01-01T00:00:00Z.
const BEGINNING: Millis = Millis(1_767_225_600_000);

#[derive(Clone)]
pub(super) struct VirtualClock {
    begun: Instant,
    drawn: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock of the runtime that this is called in.
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            drawn: Arc::new(AtomicU64::new(0)),
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        let passed = self.begun.elapsed().as_millis();
        BEGINNING.plus(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// The same numbers in every test, so that what failed once fails again.
    fn random(&self) -> [u8; 10] {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&scatter(drawn).to_le_bytes());
        bytes[8..].copy_from_slice(&scatter(!drawn).to_le_bytes()[..2]);
        bytes
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", section 4): neighbouring inputs give unrelated outputs.
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
