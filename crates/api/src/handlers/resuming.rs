//! Works on jobs over many runs: those of earlier server processes and, where several processes
//! share the store, all of them, in the processes with the scheduler role.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_store::{Error, Role};

use super::{admin, bulk};
use crate::app::App;
use crate::jobs::{self, BulkJob};

/// How often jobs are looked for, in case no bell was heard.
const LOOK: Duration = Duration::from_secs(10);

/// How soon to look again when the store could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// What a job does, as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Written<B> {
    /// Something with many runs.
    Bulk(B),
    /// Makes anew what derives from the logs.
    Rebuild,
}

/// Resumes the jobs that were acknowledged and have not ended; returns how many. Where processes
/// share the store, it begins to look for jobs instead.
pub(crate) async fn resume(app: &App) -> Result<usize, Error> {
    let engine = app.engine();
    if engine.shares_store() {
        if engine.has_role(Role::Scheduler) {
            tokio::spawn(work_always(app.clone()));
        }
        return Ok(0);
    }
    let unfinished = app.jobs().restore(engine.store()).await?;
    let count = unfinished.len();
    for (job, plan) in unfinished {
        tokio::spawn(work_on(app.clone(), job, plan));
    }
    Ok(count)
}

/// Lets a job that was acknowledged be worked on: here, or by a process with the role for it.
pub(super) fn begin<B: Serialize>(app: App, job: BulkJob, plan: &Written<B>) {
    if app.engine().shares_store() {
        app.engine().ring_scheduler();
        return;
    }
    let plan = serde_json::to_string(plan).unwrap_or_default();
    tokio::spawn(work_on(app, job, plan));
}

async fn work_on(app: App, job: BulkJob, plan: String) {
    match serde_json::from_str::<Written<bulk::Plan>>(&plan) {
        Ok(Written::Bulk(plan)) => bulk::work(app, plan, job).await,
        Ok(Written::Rebuild) => admin::rebuilding(app, job).await,
        // Of a newer version: it stays as it is.
        Err(_) => {}
    }
}

/// The jobs that this process works on, by id.
type AtWork = Arc<Mutex<BTreeSet<Box<str>>>>;

/// Works on jobs until the engine stops.
async fn work_always(app: App) {
    let at_work = AtWork::default();
    let mut is_first = true;
    while !app.engine().is_stopping() {
        let wait = match look(&app, &at_work, is_first).await {
            Ok(()) => {
                is_first = false;
                LOOK
            }
            Err(_) => AGAIN,
        };
        tokio::select! {
            () = app.engine().stopped() => return,
            () = app.engine().job_rung() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Takes up the jobs that no other process works on.
async fn look(app: &App, at_work: &AtWork, is_first: bool) -> Result<(), Error> {
    let store = app.engine().store();
    if is_first {
        jobs::open_unfinished(store).await?;
    }
    for id in jobs::open(store).await? {
        let at_once = || at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if at_once().contains(&id) {
            continue;
        }
        let Some(lease) = app.engine().take_lease(&format!("job/{id}")).await? else {
            continue;
        };
        let lease = Arc::new(lease);
        let taken = jobs::acquire(store, &id, &lease).await?;
        if taken.is_some() {
            at_once().insert(id.clone());
        }
        let (app, at_work) = (app.clone(), Arc::clone(at_work));
        tokio::spawn(async move {
            if let Some((job, plan)) = taken {
                work_on(app, job, plan).await;
            }
            at_work
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
            if let Some(lease) = Arc::into_inner(lease) {
                lease.give().await;
            }
        });
    }
    Ok(())
}
