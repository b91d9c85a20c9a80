//! Leases, work and wake-ups in memory: those of one process, with a clock that tests give.

use std::future::ready;

use crate::{
    BegunItem, Bell, Error, ExpiredSession, GatePlace, GivenSlots, HeldPlace, ItemOutcome,
    ItemState, JoinedSession, LeaseAnswer, LeaseTerm, LeasedItem, Leases, Listener, LiveSession,
    MemoryStore, Partition, Partitions, Pending, Places, PoolKey, PoolRemoval, PoolRow, PoolUse,
    Pools, ProcessInfo, Pull, QueueDepth, SessionId, SettleAnswer, SlotRequest, SlotsTaken,
    TakePlace, TakenPartition, TenantFilter, Wakes, WorkItem, WorkKey, WorkLease, WorkQueue,
};

impl MemoryStore {
    /// Leases expire by this clock, in milliseconds, from now on.
    pub fn set_lease_clock(&self, clock: impl Fn() -> u64 + Send + Sync + 'static) {
        self.coordinator.set_clock(clock);
    }

    /// Sets the number of partitions; call it before the first session.
    pub fn set_partitions(&self, partitions: u32) {
        self.coordinator.set_partitions(partitions);
    }
}

impl Leases for MemoryStore {
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>> {
        self.coordinator.join(process, duration_ms)
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.coordinator.renew(session)
    }

    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        self.coordinator.take(session, partitions)
    }

    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>> {
        self.coordinator.give(session, partitions)
    }

    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>> {
        self.coordinator.describe(session, process)
    }

    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>> {
        self.coordinator.take_named(session, name)
    }

    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>> {
        self.coordinator.give_named(session, name)
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        self.coordinator.sessions()
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.coordinator.leave(session)
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        self.coordinator.expired()
    }

    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.coordinator.forget_session(session)
    }
}

impl Places for MemoryStore {
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>> {
        self.coordinator.take_places(places)
    }

    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>> {
        self.coordinator.give_places(places)
    }

    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>> {
        self.coordinator.places(partitions, after, limit)
    }
}

impl Pools for MemoryStore {
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        self.coordinator.put_pool(pool)
    }

    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        self.coordinator.pool(pool)
    }

    fn pools(
        &self,
        tenant: &TenantFilter,
        after: Option<&PoolKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        self.coordinator.pools(tenant, after, limit)
    }

    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        self.coordinator.remove_pool(pool)
    }

    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        self.coordinator.take_slots(requests)
    }

    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        self.coordinator.give_slots(given)
    }

    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        self.coordinator.next_in_line(pool)
    }

    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>> {
        self.coordinator.pool_use(pool, most)
    }

    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        self.coordinator.slots(partitions, after, limit)
    }
}

impl Wakes for MemoryStore {
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>> {
        self.coordinator.ring(bells)
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        self.coordinator.listen()
    }
}

impl WorkQueue for MemoryStore {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        self.coordinator.push(items)
    }

    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        self.coordinator.push_begun(items, worker, session)
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        self.coordinator.pull(pull)
    }

    fn settle(&self, outcome: ItemOutcome) -> Pending<'_, Result<SettleAnswer, Error>> {
        let ItemOutcome {
            offer,
            key,
            worker,
            lease,
        } = outcome;
        let bell = Bell::Offered(offer.partition, offer.run);
        // Held over both, so that no owner finds neither the item nor its outcome.
        let mut state = self.state();
        if !self.coordinator.settled(key, &worker, lease) {
            return Box::pin(ready(Ok(SettleAnswer::Lost)));
        }
        state.offer(offer);
        drop(state);
        Box::pin(async move {
            self.ring(&[bell]).await?;
            Ok(SettleAnswer::Offered)
        })
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        self.coordinator.known(keys)
    }

    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        self.coordinator.queue_depth(limit)
    }

    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator.renew_item(tenant, key, lease)
    }

    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator.complete(tenant, key, lease)
    }

    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        self.coordinator.return_item(tenant, key, lease)
    }

    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        self.coordinator.resume_item(tenant, key, worker, term)
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        self.coordinator.stop(keys)
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        self.coordinator.withdraw(keys)
    }
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A store whose leases expire when the test says so.
    fn open() -> (MemoryStore, impl Fn(u64)) {
        let (store, time) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        let clock = Arc::clone(&time);
        store.set_lease_clock(move || clock.load(Ordering::SeqCst));
        let advance = move |millis| {
            time.fetch_add(millis, Ordering::SeqCst);
        };
        (store, advance)
    }

    crate::expiry_tests!(open);
}
