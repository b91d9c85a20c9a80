//! Attempts that the driver has open for workers outside the process: who has each, until
//! when, and what ended those that ended lately. Knows neither store nor driver.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windlass_core::run::{Dispatch, Instance};
use windlass_core::value::Payload;
use windlass_core::{Millis, NodeStatus, RunId};
use windlass_store::{WorkKey, WorkLease};

use super::WorkError;
use super::pollers::InHand;
use super::report_kind::ReportKind;
use super::task_id::LeaseTerms;

/// How many ended attempts are remembered; of the others the log is asked.
const REMEMBERED: usize = 10_000;

/// How often a poll that names an attempt may prolong the time that it is held back.
const HOLDS: u32 = 2;

/// How a report ended: recorded, or refused.
pub(super) type Answer = Result<(), WorkError>;

/// A report that was recorded: whose, and under which lease.
#[derive(Clone, Debug)]
pub(crate) struct RecordedReport {
    pub(crate) key: WorkKey,
    pub(crate) lease: Box<str>,
    pub(crate) kind: ReportKind,
}

/// An attempt that is not open for workers any more: it is taken from the queue.
pub(crate) struct Closed {
    pub(crate) key: WorkKey,
    /// Whether a worker has it, or may have it, and must be asked to stop.
    pub(crate) handed: bool,
    /// Whether a note says which hand-out was the last.
    pub(crate) noted: bool,
    /// Whether the queue gave the item up with the outcome.
    pub(crate) is_settled: bool,
}

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// The attempt's time is over.
    Timeout,
    /// No worker has declared the action.
    Unknown,
    /// The lease may have run out.
    Lease,
}

const DEADLINES: usize = 3;

/// A worker that has an attempt, and what was rendered for it.
#[derive(Clone)]
pub(super) struct AssignedWorker {
    pub(super) lease: Box<str>,
    /// The lease in the work queue; none if the queue does not have the attempt.
    pub(super) number: Option<WorkLease>,
    pub(super) worker: Box<str>,
    /// The parameters as they are recorded, and the secrets that were rendered into them.
    pub(super) recorded: Option<Payload>,
    pub(super) secrets: Vec<String>,
}

/// When the first worker got an attempt, and when its time is over.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) at: Millis,
    pub(super) deadline: Instant,
}

pub(super) struct Open {
    pub(super) dispatch: Arc<Dispatch>,
    /// Which hand-out was the last, also by processes before this one.
    pub(super) generation: u32,
    /// Whether the note of that was read, where there may be one.
    pub(super) is_read: bool,
    /// Whether the work queue has it. One that a process before may have handed out waits
    /// first for the worker that may have it.
    pub(super) queued: bool,
    /// The worker that had it last, if a note says so.
    pub(super) last_worker: Option<Box<str>>,
    /// How many looks at the queue in a row have found it waiting there.
    waiting_looks: u32,
    /// Until when it may be held back for that worker.
    pub(super) held_until: Option<Instant>,
    /// The worker is asked to end the attempt.
    pub(super) stop: bool,
    /// The queue gave the item up with the outcome that is being recorded.
    pub(super) is_settled: bool,
    /// The task that offers it to workers has done so: before that the queue may not have it yet.
    pub(super) is_offered: bool,
    /// It was put into the queue again, maybe after the outcome took the item before from there.
    pub(super) pushed_again: bool,
    pub(super) begun: Option<Begun>,
    pub(super) assigned: Option<AssignedWorker>,
    /// Until when the worker's lease is good, or it is held back, as far as is known here.
    pub(super) leased_until: Option<Instant>,
    /// A report that is being recorded, and where its answer will be.
    recording: Option<(Box<str>, ReportKind, watch::Receiver<Option<Answer>>)>,
    /// The lease of the report that was recorded, and what it said.
    recorded: Option<(Box<str>, ReportKind)>,
    timers: [Option<TimerKey>; DEADLINES],
}

