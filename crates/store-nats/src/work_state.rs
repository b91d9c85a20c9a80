//! The work queue as a process sees it: a copy of the rows of the queue's stream, and what each
//! call makes of them. It does no I/O: it names the rows to write, and is told what was written.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{
    Bell, ItemRun, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pull, QueueDepth, SessionId,
    WorkItem, WorkKey, WorkLease,
};

use crate::mirror::Rows;
use crate::recent::Recent;
use crate::store::Clock;
use crate::table::Row;
use crate::work_room::WorkRoom;

/// Tenant and action: what a worker pulls by.
type Channel = (Option<Box<str>>, Box<str>);

/// By priority, then age.
type Order = (Reverse<u8>, u64);

/// What is noted with an item; the dispatch is the payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkMeta {
    run: RunId,
    instance: u32,
    attempt: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    tenant: Option<Box<str>>,
    action: Box<str>,
    requires: Vec<Box<str>>,
    priority: u8,
    /// Its place by age; 0 in its first row, whose own place counts.
    #[serde(default, skip_serializing_if = "is_default")]
    age: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    deliveries: u32,
    /// When it was handed out first, in milliseconds by the clock for people.
    #[serde(default, skip_serializing_if = "is_default")]
    begun: Option<i64>,
    #[serde(default, skip_serializing_if = "is_default")]
    stop: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
    /// The last worker whose lease ran out, and that lease.
    #[serde(default, skip_serializing_if = "is_default")]
    last: Option<(Box<str>, u64)>,
    /// The item is gone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) gone: bool,
    /// Of an item that is gone: the last offer of the process that removed it. An owner that knows
    /// that it is gone is to know that outcome too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) offer: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The most that a row takes beside what differs in length: names of fields, numbers, headers and
/// what the server adds; and a lease and the worker before it, which an item may get.
const GONE_BYTES: usize = 280;
const ITEM_BYTES: usize = 640;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lease {
    /// Which hand-out it is; 0 in its first row, whose own place counts.
    number: u64,
    worker: Box<str>,
    /// How long it lasts after its last row, if it is not a session's.
    millis: Option<u64>,
    session: Option<u64>,
}

impl Lease {
    fn new(worker: &str, term: LeaseTerm) -> Self {
        let (millis, session) = match term {
            LeaseTerm::Millis(millis) => (Some(millis), None),
            LeaseTerm::Session(session) => (None, Some(session.0)),
        };
        Self {
            number: 0,
            worker: worker.into(),
            millis,
            session,
        }
    }
}

impl WorkMeta {
    pub(crate) fn new(item: &WorkItem) -> Self {
        Self {
            run: item.key.run,
            instance: item.key.instance,
            attempt: item.key.attempt,
            tenant: item.tenant.clone(),
            action: item.action.clone(),
            requires: item.requires.clone(),
            priority: item.priority,
            age: 0,
            deliveries: 0,
            begun: None,
            stop: false,
            lease: None,
            last: None,
            gone: false,
            offer: 0,
        }
    }

    /// An item that a worker has begun already.
    pub(crate) fn begun(item: &WorkItem, worker: &str, session: SessionId, begun: i64) -> Self {
        Self {
            deliveries: 1,
            begun: Some(begun),
            lease: Some(Lease::new(worker, LeaseTerm::Session(session))),
            ..Self::new(item)
        }
    }

    fn key(&self) -> WorkKey {
        WorkKey {
            run: self.run,
            instance: self.instance,
            attempt: self.attempt,
        }
    }

    /// What the row of an item that is gone says: as little as can be, since it stays for a while.
    pub(crate) fn of_gone(&self) -> Self {
        Self {
            tenant: None,
            action: Box::default(),
            requires: Vec::new(),
            priority: 0,
            age: 0,
            deliveries: 0,
            begun: None,
            stop: false,
            lease: None,
            last: None,
            ..self.clone()
        }
    }

    /// The most bytes that its row takes in the stream.
    pub(crate) fn bytes(&self, subject: &str, payload: usize) -> usize {
        if self.gone {
            return subject.len() + GONE_BYTES;
        }
        let requires: usize = self.requires.iter().map(|it| it.len() + 3).sum();
        let lease = self.lease.as_ref().map_or(0, |it| it.worker.len());
        let last = self.last.as_ref().map_or(0, |it| it.0.len());
        let tenant = self.tenant.as_ref().map_or(0, |it| it.len());
        let words = requires + lease + last + tenant + self.action.len();
        subject.len() + payload + words + ITEM_BYTES
    }
}

/// A row as this process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) subject: String,
    pub(crate) sequence: u64,
    pub(crate) meta: WorkMeta,
    pub(crate) payload: Bytes,
    /// When this process saw the row first, by its own clock.
    seen: u64,
}

