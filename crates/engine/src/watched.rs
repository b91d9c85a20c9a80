//! Runs that clients of other processes watch. A follower tells all processes which run it watches
//! ([`Bell::Watch`]), and repeats that while it does; the owner rings [`Bell::Run`] for the records
//! of such runs alone, and not more often than [`PAUSE`] allows.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;
use windlass_core::RunId;
use windlass_store::{Bell, Partition};

use crate::engine::{Engine, Inner};
use crate::ownership::ring;
use crate::shared::Shared;

/// How often a run that is watched is looked at, and its owner is told of the watcher: bells may
/// be lost.
pub(crate) const LOOK: Duration = Duration::from_secs(10);

/// How soon the first look follows while no owner has answered.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// For how long an owner rings for a run after it was told of a watcher.
const KEPT: Duration = Duration::from_secs(30);

/// Between two rings: at most 50 a second.
const PAUSE: Duration = Duration::from_millis(20);

/// The most runs that are watched; the clients of others find what is new by their looks.
const MOST: usize = 10_000;

/// The runs that this process rings for.
#[derive(Default)]
pub(crate) struct WatchedRuns {
    table: Mutex<Table>,
    /// How many are watched: at zero, an append need not take the lock.
    count: AtomicUsize,
    rung: Notify,
}

#[derive(Default)]
struct Table {
    until: HashMap<RunId, Instant>,
    /// Those to ring for.
    changed: BTreeSet<RunId>,
}

impl WatchedRuns {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client watches a run. If it is news to the run's owner, it rings at once: what was
    /// recorded before it knew is found then.
    pub(crate) fn watch(&self, run: RunId, is_own: bool) {
        let mut table = self.table();
        let now = Instant::now();
        if table.until.len() >= MOST && !table.until.contains_key(&run) {
            table.until.retain(|_, until| *until > now);
            if table.until.len() >= MOST {
                return;
            }
        }
        let before = table.until.insert(run, now + KEPT);
        self.count.store(table.until.len(), Ordering::Release);
        if is_own && before.is_none_or(|until| until <= now) {
            table.changed.insert(run);
            self.rung.notify_one();
        }
    }

    /// A record of a run is durable.
    pub(crate) fn recorded(&self, run: RunId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut table = self.table();
        if table.until.get(&run).is_some_and(|it| *it > Instant::now()) {
            table.changed.insert(run);
            self.rung.notify_one();
        }
    }

    /// What to ring for, once there is something.
    async fn changed(&self) -> Vec<Bell> {
        loop {
            // Registered before the look, so that what comes in between is noticed.
            let rung = self.rung.notified();
            let changed = self.take();
            if !changed.is_empty() {
                return changed;
            }
            rung.await;
        }
    }

    fn take(&self) -> Vec<Bell> {
        let mut table = self.table();
        let now = Instant::now();
        let changed = std::mem::take(&mut table.changed);
        if !changed.is_empty() {
            table.until.retain(|_, until| *until > now);
            self.count.store(table.until.len(), Ordering::Release);
        }
        changed.into_iter().map(Bell::Run).collect()
    }
}

/// Callers of this process that wait for the end of runs.
#[derive(Default)]
pub(crate) struct RunWaiters {
    waiting: Mutex<HashMap<RunId, Arc<Waiting>>>,
}

#[derive(Default)]
struct Waiting {
    changed: Notify,
    /// Whether the owner of the run, another process, has rung for it.
    is_answered: AtomicBool,
}

impl RunWaiters {
    fn waiting(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run may have changed; `rung` says that its owner rang for it.
    pub(crate) fn changed(&self, run: RunId, rung: bool) {
        if let Some(waiting) = self.waiting().get(&run) {
            waiting.is_answered.fetch_or(rung, Ordering::AcqRel);
            waiting.changed.notify_waiters();
        }
    }

    /// Bells may have been lost, or runs have got another owner: all callers look.
    pub(crate) fn look(&self) {
        for waiting in self.waiting().values() {
            waiting.is_answered.store(false, Ordering::Release);
            waiting.changed.notify_waiters();
        }
    }
}

/// A caller that waits for the end of a run.
pub(crate) struct RunWaiter {
    run: RunId,
    shared: Arc<Shared>,
    waiting: Arc<Waiting>,
}

impl RunWaiter {
    pub(crate) fn new(shared: &Arc<Shared>, run: RunId) -> Self {
        let waiting = Arc::clone(shared.waiters.waiting().entry(run).or_default());
        Self {
            run,
            shared: Arc::clone(shared),
            waiting,
        }
    }

