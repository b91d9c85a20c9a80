//! Workers that ask for work: those that wait now, and those that asked lately. An item wakes
//! one waiting worker that can do it, not all of them, so that idle workers cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_core::Millis;
use windlass_core::run::Dispatch;

use crate::turns::Tenant;

/// How many workers may wait at once, of all tenants together: each holds a connection.
pub const POLLER_LIMIT: usize = 10_000;

/// How long after its last poll a worker without tasks is listed.
pub(super) const LISTED_MS: i64 = 60_000;

/// How many workers are remembered; those that asked longest ago are forgotten first.
const REMEMBERED: usize = 20_000;

/// A worker, as the list shows it.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// The tenant that the worker belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// Its name, unique per process.
    pub worker: Box<str>,
    /// The action types that it asks for; of one that has not asked this process, those of its
    /// tasks.
    pub actions: Arc<[Box<str>]>,
    /// The labels that it has.
    pub labels: Arc<[Box<str>]>,
    /// When it asked first, or got its first task.
    pub since: Millis,
    /// When it asked this process last, if it did.
    pub last_poll: Option<Millis>,
    /// Whether it waits for work now.
    pub waiting: bool,
    /// How many tasks it has.
    pub tasks: usize,
}

/// What a worker has.
#[derive(Debug, Default)]
pub(super) struct InHand {
    pub(super) tasks: usize,
    pub(super) actions: BTreeSet<Box<str>>,
    /// When it got the first of them.
    pub(super) since: Option<Millis>,
}

/// What a worker asks for, while it waits.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) tenant: Tenant,
    pub(super) worker: Box<str>,
    pub(super) actions: Arc<[Box<str>]>,
    pub(super) labels: Arc<[Box<str>]>,
}

#[derive(Default)]
pub(super) struct Pollers {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    waiting: BTreeMap<u64, Waiter>,
    /// The waiting workers by tenant, then action, first come first served.
    by_action: BTreeMap<Tenant, BTreeMap<Box<str>, BTreeSet<u64>>>,
    workers: BTreeMap<(Tenant, Box<str>), KnownWorker>,
    next: u64,
}

struct Waiter {
    asking: Asking,
    bell: Arc<Notify>,
    /// What came for it, while it has not looked yet.
    woken: Option<Wanted>,
    /// What it was woken for, while it looks.
    looking: Option<Wanted>,
}

/// What a worker is woken for. If that worker does not take it, another one is woken.
struct Wanted {
    action: Box<str>,
    requires: Box<[Box<str>]>,
}

/// The action of an attempt, and what it requires.
type Kind<'a> = (&'a str, &'a [Box<str>]);

impl Wanted {
    fn is(&self, (action, requires): Kind<'_>) -> bool {
        *self.action == *action && *self.requires == *requires
    }
}

struct KnownWorker {
    actions: Arc<[Box<str>]>,
    labels: Arc<[Box<str>]>,
    since: Millis,
    last_poll: Millis,
    waiting: usize,
}

/// A worker that waits, until it is dropped.
pub(super) struct Waiting<'a> {
    of: &'a Pollers,
    id: u64,
    bell: Arc<Notify>,
}

