//! The work queue in memory. Time is an argument; leases that have run out are taken back by
//! `reclaim`, which every other method expects to have been called.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use super::LocalCoordinator;
use crate::{
    BegunItem, Bell, Error, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pending, Pull,
    QueueDepth, SessionId, TenantFilter, Wakes as _, WorkItem, WorkKey, WorkLease, WorkQueue,
};

/// Tenant and action: what a worker pulls by.
type Channel = (Option<Box<str>>, Box<str>);

/// Tenant and worker.
type WorkerKey = (Option<Box<str>>, Box<str>);

/// By priority, then age.
type Order = (Reverse<u8>, u64);

#[derive(Default)]
pub(super) struct WorkTable {
    items: BTreeMap<WorkKey, Queued>,
    waiting: BTreeMap<Channel, BTreeMap<Order, WorkKey>>,
    /// The items that each worker has.
    by_worker: BTreeMap<WorkerKey, BTreeSet<WorkKey>>,
    /// Leases by the moment at which they run out.
    ends: BTreeSet<(u64, WorkKey)>,
    by_session: BTreeMap<SessionId, BTreeSet<WorkKey>>,
    next_age: u64,
    next_lease: u64,
}

struct Queued {
    item: WorkItem,
    age: u64,
    deliveries: u32,
    /// When it was handed out first.
    begun: Option<Began>,
    /// The worker is asked to end the attempt.
    stop: bool,
    lease: Option<Lease>,
    /// The last worker whose lease ran out, and that lease.
    last: Option<(Box<str>, WorkLease)>,
}

/// When an item was begun, by the queue's clock: an item of another process may have been begun
/// before that clock was.
#[derive(Clone, Copy)]
struct Began(i64);

impl Began {
    fn before(now: u64, ms: u64) -> Self {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Self(signed(now).saturating_sub(signed(ms)))
    }

    /// How long ago that is.
    fn ago(self, now: u64) -> u64 {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        u64::try_from(now.saturating_sub(self.0)).unwrap_or(0)
    }
}

struct Lease {
    number: WorkLease,
    worker: Box<str>,
    term: LeaseTerm,
    /// When it runs out, if its term is a time.
    until: u64,
}

impl Queued {
    fn channel(&self) -> Channel {
        (self.item.tenant.clone(), self.item.action.clone())
    }

    fn order(&self) -> Order {
        (Reverse(self.item.priority), self.age)
    }
}

impl WorkTable {
    /// Takes back items whose lease has run out, or belongs to a session that is over.
    pub(super) fn reclaim(&mut self, now: u64, is_live: impl Fn(SessionId) -> bool) {
        let mut back: Vec<WorkKey> = Vec::new();
        back.extend(
            self.ends
                .iter()
                .take_while(|(at, _)| *at <= now)
                .map(|it| it.1),
        );
        let gone = self.by_session.iter().filter(|(id, _)| !is_live(**id));
        back.extend(gone.flat_map(|(_, keys)| keys.iter().copied()));
        for key in back {
            self.lapse(key);
        }
    }

    /// Lets an item whose lease has run out wait again.
    fn lapse(&mut self, key: WorkKey) {
        if let Some(queued) = self.items.get_mut(&key)
            && let Some(lease) = &queued.lease
        {
            queued.last = Some((lease.worker.clone(), lease.number));
        }
        self.take_back(key);
    }

    /// Lets an item wait again that its worker did not get.
    fn take_undelivered(&mut self, key: WorkKey) {
        self.take_back(key);
        self.was_not_delivered(key);
    }

    /// Lets an item wait again; an item whose attempt was asked to end is not handed out
    /// again.
    fn take_back(&mut self, key: WorkKey) {
        self.end_lease(key);
        match self.items.get(&key) {
            Some(queued) if queued.stop => drop(self.items.remove(&key)),
            Some(_) => self.enqueue(key),
            None => {}
        }
    }

    fn was_not_delivered(&mut self, key: WorkKey) {
        if let Some(queued) = self.items.get_mut(&key) {
            queued.deliveries = queued.deliveries.saturating_sub(1);
            if queued.deliveries == 0 {
                queued.begun = None;
            }
        }
    }

