//! The work queue in memory. Time is an argument; leases that have run out are taken back by
//! `reclaim`, which every other method expects to have been called.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use super::LocalCoordinator;
use crate::{
    Error, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pending, Pull, SessionId, WorkItem,
    WorkKey, WorkLease, WorkQueue,
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
    /// The worker is asked to end the attempt.
    stop: bool,
    lease: Option<Lease>,
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
            self.take_back(key);
        }
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
            stop: false,
            lease: None,
        };
        self.items.insert(key, queued);
        self.enqueue(key);
    }

    fn pull(&mut self, pull: &Pull, now: u64) -> Vec<LeasedItem> {
        if let Some(holding) = &pull.holding {
            let worker_key = (pull.tenant.clone(), pull.worker.clone());
            let has = self.by_worker.get(&worker_key).cloned().unwrap_or_default();
            let holding: BTreeSet<&WorkKey> = holding.iter().collect();
            for key in has.into_iter().filter(|key| !holding.contains(key)) {
                self.take_back(key);
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

    /// Items that the worker can do: of each action its first, as many as it has slots.
    fn fitting(&self, pull: &Pull) -> Vec<(Order, WorkKey)> {
        let can = |key: &WorkKey| {
            let item = self.items.get(key).map(|queued| &queued.item);
            item.is_some_and(|item| item.requires.iter().all(|it| pull.labels.contains(it)))
        };
        let actions: BTreeSet<&Box<str>> = pull.actions.iter().collect();
        let mut fitting = Vec::new();
        for action in actions {
            let channel = (pull.tenant.clone(), action.clone());
            let waiting = self.waiting.get(&channel).into_iter().flatten();
            let fits = waiting.filter(|(_, key)| can(key)).take(pull.slots);
            fitting.extend(fits.map(|(&order, &key)| (order, key)));
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

    fn state(&self, key: WorkKey) -> Option<ItemState> {
        let queued = self.items.get(&key)?;
        Some(match &queued.lease {
            None => ItemState::Waiting,
            Some(lease) => ItemState::Leased {
                worker: lease.worker.clone(),
                lease: lease.number,
            },
        })
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

impl WorkQueue for LocalCoordinator {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        let (mut tables, _) = self.current();
        items.into_iter().for_each(|item| tables.work.push(item));
        Box::pin(ready(Ok(())))
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
        let (tables, _) = self.current();
        let known = keys
            .iter()
            .filter_map(|&key| Some((key, tables.work.state(key)?)));
        Box::pin(ready(Ok(known.collect())))
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
            tables.work.take_back(key);
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
