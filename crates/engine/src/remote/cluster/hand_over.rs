//! Attempts that this process's own workers have begun when another process gets their run. They
//! go on here: the queue gets them as items that this session has, so that the next owner waits
//! for their outcomes, which it finds in its inbox. What has ended, and is not durable yet, is
//! offered at once. Nothing is repeated because a process stops or joins.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use windlass_core::run::{Dispatch, Report};
use windlass_store::{BegunItem, Offer, Partition, SessionId, WorkItem, WorkKey, WorkLease};

use super::super::open::key_of;
use super::pull::{Assignment, Running, offer_outcome};
use super::{dispatch, lock, outcome};
use crate::shared::Shared;
use crate::worker::Workers;

/// The lease of an outcome that the queue never had as an item.
const NO_LEASE: WorkLease = WorkLease(0);

/// An attempt that a worker of this process has begun.
pub(crate) struct BegunAttempt {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) begun_ms: u64,
    pub(crate) stop: CancellationToken,
    pub(crate) abort: AbortHandle,
    /// How it ended, once it has.
    pub(crate) ended: oneshot::Receiver<Box<Report>>,
}

/// What a partition that is handed over leaves in this process.
pub(crate) struct LeftBehind {
    pub(crate) partition: Partition,
    pub(crate) session: SessionId,
    pub(crate) begun: Vec<BegunAttempt>,
    /// Attempts that have ended, of which no record tells.
    pub(crate) ended: Vec<(WorkKey, Box<Report>)>,
}

impl LeftBehind {
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.ended.is_empty()
    }
}

/// Ends an action that is not waited for any more.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the next owner of what goes on here; an attempt that the queue does not take is ended,
/// and made again there.
pub(crate) async fn leave_behind(workers: &Arc<Workers>, shared: &Arc<Shared>, left: LeftBehind) {
    let LeftBehind {
        partition,
        session,
        begun,
        ended,
    } = left;
    let offers = ended.into_iter().map(|(key, mut report)| {
        report.lease = Some(lease_text(session, NO_LEASE));
        Offer {
            run: key.run,
            partition,
            key: outcome::item_key(key, NO_LEASE).into(),
            bytes: outcome::encode(&report, NO_LEASE, false),
        }
    });
    let offers: Vec<Offer> = offers.collect();
    if !offers.is_empty() {
        // What cannot be offered is made again.
        let _ = workers.store.offer(offers).await;
    }
    let mut attempts = Vec::with_capacity(begun.len());
    let mut items = Vec::with_capacity(begun.len());
    for attempt in begun {
        if let Some(item) = item_of(workers, &attempt).await {
            items.push(item);
            attempts.push(attempt);
        } else {
            attempt.abort.abort();
        }
    }
    if items.is_empty() {
        return;
    }
    let name = &workers.options.worker_name;
    let leases = workers.store.push_begun(items, name, session).await;
    let leases = leases.unwrap_or_else(|_| vec![None; attempts.len()]);
    for (attempt, lease) in attempts.into_iter().zip(leases) {
        match lease {
            Some(lease) => go_on(workers, shared, attempt, (partition, session, lease)),
            None => attempt.abort.abort(),
        }
    }
}

/// A lease of a session as the log records it.
pub(super) fn lease_text(session: SessionId, lease: WorkLease) -> Box<str> {
    format!("{session}.{:x}", lease.0).into()
}

async fn item_of(workers: &Workers, attempt: &BegunAttempt) -> Option<BegunItem> {
    let dispatch = &attempt.dispatch;
    let payload = dispatch::encode(dispatch, &workers.values).await.ok()?;
    Some(BegunItem {
        item: WorkItem {
            key: key_of(dispatch),
            tenant: dispatch.tenant.clone(),
            action: Box::from(&*dispatch.action),
            requires: dispatch.requires.clone(),
            priority: dispatch.priority,
            payload,
        },
        begun_ms: attempt.begun_ms,
    })
}

/// Waits for the end of an attempt beside everything else, and offers its outcome.
fn go_on(
    workers: &Arc<Workers>,
    shared: &Arc<Shared>,
    attempt: BegunAttempt,
    (partition, session, lease): (Partition, SessionId, WorkLease),
) {
    let assignment = Assignment {
        key: key_of(&attempt.dispatch),
        tenant: attempt.dispatch.tenant.clone(),
        partition,
        session,
        lease,
    };
    let work = &shared.remote.shared;
    let (workers, of_task) = (Arc::clone(workers), Arc::clone(shared));
    let (key, tenant) = (assignment.key, assignment.tenant.clone());
    // Held until the attempt is noted, so that its end comes after that.
    let mut running = lock(&work.running);
    let task = tokio::spawn(async move {
        let action = AbortOnDrop(attempt.abort);
        if let Ok(report) = attempt.ended.await {
            offer_outcome(&workers, &assignment, *report).await;
        }
        drop(action);
        of_task.remote.shared.has_ended(key, lease);
    });
    let own = Running {
        tenant,
        lease,
        session,
        stop: attempt.stop,
        abort: task.abort_handle(),
    };
    running.insert(key, own);
    work.pulled.send_replace(running.len());
}
