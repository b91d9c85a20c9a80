//! Recovers runs whose records the store could not write, once it can write again.
//!
//! When an append fails, the shard drops the run: what memory holds is ahead of the log. The
//! log itself is whole, so the run is read back from it as after a restart, after a while and
//! as often as it takes. Only an engine that serves does so; a command reports the failure to
//! its user instead. It does not know why the store failed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::event::After;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::AcquireMode;
use windlass_store::Error;

use crate::acquire::AcquireOptions;
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::load::LoadError;
use crate::shared::Shared;

/// How long after a failure the store is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The runs that the shard dropped. There are no more of them than there were in memory.
#[derive(Default)]
pub(crate) struct Interrupted {
    runs: Mutex<BTreeSet<RunId>>,
    bell: Notify,
}

impl Interrupted {
    fn runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, run: RunId) {
        self.runs().insert(run);
        self.bell.notify_one();
    }

    fn take(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.runs())
    }
}

impl Shared {
    /// The shard dropped a run because its record could not be stored.
    pub(crate) fn interrupt(&self, run: RunId, error: &Error) {
        if self.is_serving() && may_pass(error) {
            self.interrupted.add(run);
        }
    }
}

/// Whether the store may be able to write later. After a failed sync it will not be.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Full(_) | Error::Unavailable(_) | Error::Timeout(_)
    )
}

/// Recovers the dropped runs, until the engine is gone.
pub(crate) async fn recover_interrupted_runs(engine: Weak<Inner>) {
    loop {
        let Some(waiting) = engine.upgrade().map(Engine::of) else {
            return;
        };
        let (shared, stop) = (waiting.shared().clone(), waiting.stop_token());
        drop(waiting);
        let rings = async {
            shared.interrupted.bell.notified().await;
            tokio::time::sleep(AGAIN).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = rings => {}
        }
        drop(shared);
        let Some(engine) = engine.upgrade().map(Engine::of) else {
            return;
        };
        for run in engine.shared().interrupted.take() {
            engine.recover_interrupted(run).await;
        }
    }
}

impl Engine {
    /// Reads a run again that another process wrote to, and continues from there.
    pub(crate) async fn reload(&self, run: RunId) {
        let acquire_options = AcquireOptions::recover(AcquireMode::Recover(After::Stop));
        let reloaded = self
            .acquire(run, acquire_options)
            .await
            .map_err(|error| match error {
                LoadError::Store(error) => error,
                other => Error::Unavailable(other.to_string()),
            });
        if let Err(error) = &reloaded {
            self.shared().interrupt(run, error);
        }
        self.tell(Message::Reloaded(run, reloaded)).await;
    }

    /// Dead-letters a run whose acknowledged records the store has lost: what is left of its log is
    /// not the truth, and the run must not continue from it.
    pub(crate) async fn quarantine(&self, run: RunId, error: Error) {
        if let Ok(Some(row)) = self.store().run(run).await {
            let error = LoadError::Store(error);
            // Where the store cannot take it, the shard still refuses the run.
            let _ = self.dead_letter_unreadable(&row, &error).await;
        }
    }

    async fn recover_interrupted(&self, run: RunId) {
        let row = match self.store().run(run).await {
            Ok(Some(row)) => row,
            // Its first record could not be stored, and its caller got the failure.
            Ok(None) => return,
            Err(error) => return self.shared().interrupt(run, &error),
        };
        if row.status == RunStatus::Pending && row.parent.is_none() {
            return self.shared().arrived(row.tenant, row.priority);
        }
        if let Err(LoadError::Store(error)) = self.recover(run).await {
            self.shared().interrupt(run, &error);
        }
    }
}
