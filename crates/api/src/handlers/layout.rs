//! The graph for a program that draws it by itself: coordinates, which derive from the
//! definition alone and are kept by its digest, and the statuses of a run apart from them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use axum::extract::State;
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_engine::view::{AtWork, Progress};
use windlass_graph::PackOptions;
use windlass_service::layout::{self, Drawable};
use windlass_service::progress::ProgressCache;
use windlass_service::statuses::{self, Statuses};
use windlass_service::{Failure, FailureKind, RunQueries};

use super::executions::RunPath;
use super::workflows::{WorkflowPath, of_tenant};
use crate::answer::{RawJson, Tagged};
use crate::app::{App, Caller};
use crate::bounds::{AtMost, Words};
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::failures::{self, LOOKING, together};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::GET,
            "/api/v1/workflows/{id}/layout",
            Access::read(),
            &[
                failures::WORKFLOW_NOT_FOUND,
                failures::VERSION_NOT_FOUND,
                failures::GRAPH_TOO_LARGE,
                failures::STORE_UNAVAILABLE,
            ],
            "Lays a workflow's graph out: coordinates of boxes and arrows",
            of_workflow,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/layout",
            Access::read(),
            &together(&[LOOKING, &[failures::GRAPH_TOO_LARGE]]),
            "Lays the graph out that a run has now",
            of_run,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/statuses",
            Access::read(),
            LOOKING,
            "Says how a run's nodes and edges stand, a letter each",
            statuses_of,
        );
}

/// What is drawn.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct LayoutQuery {
    /// Whether alike nodes are one box: those that are many, or in a large graph (`auto`), or
    /// none of them.
    collapse: Collapse,
    /// Whether the bodies of all loops are drawn.
    expand: bool,
    /// Groups and loops that are drawn opened, by the `id` of their boxes; may be repeated.
    // An address has to hold them all, each character as up to twelve.
    open: AtMost<8, Words<512>>,
    /// Whether `ids` lists the path of every node.
    ids: bool,
    /// The version; the newest, if it is left out. Only for a workflow.
    version: Option<u32>,
    /// The tenant, for callers without a tenant of their own. Only for a workflow.
    #[serde(rename = "tenantId")]
    tenant: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Collapse {
    #[default]
    Auto,
    None,
}

impl LayoutQuery {
    fn options(&mut self) -> PackOptions {
        let open = std::mem::take(&mut self.open);
        PackOptions {
            all_nodes: self.collapse == Collapse::None,
            all_bodies: self.expand,
            open: open.into_iter().map(String::from).collect(),
            ids: self.ids,
        }
    }
}

async fn of_workflow(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    Query(mut query): Query<LayoutQuery>,
    headers: HeaderMap,
) -> Result<Tagged<LayoutShape>, ApiError> {
    let options = query.options();
    let drawable = app
        .read(&caller, move |queries| {
            layout::of_workflow(&of_tenant(queries, query.tenant), &path.id, query.version)
        })
        .await?;
    laid_out(&app, drawable, options, &headers).await
}

async fn of_run(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(mut query): Query<LayoutQuery>,
    headers: HeaderMap,
) -> Result<Tagged<LayoutShape>, ApiError> {
    if query.version.is_some() || query.tenant.is_some() {
        let message = "a run has one graph: leave out version and tenantId";
        return Err(Failure::new(FailureKind::Usage, message).into());
    }
    let run = app.run(&caller, &path.id).await?.run;
    let runs = app.clone();
    let drawable = app
        .read(&caller, move |queries| {
            layout::of_run(queries, runs.progress(), run)
        })
        .await?;
    laid_out(&app, drawable, query.options(), &headers).await
}

