//! A command that asks a server works on no run: it holds no lease, has no work and hears no
//! bells.

use windlass_store::{
    BegunItem, Bell, Error, ExpiredSession, GatePlace, GivenSlots, HeldPlace, ItemState,
    JoinedSession, LeaseAnswer, LeaseTerm, LeasedItem, Leases, Listener, LiveSession, Partition,
    Partitions, Pending, Places, PoolKey, PoolRemoval, PoolRow, PoolUse, Pools, ProcessInfo, Pull,
    QueueDepth, SessionId, SlotRequest, SlotsTaken, TakePlace, TakenPartition, TenantFilter, Wakes,
    WorkItem, WorkKey, WorkLease, WorkQueue,
};

use super::refusals::refused;
use super::store::RemoteStore;

impl Leases for RemoteStore {
    fn join(&self, _: &ProcessInfo, _: u64) -> Pending<'_, Result<JoinedSession, Error>> {
        refused()
    }

    fn renew(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn take(
        &self,
        _: SessionId,
        _: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        refused()
    }

    fn give(&self, _: SessionId, _: &[Partition]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn describe(&self, _: SessionId, _: &ProcessInfo) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn take_named(&self, _: SessionId, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn give_named(&self, _: SessionId, _: &str) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        refused()
    }

    fn leave(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        refused()
    }

    fn forget_session(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

impl Places for RemoteStore {
    fn take_places(&self, _: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        refused()
    }

    fn give_places(&self, _: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn places(
        &self,
        _: &Partitions,
        _: Option<&GatePlace>,
        _: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        refused()
    }
}

impl Pools for RemoteStore {
    fn put_pool(&self, _: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        refused()
    }

    fn pool(&self, _: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        refused()
    }

    fn pools(
        &self,
        _: &TenantFilter,
        _: Option<&PoolKey>,
        _: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        refused()
    }

    fn remove_pool(&self, _: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        refused()
    }

    fn take_slots(&self, _: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        refused()
    }

    fn give_slots(&self, _: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        refused()
    }

    fn next_in_line(&self, _: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        refused()
    }

    fn pool_use(&self, _: &PoolKey, _: usize) -> Pending<'_, Result<PoolUse, Error>> {
        refused()
    }

    fn slots(
        &self,
        _: &Partitions,
        _: Option<WorkKey>,
        _: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        refused()
    }
}

impl Wakes for RemoteStore {
    fn ring(&self, _: &[Bell]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        refused()
    }
}

impl WorkQueue for RemoteStore {
    fn queue_depth(&self, _: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        refused()
    }

    fn push(&self, _: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn push_begun(
        &self,
        _: Vec<BegunItem>,
        _: &str,
        _: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        refused()
    }

    fn pull(&self, _: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        refused()
    }

    fn known(&self, _: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        refused()
    }

    fn renew_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn complete(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn return_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn resume_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: &str,
        _: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        refused()
    }

    fn stop(&self, _: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn withdraw(&self, _: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        refused()
    }
}
