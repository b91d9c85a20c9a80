//! Figures over many runs: how many there were when, and how long the nodes of a workflow take.
//! The work of each answer is bounded, and the answer says by what.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_engine::view::NodeDurations;
use windlass_store::{RunFilter, Wait as _, block_on};

use crate::catalogue::unknown;
use crate::failure::{Failure, FailureKind};
use crate::moment::{now, since};
use crate::run_item::Moment;
use crate::run_queries::RunQueries;

/// How many rows are looked at for runs of one version.
const ROWS: usize = 20_000;

/// How many bytes of logs are read.
const LOG_BYTES: usize = 128 * 1024 * 1024;

/// A span of time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    from: Millis,
    to: Millis,
}

impl Span {
    /// From one moment to another, each a moment or a time ago; by default the last day.
    ///
    /// # Errors
    /// One of them is no moment, or the span is empty.
    pub fn new(from: Option<&str>, to: Option<&str>) -> Result<Self, Failure> {
        let now = now();
        let to = to.map_or(Ok(now), |to| since(to, now))?;
        let from = match from {
            Some(from) => since(from, now)?,
            None => Millis(to.0.saturating_sub(86_400_000)),
        };
        if from >= to {
            let message = format!("the span from {from} to {to} is empty");
            return Err(Failure::new(FailureKind::TimeInvalid, message)
                .hint("give a `from` that is before `to`"));
        }
        Ok(Self { from, to })
    }
}

/// How many runs there were when.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverTime {
    from: Moment,
    to: Moment,
    /// When each bucket begins.
    begins: Vec<Moment>,
    /// By status, how many runs of each bucket have it now.
    counts: BTreeMap<&'static str, Vec<u64>>,
}

/// Counts runs by the time at which they were requested.
///
/// # Errors
/// The store failed, or took too long.
pub fn over_time(queries: &RunQueries, span: Span, buckets: usize) -> Result<OverTime, Failure> {
    let (from, to) = (i128::from(span.from.0), i128::from(span.to.0));
    let count = (buckets.max(1) as i128).min(to - from);
    let edge = |number: i128| Millis((from + (to - from) * number / count) as i64);
    let edges: Vec<Millis> = (0..=count).map(edge).collect();
    let counted = queries.store.count_runs(&queries.tenants, &edges).wait()?;
    let of = |status: RunStatus| counted.iter().map(|it| it.of(status)).collect();
    Ok(OverTime {
        from: Moment(span.from),
        to: Moment(span.to),
        begins: edges[..counted.len()].iter().copied().map(Moment).collect(),
        counts: RunStatus::ALL.map(|it| (it.as_str(), of(it))).into(),
    })
}

/// Figures of a workflow's nodes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfWorkflow {
    workflow_id: String,
    version: Option<u32>,
    from: Moment,
    to: Moment,
    runs: RunFigures,
    nodes: BTreeMap<String, Node>,
}

/// Which runs the figures are of.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunFigures {
    examined: usize,
    limit: usize,
    complete: bool,
    failed: usize,
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    runs: u64,
    failures: u64,
    retries: u64,
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
}

/// Reads the newest runs of a workflow that have ended, at most `limit`.
///
/// # Errors
/// There is no such workflow, or the store failed.
pub fn of_workflow(
    queries: &RunQueries,
    workflow: &str,
    version: Option<u32>,
    span: Span,
    limit: usize,
) -> Result<OfWorkflow, Failure> {
    if queries
        .store
        .definition(queries.tenant(), workflow, None)
        .wait()?
        .is_none()
    {
        let (store, tenant) = (&*queries.store, queries.tenant());
        return Err(block_on(unknown(store, tenant, workflow)));
    }
    let mut figures = RunFigures {
        limit,
        complete: true,
        ..RunFigures::default()
    };
    let mut filter = RunFilter {
        tenant: queries.tenants.clone(),
        workflow: Some(workflow.into()),
        statuses: RunStatus::ALL
            .into_iter()
            .filter(|it| it.is_final())
            .collect(),
        since: Some(span.from),
        before: Some(RunId::first_of(span.to)),
        limit: 500,
        ..RunFilter::default()
    };
    let (mut durations, mut nodes) = (Vec::new(), NodeDurations::default());
    let (mut rows, mut bytes) = (0, 0);
    'pages: while filter.before.is_some() {
        let page = queries.store.runs(&filter).wait()?;
        for row in &page.rows {
            rows += 1;
            if version.is_some_and(|version| row.version != version) {
                continue;
            }
            if figures.examined == limit || rows > ROWS || bytes >= LOG_BYTES {
                figures.complete = false;
                break 'pages;
            }
            bytes += nodes.add(&*queries.store, row.run, LOG_BYTES - bytes)?;
            figures.examined += 1;
            figures.failed += usize::from(row.status == RunStatus::Failed);
            if let (Some(from), Some(to)) = (row.started_at, row.ended_at) {
                durations.push(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0));
            }
        }
        filter.before = page.next;
    }
    durations.sort_unstable();
    figures.p50_ms = windlass_engine::view::percentile(&durations, 50);
    figures.p95_ms = windlass_engine::view::percentile(&durations, 95);
    let nodes = nodes.into_nodes().map(|(path, node)| {
        let shown = Node {
            runs: node.ended,
            failures: node.failed,
            retries: node.retried,
            p50_ms: node.percentile(50),
            p95_ms: node.percentile(95),
        };
        (path, shown)
    });
    Ok(OfWorkflow {
        workflow_id: workflow.to_owned(),
        version,
        from: Moment(span.from),
        to: Moment(span.to),
        runs: figures,
        nodes: nodes.collect(),
    })
}
