//! Slots of pools: what the shard wants goes to the task that asks the store, and its answers
//! come back as inputs.

use windlass_core::Millis;
use windlass_orchestrator::ShardInput;
use windlass_store::{GivenSlots, PoolKey, WorkKey};

use super::Driver;
use crate::pool_slots::SlotWork;

impl Driver {
    pub(super) fn slot_work(&self, work: SlotWork) {
        // The task lives as long as the driver.
        let _ = self.slot_keeper.send(work);
    }

    /// The store's answers to attempts that asked.
    pub(super) fn slots_answered(&mut self, answers: Vec<(WorkKey, bool)>, now: Millis) {
        for (key, granted) in answers {
            let answer = ShardInput::SlotsAnswered {
                run: key.run,
                node: key.instance,
                attempt: key.attempt,
                granted,
            };
            self.shard.handle(answer, now);
        }
    }

    /// Frees what no attempt needs. `is_over` says that the row of the run shows it, where the
    /// run is not here; a run that only waits for its child has nothing with workers.
    pub(super) fn audit_slots(&mut self, mut seen: Vec<(GivenSlots, bool)>) {
        for (seen, is_over) in &mut seen {
            *is_over |= self.dormant.contains(&seen.attempt.run);
        }
        self.shard.audit_slots(seen);
    }

    /// A pool has another size.
    pub(super) fn pool_changed(&self, pool: PoolKey) {
        self.slot_work(SlotWork::Look(pool));
    }
}
