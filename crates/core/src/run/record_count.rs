//! How many records of a run are complete. A record is completed while a decision over the
//! same state may be computed elsewhere; the count is no part of what decisions rest on.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct RecordCount(AtomicU64);

impl RecordCount {
    pub(crate) fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Clone for RecordCount {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl PartialEq for RecordCount {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}