impl Pollers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker waits from now on; `None` if too many do.
    pub(super) fn wait(&self, asking: Asking, now: Millis) -> Option<Waiting<'_>> {
        let mut table = self.table();
        if table.waiting.len() >= POLLER_LIMIT {
            return None;
        }
        table.note(&asking, now);
        table.next += 1;
        let (id, bell) = (table.next, Arc::new(Notify::new()));
        let of_tenant = table.by_action.entry(asking.tenant.clone()).or_default();
        for action in asking.actions.iter() {
            of_tenant.entry(action.clone()).or_default().insert(id);
        }
        let waiter = Waiter {
            asking,
            bell: Arc::clone(&bell),
            woken: None,
            looking: None,
        };
        table.waiting.insert(id, waiter);
        Some(Waiting { of: self, id, bell })
    }

    /// Wakes one worker that can do an attempt, the one that waits longest.
    pub(super) fn wake_for(&self, dispatch: &Dispatch) {
        let (tenant, action) = (&dispatch.tenant, &*dispatch.action);
        self.table().wake(tenant, action, &dispatch.requires);
    }

    /// Whether a worker waits.
    pub(super) fn any_waits(&self) -> bool {
        !self.table().waiting.is_empty()
    }

    /// Wakes as many workers that can do this as there is work, those that wait longest.
    pub(super) fn wake_some(
        &self,
        tenant: &Tenant,
        action: &str,
        requires: &[Box<str>],
        count: u64,
    ) {
        let mut table = self.table();
        let waiting = u64::try_from(table.waiting.len()).unwrap_or(u64::MAX);
        (0..count.min(waiting)).for_each(|_| table.wake(tenant, action, requires));
    }

    /// What workers of all tenants ask for that wait, or asked lately.
    pub(super) fn lately(&self, now: Millis) -> Vec<Asking> {
        let table = self.table();
        let is_there = |it: &KnownWorker| it.waiting > 0 || now.0 - it.last_poll.0 < LISTED_MS;
        let workers = table.workers.iter().filter(|(_, known)| is_there(known));
        let asking = workers.map(|((tenant, worker), known)| Asking {
            tenant: tenant.clone(),
            worker: worker.clone(),
            actions: Arc::clone(&known.actions),
            labels: Arc::clone(&known.labels),
        });
        asking.collect()
    }

    /// Workers that wait, asked lately or have tasks, of one tenant; by name.
    pub(super) fn list(
        &self,
        tenant: Option<&str>,
        tasks_by_worker: &BTreeMap<(Tenant, Box<str>), InHand>,
        now: Millis,
    ) -> Vec<WorkerInfo> {
        let table = self.table();
        let first = (tenant.map(Into::into), Box::from(""));
        let own = table.workers.range(first.clone()..);
        let own = own.take_while(|((of, _), _)| *of == first.0);
        let workers = own.map(|((tenant, worker), known)| WorkerInfo {
            tenant: tenant.clone(),
            worker: worker.clone(),
            actions: Arc::clone(&known.actions),
            labels: Arc::clone(&known.labels),
            since: known.since,
            last_poll: Some(known.last_poll),
            waiting: known.waiting > 0,
            tasks: tasks_by_worker
                .get(&(tenant.clone(), worker.clone()))
                .map_or(0, |assigned| assigned.tasks),
        });
        let is_recent = |at: Option<Millis>| at.is_some_and(|at| now.0 - at.0 < LISTED_MS);
        let is_there = |it: &WorkerInfo| it.waiting || it.tasks > 0 || is_recent(it.last_poll);
        let mut all: Vec<_> = workers.filter(is_there).collect();
        // Workers that came back with a task after a restart, and have not asked for more.
        let own = tasks_by_worker.range(first.clone()..);
        let own = own.take_while(|((of, _), _)| *of == first.0);
        for (key, assigned) in own.filter(|(key, _)| !table.workers.contains_key(*key)) {
            all.push(WorkerInfo {
                tenant: key.0.clone(),
                worker: key.1.clone(),
                actions: assigned.actions.iter().cloned().collect(),
                labels: Arc::default(),
                since: assigned.since.unwrap_or(now),
                last_poll: None,
                waiting: false,
                tasks: assigned.tasks,
            });
        }
        all.sort_by(|a, b| a.worker.cmp(&b.worker));
        all
    }
}

impl Table {
    fn note(&mut self, asking: &Asking, now: Millis) {
        let key = (asking.tenant.clone(), asking.worker.clone());
        if self.workers.len() >= REMEMBERED && !self.workers.contains_key(&key) {
            self.workers
                .retain(|_, known| known.waiting > 0 || now.0 - known.last_poll.0 < LISTED_MS);
        }
        let known = self.workers.entry(key).or_insert_with(|| KnownWorker {
            actions: Arc::clone(&asking.actions),
            labels: Arc::clone(&asking.labels),
            since: now,
            last_poll: now,
            waiting: 0,
        });
        if now.0 - known.last_poll.0 >= LISTED_MS && known.waiting == 0 {
            known.since = now;
        }
        known.actions = Arc::clone(&asking.actions);
        known.labels = Arc::clone(&asking.labels);
        known.last_poll = now;
        known.waiting += 1;
    }