async fn laid_out(
    app: &App,
    drawable: Drawable,
    options: PackOptions,
    headers: &HeaderMap,
) -> Result<Tagged<LayoutShape>, ApiError> {
    let layouts = app.layouts();
    let tag = layouts.tag(&drawable, &options);
    if tag.is_known(headers) {
        return Ok(Tagged::unchanged(tag));
    }
    let text = layouts.text(drawable, options).await?;
    Ok(Tagged::new(tag, text))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct StatusesQuery {
    /// As they were after the event at this position.
    at: Option<NonZeroU64>,
    /// Whether `bodies` counts the instances of each node inside loops.
    expand: bool,
}

async fn statuses_of(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<StatusesQuery>,
) -> Result<RawJson<StatusesShape>, ApiError> {
    if query.at.is_some() && query.expand {
        let message = "bodies are counted as they are now: leave out at or expand";
        return Err(Failure::new(FailureKind::Usage, message).into());
    }
    let run = app.run(&caller, &path.id).await?.run;
    let runs = app.clone();
    let text = app
        .read(&caller, move |queries| {
            let mut statuses = match query.at {
                None => statuses_now(queries, runs.progress(), run)?,
                Some(at) => {
                    let mut progress = Progress::new(run);
                    progress.read(&*queries.store, &queries.plans, Some(at))?;
                    statuses::of(&progress, &AtWork::default()).ok_or_else(|| missing(run))?
                }
            };
            if query.expand {
                statuses::add_bodies(queries, &mut statuses)?;
            }
            written(&statuses)
        })
        .await?;
    Ok(RawJson::new(text))
}

/// How a run stands now, as clients read it.
pub(crate) fn statuses_text(
    queries: &RunQueries,
    runs: &ProgressCache,
    run: RunId,
) -> Result<String, Failure> {
    written(&statuses_now(queries, runs, run)?)
}

fn statuses_now(
    queries: &RunQueries,
    runs: &ProgressCache,
    run: RunId,
) -> Result<Statuses, Failure> {
    let engine = queries.engine.as_ref();
    let at_work = engine.map(|engine| engine.at_work(run)).unwrap_or_default();
    let known = runs.read(queries, run, |progress| {
        Ok(statuses::of(progress, &at_work))
    })?;
    known.ok_or_else(|| missing(run))
}

fn missing(run: RunId) -> Failure {
    Failure::new(FailureKind::RunNotFound, format!("there is no run {run}"))
}

fn written(statuses: &Statuses) -> Result<String, Failure> {
    serde_json::to_string(statuses).map_err(|error| Failure::new(FailureKind::OutputFailed, error))
}

/// A graph's layout. Numbers of nodes and edges are those of the definition: the top level
/// first, then each body. Lengths are in CSS pixels.
#[derive(Debug, Serialize, JsonSchema)]
struct LayoutShape {
    /// The shape of this object; 1.
    v: u32,
    /// The digest of the definition that it is of.
    definition: String,
    /// The workflow's name for people, or its id.
    title: String,
    /// Of the whole picture.
    width: i64,
    /// Of the whole picture.
    height: i64,
    /// Nodes of the definition, with those that are not drawn.
    total: u64,
    /// What `nodes.kind` numbers.
    kinds: Vec<String>,
    /// The boxes, as parallel arrays.
    nodes: BoxesShape,
    /// The arrows, as parallel arrays.
    edges: ArrowsShape,
    /// Bodies of loops that are drawn; `nodes.frame` numbers them.
    frames: Vec<FrameShape>,
    /// By box, the nodes that a group stands for, as progressions `[first, count, step]`.
    members: BTreeMap<String, Vec<[u64; 3]>>,
    /// By number, the path of every node, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<String>>,
}

/// Boxes.
#[derive(Debug, Serialize, JsonSchema)]
struct BoxesShape {
    /// The path without iterations; of a group, that of its first member.
    id: Vec<String>,
    /// What people call it.
    label: Vec<String>,
    /// What it does.
    detail: Vec<String>,
    /// Its place in `kinds`.
    kind: Vec<u8>,
    /// Its number; of a group, that of its first member.
    index: Vec<u64>,
    /// How many nodes it stands for.
    count: Vec<u64>,
    /// The left edge.
    x: Vec<i64>,
    /// The upper edge.
    y: Vec<i64>,
    /// The width.
    w: Vec<i64>,
    /// The height.
    h: Vec<i64>,
    /// The body that it is in; -1 for the top level.
    frame: Vec<i64>,
}

/// Arrows.
#[derive(Debug, Serialize, JsonSchema)]
struct ArrowsShape {
    /// The box that it leaves.
    from: Vec<u64>,
    /// The box that it reaches.
    to: Vec<u64>,
    /// 0 after success, 1 after failure, 2 always.
    kind: Vec<u8>,
    /// Its number; of several, that of the first.
    index: Vec<u64>,
    /// By arrow, its condition or the cases that lead this way.
    label: BTreeMap<String, String>,
    /// By arrow, the points between its ends: `[x, y, x, y, …]`.
    via: BTreeMap<String, Vec<i64>>,
    /// By arrow, the edges that it stands for, as progressions `[first, count, step]`.
    members: BTreeMap<String, Vec<[u64; 3]>>,
}

/// A body that is drawn.
#[derive(Debug, Serialize, JsonSchema)]
struct FrameShape {
    /// The box of its loop.
    node: u64,
    /// The left edge.
    x: i64,
    /// The upper edge.
    y: i64,
    /// The width.
    w: i64,
    /// The height.
    h: i64,
    /// The body that its loop is in; -1 for the top level.
    frame: i64,
}

/// How the nodes of a run's top level stand.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StatusesShape {
    /// The shape of this object; 1.
    v: u32,
    /// The run.
    execution_id: String,
    /// The digest of the definition whose graph it has; another one means another layout.
    definition: String,
    /// The workflow's version whose graph it has; 0 for a graph of its own.
    version: u32,
    /// The position of the last event that is in it: events after it continue it.
    sequence: u64,
    /// How the run stands.
    status: String,
    /// What `started` counts from.
    created_at: String,
    /// How many nodes stand where.
    counts: BTreeMap<String, u64>,
    /// By number, a letter: Pending, Queued, Running, Waiting, Succeeded, Failed (`f` if it was
    /// handled), sKipped, Blocked, Cancelled.
    nodes: String,
    /// By number, a letter: Unresolved, Taken, Not taken, Lost.
    edges: String,
    /// By number, when it started, in milliseconds after `createdAt`; -1 if it has not.
    started: Vec<i64>,
    /// By number, how many milliseconds it took; -1 if it has not ended.
    took: Vec<i64>,
    /// By number, how many attempts it has had, where there are several.
    attempts: BTreeMap<String, u64>,
    /// By number, how far a loop is that has begun.
    loops: BTreeMap<String, LoopShape>,
    /// By number, how the instances of a node inside loops stand, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// How far a loop is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LoopShape {
    /// How many items a `forEach` has.
    items: Option<u64>,
    /// Iterations that have begun.
    opened: u64,
    /// Iterations that have not ended.
    running: u64,
    /// The first 100 iterations that failed.
    failed: Vec<u64>,
    /// How many iterations failed.
    failed_count: u64,
    /// How many instances inside it stand where.
    counts: BTreeMap<String, u64>,
}
