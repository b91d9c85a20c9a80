//! The owner's side of the queue: attempts are put into it, and the queue is asked what became of
//! them. It may lose items, so what it does not have is put into it again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::RunId;
use windlass_core::run::{Dispatch, Outcome};
use windlass_store::{Bell, Error, InboxBounds, InboxItem, ItemState, WorkItem, WorkKey, crash};

use super::super::offer::ended;
use super::super::open::key_of;
use super::{dispatch, outcome};
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::ownership::ring;
use crate::shared::Shared;
use crate::worker::Workers;

/// How often the queue is asked about open attempts, while there are any.
const LOOK: Duration = Duration::from_secs(1);

/// How much longer between two looks for each attempt that is open.
const LOOK_EACH: Duration = Duration::from_micros(500);

/// About how many attempts the queue is asked at once.
const PAGE: usize = 1_000;

/// Puts an attempt into the queue that all processes share. One that may be there already, or
/// whose outcome may wait, is looked at first.
pub(crate) async fn offer_shared(workers: &Workers, shared: &Shared, dispatch: &Arc<Dispatch>) {
    match dispatch.reopened {
        true => shared.remote.shared.look.notify_one(),
        false => push(workers, shared, dispatch).await,
    }
}

async fn push(workers: &Workers, shared: &Shared, dispatch: &Arc<Dispatch>) {
    let key = key_of(dispatch);
    // What cannot be read or pushed now is missing at the next look.
    let Ok(payload) = dispatch::encode(dispatch, &workers.values).await else {
        return;
    };
    let item = WorkItem {
        key,
        tenant: dispatch.tenant.clone(),
        action: Box::from(&*dispatch.action),
        requires: dispatch.requires.clone(),
        priority: dispatch.priority,
        payload,
    };
    crash::point("before-work-push");
    if workers.store.push(vec![item]).await.is_err() {
        return;
    }
    if shared.remote.open.is_over(key) {
        let _ = workers.store.withdraw(&[key]).await;
    }
}

/// Asks that an attempt ends. One that no worker has ends here.
pub(crate) fn stop_shared(
    workers: &Arc<Workers>,
    shared: &Arc<Shared>,
    outbox: mpsc::Sender<Message>,
    key: WorkKey,
) {
    if shared
        .remote
        .open
        .with(key, |open| open.stop = true)
        .is_none()
    {
        return;
    }
    let report = Box::new(workers.report(Outcome::Stopped));
    let store = Arc::clone(&workers.store);
    tokio::spawn(async move {
        let stopped = store.stop(&[key]).await;
        ring(Arc::clone(&store), Bell::Work);
        let known = store.known(&[key]).await;
        if stopped.is_ok() && known.is_ok_and(|known| known.is_empty()) {
            let _ = outbox.send(ended(key, report)).await;
        }
    });
}

/// Asks the queue about open attempts for as long as the engine lives and has some.
pub(crate) async fn watch_queue(engine: Weak<Inner>) {
    let Some(shared) = engine.upgrade().map(|it| Engine::of(it).shared().clone()) else {
        return;
    };
    loop {
        let open = shared.remote.open.count();
        let pause = LOOK + LOOK_EACH * u32::try_from(open).unwrap_or(u32::MAX);
        tokio::select! {
            () = shared.remote.shared.look.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        if engine.is_stopping() {
            return;
        }
        engine.look_at_queue().await;
    }
}

impl Engine {
    async fn look_at_queue(&self) {
        let remote = &self.shared().remote;
        let mut lapsed = false;
        for keys in remote.open.offered_keys().chunks(PAGE) {
            let Ok(known) = self.store().known(keys).await else {
                return;
            };
            let known: HashMap<WorkKey, ItemState> = known.into_iter().collect();
            let mut missing = Vec::new();
            for key in keys {
                match known.get(key) {
                    None => missing.push(*key),
                    Some(ItemState::Waiting { .. }) => lapsed |= remote.open.seen_waiting(*key),
                    Some(ItemState::Leased {
                        worker,
                        lease,
                        begun_ms,
                        ..
                    }) => {
                        let at = (*begun_ms, self.now());
                        let term = self.work_lease();
                        if remote.open.seen_with(*key, (worker, *lease), at, term) {
                            self.note_worker(*key, worker).await;
                        }
                    }
                }
            }
            let Ok(mut offered) = self.offered_outcomes(&missing).await else {
                return;
            };
            for key in missing {
                let of_attempt = offered.remove(&key).unwrap_or_default();
                self.put_back(key, &of_attempt).await;
            }
        }
        if lapsed {
            ring(Arc::clone(self.store()), Bell::Work);
        }
    }

    /// The outcomes of attempts that wait in the inboxes of their runs.
    async fn offered_outcomes(
        &self,
        attempts: &[WorkKey],
    ) -> Result<HashMap<WorkKey, Vec<InboxItem>>, Error> {
        let mut found: HashMap<WorkKey, Vec<InboxItem>> = HashMap::new();
        let wanted: HashSet<WorkKey> = attempts.iter().copied().collect();
        let runs: BTreeSet<RunId> = attempts.iter().map(|key| key.run).collect();
        for run in runs {
            let mut after = 0;
            loop {
                let bounds = InboxBounds::default();
                let page = self.store().inbox_page(run, after, bounds).await?;
                let Some(last) = page.last() else { break };
                after = last.number;
                for item in page {
                    let of = outcome::attempt_of(&item, run).filter(|of| wanted.contains(of));
                    if let Some(of) = of {
                        found.entry(of).or_default().push(item);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The run learns which worker has an attempt.
    async fn note_worker(&self, key: WorkKey, worker: &str) {
        let question = |reply| Message::HandOut {
            worker: worker.into(),
            resumes: true,
            keys: vec![key],
            reply,
        };
        let _ = self.ask(question).await;
    }

    /// The queue does not have an open attempt: its outcome waits, or it is put into the queue
    /// again, if it may begin.
    async fn put_back(&self, key: WorkKey, outcomes: &[InboxItem]) {
        if !outcomes.is_empty() {
            return self.consume_outcomes(key.run, outcomes).await;
        }
        let open = &self.shared().remote.open;
        let found = open.with(key, |open| (Arc::clone(&open.dispatch), open.stop));
        let Some((dispatch, stop)) = found else {
            return;
        };
        if stop {
            let report = Box::new(self.workers().report(Outcome::Stopped));
            return self.tell(ended(key, report)).await;
        }
        let question = |reply| Message::HandOut {
            worker: Box::default(),
            resumes: false,
            keys: vec![key],
            reply,
        };
        match self.ask(question).await.as_deref() {
            Some([true]) if self.workers().runs_here(&dispatch) => {
                self.tell(Message::CallHere(dispatch)).await;
            }
            // Its outcome may come meanwhile, from a worker that had the item before.
            Some([true]) if open.push_again(key) => {
                push(self.workers(), self.shared(), &dispatch).await;
            }
            Some([true]) => {}
            // The run is paused, or the attempt is over: if it goes on, it is dispatched again.
            Some(_) => drop(open.remove(key)),
            None => {}
        }
    }
}
