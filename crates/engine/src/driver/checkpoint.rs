//! Checkpoints that the shard took: stored, and the log before them packed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_core::RunId;
use windlass_store::{Checkpoint, Head};

use super::Driver;

impl Driver {
    /// Stores a checkpoint and packs the log that it stands for, off the driver's task.
    /// One at a time for each run; the next comes soon enough.
    pub(super) fn keep_checkpoint(&self, run: RunId, head: Head, bytes: Vec<u8>) {
        let busy = Arc::clone(&self.packing);
        if !lock(&busy).insert(run) {
            return;
        }
        let store = Arc::clone(&self.workers.store);
        tokio::spawn(async move {
            // Both are derived: a failure loses nothing, and a broken store is noticed by
            // the next append.
            let checkpoint = Checkpoint { head, bytes };
            if store.put_checkpoint(run, checkpoint).await.is_ok() {
                let _ = store.compact(run, head.sequence).await;
            }
            lock(&busy).remove(&run);
        });
    }
}

fn lock(packing: &Mutex<HashSet<RunId>>) -> MutexGuard<'_, HashSet<RunId>> {
    packing
        .lock()
        .expect("nothing panics while it holds the list")
}