impl Open {
    fn new(dispatch: Arc<Dispatch>, generation: Option<u32>, may_hold: bool) -> Self {
        // One that no process had open before was not handed out.
        let is_read = generation.is_some() || !dispatch.reopened || !may_hold;
        Self {
            is_offered: dispatch.reopened,
            pushed_again: false,
            dispatch,
            generation: generation.unwrap_or(0),
            is_read,
            queued: is_read,
            last_worker: None,
            waiting_looks: 0,
            held_until: None,
            stop: false,
            is_settled: false,
            begun: None,
            assigned: None,
            leased_until: None,
            recording: None,
            recorded: None,
            timers: [None; DEADLINES],
        }
    }

    pub(super) fn key(&self) -> WorkKey {
        key_of(&self.dispatch)
    }

    /// Whether a worker has it, or may have it from a process before this one.
    pub(super) fn may_be_handed(&self) -> bool {
        self.assigned.is_some() || !self.queued
    }
}

/// What ended an attempt.
#[derive(Clone, Default)]
pub(super) struct EndedBy {
    /// The lease of the report that was recorded, if a worker's was, and what it said.
    pub(super) recorded: Option<(Box<str>, ReportKind)>,
    /// The last lease that was given.
    pub(super) last: Option<Box<str>>,
}

type TimerKey = (Instant, u64);

#[derive(Default)]
pub(super) struct Table {
    pub(super) open: BTreeMap<(RunId, Instance), Open>,
    timers: BTreeMap<TimerKey, ((RunId, Instance), Deadline)>,
    next_timer: u64,
    /// Runs with attempts that no worker has had, and how many.
    waiting: BTreeMap<RunId, usize>,
    ended: HashMap<WorkKey, EndedBy>,
    order: VecDeque<WorkKey>,
    /// Attempts that the work queue does not have: they are held back, or their worker came
    /// back by itself.
    pub(super) unqueued: BTreeSet<(RunId, Instance)>,
    /// Attempts that were handed out and are not here any more, though they have not ended:
    /// which hand-out was the last.
    left: HashMap<WorkKey, u32>,
}

/// Attempts that are open for workers outside the process.
#[derive(Default)]
pub(crate) struct OpenAttempts {
    table: Mutex<Table>,
    /// How many there are, so that the driver need not lock where there is none.
    count: AtomicUsize,
    /// How many runs wait for a worker.
    waiting_runs: AtomicUsize,
    /// Rings when a deadline is earlier than the one that is waited for.
    pub(super) earlier: Notify,
}

/// What a worker that reports an attempt's end may do.
pub(super) enum Take {
    /// Record it.
    Yours(Box<Taken>, watch::Sender<Option<Answer>>),
    /// A report of the same lease is being recorded, which says this: wait for its answer.
    Wait(ReportKind, watch::Receiver<Option<Answer>>),
    Refused(WorkError),
    /// It is not open here.
    Absent,
}

/// What is known of an attempt whose end is reported.
pub(super) struct Taken {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) assigned: Option<AssignedWorker>,
    /// When the first worker got it.
    pub(super) since: Option<Millis>,
    pub(super) stop: bool,
}

/// Where an open attempt is.
pub(super) struct Place {
    pub(super) worker: Option<Box<str>>,
    /// When the first worker got it.
    pub(super) since: Option<Millis>,
    /// Until when the lease is good, or it is held back.
    pub(super) until: Option<Millis>,
    pub(super) queued: bool,
    pub(super) stop: bool,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn key_of(dispatch: &Dispatch) -> WorkKey {
    WorkKey {
        run: dispatch.run,
        instance: dispatch.node,
        attempt: dispatch.attempt,
    }
}

impl OpenAttempts {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counted(&self, table: &Table) {
        self.count.store(table.open.len(), Ordering::Release);
        self.waiting_runs
            .store(table.waiting.len(), Ordering::Release);
    }