    fn enqueue(&mut self, key: WorkKey) {
        if let Some(queued) = self.items.get(&key) {
            let channel = self.waiting.entry(queued.channel()).or_default();
            channel.insert(queued.order(), key);
        }
    }

    /// Removes an item's lease and every index of it.
    fn end_lease(&mut self, key: WorkKey) {
        let Some(queued) = self.items.get_mut(&key) else {
            return;
        };
        let Some(lease) = queued.lease.take() else {
            return;
        };
        let worker_key = (queued.item.tenant.clone(), lease.worker);
        remove_from(&mut self.by_worker, &worker_key, &key);
        match lease.term {
            LeaseTerm::Millis(_) => drop(self.ends.remove(&(lease.until, key))),
            LeaseTerm::Session(session) => remove_from(&mut self.by_session, &session, &key),
        }
    }

    fn remove(&mut self, key: WorkKey) {
        self.end_lease(key);
        let Some(queued) = self.items.remove(&key) else {
            return;
        };
        let channel = queued.channel();
        if let Some(waiting) = self.waiting.get_mut(&channel) {
            waiting.remove(&queued.order());
            if waiting.is_empty() {
                self.waiting.remove(&channel);
            }
        }
    }

    fn push(&mut self, item: WorkItem) {
        let key = item.key;
        if self.items.contains_key(&key) {
            return;
        }
        self.next_age += 1;
        let queued = Queued {
            item,
            age: self.next_age,
            deliveries: 0,
            begun: None,
            stop: false,
            lease: None,
            last: None,
        };
        self.items.insert(key, queued);
        self.enqueue(key);
    }

    /// Removes an item whose outcome a worker has, unless another worker has it, or has had it
    /// since; whether it was removed, or is not there.
    fn settled(&mut self, key: WorkKey, worker: &str, lease: WorkLease, now: u64) -> bool {
        let state = self.state(key, now);
        let fenced = state.is_some_and(|it| it.fences(worker, lease));
        if !fenced {
            self.remove(key);
        }
        !fenced
    }

    fn push_begun(
        &mut self,
        BegunItem { item, begun_ms }: BegunItem,
        worker: &str,
        session: SessionId,
        now: u64,
    ) -> Option<WorkLease> {
        let key = item.key;
        if self.items.contains_key(&key) {
            return None;
        }
        self.push(item);
        if let Some(queued) = self.items.get_mut(&key) {
            queued.begun = Some(Began::before(now, begun_ms));
        }
        let leased = self.lease(key, worker, LeaseTerm::Session(session), now);
        leased.map(|leased| leased.lease)
    }

    fn pull(&mut self, pull: &Pull, now: u64) -> Vec<LeasedItem> {
        if let Some(holding) = &pull.holding {
            let holding: BTreeSet<&WorkKey> = holding.iter().collect();
            let has = self.leased_to(&pull.worker, &pull.tenant);
            for key in has.into_iter().filter(|key| !holding.contains(key)) {
                self.take_undelivered(key);
            }
        }
        let mut fitting = self.fitting(pull);
        fitting.sort_unstable();
        let mut leased: Vec<LeasedItem> = Vec::new();
        let mut bytes = 0;
        for (_, key) in fitting.into_iter().take(pull.slots) {
            let size = self.items.get(&key).map_or(0, |it| it.item.payload.len());
            if !leased.is_empty() && bytes + size > pull.max_bytes {
                break;
            }
            bytes += size;
            leased.extend(self.lease(key, &pull.worker, pull.term, now));
        }
        leased
    }

    /// The items that a worker has, of the runs of these tenants.
    fn leased_to(&self, worker: &str, tenants: &TenantFilter) -> Vec<WorkKey> {
        match tenants {
            TenantFilter::Only(tenant) => {
                let own = self.by_worker.get(&(tenant.clone(), worker.into()));
                own.into_iter().flatten().copied().collect()
            }
            TenantFilter::Any => {
                let own = self.by_worker.iter().filter(|(of, _)| *of.1 == *worker);
                own.flat_map(|(_, keys)| keys.iter().copied()).collect()
            }
        }
    }