impl Known {
    /// What a row of that place says.
    pub(crate) fn new(
        subject: String,
        sequence: u64,
        mut meta: WorkMeta,
        payload: Bytes,
        seen: u64,
    ) -> Self {
        if meta.age == 0 {
            meta.age = sequence;
        }
        if let Some(lease) = &mut meta.lease
            && lease.number == 0
        {
            lease.number = sequence;
        }
        Self {
            subject,
            sequence,
            meta,
            payload,
            seen,
        }
    }

    pub(crate) fn key(&self) -> WorkKey {
        self.meta.key()
    }

    fn order(&self) -> Order {
        (Reverse(self.meta.priority), self.meta.age)
    }

    fn bytes(&self) -> usize {
        self.meta.bytes(&self.subject, self.payload.len())
    }

    /// When its lease runs out, if that depends on time alone.
    fn ends(&self) -> Option<u64> {
        let millis = self.meta.lease.as_ref()?.millis?;
        Some(self.seen.saturating_add(millis))
    }

    /// The lease that the row says.
    pub(crate) fn lease(&self) -> Option<WorkLease> {
        self.meta.lease.as_ref().map(|it| WorkLease(it.number))
    }

    pub(crate) fn leased(&self, wall_ms: i64, run: Option<ItemRun>) -> Option<LeasedItem> {
        let meta = &self.meta;
        Some(LeasedItem {
            item: WorkItem {
                key: meta.key(),
                tenant: meta.tenant.clone(),
                action: meta.action.clone(),
                requires: meta.requires.clone(),
                priority: meta.priority,
                payload: self.payload.to_vec(),
            },
            lease: self.lease()?,
            deliveries: meta.deliveries,
            begun_ms: ago(meta.begun, wall_ms),
            run,
        })
    }
}

fn ago(moment: Option<i64>, wall_ms: i64) -> u64 {
    moment.map_or(0, |at| {
        u64::try_from(wall_ms.saturating_sub(at)).unwrap_or(0)
    })
}

/// A row that is to be written in place of a known one.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) before: Known,
    pub(crate) meta: WorkMeta,
}

impl Write {
    fn of(known: &Known, change: impl FnOnce(&mut WorkMeta)) -> Self {
        let mut meta = known.meta.clone();
        change(&mut meta);
        Self {
            before: known.clone(),
            meta,
        }
    }

    /// The row in whose place it is to be written.
    pub(crate) fn row(&self) -> (WorkKey, u64) {
        (self.before.key(), self.before.sequence)
    }
}

/// The copy.
#[derive(Debug, Default)]
pub(crate) struct WorkState {
    items: HashMap<WorkKey, Known>,
    waiting: BTreeMap<Channel, BTreeSet<(Order, WorkKey)>>,
    leased: BTreeSet<WorkKey>,
    /// When leases that last for some time run out, by this process's clock.
    ends: BTreeSet<(u64, WorkKey)>,
    sessions: BTreeMap<u64, BTreeSet<WorkKey>>,
    gone: Recent<WorkKey, Gone>,
    /// Items that a call of this process is about to hand out.
    taken: HashSet<WorkKey>,
    room: WorkRoom,
    clock: Clock,
}

/// An item that was removed.
#[derive(Clone, Copy, Debug)]
struct Gone {
    sequence: u64,
    offer: u64,
}

impl Rows for WorkState {
    fn clear(&mut self) {
        *self = Self::new(self.clock.clone());
    }

    fn note(&mut self, row: Row) -> Option<Bell> {
        // A row of a newer program is passed over.
        let meta: WorkMeta = row.meta().ok()?;
        let now = self.clock.now_ms();
        let known = Known::new(row.subject, row.sequence, meta, row.payload, now);
        let rings = !known.meta.gone && (known.meta.lease.is_none() || known.meta.stop);
        (self.note_known(known) && rings).then_some(Bell::Work)
    }

    fn there(&self) -> Vec<(String, u64)> {
        let rows = self.items.values();
        rows.map(|it| (it.subject.clone(), it.sequence)).collect()
    }

    fn forget(&mut self, subject: &str, sequence: u64) {
        let key = self.items.values().find(|it| it.subject == subject);
        if let Some(key) = key.map(Known::key) {
            self.note_removed(key, sequence, 0);
        }
    }
}

