//! What becomes of a row in the store that says an attempt holds slots of a pool, or waits for
//! them, when its run's owner looks at it: slots are freed late, never early. And how often a
//! process tells another that there is room for its attempt.

use std::collections::BTreeMap;

use windlass_core::{Millis, RunStatus};
use windlass_store::{PoolKey, RunRow, SlotRequest, WorkKey};

/// How long a process does not tell another again of the same attempt.
const TELL_AGAIN_MS: u64 = 1_000;

/// The attempts of other processes that the store named when this one asked: they could have their
/// slots, and did not ask. A process that is told asks for all that waits there, and is named
/// others in turn; where two of them each have an attempt at the head of a line that cannot ask,
/// they would tell each other without end.
#[derive(Debug, Default)]
pub struct PoolCalls {
    told: BTreeMap<PoolKey, (WorkKey, Millis)>,
}

impl PoolCalls {
    /// Whether to tell the owner of an attempt that it may ask.
    pub fn tells(&mut self, next: &SlotRequest, now: Millis) -> bool {
        let was_told = self
            .told
            .get(&next.pool)
            .is_some_and(|(attempt, at)| *attempt == next.attempt && at.plus(TELL_AGAIN_MS) > now);
        if !was_told {
            self.told.insert(next.pool.clone(), (next.attempt, now));
        }
        !was_told
    }
}

/// Whether a run needs no slots as far as its row shows; `row` is none if the run is gone. This
/// decides where the shard does not execute the run. One that is neither here nor over will be
/// recovered, and its attempts ask again; so will one whose time to wake has come: its last owner
/// may have handed out the attempt that it slept for, which no record says.
pub fn frees_slots(row: Option<&RunRow>, now: Millis) -> bool {
    let Some(row) = row else {
        return true;
    };
    let is_due = row.wake_at.is_some_and(|at| at <= now);
    row.dead || row.status != RunStatus::Running || (row.asleep && !is_due)
}
