//! How an attempt gets into the work queue, and out of it again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::run::Dispatch;
use windlass_orchestrator::ShardInput;
use windlass_store::{WorkItem, WorkKey, crash};

use super::cluster::offer_shared;
use super::generation::forget;
use super::open::{Closed, key_of};
use super::{Remote, is_reserved};
use crate::Backend;
use crate::driver::Message;
use crate::ownership::Permit;
use crate::shared::Shared;
use crate::worker::Workers;

/// Puts an attempt into the queue. If no worker has declared the action, the attempt waits for
/// one, or fails at once where the options say so.
pub(crate) async fn offer(
    workers: Arc<Workers>,
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Message>,
    dispatch: Arc<Dispatch>,
) {
    let key = key_of(&dispatch);
    let (tenant, action) = (dispatch.tenant.as_deref(), &*dispatch.action);
    let now = workers.options.clock.now();
    let declared = &shared.remote.declared;
    let is_shared = shared.owned.is_shared();
    // In a cluster a process with the worker role may have it, or is to come.
    let works = workers.registry.contains(action) || shared.remote.shared.has_worker_for(action);
    let knows = match is_shared {
        true if works => Ok(true),
        true => {
            declared
                .knows_now(&*workers.store, tenant, action, now)
                .await
        }
        false => declared.knows(&*workers.store, tenant, action, now).await,
    };
    // What cannot be read now may be declared: its workers decide.
    let is_refused = is_reserved(action) && !(is_shared && works);
    if is_refused || !knows.unwrap_or(true) {
        if workers.options.leaves_alone(&dispatch) {
            // A process that has the workflow continues it; this one keeps the attempt open.
            return;
        }
        let wait = workers.options.unknown_action_wait;
        // For a name that no worker may declare there is nothing to wait for.
        if wait.is_zero() || is_refused {
            shared.remote.open.remove(key);
            let (permit, stop) = (Permit::now(&shared), CancellationToken::new());
            if let Some(report) = workers.run(&dispatch, &permit, stop).await {
                let _ = outbox.send(ended(key, Box::new(report))).await;
            }
            return;
        }
        let at = Instant::now() + wait;
        shared.remote.open.unknown_until(key, at);
        // No worker can have it: none has polled for it.
        shared.remote.open.release(key);
    }
    if is_shared {
        return offer_shared(&workers, &shared, &dispatch).await;
    }
    if shared.remote.open.with(key, |open| open.queued) != Some(true) {
        return;
    }
    enqueue(&*workers.store, &shared.remote, &dispatch).await;
}

/// Puts an attempt into the work queue and wakes a worker for it.
pub(super) async fn enqueue(store: &dyn Backend, remote: &Remote, dispatch: &Dispatch) {
    let key = key_of(dispatch);
    let item = WorkItem {
        key,
        tenant: dispatch.tenant.clone(),
        action: Box::from(&*dispatch.action),
        requires: dispatch.requires.clone(),
        priority: dispatch.priority,
        // The engine that hands it out has the dispatch itself.
        payload: Vec::new(),
    };
    crash::point("before-work-push");
    // A failed push is a failure of the store: the run's next append meets it, and the process
    // that recovers the run pushes again.
    let _ = store.push(vec![item]).await;
    if remote.open.with(key, |_| ()).is_none() {
        let _ = store.withdraw(&[key]).await;
        return;
    }
    remote.pollers.wake_for(dispatch);
}

/// Takes attempts from the queue that have `ended`, or whose run is not here any more.
pub(crate) fn withdraw(workers: &Arc<Workers>, closed: &[Closed], ended: bool) {
    if closed.is_empty() {
        return;
    }
    let queued = closed.iter().filter(|closed| !closed.is_settled);
    let keys: Vec<WorkKey> = queued.map(|closed| closed.key).collect();
    let noted = closed.iter().filter(|closed| closed.noted && ended);
    let noted: Vec<WorkKey> = noted.map(|closed| closed.key).collect();
    if keys.is_empty() && noted.is_empty() {
        return;
    }
    let store = Arc::clone(&workers.store);
    tokio::spawn(async move {
        let _ = store.withdraw(&keys).await;
        forget(&*store, &noted).await;
    });
}

/// The end of an attempt, for the driver.
pub(super) fn ended(key: WorkKey, report: Box<windlass_core::run::Report>) -> Message {
    Message::Input(ShardInput::Ended {
        run: key.run,
        node: key.instance,
        attempt: key.attempt,
        report,
    })
}