    fn wake(&mut self, tenant: &Tenant, action: &str, requires: &[Box<str>]) {
        let of_tenant = self.by_action.get(tenant);
        let waiting = of_tenant.and_then(|actions| actions.get(action));
        for id in waiting.into_iter().flatten() {
            let Some(waiter) = self.waiting.get_mut(id) else {
                continue;
            };
            let labels = &waiter.asking.labels;
            if waiter.woken.is_none() && requires.iter().all(|it| labels.contains(it)) {
                waiter.woken = Some(Wanted {
                    action: action.into(),
                    requires: requires.into(),
                });
                waiter.bell.notify_one();
                return;
            }
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(waiter) = self.waiting.remove(&id) else {
            return;
        };
        let Asking {
            tenant,
            worker,
            actions,
            ..
        } = &waiter.asking;
        if let Some(of_tenant) = self.by_action.get_mut(tenant) {
            for action in actions.iter() {
                if let Some(ids) = of_tenant.get_mut(action) {
                    ids.remove(&id);
                    if ids.is_empty() {
                        of_tenant.remove(action);
                    }
                }
            }
            if of_tenant.is_empty() {
                self.by_action.remove(tenant);
            }
        }
        if let Some(known) = self.workers.get_mut(&(tenant.clone(), worker.clone())) {
            known.waiting = known.waiting.saturating_sub(1);
        }
        for wanted in waiter.woken.iter().chain(&waiter.looking) {
            self.wake(tenant, &wanted.action, &wanted.requires);
        }
    }

    /// A worker has looked and took these: if it was woken for something else, another worker is
    /// woken for that.
    fn looked<'a>(&mut self, id: u64, taken: impl Iterator<Item = Kind<'a>>) {
        let waiter = self.waiting.get_mut(&id);
        let Some((wanted, waiter)) = waiter.and_then(|it| Some((it.looking.take()?, it))) else {
            return;
        };
        let tenant = waiter.asking.tenant.clone();
        let mut taken = taken.peekable();
        // If it took none, there was none: another worker has it, or it is over.
        let took_some = taken.peek().is_some();
        if took_some && !taken.any(|kind| wanted.is(kind)) {
            self.wake(&tenant, &wanted.action, &wanted.requires);
        }
    }
}

