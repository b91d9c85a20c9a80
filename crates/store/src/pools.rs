//! Pools: named limits on attempts, across runs and processes. An attempt of a node with `pool`
//! holds slots while it is with a worker. The sizes are configured and durable; the slots are
//! counted here for all processes that share the store.
//!
//! The attempts that wait form one line for each pool: by rank, then priority, then age. An attempt gets
//! its slots only when it is the first of the line that the pool can ever serve, and they are
//! free: a small attempt does not overtake a large one for ever.
//!
//! Slots are freed late, never early: with the append that ends the attempt
//! ([`crate::Append::slots`]), or by the run's owner, which audits the slots of its partitions.
//! A process that does not know that it lost the run frees nothing that the next owner asked for
//! ([`SlotRequest::fence`]).

use windlass_core::Millis;

use crate::{Error, Partition, Partitions, Pending, TenantFilter, WorkKey};

/// A pool's name, within its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// The tenant that the pool belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// Its name, unique within the tenant.
    pub name: Box<str>,
}

impl PoolKey {
    /// The pool of this name in a tenant.
    pub fn new(tenant: Option<&str>, name: &str) -> Self {
        Self {
            tenant: tenant.map(Into::into),
            name: name.into(),
        }
    }
}

/// A pool as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// Its name.
    pub pool: PoolKey,
    /// How many slots it has.
    pub slots: u32,
    /// When it was last changed.
    pub updated_at: Millis,
}

/// An attempt that wants slots of a pool, or holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The pool.
    pub pool: PoolKey,
    /// Which attempt.
    pub attempt: WorkKey,
    /// The path of its node, for people.
    pub node: Box<str>,
    /// How many slots it holds.
    pub slots: u32,
    /// What comes before priority: 0 for an attempt that the log says is with a worker, 1 for one
    /// that an earlier process may have handed out, 2 for the others.
    pub rank: u8,
    /// From 0 to 9; higher first.
    pub priority: u8,
    /// Since when it wants them.
    pub since: Millis,
    /// The partition that its run is in.
    pub partition: Partition,
    /// How many records the run has, as the process that asks knows. An owner writes a record
    /// before it asks for the first time, so a later owner has a higher number.
    pub fence: u64,
}

/// Slots, or a place in line, that an attempt needs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenSlots {
    /// Which attempt.
    pub attempt: WorkKey,
    /// What was asked for with a higher [`SlotRequest::fence`] is another owner's, and stays.
    pub fence: u64,
}

/// A place in the line of a pool; the smallest goes first.
pub type LinePlace = (u8, u8, Millis, WorkKey);

impl SlotRequest {
    /// Where it stands in the line.
    pub fn place(&self) -> LinePlace {
        let behind = u8::MAX - self.priority;
        (self.rank, behind, self.since, self.attempt)
    }
}

/// The answer to a request for slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsTaken {
    /// For each request, whether it holds its slots now; the others wait in line.
    pub granted: Vec<bool>,
    /// Attempts that are first in the line of one of these pools, could have their slots now and
    /// were not asked for: their owners should ask.
    pub next: Vec<SlotRequest>,
}

/// How a pool is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// The slots that attempts hold.
    pub used: u64,
    /// How many attempts wait.
    pub waiting: u64,
    /// The attempts that hold slots, the longest waiting first; no more than was asked for.
    pub holders: Vec<SlotRequest>,
    /// Those that wait, in line; no more than was asked for.
    pub waiters: Vec<SlotRequest>,
}

/// What became of a pool that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRemoval {
    /// It is gone.
    Removed,
    /// There is none of that name.
    Unknown,
    /// Attempts hold slots of it, or wait for them.
    InUse,
}

/// Who gets slots now: the first of the line, one after the other, as long as they fit and are
/// asked for. The second value is the first that fits and is not asked for. `line` has the
/// waiting attempts in order; those that want more than the pool has are passed over, so that
/// they do not keep others waiting for ever.
pub fn grant<'a>(
    (size, used): (u32, u64),
    line: impl IntoIterator<Item = &'a SlotRequest>,
    is_asked: impl Fn(&SlotRequest) -> bool,
) -> (Vec<&'a SlotRequest>, Option<&'a SlotRequest>) {
    let mut free = u64::from(size).saturating_sub(used);
    let mut granted = Vec::new();
    for waiter in line {
        let wants = u64::from(waiter.slots);
        if wants > u64::from(size) {
            continue;
        }
        if wants > free {
            break;
        }
        if !is_asked(waiter) {
            return (granted, Some(waiter));
        }
        free -= wants;
        granted.push(waiter);
    }
    (granted, None)
}

/// Pools and their slots.
pub trait Pools: Send + Sync + 'static {
    /// Makes a pool or changes its size; gives the size that it had. Attempts that hold slots
    /// keep them. Durable on return.
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>>;

    /// One pool.
    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>>;

    /// The pools of those tenants, by name, then by tenant, those after the given one.
    fn pools(
        &self,
        tenant: &TenantFilter,
        after: Option<&PoolKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>>;

    /// Removes a pool that no attempt uses. Durable on return.
    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>>;

    /// Takes slots, or a place in line; one answer for each request. An attempt that holds slots
    /// keeps them, one that waits keeps its place, and both keep the highest fence that they
    /// were asked for with. In a pool that does not exist, attempts wait.
    /// Counting and taking are one step: several processes that ask at once never hold more
    /// than the pool has. After an error, or a crash in between: some of it happened.
    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>>;

    /// Frees the slots of attempts, and their places in line, without a record; gives the pools
    /// that they were of. Those that have none are passed over, and so are those that were asked
    /// for with a higher fence.
    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>>;

    /// The first of a pool's line, if it could have its slots now.
    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>>;

    /// How a pool is used, with at most so many of each list.
    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>>;

    /// The attempts of runs in these partitions that hold slots or wait for them, by attempt,
    /// after the given one.
    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>>;
}