    /// Resolves when the run may have changed since this was asked.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.waiting.changed.notified()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.waiting.is_answered.load(Ordering::Acquire)
    }
}

impl Drop for RunWaiter {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiters.waiting();
        // The table's own, and this one.
        if Arc::strong_count(&self.waiting) <= 2 {
            waiting.remove(&self.run);
        }
    }
}

/// Rings for runs that are watched, for as long as the engine lives.
pub(crate) async fn ring_always(engine: Weak<Inner>, shared: Arc<Shared>) {
    loop {
        let bells = shared.watched.changed().await;
        let Some(inner) = engine.upgrade() else {
            return;
        };
        // A bell is a hint: what cannot be rung is found by a look.
        let _ = Engine::of(inner).store().ring(&bells).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// How a watcher waits for a run that another process may work on.
pub(crate) struct Watch {
    run: RunId,
    partition: Option<Partition>,
    told: Option<Instant>,
    pause: Duration,
}

impl Watch {
    pub(crate) fn new(run: RunId) -> Self {
        Self {
            run,
            partition: None,
            told: None,
            pause: FIRST_LOOK,
        }
    }

    /// Tells the owner that a client watches, unless it knows; how long to wait for its bell.
    /// `answered` says whether one was heard since this watch began.
    pub(crate) async fn begin(&mut self, engine: &Engine, answered: bool) -> Duration {
        if self.partition.is_none() {
            let row = engine.store().run(self.run).await.ok().flatten();
            self.partition = row.map(|row| row.partition);
        }
        let Some(partition) = self.partition else {
            return self.back_off();
        };
        if engine.shared().owned.holds(partition) {
            // Its records are heard of without a bell.
            self.told = None;
            self.pause = FIRST_LOOK;
            return LOOK;
        }
        let since = self.told.map(|told| told.elapsed());
        if answered && let Some(rest) = since.and_then(|it| LOOK.checked_sub(it)) {
            return rest;
        }
        self.told = Some(Instant::now());
        ring(Arc::clone(engine.store()), Bell::Watch(partition, self.run));
        match answered {
            true => LOOK,
            false => self.back_off(),
        }
    }

    /// Twice as long each time, as no owner has answered.
    fn back_off(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LOOK);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Millis;

    fn run(n: u8) -> RunId {
        RunId::new(Millis(1), [n; 10])
    }

    #[tokio::test(start_paused = true)]
    async fn only_runs_that_are_watched_are_rung_for_and_each_once() {
        let watched = WatchedRuns::default();
        watched.recorded(run(1));
        assert_eq!(watched.take(), []);
        watched.watch(run(1), true);
        assert_eq!(watched.take(), [Bell::Run(run(1))], "it is news");
        watched.watch(run(1), true);
        assert_eq!(watched.take(), [], "it is none");
        watched.watch(run(2), false);
        assert_eq!(watched.take(), [], "another process owns it");
        for n in [1, 2, 3, 1] {
            watched.recorded(run(n));
        }
        assert_eq!(watched.take(), [Bell::Run(run(1)), Bell::Run(run(2))]);
        tokio::time::advance(KEPT).await;
        watched.recorded(run(1));
        assert_eq!(watched.take(), [], "no watcher has said so again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_watched_runs_is_bounded_and_makes_room() {
        let watched = WatchedRuns::default();
        let id = |n: usize| RunId::new(Millis(i64::try_from(n).expect("small")), [0; 10]);
        (0..=MOST).for_each(|n| watched.watch(id(n), false));
        watched.recorded(id(MOST));
        assert_eq!(watched.take(), [], "one too many");
        tokio::time::advance(KEPT).await;
        watched.watch(id(MOST), false);
        watched.recorded(id(MOST));
        assert_eq!(watched.take(), [Bell::Run(id(MOST))]);
    }
}
