//! Why a run that waits to begin has not begun, as far as the engine that serves knows.

use std::sync::atomic::Ordering;

use windlass_core::RunId;
use windlass_store::{Error, Partitions, RunRow};

use crate::crash_isolation::Suspended;
use crate::engine::Engine;
use crate::run_owner::RunOwner;

/// How many runs ahead are counted, at most.
const MOST_AHEAD: usize = 1000;

/// How many of those that hold a gate are named.
const MOST_NAMED: usize = 3;

/// What a run waits for before it begins, or is recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueReason {
    /// The engine stops.
    Stopping,
    /// The engine has not begun to serve, or never does.
    NotServing,
    /// No live process owns its partition.
    Unowned {
        /// How many live processes could take it.
        orchestrators: usize,
    },
    /// Processes died with it in hand: it waits to be acquired alone.
    Suspended(Suspended),
    /// Another run is tried, and nothing begins meanwhile.
    Isolation,
    /// All places at its gate are taken.
    Gate {
        /// How many runs may be active there at once.
        limit: u32,
        /// Some of the runs that hold a place.
        holders: Vec<RunId>,
    },
    /// The engine executes as many runs as it may.
    Full {
        /// How many that is.
        most: usize,
    },
    /// Only the runs ahead of it in line are in its way.
    Ahead {
        /// How many runs of its tenant begin before it, up to a thousand.
        runs: usize,
    },
}

impl Engine {
    /// What a run waits for that is in line or suspended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn queue_reason(&self, row: &RunRow) -> Result<QueueReason, Error> {
        let shared = self.shared();
        match self.owner_of(row).await? {
            RunOwner::Here => {}
            RunOwner::Process { partitions, .. } => {
                return self
                    .queue_reason_there(row, Partitions::Only(partitions))
                    .await;
            }
            RunOwner::Unowned { orchestrators } => {
                return Ok(QueueReason::Unowned { orchestrators });
            }
        }
        if self.stop_token().is_cancelled() {
            return Ok(QueueReason::Stopping);
        }
        if !shared.is_serving() {
            return Ok(QueueReason::NotServing);
        }
        if let Some(suspended) = self.suspended(row.run) {
            return Ok(QueueReason::Suspended(suspended));
        }
        if let Some(gate) = row.gate.as_deref()
            && let Some(held) = held_gate(&**self.store(), gate, row.limit).await?
        {
            return Ok(held);
        }
        if shared.isolation.is_closed() {
            return Ok(QueueReason::Isolation);
        }
        let most = shared.max_active.load(Ordering::Acquire);
        let loading = shared.loading.load(Ordering::Acquire);
        if shared.active() + loading >= most {
            return Ok(QueueReason::Full { most });
        }
        self.place_in_line(row, &shared.owned.partitions()).await
    }

    /// The same for a run of another process, as far as the store knows.
    async fn queue_reason_there(
        &self,
        row: &RunRow,
        partitions: Partitions,
    ) -> Result<QueueReason, Error> {
        if let Some(suspended) = self.suspended_anywhere(row).await? {
            return Ok(QueueReason::Suspended(suspended));
        }
        if let Some(gate) = row.gate.as_deref()
            && let Some(held) = held_gate(&**self.store(), gate, row.limit).await?
        {
            return Ok(held);
        }
        self.place_in_line(row, &partitions).await
    }

    async fn place_in_line(
        &self,
        row: &RunRow,
        partitions: &Partitions,
    ) -> Result<QueueReason, Error> {
        let store = self.store();
        let waiting = store.waiting(partitions, row.tenant.as_deref(), MOST_AHEAD);
        let waiting = waiting.await?;
        let place = waiting.iter().position(|other| other.run == row.run);
        Ok(QueueReason::Ahead {
            runs: place.unwrap_or(waiting.len()),
        })
    }
}

/// The runs that hold a gate, if it is full.
///
/// # Errors
/// The store failed.
pub async fn held_gate(
    store: &dyn crate::Backend,
    gate: &str,
    limit: u32,
) -> Result<Option<QueueReason>, Error> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let going = store.at_gate(gate, most).await?;
    if limit == 0 || going.len() < most {
        return Ok(None);
    }
    let holders = going.iter().take(MOST_NAMED).map(|row| row.run).collect();
    Ok(Some(QueueReason::Gate { limit, holders }))
}
