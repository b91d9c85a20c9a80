//! Continues the jobs of earlier server processes.

use serde::{Deserialize, Serialize};
use windlass_store::Error;

use super::{admin, bulk};
use crate::app::App;

/// What a job does, as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Written<B> {
    /// Something with many runs.
    Bulk(B),
    /// Makes anew what derives from the logs.
    Rebuild,
}

/// Resumes the jobs that were acknowledged and have not ended; returns how many.
pub(crate) async fn resume(app: &App) -> Result<usize, Error> {
    let unfinished = app.jobs().restore(app.engine().store()).await?;
    let count = unfinished.len();
    for (job, plan) in unfinished {
        match serde_json::from_str::<Written<bulk::Plan>>(&plan) {
            Ok(Written::Bulk(plan)) => drop(tokio::spawn(bulk::work(app.clone(), plan, job))),
            Ok(Written::Rebuild) => drop(tokio::spawn(admin::rebuilding(app.clone(), job))),
            // Of a newer version: it stays as it is.
            Err(_) => {}
        }
    }
    Ok(count)
}
