//! Everything that is counted, and the page that shows it.
//!
//! The metric types and the encoding are those of `prometheus-client`. Its families of series
//! are not used: they grow with every new value of a label, so the series are in [`Bounded`]
//! tables, which a collector encodes when the page is requested. No label names a tenant.

mod bounded;
mod http;
mod page;
mod queue;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter as PrometheusCounter;
use prometheus_client::metrics::histogram::Histogram;
use windlass_core::RunStatus;

use bounded::Bounded;
use http::Http;
pub use http::HttpExchange;
use page::Page;
pub(crate) use page::render;
pub use page::{Reading, ReadingKind};
pub use queue::QueueReading;
pub(crate) use queue::series as queue_series;

/// A number that only grows. Cloning it gives another handle to the same number.
pub(crate) type Counter = PrometheusCounter<u64>;

/// The media type of a page.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Runs take from milliseconds to days.
const RUN_BOUNDS: [f64; 15] = [
    0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0,
];

/// Attempts take from a millisecond to their usual timeout.
const ACTION_BOUNDS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Disks take from a tenth of a millisecond to far too long.
const STORE_BOUNDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// How runs end, as `status` says it.
const ENDS: [RunStatus; 3] = [
    RunStatus::Succeeded,
    RunStatus::Failed,
    RunStatus::Cancelled,
];

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    workflows: Bounded<Workflow>,
    actions: Bounded<Action>,
    pub(crate) levels: Counter,
    commits: Histogram,
    appends: Histogram,
    pub(crate) http: Http,
    pub(crate) dropped_spans: Counter,
    pub(crate) dropped_lines: Counter,
}

/// What is counted of a workflow.
#[derive(Debug, Default)]
pub(crate) struct Workflow {
    pub(crate) started: Counter,
    succeeded: Counter,
    failed: Counter,
    /// In the order of [`ENDS`]; made when the first run ends so.
    durations: [OnceLock<Histogram>; 3],
}

/// What is counted of an action.
#[derive(Debug)]
pub(crate) struct Action {
    duration: Histogram,
    executed: Counter,
    failed: Counter,
    retried: Counter,
}

impl Workflow {
    pub(crate) fn ended(&self, status: RunStatus, took: Duration) {
        match status {
            RunStatus::Succeeded => self.succeeded.inc(),
            RunStatus::Failed => self.failed.inc(),
            _ => 0,
        };
        if let Some(place) = ENDS.iter().position(|end| *end == status) {
            let histogram = self.durations[place].get_or_init(|| Histogram::new(RUN_BOUNDS));
            histogram.observe(took.as_secs_f64());
        }
    }
}

impl Action {
    fn new() -> Self {
        Self {
            duration: Histogram::new(ACTION_BOUNDS),
            executed: Counter::default(),
            failed: Counter::default(),
            retried: Counter::default(),
        }
    }

    pub(crate) fn ended(&self, took: Duration, failed: bool, again: bool) {
        self.duration.observe(took.as_secs_f64());
        self.executed.inc();
        self.failed.inc_by(u64::from(failed));
        self.retried.inc_by(u64::from(again));
    }
}

impl Metrics {
    /// At most `limit` values of each label have a series of their own; of actions, those that
    /// are named here, if any are.
    pub(crate) fn new(limit: usize, actions: Option<BTreeSet<Box<str>>>) -> Self {
        Self {
            workflows: Bounded::new(limit, Workflow::default),
            actions: match actions {
                Some(names) => Bounded::reserved(names, Action::new),
                None => Bounded::new(limit, Action::new),
            },
            levels: Counter::default(),
            commits: Histogram::new(STORE_BOUNDS),
            appends: Histogram::new(STORE_BOUNDS),
            http: Http::new(limit),
            dropped_spans: Counter::default(),
            dropped_lines: Counter::default(),
        }
    }

    pub(crate) fn workflow(&self, workflow: &str) -> std::sync::Arc<Workflow> {
        self.workflows.of(workflow)
    }

    pub(crate) fn action(&self, action: &str) -> std::sync::Arc<Action> {
        self.actions.of(action)
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    pub(crate) fn appended(&self, took: Duration) {
        self.appends.observe(took.as_secs_f64());
    }

    fn show(&self, page: &mut Page<'_>) -> fmt::Result {
        self.show_workflows(page)?;
        self.show_actions(page)?;
        self.show_rest(page)?;
        self.http.show(page)
    }

    fn show_workflows(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.workflows.all();
        let mut counter = |name, help, of: fn(&Workflow) -> &Counter| {
            let series = all.iter();
            page.family(
                name,
                help,
                series.map(|(id, series)| ([("workflowId", &**id)], of(series))),
            )
        };
        counter(
            "windlass_workflow_started_total",
            "Runs that began.",
            |series| &series.started,
        )?;
        counter(
            "workflow_success_total",
            "Runs that ended Succeeded.",
            |series| &series.succeeded,
        )?;
        counter(
            "workflow_failure_total",
            "Runs that ended Failed.",
            |series| &series.failed,
        )?;
        let durations = all.iter().flat_map(|(id, series)| {
            let ends = ENDS.iter().zip(&series.durations);
            ends.filter_map(move |(status, durations)| {
                let labels = [
                    ("workflowId", id.to_string()),
                    ("status", status.to_string()),
                ];
                Some((labels, durations.get()?))
            })
        });
        page.family(
            "workflow_duration_seconds",
            "Time from a run's start to its end.",
            durations,
        )
    }

    fn show_actions(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.actions.all();
        let mut counter = |name, help, of: fn(&Action) -> &Counter| {
            let series = all.iter();
            page.family(
                name,
                help,
                series.map(|(action, series)| ([("actionType", &**action)], of(series))),
            )
        };
        counter(
            "windlass_action_executed_total",
            "Attempts that ended.",
            |series| &series.executed,
        )?;
        counter(
            "windlass_action_failed_total",
            "Attempts that failed.",
            |series| &series.failed,
        )?;
        counter(
            "action_retry_total",
            "Failed attempts that are retried.",
            |series| &series.retried,
        )?;
        let durations = all.iter();
        page.family(
            "action_duration_seconds",
            "Time from an attempt's start to its end.",
            durations.map(|(action, series)| ([("actionType", &**action)], &series.duration)),
        )
    }

    fn show_rest(&self, page: &mut Page<'_>) -> fmt::Result {
        page.single(
            "windlass_dag_levels_executed_total",
            "Levels of ended runs in which a node ran.",
            &self.levels,
        )?;
        page.single(
            "windlass_store_commit_seconds",
            "Time that the store takes to commit.",
            &self.commits,
        )?;
        page.single(
            "windlass_store_append_seconds",
            "Time from handing records to the store to its answer.",
            &self.appends,
        )?;
        let dropped = [("span", &self.dropped_spans), ("line", &self.dropped_lines)];
        page.family(
            "windlass_telemetry_dropped_total",
            "Spans and log lines that could not be sent or written in time.",
            dropped
                .map(|(kind, count)| ([("kind", kind)], count))
                .into_iter(),
        )
    }
}
