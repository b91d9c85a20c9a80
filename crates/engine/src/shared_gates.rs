//! Gates where several processes share a store: places are counted there, by one accounting.
//! A place is taken before a run begins, and freed by the append that ends the run; the owner of
//! a partition mends what a crash left in between. An engine that has its store to itself
//! counts in memory (`gates.rs`) and asks nothing of this.

use std::sync::Arc;

use windlass_orchestrator::supervisor::{
    AcquireResult, PlaceAudit, RoomHint, audit_place, in_any_case, place_of, within_limit,
};
use windlass_store::{
    Backend, Bell, Error, GatePlace, HeldPlace, Partitions, RunRow, TakePlace, TenantGate,
};

use crate::engine::Engine;
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
        let Some(place) = within_limit(row).filter(|_| shared.owned.is_shared()) else {
            return Ok(shared.gates.lock().acquire(row));
        };
        // The audit must not take a run that is about to begin for one that is not.
        let _alone = shared.place_audit.lock().await;
        let passage = shared.gates.lock().acquire(row);
        if passage != AcquireResult::Free {
            return Ok(passage);
        }
        let taken = self.store().take_places(vec![place]);
        match taken.await {
            Ok(taken) if matches!(taken[..], [Some(_)]) => Ok(AcquireResult::Free),
            taken => {
                shared.gates.lock().withdraw(row.run);
                taken.map(|_| AcquireResult::Full)
            }
        }
    }

    /// Compares the places of a partition's runs with the runs themselves.
    pub(crate) async fn audit_places(&self, only: &Partitions) -> Result<(), Error> {
        let mut last: Option<GatePlace> = None;
        loop {
            let page = self.store().places(only, last.as_ref(), PAGE).await?;
            let is_full = page.len() == PAGE;
            last = page.last().map(|it| it.place.clone()).or(last);
            for place in page {
                self.audit_place(place).await?;
            }
            if !is_full {
                break;
            }
        }
        self.take_missing(only).await
    }

    async fn audit_place(&self, held: HeldPlace) -> Result<(), Error> {
        let shared = self.shared();
        let place = &held.place;
        let alone = shared.place_audit.lock().await;
        let is_beginning = shared.gates.lock().is_beginning(place.run);
        let row = self.store().run(place.run).await?;
        match (audit_place(row.as_ref(), true, is_beginning), row) {
            (PlaceAudit::Free, row) => {
                let gate = (row.and_then(|row| row.tenant), place.gate.clone());
                self.store().give_places(vec![held]).await?;
                tell_first_waiter(Arc::clone(self.store()), Arc::clone(shared), gate).await?;
            }
            (PlaceAudit::Begin, Some(row)) => {
                drop(alone);
                self.begin_with_place(row).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes runs that this process has set aside out of the lines of their gates. They are tried
    /// alone when their time has come, and stand in line from then on; until then a process that is
    /// told of room for them would begin nothing, and the runs behind them would wait. Places that
    /// they have stay theirs.
    pub(crate) async fn leave_gate_lines(&self) -> Result<(), Error> {
        let aside = self.shared().isolation.aside();
        match aside.is_empty() {
            true => Ok(()),
            false => self.store().unpark(aside).await,
        }
    }

    /// Frees the place of a run that was to begin, or had begun, and is over or dead. A walk over
    /// its partition would free it too, seconds later.
    pub(crate) async fn free_if_over(&self, row: &RunRow) -> Result<(), Error> {
        let Some(place) = place_of(row).filter(|_| self.shared().owned.is_shared()) else {
            return Ok(());
        };
        match self.store().run(row.run).await? {
            Some(row) if row.status.is_final() || row.dead => {
                // If the run is opened again meanwhile, its place is taken once more, and stays.
                let taken = self.store().take_places(vec![in_any_case(place.clone())]);
                match taken.await?[..] {
                    [Some(takes)] => self.audit_place(HeldPlace { place, takes }).await,
                    _ => Ok(()),
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Begins a run that has its place. While suspects are acquired alone, and where it is one
    /// itself, it waits for the next look.
    async fn begin_with_place(&self, row: RunRow) -> Result<(), Error> {
        let isolation = &self.shared().isolation;
        if isolation.is_closed() || isolation.suspended(row.run).is_some() {
            return Ok(());
        }
        if self.pass(&row).await? == AcquireResult::Free {
            self.begin_beside(row);
        }
        Ok(())
    }

    /// Takes places for active runs that have none.
    async fn take_missing(&self, only: &Partitions) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.store().without_place(only, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.run);
            let missing = page.iter().filter(|&row| {
                let is_beginning = self.shared().gates.lock().is_beginning(row.run);
                audit_place(Some(row), false, is_beginning) == PlaceAudit::Take
            });
            let missing: Vec<TakePlace> = missing.filter_map(place_of).map(in_any_case).collect();
            if !missing.is_empty() {
                self.store().take_places(missing).await?;
            }
        }
    }
}

/// A run has begun that waited for no gate: it counts all the same. One that is lost here is
/// mended by its owner.
pub(crate) fn count_begun(store: Arc<dyn Backend>, place: GatePlace) {
    tokio::spawn(async move { store.take_places(vec![in_any_case(place)]).await });
}

/// A run has left its gate, with the append that ended it.
pub(crate) fn left_gate(store: Arc<dyn Backend>, shared: Arc<Shared>, gate: TenantGate) {
    tokio::spawn(async move { tell_first_waiter(store, shared, gate).await });
}

/// Tells the owner of the run that waits first at a gate that there may be room. A hint: owners
/// also look by themselves.
async fn tell_first_waiter(
    store: Arc<dyn Backend>,
    shared: Arc<Shared>,
    gate: TenantGate,
) -> Result<(), Error> {
    let waiting = store.parked(&Partitions::All, &gate.1, 1).await?;
    let first = waiting.first().map(|row| row.partition);
    match RoomHint::of(first, |it| shared.owned.holds(it)) {
        RoomHint::Ring(partition) => ring(store, Bell::Partition(partition)),
        RoomHint::Here => {
            shared.gates.lock().has_left(gate);
            shared.bell.notify_one();
        }
    }
    Ok(())
}