impl WorkState {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    /// Takes in a row; whether it is newer than what is known.
    pub(crate) fn note_known(&mut self, known: Known) -> bool {
        let (key, sequence) = (known.key(), known.sequence);
        let gone = self.gone.get(&key).map(|it| it.sequence);
        let there = self.items.get(&key).map(|it| it.sequence);
        if gone.max(there).is_some_and(|it| it >= sequence) {
            return false;
        }
        self.remove(key);
        if known.meta.gone {
            self.room.gone(known.bytes());
            let offer = known.meta.offer;
            self.gone.insert(key, Gone { sequence, offer });
            return true;
        }
        self.gone.remove(&key);
        match &known.meta.lease {
            Some(lease) => {
                self.leased.insert(key);
                if let Some(session) = lease.session {
                    self.sessions.entry(session).or_default().insert(key);
                }
                self.ends.extend(known.ends().map(|at| (at, key)));
            }
            None => {
                let channel = (known.meta.tenant.clone(), known.meta.action.clone());
                let order = (known.order(), key);
                self.waiting.entry(channel).or_default().insert(order);
            }
        }
        self.room.came(known.bytes());
        self.items.insert(key, known);
        true
    }

    /// The server does not have the row at `sequence` any more, and none that says so.
    pub(crate) fn note_removed(&mut self, key: WorkKey, sequence: u64, offer: u64) {
        if self
            .items
            .get(&key)
            .is_some_and(|it| it.sequence == sequence)
        {
            self.remove(key);
            self.gone.insert(key, Gone { sequence, offer });
        }
    }

    pub(crate) fn room(&mut self) -> &mut WorkRoom {
        &mut self.room
    }

    fn remove(&mut self, key: WorkKey) {
        let Some(known) = self.items.remove(&key) else {
            return;
        };
        self.room.left(known.bytes());
        self.leased.remove(&key);
        if let Some(at) = known.ends() {
            self.ends.remove(&(at, key));
        }
        if let Some(session) = known.meta.lease.as_ref().and_then(|it| it.session)
            && let Some(own) = self.sessions.get_mut(&session)
        {
            own.remove(&key);
            if own.is_empty() {
                self.sessions.remove(&session);
            }
        }
        let channel = (known.meta.tenant.clone(), known.meta.action.clone());
        if let Some(waiting) = self.waiting.get_mut(&channel) {
            waiting.remove(&(known.order(), key));
            if waiting.is_empty() {
                self.waiting.remove(&channel);
            }
        }
    }

    pub(crate) fn item(&self, key: WorkKey) -> Option<&Known> {
        self.items.get(&key)
    }

    /// Of an item that was removed not long ago: the offer that was made before that.
    pub(crate) fn gone(&self, key: WorkKey) -> Option<u64> {
        self.gone.get(&key).map(|it| it.offer)
    }

    /// The sequence of the row that says that an item is gone.
    pub(crate) fn gone_row(&self, key: WorkKey) -> Option<u64> {
        self.gone.get(&key).map(|it| it.sequence)
    }

