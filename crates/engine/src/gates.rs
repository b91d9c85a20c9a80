//! The gates of one engine, which its driver and its admission share.

use std::sync::{Mutex, MutexGuard};

use windlass_orchestrator::supervisor::GateTable;

/// The gates (`concurrency`) of one engine.
#[derive(Default)]
pub(crate) struct Gates(Mutex<GateTable>);

impl Gates {
    pub(crate) fn new(table: GateTable) -> Self {
        Self(Mutex::new(table))
    }

    /// The gates, for as long as the answer lives.
    pub(crate) fn lock(&self) -> MutexGuard<'_, GateTable> {
        self.0
            .lock()
            .expect("nothing panics while it holds the gates")
    }
}