    /// Items that the worker can do: of each action its first, as many as it has slots.
    fn fitting(&self, pull: &Pull) -> Vec<(Order, WorkKey)> {
        let can = |key: &WorkKey| {
            let item = self.items.get(key).map(|queued| &queued.item);
            item.is_some_and(|item| item.requires.iter().all(|it| pull.labels.contains(it)))
        };
        let actions: BTreeSet<&Box<str>> = pull.actions.iter().collect();
        let mut fitting = Vec::new();
        let mut look = |waiting: Option<&BTreeMap<Order, WorkKey>>| {
            let waiting = waiting.into_iter().flatten();
            let fits = waiting.filter(|(_, key)| can(key)).take(pull.slots);
            fitting.extend(fits.map(|(&order, &key)| (order, key)));
        };
        match &pull.tenant {
            TenantFilter::Only(tenant) => actions
                .iter()
                .for_each(|&action| look(self.waiting.get(&(tenant.clone(), action.clone())))),
            TenantFilter::Any => self
                .waiting
                .iter()
                .filter(|((_, action), _)| actions.contains(action))
                .for_each(|(_, waiting)| look(Some(waiting))),
        }
        fitting
    }

    fn lease(
        &mut self,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
        now: u64,
    ) -> Option<LeasedItem> {
        let queued = self.items.get_mut(&key)?;
        self.next_lease += 1;
        let number = WorkLease(self.next_lease);
        let until = match term {
            LeaseTerm::Millis(millis) => now.saturating_add(millis),
            LeaseTerm::Session(_) => u64::MAX,
        };
        queued.deliveries += 1;
        let begun = *queued.begun.get_or_insert(Began::before(now, 0));
        queued.lease = Some(Lease {
            number,
            worker: worker.into(),
            term,
            until,
        });
        let worker_key = (queued.item.tenant.clone(), worker.into());
        self.by_worker.entry(worker_key).or_default().insert(key);
        match term {
            LeaseTerm::Millis(_) => drop(self.ends.insert((until, key))),
            LeaseTerm::Session(session) => {
                self.by_session.entry(session).or_default().insert(key);
            }
        }
        let channel = queued.channel();
        let order = queued.order();
        let leased = LeasedItem {
            item: queued.item.clone(),
            lease: number,
            deliveries: queued.deliveries,
            begun_ms: begun.ago(now),
            run: None,
        };
        if let Some(waiting) = self.waiting.get_mut(&channel) {
            waiting.remove(&order);
            if waiting.is_empty() {
                self.waiting.remove(&channel);
            }
        }
        Some(leased)
    }

    /// Leases an item that waits to a worker that works on it already.
    fn resume(
        &mut self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        (term, now): (LeaseTerm, u64),
    ) -> Option<WorkLease> {
        let queued = self.items.get(&key)?;
        let waits = queued.lease.is_none() && queued.item.tenant.as_deref() == tenant;
        let leased = waits.then(|| self.lease(key, worker, term, now)).flatten();
        leased.map(|leased| leased.lease)
    }

    fn state(&self, key: WorkKey, now: u64) -> Option<ItemState> {
        let queued = self.items.get(&key)?;
        Some(match &queued.lease {
            None => ItemState::Waiting {
                last: queued.last.clone(),
            },
            Some(lease) => ItemState::Leased {
                worker: lease.worker.clone(),
                lease: lease.number,
                stop: queued.stop,
                begun_ms: queued.begun.map_or(0, |begun| begun.ago(now)),
            },
        })
    }

    fn depth(&self, limit: usize) -> Vec<QueueDepth> {
        let mut kinds: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for queued in self.items.values().filter(|queued| !queued.stop) {
            let WorkItem {
                tenant,
                action,
                requires,
                ..
            } = &queued.item;
            let (waiting, leased) = kinds.entry((tenant, action, requires)).or_default();
            match queued.lease {
                None => *waiting += 1,
                Some(_) => *leased += 1,
            }
        }
        let mut depth = Vec::new();
        for ((tenant, action, requires), (waiting, leased)) in kinds.into_iter().take(limit) {
            depth.push(QueueDepth {
                tenant: tenant.clone(),
                action: action.clone(),
                requires: requires.clone(),
                waiting,
                leased,
            });
        }
        depth
    }

