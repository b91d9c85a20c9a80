//! Pools in memory. What attempts hold is lost with the process; the next one recovers the runs,
//! and their open attempts ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use windlass_core::RunId;

use super::LocalCoordinator;
use crate::pools::grant;
use crate::{
    Error, GivenSlots, LinePlace, Partitions, Pending, PoolKey, PoolRemoval, PoolRow, PoolUse,
    Pools, SlotRequest, SlotsTaken, TenantFilter, WorkKey,
};

/// The pools and what attempts hold of them.
#[derive(Debug, Default)]
pub struct PoolTable {
    /// By name, then tenant: the order of lists.
    sizes: BTreeMap<(Box<str>, Option<Box<str>>), PoolRow>,
    pools: BTreeMap<PoolKey, Slots>,
    /// Where an attempt stands.
    attempts: BTreeMap<WorkKey, (PoolKey, LinePlace)>,
}

#[derive(Debug, Default)]
struct Slots {
    used: u64,
    held: BTreeMap<LinePlace, SlotRequest>,
    line: BTreeMap<LinePlace, SlotRequest>,
}

impl PoolTable {
    /// Makes a pool or changes its size; gives the size that it had.
    pub fn put(&mut self, row: PoolRow) -> Option<u32> {
        let key = (row.pool.name.clone(), row.pool.tenant.clone());
        self.sizes.insert(key, row).map(|before| before.slots)
    }

    fn row(&self, pool: &PoolKey) -> Option<&PoolRow> {
        self.sizes.get(&(pool.name.clone(), pool.tenant.clone()))
    }

    fn size(&self, pool: &PoolKey) -> u32 {
        self.row(pool).map_or(0, |row| row.slots)
    }

    /// Removes a pool that no attempt uses.
    pub fn remove(&mut self, pool: &PoolKey) -> PoolRemoval {
        if self.pools.contains_key(pool) {
            return PoolRemoval::InUse;
        }
        let key = (pool.name.clone(), pool.tenant.clone());
        match self.sizes.remove(&key) {
            Some(_) => PoolRemoval::Removed,
            None => PoolRemoval::Unknown,
        }
    }

    /// Takes slots, or places in line.
    pub fn take(&mut self, requests: &[SlotRequest]) -> SlotsTaken {
        let mut asked: BTreeMap<PoolKey, BTreeSet<WorkKey>> = BTreeMap::new();
        for request in requests {
            let of_pool = asked.entry(request.pool.clone()).or_default();
            of_pool.insert(request.attempt);
            self.line_up(request);
        }
        let mut next = Vec::new();
        for (pool, asked) in &asked {
            next.extend(self.grant(pool, asked));
        }
        let granted = requests.iter().map(|request| self.holds(request.attempt));
        SlotsTaken {
            granted: granted.collect(),
            next,
        }
    }

    fn line_up(&mut self, request: &SlotRequest) {
        if let Some(known) = self.find_mut(request.attempt) {
            known.fence = known.fence.max(request.fence);
            return;
        }
        let place = request.place();
        let pool = request.pool.clone();
        let slots = self.pools.entry(pool.clone()).or_default();
        slots.line.insert(place, request.clone());
        self.attempts.insert(request.attempt, (pool, place));
    }

    fn grant(&mut self, pool: &PoolKey, asked: &BTreeSet<WorkKey>) -> Option<SlotRequest> {
        let size = self.size(pool);
        let slots = self.pools.get_mut(pool)?;
        let is_asked = |it: &SlotRequest| asked.contains(&it.attempt);
        let (granted, next) = grant((size, slots.used), slots.line.values(), is_asked);
        let granted: Vec<LinePlace> = granted.into_iter().map(SlotRequest::place).collect();
        let next = next.cloned();
        for place in granted {
            if let Some(request) = slots.line.remove(&place) {
                slots.used += u64::from(request.slots);
                slots.held.insert(place, request);
            }
        }
        next
    }

    fn holds(&self, attempt: WorkKey) -> bool {
        let place = self.attempts.get(&attempt);
        place.is_some_and(|(pool, place)| {
            let slots = self.pools.get(pool);
            slots.is_some_and(|slots| slots.held.contains_key(place))
        })
    }

