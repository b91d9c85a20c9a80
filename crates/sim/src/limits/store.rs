//! What the store says of waiting runs, places and slots.

use windlass_core::RunId;
use windlass_store::{
    Admission as _, HeldPlace, Partitions, Places as _, PoolKey, PoolUse, Pools as _, RunRow,
    SlotRequest, TakePlace, TenantGate, WorkKey, block_on,
};

use crate::store::SimStore;

impl SimStore {
    /// The tenants with runs that wait, and the gates where runs are parked.
    pub(super) fn waiting(&self, of: &Partitions) -> (Vec<Option<Box<str>>>, Vec<TenantGate>) {
        let tenants = block_on(self.memory.waiting_tenants(of));
        let gates = block_on(self.memory.parked_gates(of));
        let tenants = tenants.expect("memory always answers");
        (tenants, gates.expect("memory always answers"))
    }

    /// Runs of a tenant that wait and are not parked, in order.
    pub(super) fn waiting_runs(
        &self,
        of: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Vec<RunRow> {
        block_on(self.memory.waiting(of, tenant, limit)).expect("memory always answers")
    }

    /// Runs that are parked at a gate, in order.
    pub(super) fn parked(&self, of: &Partitions, gate: &str, limit: usize) -> Vec<RunRow> {
        block_on(self.memory.parked(of, gate, limit)).expect("memory always answers")
    }

    pub(super) fn park(&self, runs: Vec<RunId>) {
        block_on(self.memory.park(runs)).expect("memory always answers");
    }

    /// Runs that have begun, have not ended and do not sleep.
    pub(crate) fn begun(&self, of: &Partitions) -> Vec<RunRow> {
        block_on(self.memory.begun(of, None, usize::MAX)).expect("memory always answers")
    }

    /// Active runs that have a gate and no place at it.
    pub(super) fn without_place(&self, of: &Partitions) -> Vec<RunRow> {
        let rows = block_on(self.memory.without_place(of, None, usize::MAX));
        rows.expect("memory always answers")
    }

    pub(super) fn places(&self, of: &Partitions) -> Vec<HeldPlace> {
        block_on(self.memory.places(of, None, usize::MAX)).expect("memory always answers")
    }

    pub(super) fn take_places(&self, places: Vec<TakePlace>) -> Vec<Option<u64>> {
        block_on(self.memory.take_places(places)).expect("memory always answers")
    }

    pub(super) fn give_places(&self, places: Vec<HeldPlace>) {
        block_on(self.memory.give_places(places)).expect("memory always answers");
    }

    /// What attempts hold of pools, or wait for.
    pub(super) fn slots(&self, of: &Partitions) -> Vec<SlotRequest> {
        block_on(self.memory.slots(of, None, usize::MAX)).expect("memory always answers")
    }

    pub(super) fn pool_use(&self, pool: &PoolKey) -> PoolUse {
        block_on(self.memory.pool_use(pool, usize::MAX)).expect("memory always answers")
    }

    pub(super) fn next_in_line(&self, pool: &PoolKey) -> Option<SlotRequest> {
        block_on(self.memory.next_in_line(pool)).expect("memory always answers")
    }

    pub(super) fn attempt_holds(&self, pool: &PoolKey, attempt: WorkKey) -> bool {
        let usage = self.pool_use(pool);
        usage.holders.iter().any(|it| it.attempt == attempt)
    }
}