    /// Whether a lease is the current one of an item of that tenant.
    fn answer(&self, tenant: Option<&str>, key: WorkKey, lease: WorkLease) -> LeaseAnswer {
        let queued = self.items.get(&key);
        let own = queued.filter(|queued| queued.item.tenant.as_deref() == tenant);
        match own {
            None => LeaseAnswer::Unknown,
            Some(queued) => match &queued.lease {
                Some(current) if current.number == lease => LeaseAnswer::Held { stop: queued.stop },
                _ => LeaseAnswer::Lost,
            },
        }
    }

    fn prolong(&mut self, key: WorkKey, now: u64) {
        let lease = self.items.get_mut(&key).and_then(|it| it.lease.as_mut());
        if let Some(lease) = lease
            && let LeaseTerm::Millis(millis) = lease.term
        {
            self.ends.remove(&(lease.until, key));
            lease.until = now.saturating_add(millis);
            self.ends.insert((lease.until, key));
        }
    }

    fn stop(&mut self, key: WorkKey) {
        match self.items.get_mut(&key) {
            Some(queued) if queued.lease.is_some() => queued.stop = true,
            Some(_) => self.remove(key),
            None => {}
        }
    }
}

fn remove_from<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<WorkKey>>, of: &K, key: &WorkKey) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

impl LocalCoordinator {
    /// Whether an outcome of an item counts; its item is gone then.
    pub(crate) fn settled(&self, key: WorkKey, worker: &str, lease: WorkLease) -> bool {
        let (mut tables, now) = self.current();
        tables.work.settled(key, worker, lease, now)
    }
}

impl WorkQueue for LocalCoordinator {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        let (mut tables, _) = self.current();
        items.into_iter().for_each(|item| tables.work.push(item));
        drop(tables);
        self.ring(&[Bell::Work])
    }

    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        let (mut tables, now) = self.current();
        let is_live = tables.sessions.is_live(session);
        let leases = items.into_iter().map(|begun| match is_live {
            true => tables.work.push_begun(begun, worker, session, now),
            false => None,
        });
        let leases = leases.collect();
        Box::pin(ready(Ok(leases)))
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        let (mut tables, now) = self.current();
        let over = match pull.term {
            LeaseTerm::Session(session) => !tables.sessions.is_live(session),
            LeaseTerm::Millis(_) => false,
        };
        let leased = match over {
            true => Vec::new(),
            false => tables.work.pull(&pull, now),
        };
        Box::pin(ready(Ok(leased)))
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        let (tables, now) = self.current();
        let known = keys
            .iter()
            .filter_map(|&key| Some((key, tables.work.state(key, now)?)));
        Box::pin(ready(Ok(known.collect())))
    }

    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        Box::pin(ready(Ok(self.current().0.work.depth(limit))))
    }

    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let (mut tables, now) = self.current();
        let answer = tables.work.answer(tenant, key, lease);
        if matches!(answer, LeaseAnswer::Held { .. }) {
            tables.work.prolong(key, now);
        }
        Box::pin(ready(Ok(answer)))
    }

    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let (mut tables, _) = self.current();
        let answer = tables.work.answer(tenant, key, lease);
        if matches!(answer, LeaseAnswer::Held { .. }) {
            tables.work.remove(key);
        }
        Box::pin(ready(Ok(answer)))
    }

    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let (mut tables, _) = self.current();
        let answer = tables.work.answer(tenant, key, lease);
        if matches!(answer, LeaseAnswer::Held { .. }) {
            tables.work.take_undelivered(key);
        }
        Box::pin(ready(Ok(answer)))
    }

    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        let (mut tables, now) = self.current();
        let lease = tables.work.resume(tenant, key, worker, (term, now));
        Box::pin(ready(Ok(lease)))
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let (mut tables, _) = self.current();
        keys.iter().for_each(|&key| tables.work.stop(key));
        Box::pin(ready(Ok(())))
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let (mut tables, _) = self.current();
        keys.iter().for_each(|&key| tables.work.remove(key));
        Box::pin(ready(Ok(())))
    }
}
