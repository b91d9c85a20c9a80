//! What the driver and the tasks beside it share: counts that any task may read without asking
//! the driver, and bells that ring when something has changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use windlass_core::RunId;
use windlass_store::Partition;

use crate::crash_isolation::CrashIsolation;
use crate::engine_event::EngineEvent;
use crate::event_stream::RunEventStreams;
use crate::gates::Gates;
use crate::inbox::Walks;
use crate::interrupted::Interrupted;
use crate::options::Observer;
use crate::ownership::Owned;
use crate::projector::Projecting;
use crate::remote::Remote;
use crate::row_repair::ReportedDamage;
use crate::watched::{RunWaiters, WatchedRuns};

/// A tenant, by its name, if it has one.
pub(crate) type Tenant = Option<Box<str>>;

/// How many runs may wait for workers outside the process, for each that may be active.
const WAITING_FACTOR: usize = 9;

/// Known to an engine, its driver, its intake and its admission.
pub(crate) struct Shared {
    pub(crate) gates: Gates,
    /// Held while a place at a gate is taken or audited, where the store counts them.
    pub(crate) place_audit: tokio::sync::Mutex<()>,
    /// What this engine works on.
    pub(crate) owned: Owned,
    /// Since when it leaves the cluster.
    pub(crate) leaving: std::sync::OnceLock<tokio::time::Instant>,
    pub(crate) event_streams: RunEventStreams,
    /// The runs that clients of other processes watch.
    pub(crate) watched: WatchedRuns,
    /// Callers that wait here for the end of a run, where several processes share the store.
    pub(crate) waiters: RunWaiters,
    /// Which inboxes are being looked at.
    pub(crate) inbox_walks: Walks<Partition>,
    /// Over the inboxes of single runs.
    pub(crate) run_inbox_walks: Walks<RunId>,
    /// Which partitions are being recovered or searched.
    pub(crate) recovery_walks: Walks<Partition>,
    /// Work for workers outside this process.
    pub(crate) remote: Remote,
    /// Which runs may crash the process.
    pub(crate) isolation: CrashIsolation,
    /// Runs that the store could not write for.
    pub(crate) interrupted: Interrupted,
    /// The damage that was reported to the observer.
    pub(crate) reported_damage: ReportedDamage,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Runs in memory.
    pub(crate) held: AtomicUsize,
    /// Actions that run.
    pub(crate) actions: AtomicUsize,
    /// How many runs may be in memory before no further one is begun.
    pub(crate) max_active: AtomicUsize,
    /// Runs that are being read so that they can begin.
    pub(crate) loading: AtomicUsize,
    /// How often admission has asked the store.
    pub(crate) looks: AtomicU64,
    pub(crate) begun: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// Whether pending runs are begun by admission.
    pub(crate) serving: AtomicBool,
    /// Whether admission should look at everything that waits: what arrived is not known.
    pub(crate) look_at_all: AtomicBool,
    /// Rings for admission: something came, or there is room.
    pub(crate) bell: Notify,
    /// Rings when schedules have changed.
    pub(crate) schedules: Notify,
    /// Rings when a job over many runs waits for a process.
    pub(crate) jobs: Notify,
    /// What the projector hears of, and how far it is behind.
    pub(crate) projecting: Projecting,
    /// Tenants that have something new that waits, with its highest priority.
    arrivals: Mutex<HashMap<Tenant, u8>>,
    /// How many records became durable; callers that show lists read them again when it
    /// changes.
    changes: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(gates: Gates, owned: Owned, observer: Option<Arc<dyn Observer>>) -> Self {
        Self {
            gates,
            place_audit: tokio::sync::Mutex::default(),
            owned,
            leaving: std::sync::OnceLock::new(),
            look_at_all: AtomicBool::new(false),
            event_streams: RunEventStreams::default(),
            watched: WatchedRuns::default(),
            waiters: RunWaiters::default(),
            inbox_walks: Walks::default(),
            run_inbox_walks: Walks::default(),
            recovery_walks: Walks::default(),
            remote: Remote::default(),
            isolation: CrashIsolation::default(),
            interrupted: Interrupted::default(),
            reported_damage: ReportedDamage::default(),
            observer,
            held: AtomicUsize::new(0),
            actions: AtomicUsize::new(0),
            max_active: AtomicUsize::new(usize::MAX),
            loading: AtomicUsize::new(0),
            looks: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            serving: AtomicBool::new(false),
            bell: Notify::new(),
            schedules: Notify::new(),
            jobs: Notify::new(),
            projecting: Projecting::default(),
            arrivals: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// How many runs in memory count against the most that there may be. Those that wait for a
    /// worker outside the process do not, up to a bound: workers that are away must not keep
    /// other runs from beginning.
    pub(crate) fn active(&self) -> usize {
        let most = self.max_active.load(Ordering::Acquire);
        let waiting = self.remote.open.waiting_runs();
        let held = self.held.load(Ordering::Acquire);
        held.saturating_sub(waiting.min(most.saturating_mul(WAITING_FACTOR)))
    }

    /// A run waits for a worker outside the process: another may begin, if that was too much.
    pub(crate) fn waits_for_worker(&self) {
        let most = self.max_active.load(Ordering::Acquire);
        if self.held.load(Ordering::Acquire) + 1 >= most {
            self.bell.notify_one();
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Something of a tenant waits to begin.
    pub(crate) fn arrived(&self, tenant: Tenant, priority: u8) {
        if !self.is_serving() {
            // An engine that begins to serve reads all waiting runs first.
            return;
        }
        {
            let mut arrivals = self.arrivals();
            let highest = arrivals.entry(tenant).or_default();
            *highest = priority.max(*highest);
        }
        self.bell.notify_one();
    }

    /// A run may wait to begin for which this process got no bell.
    pub(crate) fn look_at_all(&self) {
        self.look_at_all.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// What has come since the last look.
    pub(crate) fn arrived_since(&self) -> HashMap<Tenant, u8> {
        std::mem::take(&mut *self.arrivals())
    }

    fn arrivals(&self) -> MutexGuard<'_, HashMap<Tenant, u8>> {
        self.arrivals
            .lock()
            .expect("nothing panics while it holds the arrivals")
    }

    /// A record of a run is durable.
    pub(crate) fn recorded(&self, run: RunId, sequence: u64) {
        if self.changes.receiver_count() > 0 {
            self.changes.send_modify(|count| *count += 1);
        }
        self.event_streams.recorded(run);
        self.watched.recorded(run);
        self.projecting.recorded();
        self.observe(&EngineEvent::Recorded { run, sequence });
    }

    /// Bells may have been lost, or runs have got another owner: what is watched here is looked
    /// at.
    pub(crate) fn look_at_watched(&self) {
        self.event_streams.look();
        self.waiters.look();
    }

    /// Changes whenever a record has become durable.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn observe(&self, event: &EngineEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(event);
        }
    }
}
