//! Which partitions this engine works on, where several processes share a store.
//!
//! The supervisor decides ([`Ownership`]); this module gives it the clock, and every task that
//! acts on a run asks it. An engine that has its store to itself works on everything, and asks
//! nothing.

mod outage;
mod permit;
mod run;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windlass_core::RunId;
use windlass_orchestrator::supervisor::{LeaseOptions, Ownership, partition_of};
use windlass_store::{Partition, Partitions, SessionId};

pub(crate) use permit::Permit;
pub(crate) use run::{own_always, ring};

/// The partitions that this engine works on.
pub(crate) struct Owned {
    cluster: Option<Cluster>,
}

/// What an engine knows that shares its store.
struct Cluster {
    machine: Mutex<Ownership>,
    options: LeaseOptions,
    began: Instant,
    /// How many partitions there are; none before the first session.
    partitions: watch::Sender<Option<u32>>,
    /// The engine stops soon: every partition is to be handed over.
    leave: Notify,
    /// Whether that is done.
    handed_over: watch::Sender<bool>,
    /// The engine stops: everything is to be handed over.
    stop: Notify,
    /// Whether everything is handed over, or was never taken.
    over: watch::Sender<bool>,
    /// Rings for callers that wait for a run that another process works on.
    elsewhere: Notify,
}

impl Owned {
    /// Everything, or what leases say.
    pub(crate) fn new(leases: Option<LeaseOptions>) -> Self {
        Self {
            cluster: leases.map(|options| Cluster {
                machine: Mutex::new(Ownership::new(options)),
                options,
                began: Instant::now(),
                partitions: watch::Sender::new(None),
                leave: Notify::new(),
                handed_over: watch::Sender::new(false),
                stop: Notify::new(),
                over: watch::Sender::new(true),
                elsewhere: Notify::new(),
            }),
        }
    }

    /// Whether other processes work on the same store.
    pub(crate) fn is_shared(&self) -> bool {
        self.cluster.is_some()
    }

    /// Whether records of a partition may be appended now, and attempts handed out.
    pub(crate) fn may_work(&self, partition: Partition) -> bool {
        let Some(cluster) = &self.cluster else {
            return true;
        };
        cluster.machine().may_work(partition, cluster.now())
    }

    /// Whether a partition is this engine's, as far as it knows.
    pub(crate) fn holds(&self, partition: Partition) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.machine().holds(partition))
    }

    /// The partitions that are worked on.
    pub(crate) fn partitions(&self) -> Partitions {
        match &self.cluster {
            None => Partitions::All,
            Some(cluster) => Partitions::Only(cluster.machine().working().collect()),
        }
    }

    /// This engine's session, while it is live.
    pub(crate) fn session(&self) -> Option<SessionId> {
        let cluster = self.cluster.as_ref()?;
        cluster.machine().session(cluster.now())
    }

    /// The session that this engine joined last, also while it is in doubt whether it is live.
    fn joined(&self) -> Option<SessionId> {
        self.cluster.as_ref()?.machine().last_session()
    }

    /// How many partitions there are, once that is known.
    pub(crate) fn known_partitions(&self) -> Option<u32> {
        let cluster = self.cluster.as_ref()?;
        *cluster.partitions.borrow()
    }

    /// The partition of a new run; waits until it is known how many there are.
    pub(crate) async fn place(&self, run: RunId, parent: Option<Partition>) -> Partition {
        let Some(cluster) = &self.cluster else {
            return Partition(0);
        };
        let mut known = cluster.partitions.subscribe();
        // The sender lives as long as this.
        let partitions = known.wait_for(Option::is_some).await;
        let partitions = partitions.map_or(None, |partitions| *partitions);
        partition_of(run, parent, partitions.unwrap_or(1))
    }

    /// Resolves when a run that another process works on may have changed since this was
    /// asked.
    pub(crate) fn changed_elsewhere(&self) -> Option<Notified<'_>> {
        self.cluster.as_ref().map(|it| it.elsewhere.notified())
    }

    /// How long a caller waits for the owner of a run.
    pub(crate) fn command_ms(&self) -> u64 {
        let options = self.cluster.as_ref().map(|it| it.options);
        options.unwrap_or_default().command_ms
    }

    /// Hands every partition over and keeps the session; waits until that is done, or for this
    /// long.
    pub(crate) async fn hand_over(&self, within: Duration) {
        if let Some(cluster) = &self.cluster {
            if *cluster.over.borrow() {
                return;
            }
            cluster.leave.notify_one();
            let mut done = cluster.handed_over.subscribe();
            let _ = tokio::time::timeout(within, done.wait_for(|done| *done)).await;
        }
    }

    /// Hands everything over, and waits until that is done.
    pub(crate) async fn stop(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stop.notify_one();
            let mut over = cluster.over.subscribe();
            let _ = over.wait_for(|over| *over).await;
        }
    }
}

impl Cluster {
    /// No method of the machine leaves it half changed.
    fn machine(&self) -> MutexGuard<'_, Ownership> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
