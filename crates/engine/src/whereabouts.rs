//! Where a run is: executed here, asleep, ended, or executed by no process. Changes nothing.

use windlass_core::{RunId, RunStatus};
use windlass_store::RunRow;

use crate::driver::Message;
use crate::engine::Engine;

impl Engine {
    pub(crate) async fn has_ended(&self, run: RunId) -> bool {
        let row = self.store().run(run).await.ok().flatten();
        row.is_some_and(|row| row.status.is_final())
    }

    /// Whether this engine executes a run.
    pub async fn is_acquired(&self, run: RunId) -> bool {
        let question = |reply| Message::Holds {
            run,
            acquired: true,
            reply,
        };
        self.ask(question).await == Some(true)
    }

    /// Whether this engine executes a run, or wakes it when its time has come.
    pub async fn is_acquired_or_asleep(&self, run: RunId) -> bool {
        let here = async || self.ask(|reply| Message::Has(run, reply)).await == Some(true);
        let sleeps = async || {
            let row = self.store().run(run).await.ok().flatten();
            row.is_some_and(|row| row.asleep)
        };
        // One that wakes between the two questions is here by the third.
        here().await || sleeps().await || here().await
    }

    /// Whether a run of a partition that this process works on has begun, and neither is executed
    /// here nor sleeps.
    pub async fn is_orphaned(&self, row: &RunRow) -> bool {
        row.status == RunStatus::Running
            && !row.dead
            && self.shared().owned.holds(row.partition)
            && !self.is_acquired_or_asleep(row.run).await
    }
}
