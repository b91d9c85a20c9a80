//! Work of several processes over one store. The owner of a run puts its attempts into the
//! queue, each with all that a worker needs (`dispatch`), and asks the queue what became of them
//! (`owner`). A process with the worker role (`pull`), or one that serves workers over HTTP
//! (`hand_out`, `finish`), takes them, and gives outcomes to the owner through the inbox
//! (`outcome`, `consume`). What is written for another process has a version; what a process
//! does not know it leaves to one that does.

mod consume;
mod dispatch;
mod finish;
mod hand_out;
mod hand_over;
mod outcome;
mod owner;
mod poller_note;
mod pull;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use windlass_core::run::Dispatch;
use windlass_core::value::Payload;
use windlass_store::{LiveSession, Role, WorkKey, WorkLease};

use crate::Backend;
use poller_note::NotedPollers;
use pull::Running;

pub(crate) use consume::OUTCOMES;
pub(crate) use hand_out::wake_always;
pub(crate) use hand_over::{BegunAttempt, LeftBehind, leave_behind};
pub(super) use owner::offer_shared;
pub(crate) use owner::{stop_shared, watch_queue};
pub(crate) use pull::work_always;

/// How long giving attempts back may take.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// How many tasks that were handed out are remembered with what was rendered for them; the log
/// is asked for the others.
const REMEMBERED: usize = 10_000;

/// A task that this process handed out over HTTP.
#[derive(Clone)]
pub(super) struct HandedOut {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) recorded: Option<Payload>,
    pub(super) secrets: Vec<String>,
}

/// What an engine knows of the work that it shares with other processes.
#[derive(Default)]
pub(crate) struct SharedWork {
    /// Counts the bells for the queue that were heard.
    rung: watch::Sender<u64>,
    /// Rings when the queue is to be asked about open attempts at once.
    pub(super) look: Notify,
    /// Rings when an attempt that was pulled has ended here.
    ended: Notify,
    /// The action types of live workers of other processes.
    actions: Mutex<BTreeSet<Box<str>>>,
    pollers: Mutex<NotedPollers>,
    handed: Mutex<Handed>,
    /// Attempts of the queue that this process works on.
    running: Mutex<HashMap<WorkKey, Running>>,
    /// How many these are; none are pulled once the process drains.
    pulled: watch::Sender<usize>,
    draining: std::sync::atomic::AtomicBool,
    /// Whether the answer to the last pull was lost: items may be leased to this process of which
    /// it knows nothing.
    unsure: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct Handed {
    tasks: HashMap<(WorkKey, Box<str>), HandedOut>,
    order: VecDeque<(WorkKey, Box<str>)>,
}

impl SharedWork {
    /// Something may wait in the queue, or is to stop.
    pub(crate) fn ring(&self) {
        self.rung.send_modify(|count| *count += 1);
    }

    /// The processes that live, as they are listed.
    pub(crate) fn note_live(&self, live: &[LiveSession]) {
        let works = |it: &&LiveSession| it.process.roles.has(Role::Worker);
        let actions = live.iter().filter(works);
        let actions = actions.flat_map(|it| it.process.actions.iter().cloned());
        *lock(&self.actions) = actions.collect();
    }

    /// Whether a live worker of some process calls an action.
    pub(super) fn has_worker_for(&self, action: &str) -> bool {
        lock(&self.actions).contains(action)
    }

    fn remember(&self, key: WorkKey, lease: &str, task: HandedOut) {
        let mut handed = lock(&self.handed);
        let of = (key, Box::from(lease));
        if handed.tasks.insert(of.clone(), task).is_none() {
            handed.order.push_back(of);
        }
        if handed.order.len() > REMEMBERED
            && let Some(oldest) = handed.order.pop_front()
        {
            handed.tasks.remove(&oldest);
        }
    }

    fn handed(&self, key: WorkKey, lease: &str) -> Option<HandedOut> {
        lock(&self.handed).tasks.get(&(key, lease.into())).cloned()
    }

    /// An attempt of the queue has ended here.
    fn has_ended(&self, key: WorkKey, lease: WorkLease) {
        let mut running = lock(&self.running);
        if running.get(&key).is_some_and(|it| it.lease == lease) {
            running.remove(&key);
        }
        self.pulled.send_replace(running.len());
        self.ended.notify_one();
    }

    /// Pulls no more.
    pub(crate) fn pull_no_more(&self) {
        self.draining
            .store(true, std::sync::atomic::Ordering::Release);
        self.ring();
    }

    /// Waits until what the process has of the queue has ended. What has not in time is broken
    /// off and given back: that it was is not held against the attempt.
    pub(crate) async fn drain(&self, store: &dyn Backend, within: Duration) {
        let mut pulled = self.pulled.subscribe();
        let _ = tokio::time::timeout(within, pulled.wait_for(|count| *count == 0)).await;
        let left: Vec<(WorkKey, Running)> = lock(&self.running).drain().collect();
        for (_, running) in &left {
            running.stop.cancel();
            running.abort.abort();
        }
        let given = left.iter().map(|(key, it)| async move {
            let tenant = it.tenant.as_deref();
            store.return_item(tenant, *key, it.lease).await
        });
        let given = futures_util::future::join_all(given);
        // Without an answer the session's end gives them back.
        let _ = tokio::time::timeout(GIVE_BACK, given).await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
