//! The processes that share the store.

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_service::{Failure, cluster};

use crate::answer::RawJson;
use crate::app::{App, Caller};
use crate::error::ApiError;
use crate::failures::{STORE_TIMEOUT, STORE_UNAVAILABLE};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes.add(
        Method::GET,
        "/api/v1/cluster",
        Access::read(),
        &[STORE_UNAVAILABLE, STORE_TIMEOUT],
        "Shows the processes, which partitions each owns, and what waits in the work queue",
        show,
    );
}

async fn show(State(app): State<App>, caller: Caller) -> Result<RawJson<ClusterShape>, ApiError> {
    let view = app.engine().cluster().await.map_err(Failure::from)?;
    let tenants = caller.principal.tenants();
    Ok(RawJson::new(cluster::cluster(&view, &tenants).to_string()))
}

/// The processes that share the store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClusterShape {
    /// The live processes, the oldest first.
    sessions: Vec<ClusterSessionShape>,
    /// Every partition, and which session owns it.
    partitions: Vec<PartitionShape>,
    /// What waits for workers, by action type and labels.
    queue: Vec<QueueShape>,
    /// How far tables that are written behind the log are behind it, in milliseconds.
    projector_lag_ms: u64,
}

/// A process.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClusterSessionShape {
    /// The session; `local` for a process that has its store to itself.
    id: String,
    /// The name of the process.
    name: String,
    /// The machine that it runs on.
    host: String,
    /// Of `api`, `orchestrator`, `worker` and `scheduler`.
    roles: Vec<String>,
    /// The labels of its workers.
    labels: Vec<String>,
    /// How many actions it runs at once.
    slots: u32,
    /// The version of its program.
    version: String,
    /// Since when it is there.
    since: String,
    /// When it counts as dead, if it is not heard of before then.
    expires: Option<String>,
    /// How many partitions it owns.
    partitions: u32,
    /// Whether it is the process that answers.
    #[serde(rename = "self")]
    is_self: bool,
}

/// A share of all runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionShape {
    /// Its number.
    partition: u32,
    /// The session that owns it; none while no process has taken it.
    owner: Option<String>,
}

/// Attempts of a kind that are with the work queue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct QueueShape {
    /// The action to call.
    action_type: String,
    /// The labels that a worker must have.
    requires: Vec<String>,
    /// How many wait for a worker.
    waiting: u64,
    /// How many a worker has.
    leased: u64,
}
