//! Figures over many runs.

use std::collections::BTreeMap;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_service::statistics::{self, Span};
use windlass_service::{Failure, FailureKind};

use super::workflows::{WorkflowPath, of_tenant};
use crate::answer::RawJson;
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::failures;
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::GET,
            "/api/v1/statistics",
            Access::read(),
            &[
                failures::TIME_INVALID,
                failures::STORE_UNAVAILABLE,
                failures::STORE_TIMEOUT,
            ],
            "Counts runs over time by their status",
            over_time,
        )
        .add(
            Method::GET,
            "/api/v1/workflows/{id}/statistics",
            Access::read(),
            &[
                failures::WORKFLOW_NOT_FOUND,
                failures::TIME_INVALID,
                failures::STORE_UNAVAILABLE,
                failures::STORE_TIMEOUT,
            ],
            "Says how long the nodes of a workflow take and how often they fail, by its newest \
             runs that have ended",
            of_workflow,
        );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct OverTimeQuery {
    /// Runs requested at or after: a moment, or a time ago such as `2h`; a day before `to`, if
    /// it is left out.
    from: Option<String>,
    /// Runs requested before; now, if it is left out.
    to: Option<String>,
    /// Into how many equal parts the time is divided.
    buckets: Option<Between<1, 500>>,
}

async fn over_time(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<OverTimeQuery>,
) -> Result<RawJson<OverTimeShape>, ApiError> {
    let text = app
        .read(&caller, move |queries| {
            let span = Span::new(query.from.as_deref(), query.to.as_deref())?;
            let buckets = query.buckets.map_or(48, Between::get);
            written(&statistics::over_time(queries, span, buckets)?)
        })
        .await?;
    Ok(RawJson::new(text))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct WorkflowQuery {
    /// Runs requested at or after: a moment, or a time ago such as `2h`; a day before `to`, if
    /// it is left out.
    from: Option<String>,
    /// Runs requested before; now, if it is left out.
    to: Option<String>,
    /// Runs that began on this version alone.
    version: Option<u32>,
    /// How many runs are read at most.
    runs: Option<Between<1, 1000>>,
    /// The tenant, for callers without a tenant of their own.
    #[serde(rename = "tenantId")]
    tenant: Option<String>,
}

async fn of_workflow(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    Query(query): Query<WorkflowQuery>,
) -> Result<RawJson<WorkflowStatisticsShape>, ApiError> {
    let text = app
        .read(&caller, move |queries| {
            let queries = of_tenant(queries, query.tenant);
            let span = Span::new(query.from.as_deref(), query.to.as_deref())?;
            let runs = query.runs.map_or(200, Between::get);
            let found = statistics::of_workflow(&queries, &path.id, query.version, span, runs)?;
            written(&found)
        })
        .await?;
    Ok(RawJson::new(text))
}

fn written(figures: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(figures).map_err(|error| Failure::new(FailureKind::OutputFailed, error))
}

/// Runs over time.
#[derive(Debug, Serialize, JsonSchema)]
struct OverTimeShape {
    /// Where the first bucket begins.
    from: String,
    /// Where the last bucket ends.
    to: String,
    /// When each bucket begins.
    begins: Vec<String>,
    /// By status, how many runs that were requested in each bucket have it now.
    counts: BTreeMap<String, Vec<u64>>,
}

/// Figures of a workflow's nodes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorkflowStatisticsShape {
    /// The workflow.
    workflow_id: String,
    /// The version, if one was asked for.
    version: Option<u32>,
    /// Runs requested at or after this.
    from: String,
    /// Runs requested before this.
    to: String,
    /// Which runs the figures are of.
    runs: RunFiguresShape,
    /// By path without iterations, each node that ended in one of them.
    nodes: BTreeMap<String, NodeFiguresShape>,
}

/// The runs that were read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunFiguresShape {
    /// How many were read: the newest that have ended.
    examined: u64,
    /// How many are read at most.
    limit: u64,
    /// Whether these are all that ended.
    complete: bool,
    /// How many of them failed.
    failed: u64,
    /// The median of their durations, in milliseconds.
    p50_ms: Option<u64>,
    /// The duration that 95 percent do not exceed.
    p95_ms: Option<u64>,
}

/// Figures of a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NodeFiguresShape {
    /// How often it ended well or badly, each iteration counted.
    runs: u64,
    /// How often it failed for good.
    failures: u64,
    /// How often an attempt failed and was made again.
    retries: u64,
    /// The median of its durations over all attempts, in milliseconds.
    p50_ms: Option<u64>,
    /// The duration that 95 percent do not exceed.
    p95_ms: Option<u64>,
}