    /// The sessions that have items.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.keys().copied().map(SessionId)
    }

    /// Whether a lease has run out by now.
    pub(crate) fn has_late(&self) -> bool {
        let now = self.clock.now_ms();
        self.ends.first().is_some_and(|(at, _)| *at <= now)
    }

    /// Items whose lease has run out, or belongs to a session that is over: they wait again; one
    /// whose attempt was asked to end is gone.
    pub(crate) fn lapsed(&self, is_live: impl Fn(SessionId) -> bool) -> Vec<Write> {
        let now = self.clock.now_ms();
        let late = self.ends.iter().take_while(|(at, _)| *at <= now);
        let over = self.sessions.iter().filter(|it| !is_live(SessionId(*it.0)));
        let keys = late.map(|it| it.1).chain(over.flat_map(|it| it.1).copied());
        let back = keys.filter_map(|key| self.items.get(&key)).map(|known| {
            Write::of(known, |meta| {
                let lease = meta.lease.take();
                meta.last = lease.map(|it| (it.worker, it.number));
                meta.gone = meta.stop;
            })
        });
        back.collect()
    }

    /// Items that a worker has and does not name: they were never delivered.
    pub(crate) fn unnamed(&self, pull: &Pull) -> Vec<Write> {
        let Some(holding) = &pull.holding else {
            return Vec::new();
        };
        let leased = self.leased.iter().filter(|key| !holding.contains(key));
        let leased = leased.filter_map(|key| self.items.get(key));
        let own = leased.filter(|known| {
            let lease = known.meta.lease.as_ref();
            pull.tenant.matches(known.meta.tenant.as_deref())
                && lease.is_some_and(|lease| lease.worker == pull.worker)
        });
        own.map(returned).collect()
    }

    /// The items that a pull gets, in order. They are taken until the caller says what came of it.
    pub(crate) fn pulled(&mut self, pull: &Pull, wall_ms: i64) -> Vec<Write> {
        let actions: BTreeSet<&Box<str>> = pull.actions.iter().collect();
        let mut fitting = Vec::new();
        for ((tenant, action), waiting) in &self.waiting {
            if !actions.contains(action) || !pull.tenant.matches(tenant.as_deref()) {
                continue;
            }
            let fits = waiting.iter().filter(|(_, key)| {
                if self.taken.contains(key) {
                    return false;
                }
                let known = self.items.get(key);
                known.is_some_and(|it| it.meta.requires.iter().all(|it| pull.labels.contains(it)))
            });
            fitting.extend(fits.take(pull.slots).copied());
        }
        fitting.sort_unstable();
        let mut writes: Vec<Write> = Vec::new();
        let mut bytes = 0;
        for (_, key) in fitting.into_iter().take(pull.slots) {
            let Some(known) = self.items.get(&key) else {
                continue;
            };
            if !writes.is_empty() && bytes + known.payload.len() > pull.max_bytes {
                break;
            }
            bytes += known.payload.len();
            writes.push(handed_out(known, &pull.worker, pull.term, wall_ms));
        }
        self.taken.extend(writes.iter().map(|it| it.before.key()));
        writes
    }

    /// Items that were to be handed out were, or were not.
    pub(crate) fn let_go(&mut self, keys: &[WorkKey]) {
        for key in keys {
            self.taken.remove(key);
        }
    }

    /// An item that waits, for a worker that works on it already.
    pub(crate) fn resumed(
        &self,
        (tenant, key): (Option<&str>, WorkKey),
        worker: &str,
        term: LeaseTerm,
        wall_ms: i64,
    ) -> Option<Write> {
        let known = self.items.get(&key)?;
        let waits = known.meta.lease.is_none() && known.meta.tenant.as_deref() == tenant;
        waits.then(|| handed_out(known, worker, term, wall_ms))
    }

    /// Whether a lease is the current one of an item of that tenant.
    pub(crate) fn answer(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> LeaseAnswer {
        let known = self.items.get(&key);
        match known.filter(|it| it.meta.tenant.as_deref() == tenant) {
            None => LeaseAnswer::Unknown,
            Some(known) if known.lease() == Some(lease) => LeaseAnswer::Held {
                stop: known.meta.stop,
            },
            Some(_) => LeaseAnswer::Lost,
        }
    }

    pub(crate) fn state(&self, key: WorkKey, wall_ms: i64) -> Option<ItemState> {
        let meta = &self.items.get(&key)?.meta;
        Some(match &meta.lease {
            None => ItemState::Waiting {
                last: meta
                    .last
                    .clone()
                    .map(|(worker, it)| (worker, WorkLease(it))),
            },
            Some(lease) => ItemState::Leased {
                worker: lease.worker.clone(),
                lease: WorkLease(lease.number),
                stop: meta.stop,
                begun_ms: ago(meta.begun, wall_ms),
            },
        })
    }

    pub(crate) fn depth(&self, limit: usize) -> Vec<QueueDepth> {
        let mut kinds: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for Known { meta, .. } in self.items.values().filter(|it| !it.meta.stop) {
            let kind = (&meta.tenant, &meta.action, &meta.requires);
            let (waiting, leased) = kinds.entry(kind).or_default();
            match meta.lease {
                None => *waiting += 1,
                Some(_) => *leased += 1,
            }
        }
        let kinds = kinds.into_iter().take(limit);
        let depth = kinds.map(
            |((tenant, action, requires), (waiting, leased))| QueueDepth {
                tenant: tenant.clone(),
                action: action.clone(),
                requires: requires.clone(),
                waiting,
                leased,
            },
        );
        depth.collect()
    }
}

fn handed_out(known: &Known, worker: &str, term: LeaseTerm, wall_ms: i64) -> Write {
    Write::of(known, |meta| {
        meta.lease = Some(Lease::new(worker, term));
        meta.deliveries += 1;
        meta.begun.get_or_insert(wall_ms);
    })
}

/// An item that its worker did not get waits again.
pub(crate) fn returned(known: &Known) -> Write {
    Write::of(known, |meta| {
        meta.lease = None;
        meta.gone = meta.stop;
        meta.deliveries = meta.deliveries.saturating_sub(1);
        if meta.deliveries == 0 {
            meta.begun = None;
        }
    })
}

/// The same row again: what its lease lasts begins anew.
pub(crate) fn renewed(known: &Known) -> Write {
    Write::of(known, |_| {})
}

/// The item is removed.
pub(crate) fn removed(known: &Known) -> Write {
    Write::of(known, |meta| meta.gone = true)
}

/// The same after the outcome was offered to the owner.
pub(crate) fn removed_after(known: &Known, offer: u64) -> Write {
    Write::of(known, |meta| {
        meta.gone = true;
        meta.offer = offer;
    })
}

/// The attempt is asked to end: an item that waits is removed.
pub(crate) fn stopped(known: &Known) -> Write {
    Write::of(known, |meta| match meta.lease {
        Some(_) => meta.stop = true,
        None => meta.gone = true,
    })
}
