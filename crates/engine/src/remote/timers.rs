//! What happens by itself to attempts that workers outside the process have: their time is
//! over, their lease has run out, their action was never declared. One task waits for all of
//! it, and only while there is something to wait for.

use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_core::run::{Failure, Outcome, Report};
use windlass_store::WorkKey;

use super::offer::{ended, enqueue};
use super::open::Deadline;
use crate::engine::{Engine, Inner};
use crate::shared::Shared;
use crate::worker::timed_out;

/// Waits for deadlines, for as long as the engine lives.
pub(crate) async fn watch_deadlines(
    engine: Weak<Inner>,
    shared: Arc<Shared>,
    gone: CancellationToken,
) {
    let remote = &shared.remote;
    loop {
        while let Some((key, deadline)) = remote.open.due(Instant::now()) {
            let Some(inner) = engine.upgrade() else {
                return;
            };
            Engine::of(inner).deadline_passed(key, deadline).await;
        }
        let next = remote.open.next_deadline();
        let waiting = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = waiting => {}
            () = remote.open.changed() => {}
            () = gone.cancelled() => return,
        }
    }
}

impl Engine {
    async fn deadline_passed(&self, key: WorkKey, deadline: Deadline) {
        let remote = &self.shared().remote;
        let found = remote.open.with(key, |open| {
            let assigned = open.assigned.clone();
            (Arc::clone(&open.dispatch), assigned, open.begun)
        });
        let Some((dispatch, assigned, begun)) = found else {
            return;
        };
        let workers = self.workers();
        let error = match deadline {
            Deadline::Lease => {
                if remote.open.release(key) {
                    enqueue(&**self.store(), remote, &dispatch).await;
                } else {
                    // The item is in the queue again.
                    remote.pollers.wake_for(&dispatch);
                }
                return;
            }
            Deadline::Timeout => timed_out(dispatch.timeout_ms),
            Deadline::Unknown => {
                let (tenant, action) = (dispatch.tenant.as_deref(), &*dispatch.action);
                if remote.declared.find(tenant, action, self.now()).is_some() {
                    return;
                }
                let (store, now) = (self.store(), self.now());
                if self.shared().owned.is_shared()
                    && (remote.shared.has_worker_for(action)
                        || remote
                            .declared
                            .knows_now(&**store, tenant, action, now)
                            .await
                            .unwrap_or(true))
                {
                    return;
                }
                workers.unknown_action(&dispatch).await
            }
        };
        let failure = Failure {
            retriable: error.retriable,
            ..Failure::permanent(&error.code, error.message)
        };
        let report = workers.report(Outcome::Failed(failure));
        let report = Report {
            started: begun.map_or(report.started, |begun| begun.at),
            parameters: assigned
                .as_ref()
                .and_then(|assigned| assigned.recorded.clone()),
            worker: assigned.map_or(report.worker, |assigned| assigned.worker),
            ..report
        };
        self.tell(ended(key, Box::new(report))).await;
    }
}
