//! Statistics of an engine, for health and metrics; none of them asks the driver.

use std::sync::atomic::Ordering;

use tokio::sync::watch;
use windlass_store::Error;

use crate::engine::Engine;

/// How far the queue is counted.
const MOST_COUNTED: u64 = 1_000_000;

/// How an engine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Runs in memory.
    pub held: usize,
    /// Actions that run.
    pub actions: usize,
    /// Runs that are being begun.
    pub beginning: usize,
    /// Runs that wait to begin, counted up to a million.
    pub queued: u64,
    /// Runs that began, or were opened again, since the engine was made.
    pub begun: u64,
    /// Runs that ended since then.
    pub ended: u64,
    /// How often admission has asked the store what waits.
    pub looks: u64,
    /// Runs whose events are followed for readers, or were until a moment ago.
    pub followed: usize,
    /// Whether pending runs are begun.
    pub serving: bool,
}

impl Engine {
    /// How the engine stands.
    ///
    /// # Errors
    /// The queue cannot be counted.
    pub async fn stats(&self) -> Result<EngineStats, Error> {
        let shared = self.shared();
        // No lock is held while the queue is counted.
        let beginning = shared.gates.lock().beginning();
        Ok(EngineStats {
            held: shared.held.load(Ordering::Acquire),
            actions: shared.actions.load(Ordering::Acquire),
            beginning,
            queued: self.store().depth(MOST_COUNTED).await?,
            begun: shared.begun.load(Ordering::Relaxed),
            ended: shared.ended.load(Ordering::Relaxed),
            looks: shared.looks.load(Ordering::Relaxed),
            followed: shared.event_streams.count(),
            serving: shared.is_serving(),
        })
    }

    /// Changes whenever a record of any run has become durable: a caller that shows lists reads
    /// them again then. The number itself has no meaning.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared().changes()
    }
}