    /// How many runs have attempts that no worker has had.
    pub(crate) fn waiting_runs(&self) -> usize {
        self.waiting_runs.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// An attempt is open for workers from now on. One that a process before this one may have
    /// handed out is held back for `hold`; where the queue outlives processes, nothing is.
    pub(crate) fn insert(&self, dispatch: Arc<Dispatch>, hold: Option<Duration>) {
        let mut table = self.table();
        let (place, key) = ((dispatch.run, dispatch.node), key_of(&dispatch));
        let before = table.open.remove(&place);
        table.forget_timers(before.as_ref());
        let same = before.as_ref().filter(|before| before.key() == key);
        let known = same.filter(|before| before.is_read).map(|it| it.generation);
        let known = known.or_else(|| table.left.remove(&key));
        let mut open = Open::new(dispatch, known, hold.is_some());
        let held = !open.queued;
        let hold = hold.unwrap_or_default();
        let until = Instant::now() + hold;
        if held {
            open.leased_until = Some(until);
            open.held_until = Some(until + hold * HOLDS);
        }
        table.open.insert(place, open);
        match held {
            true => table.unqueued.insert(place),
            false => table.unqueued.remove(&place),
        };
        if held && table.set(key, Deadline::Lease, Some(until)) {
            self.earlier.notify_one();
        }
        if before.is_none_or(|before| before.assigned.is_some()) {
            *table.waiting.entry(place.0).or_default() += 1;
        }
        self.counted(&table);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Which there are that the queue should have. One that is being offered for the first time
    /// may come there, and go again with its outcome, while the answers of the queue are read.
    pub(super) fn offered_keys(&self) -> Vec<WorkKey> {
        let table = self.table();
        let offered = table.open.values().filter(|open| open.is_offered);
        offered.map(Open::key).collect()
    }

    /// An attempt was offered to workers.
    pub(crate) fn offered(&self, key: WorkKey) {
        self.with(key, |open| open.is_offered = true);
    }

    /// An attempt is about to be put into the queue again; false if it is over, or its outcome is
    /// being recorded.
    pub(super) fn push_again(&self, key: WorkKey) -> bool {
        let may_push = self.with(key, |open| {
            open.pushed_again |= !open.is_settled;
            !open.is_settled
        });
        may_push == Some(true)
    }

    /// Whether an item that was just put into the queue has to leave it.
    pub(super) fn is_over(&self, key: WorkKey) -> bool {
        let left = self.with(key, |open| open.pushed_again && open.is_settled);
        left.unwrap_or(true)
    }

    /// The queue says that a worker has an attempt, which began so many milliseconds before
    /// now. Whether that is news.
    pub(super) fn seen_with(
        &self,
        key: WorkKey,
        (worker, number): (&str, WorkLease),
        (begun_ms, now): (u64, Millis),
        lease: Duration,
    ) -> bool {
        let mut table = self.table();
        let Some(open) = table.at(key) else {
            return false;
        };
        let at = Instant::now();
        open.leased_until = Some(at + lease);
        open.waiting_looks = 0;
        let before = open.assigned.as_ref().and_then(|assigned| assigned.number);
        if before == Some(number) {
            return false;
        }
        let assigned = AssignedWorker {
            lease: Box::default(),
            number: Some(number),
            worker: worker.into(),
            recorded: None,
            secrets: Vec::new(),
        };
        let waited = open.assigned.replace(assigned).is_none();
        let remains = open.dispatch.timeout_ms.saturating_sub(begun_ms);
        let begun = *open.begun.get_or_insert(Begun {
            at: Millis(now.0 - i64::try_from(begun_ms).unwrap_or(0)),
            deadline: at + Duration::from_millis(remains),
        });
        table.set(key, Deadline::Unknown, None);
        if table.set(key, Deadline::Timeout, Some(begun.deadline)) {
            self.earlier.notify_one();
        }
        if waited {
            table.waits_no_more(key.run);
            self.counted(&table);
        }
        true
    }

    /// The queue says that an attempt waits for a worker; whether workers are to be told: one
    /// had it, or it waits longer and longer.
    pub(super) fn seen_waiting(&self, key: WorkKey) -> bool {
        let mut table = self.table();
        let Some(open) = table.at(key) else {
            return false;
        };
        open.waiting_looks = open.waiting_looks.saturating_add(1);
        let tells = open.waiting_looks.is_power_of_two();
        let had = open.assigned.take().is_some();
        if had {
            *table.waiting.entry(key.run).or_default() += 1;
            self.counted(&table);
        }
        had || tells
    }

    /// What is known of an open attempt.
    pub(super) fn with<T>(&self, key: WorkKey, look: impl FnOnce(&mut Open) -> T) -> Option<T> {
        self.table().at(key).map(look)
    }

    /// When the first worker got an attempt.
    pub(crate) fn since(&self, key: WorkKey) -> Option<Millis> {
        self.with(key, |open| open.begun.map(|begun| begun.at))?
    }

    /// The attempts of a run that workers have, and since when.
    pub(crate) fn begun(&self, run: RunId) -> Vec<(Instance, (u32, Millis))> {
        let table = self.table();
        let all = (run, Instance::MIN)..=(run, Instance::MAX);
        let begun = table.open.range(all).filter_map(|(_, open)| {
            let begun = open.begun.as_ref().filter(|_| open.assigned.is_some())?;
            Some((open.dispatch.node, (open.dispatch.attempt, begun.at)))
        });
        begun.collect()
    }

    /// Attempts that have ended, durably, by what their nodes are now.
    pub(crate) fn ended(&self, run: RunId, nodes: &[(Instance, NodeStatus)]) -> Vec<Closed> {
        let over = |status: NodeStatus| status == NodeStatus::Waiting || status.is_final();
        let mut table = self.table();
        let nodes = nodes.iter().filter(|(_, status)| over(*status));
        let closed = nodes.filter_map(|(node, _)| table.close((run, *node), true));
        let closed = closed.collect();
        self.counted(&table);
        closed
    }

    /// The attempt is not open any more, whatever became of it.
    pub(crate) fn remove(&self, key: WorkKey) -> Option<Closed> {
        let mut table = self.table();
        table.at(key)?;
        let closed = table.close((key.run, key.instance), true);
        self.counted(&table);
        closed
    }

    /// The run is not here any more.
    pub(crate) fn remove_run(&self, run: RunId) -> Vec<Closed> {
        let mut table = self.table();
        let all = (run, Instance::MIN)..=(run, Instance::MAX);
        let places: Vec<_> = table.open.range(all).map(|(place, _)| *place).collect();
        let closed = places
            .into_iter()
            .filter_map(|place| table.close(place, false));
        let closed = closed.collect();
        self.counted(&table);
        closed
    }

    /// The attempt is to end. An attempt that no worker has ends here.
    pub(crate) fn stop(&self, key: WorkKey) -> Option<Closed> {
        let mut table = self.table();
        let open = table.at(key)?;
        open.stop = true;
        let handed = open.may_be_handed();
        if !handed {
            let closed = table.close((key.run, key.instance), true);
            self.counted(&table);
            return closed;
        }
        Some(Closed {
            key,
            handed,
            noted: false,
            is_settled: false,
        })
    }

    /// Gives an attempt to a worker; what remains of its time, or nothing if it is not to be
    /// given out any more.
    pub(super) fn assign(
        &self,
        key: WorkKey,
        assigned: AssignedWorker,
        now: Millis,
        lease: Duration,
    ) -> Option<(Begun, Duration)> {
        let mut table = self.table();
        let open = table.at(key)?;
        if open.stop || open.recording.is_some() {
            return None;
        }
        let at = Instant::now();
        let time = Duration::from_millis(open.dispatch.timeout_ms);
        let begun = open.begun.unwrap_or_else(|| Begun {
            at: now,
            deadline: at + time,
        });
        let remains = begun.deadline.saturating_duration_since(at);
        if remains.is_zero() {
            return None;
        }
        let waited = open.assigned.replace(assigned).is_none();
        open.begun = Some(begun);
        open.leased_until = Some(at + lease);
        table.set(key, Deadline::Unknown, None);
        let timeout = table.set(key, Deadline::Timeout, Some(begun.deadline));
        if table.set(key, Deadline::Lease, Some(at + lease)) || timeout {
            self.earlier.notify_one();
        }
        if waited {
            table.waits_no_more(key.run);
            self.counted(&table);
        }
        Some((begun, remains))
    }

    /// The worker's lease was renewed.
    pub(super) fn renewed(&self, key: WorkKey, lease: Duration) {
        // The deadline stays where it is: when it comes, this is looked at.
        self.with(key, |open| open.leased_until = Some(Instant::now() + lease));
    }

    /// Waits until then for a worker that declares the action.
    pub(super) fn unknown_until(&self, key: WorkKey, at: Instant) {
        if self.table().set(key, Deadline::Unknown, Some(at)) {
            self.earlier.notify_one();
        }
    }

    /// A worker reports the end of an attempt under a lease, of which `terms` are what the
    /// server gave; none if it gave no such lease.
    pub(super) fn take(
        &self,
        key: WorkKey,
        tenant: Option<&str>,
        (lease, kind): (&str, ReportKind),
        terms: Option<&LeaseTerms>,
    ) -> Take {
        let mut table = self.table();
        let Some(open) = table.at(key) else {
            return Take::Absent;
        };
        if open.dispatch.tenant.as_deref() != tenant {
            return Take::Refused(WorkError::TaskNotFound);
        }
        let Some(terms) = terms else {
            return Take::Refused(WorkError::LeaseUnknown);
        };
        let current = open.assigned.as_ref().map(|assigned| &*assigned.lease);
        let is_last = match current {
            Some(current) => current == lease,
            None => terms.generation >= open.generation,
        };
        if !is_last {
            return Take::Refused(WorkError::LeaseLost);
        }
        if let Some((by, kind, answer)) = &open.recording {
            return match **by == *lease {
                true => Take::Wait(*kind, answer.clone()),
                false => Take::Refused(WorkError::LeaseLost),
            };
        }
        let (tell, answer) = watch::channel(None);
        open.recording = Some((lease.into(), kind, answer));
        let taken = Taken {
            dispatch: Arc::clone(&open.dispatch),
            assigned: open.assigned.clone(),
            since: open.begun.map(|begun| begun.at).or(terms.since),
            stop: open.stop,
        };
        Take::Yours(Box::new(taken), tell)
    }

    /// A report was recorded, durably.
    pub(crate) fn recorded(&self, report: &RecordedReport) {
        let recorded = (report.lease.clone(), report.kind);
        self.with(report.key, |open| open.recorded = Some(recorded));
    }

    /// A report was not recorded: another may be.
    pub(super) fn not_recorded(&self, key: WorkKey) {
        self.with(key, |open| open.recording = None);
    }

    /// What ended an attempt, if that was lately.
    pub(super) fn ended_by(&self, key: WorkKey) -> Option<EndedBy> {
        self.table().ended.get(&key).cloned()
    }

    /// Waits until a deadline is earlier than all others were.
    pub(super) async fn changed(&self) {
        self.earlier.notified().await;
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.table().timers.keys().next().map(|(at, _)| *at)
    }

    /// Takes one deadline that has passed. A lease that was renewed gets another.
    pub(super) fn due(&self, now: Instant) -> Option<(WorkKey, Deadline)> {
        let mut table = self.table();
        while let Some(entry) = table.timers.first_entry().filter(|it| it.key().0 <= now) {
            let (place, deadline) = entry.remove();
            let Some(open) = table.open.get_mut(&place) else {
                continue;
            };
            open.timers[deadline as usize] = None;
            let (key, until) = (open.key(), open.leased_until);
            match until {
                Some(until) if deadline == Deadline::Lease && until > now => {
                    table.set(key, deadline, Some(until));
                }
                _ => return Some((key, deadline)),
            }
        }
        None
    }

    /// Where an instance's attempt is, if it is open.
    pub(super) fn at(&self, run: RunId, node: Instance, now: Millis) -> Option<Place> {
        let table = self.table();
        let open = table.open.get(&(run, node))?;
        let at = Instant::now();
        let until = open
            .leased_until
            .map(|until| match until.checked_duration_since(at) {
                Some(left) => now.plus(millis(left)),
                None => Millis(now.0 - i64::try_from(millis(at - until)).unwrap_or(0)),
            });
        Some(Place {
            worker: open
                .assigned
                .as_ref()
                .map(|assigned| assigned.worker.clone()),
            since: open.begun.map(|begun| begun.at),
            until,
            queued: open.queued,
            stop: open.stop,
        })
    }

    /// What each worker has, by tenant and name.
    pub(super) fn tasks_by_worker(&self) -> BTreeMap<(Option<Box<str>>, Box<str>), InHand> {
        let mut tasks_by_worker: BTreeMap<_, InHand> = BTreeMap::new();
        for open in self.table().open.values() {
            if let Some(assigned) = &open.assigned {
                let worker = (open.dispatch.tenant.clone(), assigned.worker.clone());
                let has = tasks_by_worker.entry(worker).or_default();
                has.tasks += 1;
                has.actions.insert(Box::from(&*open.dispatch.action));
                let since = open.begun.map(|begun| begun.at);
                has.since = has.since.into_iter().chain(since).min();
            }
        }
        tasks_by_worker
    }
}

impl Table {
    pub(super) fn at(&mut self, key: WorkKey) -> Option<&mut Open> {
        let open = self.open.get_mut(&(key.run, key.instance));
        open.filter(|open| open.dispatch.attempt == key.attempt)
    }

    /// Removes an attempt; what ended it is remembered, if it has ended.
    fn close(&mut self, place: (RunId, Instance), has_ended: bool) -> Option<Closed> {
        let open = self.open.remove(&place)?;
        self.unqueued.remove(&place);
        self.forget_timers(Some(&open));
        let key = open.key();
        let handed = open.may_be_handed();
        if open.assigned.is_none() {
            self.waits_no_more(key.run);
        }
        let noted = open.generation > 1 || !open.is_read;
        let is_settled = open.is_settled && !open.pushed_again;
        if !has_ended && open.is_read && open.generation > 0 && self.left.len() < REMEMBERED {
            self.left.insert(key, open.generation);
        }
        let ended = EndedBy {
            recorded: open.recorded,
            last: open.assigned.map(|assigned| assigned.lease),
        };
        if has_ended && (ended.last.is_some() || ended.recorded.is_some()) {
            if self.ended.insert(key, ended).is_none() {
                self.order.push_back(key);
            }
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.ended.remove(&oldest);
            }
        }
        Some(Closed {
            key,
            handed,
            noted,
            is_settled,
        })
    }

    /// Sets a deadline, or none; whether it is the next one now.
    pub(super) fn set(&mut self, key: WorkKey, deadline: Deadline, at: Option<Instant>) -> bool {
        let place = (key.run, key.instance);
        self.next_timer += 1;
        let timer = at.map(|at| (at, self.next_timer));
        let Some(open) = self.at(key) else {
            return false;
        };
        let before = std::mem::replace(&mut open.timers[deadline as usize], timer);
        if let Some(before) = before {
            self.timers.remove(&before);
        }
        if let Some(timer) = timer {
            self.timers.insert(timer, (place, deadline));
        }
        timer.is_some() && self.timers.keys().next() == timer.as_ref()
    }

    pub(super) fn waits_no_more(&mut self, run: RunId) {
        if let Some(count) = self.waiting.get_mut(&run) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&run);
            }
        }
    }

    fn forget_timers(&mut self, open: Option<&Open>) {
        for timer in open.into_iter().flat_map(|open| open.timers).flatten() {
            self.timers.remove(&timer);
        }
    }
}
