//! Gates where several processes share a store: places are counted there, by one accounting.
//! A place is taken before a run begins, and freed by the append that ends the run; the owner of
//! a partition mends what a crash left in between. An engine that has its store to itself
//! counts in memory (`gates.rs`) and asks nothing of this.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::RunId;
use windlass_orchestrator::supervisor::{PlaceAudit, audit_place};
use windlass_store::{Backend, Bell, Error, GatePlace, Partition, Partitions, RunRow, TakePlace};

use crate::engine::Engine;
use crate::gates::{AcquireResult, Freed};
use crate::ownership::ring;
use crate::shared::Shared;

/// How many places or runs are read together.
const PAGE: usize = 256;

impl Engine {
    /// Takes a place for a run that is to begin, if there is one.
    ///
    /// # Errors
    /// The store failed: the run waits.
    pub(crate) async fn pass(&self, row: &RunRow) -> Result<AcquireResult, Error> {
        let shared = self.shared();
        let Some(place) = place_of(row).filter(|_| shared.owned.is_shared()) else {
            return Ok(shared.gates.acquire(row));
        };
        // The audit must not take a run that is about to begin for one that is not.
        let _alone = shared.place_audit.lock().await;
        let passage = shared.gates.acquire(row);
        if passage != AcquireResult::Free {
            return Ok(passage);
        }
        let limit = Some(row.limit.max(1));
        let taken = self.store().take_places(vec![TakePlace { place, limit }]);
        match taken.await {
            Ok(taken) if taken == [true] => Ok(AcquireResult::Free),
            taken => {
                shared.gates.withdraw(row.run);
                taken.map(|_| AcquireResult::Full)
            }
        }
    }

    /// Compares the places of a partition's runs with the runs themselves.
    pub(crate) async fn audit_places(&self, partition: Partition) -> Result<(), Error> {
        let only = Partitions::Only(BTreeSet::from([partition]));
        let mut held = BTreeSet::new();
        let mut last: Option<GatePlace> = None;
        loop {
            let page = self.store().places(&only, last.as_ref(), PAGE).await?;
            let is_full = page.len() == PAGE;
            last = page.last().cloned().or(last);
            for place in page {
                held.insert(place.run);
                self.audit_place(place).await?;
            }
            if !is_full {
                break;
            }
        }
        self.take_missing(&only, &held).await
    }

    async fn audit_place(&self, place: GatePlace) -> Result<(), Error> {
        let shared = self.shared();
        let _alone = shared.place_audit.lock().await;
        let is_beginning = shared.gates.is_beginning(place.run);
        let row = self.store().run(place.run).await?;
        if audit_place(row.as_ref(), true, is_beginning) == PlaceAudit::Free {
            let gate = (row.and_then(|row| row.tenant), place.gate.clone());
            self.store().give_places(vec![place]).await?;
            tell_first_waiter(Arc::clone(self.store()), Arc::clone(shared), gate).await?;
        }
        Ok(())
    }

    /// Takes places for active runs that have none.
    async fn take_missing(&self, only: &Partitions, held: &BTreeSet<RunId>) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.store().begun(only, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.run);
            let missing = page.iter().filter(|&row| {
                let is_beginning = self.shared().gates.is_beginning(row.run);
                audit_place(Some(row), held.contains(&row.run), is_beginning) == PlaceAudit::Take
            });
            let missing: Vec<TakePlace> = missing.filter_map(place_of).map(in_any_case).collect();
            if !missing.is_empty() {
                self.store().take_places(missing).await?;
            }
        }
    }
}

fn place_of(row: &RunRow) -> Option<GatePlace> {
    let gate = row.gate.clone()?;
    Some(GatePlace {
        gate,
        run: row.run,
        partition: row.partition,
    })
}

fn in_any_case(place: GatePlace) -> TakePlace {
    TakePlace { place, limit: None }
}

/// A run has begun that waited for no gate: it counts all the same. One that is lost here is
/// mended by its owner.
pub(crate) fn count_begun(store: Arc<dyn Backend>, place: GatePlace) {
    tokio::spawn(async move { store.take_places(vec![in_any_case(place)]).await });
}

/// A run has left its gate, with the append that ended it.
pub(crate) fn left_gate(store: Arc<dyn Backend>, shared: Arc<Shared>, gate: Freed) {
    tokio::spawn(async move { tell_first_waiter(store, shared, gate).await });
}

/// Tells the owner of the run that waits first at a gate that there may be room. A hint: owners
/// also look by themselves.
async fn tell_first_waiter(
    store: Arc<dyn Backend>,
    shared: Arc<Shared>,
    gate: Freed,
) -> Result<(), Error> {
    let waiting = store.parked(&Partitions::All, &gate.1, 1).await?;
    match waiting.first() {
        Some(row) if !shared.owned.holds(row.partition) => {
            ring(store, Bell::Partition(row.partition));
        }
        // None may be parked yet and have found the gate full: this process looks at its own.
        Some(_) | None => {
            shared.gates.has_left(gate);
            shared.bell.notify_one();
        }
    }
    Ok(())
}