impl Waiting<'_> {
    /// Waits until something may have come.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// It looks now: what comes from here on wakes it again.
    pub(super) fn looks(&self) {
        if let Some(waiter) = self.of.table().waiting.get_mut(&self.id) {
            waiter.looking = waiter.woken.take();
        }
    }

    /// It has looked, and takes these.
    pub(super) fn looked<'a>(&self, taken: impl Iterator<Item = &'a Dispatch>) {
        let kinds = taken.map(|it| (&*it.action, &*it.requires));
        self.of.table().looked(self.id, kinds);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of.table().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(worker: &str, actions: &[&str], labels: &[&str]) -> Asking {
        let all = |texts: &[&str]| texts.iter().map(|text| Box::from(*text)).collect();
        Asking {
            tenant: None,
            worker: worker.into(),
            actions: all(actions),
            labels: all(labels),
        }
    }

    fn is_woken(waiting: &Waiting<'_>) -> bool {
        waiting.of.table().waiting[&waiting.id].woken.is_some()
    }

    fn wake(pollers: &Pollers, action: &str, requires: &[&str]) {
        let requires: Vec<Box<str>> = requires.iter().map(|text| Box::from(*text)).collect();
        pollers.table().wake(&None, action, &requires);
    }

    #[test]
    fn an_item_wakes_the_first_worker_that_can_do_it_and_no_other() {
        let pollers = Pollers::default();
        let wait = |asking| pollers.wait(asking, Millis(0)).expect("room");
        let (other, first) = (
            wait(asking("o", &["b"], &[])),
            wait(asking("1", &["a"], &[])),
        );
        let (second, able) = (
            wait(asking("2", &["a", "b"], &[])),
            wait(asking("3", &["a"], &["gpu"])),
        );
        wake(&pollers, "a", &[]);
        assert!(is_woken(&first) && !is_woken(&second) && !is_woken(&other));
        wake(&pollers, "a", &["gpu"]);
        assert!(is_woken(&able) && !is_woken(&second));
        wake(&pollers, "a", &[]);
        assert!(is_woken(&second), "each item wakes another one");
        wake(&pollers, "c", &[]);
        assert!(!is_woken(&other));
    }

    #[test]
    fn a_worker_that_goes_away_passes_on_what_it_was_woken_for() {
        let pollers = Pollers::default();
        let first = pollers
            .wait(asking("1", &["a"], &[]), Millis(0))
            .expect("room");
        let second = pollers
            .wait(asking("2", &["a"], &[]), Millis(0))
            .expect("room");
        wake(&pollers, "a", &[]);
        drop(first);
        assert!(is_woken(&second));
        second.looks();
        assert!(!is_woken(&second));
        drop(second);
        let table = pollers.table();
        assert!(table.waiting.is_empty() && table.by_action.is_empty());
    }

    #[test]
    fn what_a_worker_with_more_labels_was_woken_for_goes_to_one_with_enough() {
        let pollers = Pollers::default();
        let wait = |asking| pollers.wait(asking, Millis(0)).expect("room");
        let both = wait(asking("1", &["a"], &["gpu", "eu"]));
        let (unable, able) = (
            wait(asking("2", &["a"], &[])),
            wait(asking("3", &["a"], &["gpu"])),
        );
        wake(&pollers, "a", &["gpu"]);
        assert!(is_woken(&both));
        // It looks, and goes away before it has looked.
        both.looks();
        drop(both);
        assert!(is_woken(&able) && !is_woken(&unable));
    }

    #[test]
    fn a_worker_that_takes_other_work_passes_on_what_it_was_woken_for() {
        let pollers = Pollers::default();
        let wait = |asking| pollers.wait(asking, Millis(0)).expect("room");
        let looked = |waiting: &Waiting<'_>, taken: &[&str]| {
            let none: &[Box<str>] = &[];
            let kinds = taken.iter().map(|action| (*action, none));
            waiting.of.table().looked(waiting.id, kinds);
        };
        let (either, second) = (
            wait(asking("1", &["a", "b"], &[])),
            wait(asking("2", &["a"], &[])),
        );
        for (taken, passes_on) in [(&["b"][..], true), (&["b", "a"], false), (&[], false)] {
            wake(&pollers, "a", &[]);
            assert!(is_woken(&either) && !is_woken(&second), "{taken:?}");
            either.looks();
            looked(&either, taken);
            // It is the one that waits longest until it goes with what it took.
            assert_eq!(is_woken(&either), passes_on, "{taken:?}");
            either.looks();
            looked(&either, &["a"]);
        }
        wake(&pollers, "a", &[]);
        either.looks();
        looked(&either, &["b"]);
        drop(either);
        assert!(is_woken(&second));
    }

    #[test]
    fn so_many_workers_wait_and_no_more() {
        let pollers = Pollers::default();
        let wait = || pollers.wait(asking("w", &["a"], &[]), Millis(0));
        let mut waiting: Vec<_> = (0..POLLER_LIMIT).filter_map(|_| wait()).collect();
        assert_eq!(waiting.len(), POLLER_LIMIT);
        assert!(wait().is_none());
        waiting.pop();
        assert!(wait().is_some(), "there is room for one again");
        drop(waiting);
        let table = pollers.table();
        assert!(table.waiting.is_empty() && table.by_action.is_empty());
    }

    #[test]
    fn a_worker_is_listed_while_it_waits_works_or_asked_lately() {
        let pollers = Pollers::default();
        let waiting = pollers
            .wait(asking("w", &["a"], &[]), Millis(0))
            .expect("room");
        let none = BTreeMap::new();
        let list =
            |tasks_by_worker: &_, now| pollers.list(None, tasks_by_worker, Millis(now)).len();
        assert_eq!(list(&none, 1_000_000), 1);
        drop(waiting);
        assert_eq!((list(&none, LISTED_MS - 1), list(&none, LISTED_MS)), (1, 0));
        let works = |name: &str| {
            let assigned = InHand {
                tasks: 1,
                ..InHand::default()
            };
            BTreeMap::from([((None, Box::from(name)), assigned)])
        };
        assert_eq!(list(&works("w"), LISTED_MS), 1);
        let back = works("came-back");
        assert_eq!(list(&back, LISTED_MS), 1, "it has not asked this process");
        let works = works("w");
        assert!(pollers.list(Some("other"), &works, Millis(0)).is_empty());
    }
}
