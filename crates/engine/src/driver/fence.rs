//! Runs whose append the store refused: another process wrote first, or acknowledged records
//! are gone. The supervisor decides what follows; the driver does it here.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_orchestrator::ShardInput;
use windlass_orchestrator::supervisor::AfterFence;
use windlass_store::Error;

use super::{Driver, Message, StartAnswer};
use crate::child_coordinator::CoordinatorJob;

impl Driver {
    /// Another process wrote to a run. Its callers keep waiting if the run still belongs to
    /// this process.
    pub(super) fn fenced(&mut self, run: RunId, parent: Option<RunId>) {
        self.lost(run, parent);
        let taken = Error::Unavailable("another process owns the run".to_owned());
        self.answer_start(run, StartAnswer::Broken(taken.clone()));
        match AfterFence::of(self.holds_lease(run)) {
            AfterFence::Reload => {
                self.reloading.insert(run);
                self.submit_job(CoordinatorJob::Reload(run));
            }
            AfterFence::Forget => self.answer_waits(run, &Ok(None)),
        }
    }

    /// A run was read again. Unless it goes on here now, there is nothing to wait for: the
    /// other process has ended it, or it cannot be read.
    pub(super) fn reloaded(&mut self, run: RunId, result: Result<(), Error>) {
        self.answer_all();
        self.reloading.remove(&run);
        match result {
            Err(error) => self.answer_waits(run, &Err(error)),
            Ok(()) if self.shard.holds(run) || self.comes_back(run) => {}
            Ok(()) => self.end_waits_unless_asleep(run),
        }
    }

    /// The store has lost what it had acknowledged of a run.
    pub(super) fn quarantined(&mut self, run: RunId, parent: Option<RunId>, error: &Error) {
        self.lost(run, parent);
        self.answer_start(run, StartAnswer::Broken(error.clone()));
        self.answer_waits(run, &Err(error.clone()));
        self.submit_job(CoordinatorJob::Quarantine(run, error.clone()));
    }

    /// Asks the store where a run's log ends, off the driver's task.
    pub(super) fn read_head(&self, run: RunId) {
        let (store, outbox) = (Arc::clone(&self.workers.store), self.outbox.clone());
        tokio::spawn(async move {
            let result = store.head(run).await;
            let _ = outbox
                .send(Message::Input(ShardInput::HeadRead { run, result }))
                .await;
        });
    }

    /// Whether a run that is not in the shard is known to come back.
    pub(super) fn comes_back(&self, run: RunId) -> bool {
        self.reloading.contains(&run) || self.dormant.contains(&run)
    }
}