    /// Frees what an attempt holds, or its place in line, unless it was asked for with a higher
    /// fence; gives the pool that it was of.
    pub fn give(&mut self, GivenSlots { attempt, fence }: GivenSlots) -> Option<PoolKey> {
        if self.find(attempt)?.fence > fence {
            return None;
        }
        let (pool, place) = self.attempts.remove(&attempt)?;
        if let Some(slots) = self.pools.get_mut(&pool) {
            slots.line.remove(&place);
            if let Some(held) = slots.held.remove(&place) {
                slots.used -= u64::from(held.slots);
            }
            if slots.held.is_empty() && slots.line.is_empty() {
                self.pools.remove(&pool);
            }
        }
        Some(pool)
    }

    fn next(&self, pool: &PoolKey) -> Option<SlotRequest> {
        let slots = self.pools.get(pool)?;
        let (_, next) = grant((self.size(pool), slots.used), slots.line.values(), |_| {
            false
        });
        next.cloned()
    }

    fn usage(&self, pool: &PoolKey, most: usize) -> PoolUse {
        let Some(slots) = self.pools.get(pool) else {
            return PoolUse::default();
        };
        PoolUse {
            used: slots.used,
            waiting: slots.line.len() as u64,
            holders: slots.held.values().take(most).cloned().collect(),
            waiters: slots.line.values().take(most).cloned().collect(),
        }
    }

    fn find(&self, attempt: WorkKey) -> Option<&SlotRequest> {
        let (pool, place) = self.attempts.get(&attempt)?;
        let slots = self.pools.get(pool)?;
        slots.held.get(place).or_else(|| slots.line.get(place))
    }

    fn find_mut(&mut self, attempt: WorkKey) -> Option<&mut SlotRequest> {
        let (pool, place) = self.attempts.get(&attempt)?;
        let Slots { held, line, .. } = self.pools.get_mut(pool)?;
        held.get_mut(place).or_else(|| line.get_mut(place))
    }
}

impl LocalCoordinator {
    /// Frees the slots of a run's attempts whose append is durable.
    pub fn release_slots(&self, run: RunId, attempts: &[(u32, u32)]) {
        if !attempts.is_empty() {
            let pools = &mut self.tables().pools;
            for &(instance, attempt) in attempts {
                let attempt = WorkKey {
                    run,
                    instance,
                    attempt,
                };
                // The append is fenced by the head of the run.
                let fence = u64::MAX;
                pools.give(GivenSlots { attempt, fence });
            }
        }
    }
}

impl Pools for LocalCoordinator {
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        let before = self.tables().pools.put(pool);
        Box::pin(ready(Ok(before)))
    }

    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        let row = self.tables().pools.row(pool).cloned();
        Box::pin(ready(Ok(row)))
    }

    fn pools(
        &self,
        tenant: &TenantFilter,
        after: Option<&PoolKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        let after = after.map(|pool| (pool.name.clone(), pool.tenant.clone()));
        let tables = self.tables();
        let all = tables.pools.sizes.iter();
        let rest = all.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let meant = rest.filter(|((_, owner), _)| tenant.matches(owner.as_deref()));
        let rows = meant.take(limit).map(|(_, row)| row.clone()).collect();
        Box::pin(ready(Ok(rows)))
    }

    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        let removal = self.tables().pools.remove(pool);
        Box::pin(ready(Ok(removal)))
    }

    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        let taken = self.tables().pools.take(&requests);
        Box::pin(ready(Ok(taken)))
    }

    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        let table = &mut self.tables().pools;
        let pools: BTreeSet<PoolKey> = given.iter().filter_map(|&it| table.give(it)).collect();
        Box::pin(ready(Ok(pools.into_iter().collect())))
    }

    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        let next = self.tables().pools.next(pool);
        Box::pin(ready(Ok(next)))
    }

    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>> {
        let usage = self.tables().pools.usage(pool, most);
        Box::pin(ready(Ok(usage)))
    }

    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        let tables = self.tables();
        let table = &tables.pools;
        let keys = table.attempts.keys().copied();
        let rest = keys.filter(|key| after.is_none_or(|after| *key > after));
        let rows = rest.filter_map(|key| table.find(key));
        let meant = rows.filter(|row| partitions.contains(row.partition));
        let rows = meant.take(limit).cloned().collect();
        Box::pin(ready(Ok(rows)))
    }
}
