//! Everything that is counted, and the page that shows it.
//!
//! The counters are our own and not a framework's: the names are few and fixed, the
//! labels must be bounded here anyway, and a framework's registry wants a task that
//! tends it, which an idle server would pay for. No label names a tenant.

mod bounded;
mod cell;
mod http;
mod page;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::RunStatus;

use bounded::Bounded;
pub(crate) use cell::Counter;
use cell::Histogram;
use http::Http;
pub use http::HttpExchange;
use page::Page;

/// The media type of a page.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Runs take from milliseconds to days.
const RUN_BOUNDS: &[f64] = &[
    0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0,
];

/// Attempts take from a millisecond to their usual timeout.
const ACTION_BOUNDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Disks take from a tenth of a millisecond to far too long.
const STORE_BOUNDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// How runs end, as `status` says it.
const ENDS: [RunStatus; 3] = [
    RunStatus::Succeeded,
    RunStatus::Failed,
    RunStatus::Cancelled,
];

/// Everything that is counted.
pub(crate) struct Metrics {
    workflows: Bounded<Workflow>,
    actions: Bounded<Action>,
    pub(crate) levels: Counter,
    pub(crate) commits: Histogram,
    pub(crate) appends: Histogram,
    pub(crate) http: Http,
    pub(crate) dropped_spans: Arc<Counter>,
    pub(crate) dropped_lines: Arc<Counter>,
}

/// What is counted of a workflow.
pub(crate) struct Workflow {
    pub(crate) started: Counter,
    succeeded: Counter,
    failed: Counter,
    /// In the order of [`ENDS`].
    durations: [Histogram; 3],
}

/// What is counted of an action.
pub(crate) struct Action {
    duration: Histogram,
    executed: Counter,
    failed: Counter,
    retried: Counter,
}

/// Numbers that are read when the page is requested.
pub(crate) struct Now {
    pub(crate) queue_depth: u64,
    pub(crate) parallel_actions: u64,
}

impl Workflow {
    fn new() -> Self {
        Self {
            started: Counter::default(),
            succeeded: Counter::default(),
            failed: Counter::default(),
            durations: ENDS.map(|_| Histogram::new(RUN_BOUNDS)),
        }
    }

    pub(crate) fn ended(&self, status: RunStatus, took: Duration) {
        match status {
            RunStatus::Succeeded => self.succeeded.add(1),
            RunStatus::Failed => self.failed.add(1),
            _ => {}
        }
        if let Some(place) = ENDS.iter().position(|end| *end == status) {
            self.durations[place].observe(took);
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
        self.duration.observe(took);
        self.executed.add(1);
        self.failed.add(u64::from(failed));
        self.retried.add(u64::from(again));
    }
}

impl Metrics {
    /// At most `limit` values of each label have a series of their own; of actions, those that
    /// are named here, if any are.
    pub(crate) fn new(limit: usize, actions: Option<BTreeSet<Box<str>>>) -> Self {
        Self {
            workflows: Bounded::new(limit, Workflow::new),
            actions: match actions {
                Some(names) => Bounded::reserved(names, Action::new),
                None => Bounded::new(limit, Action::new),
            },
            levels: Counter::default(),
            commits: Histogram::new(STORE_BOUNDS),
            appends: Histogram::new(STORE_BOUNDS),
            http: Http::new(limit),
            dropped_spans: Arc::default(),
            dropped_lines: Arc::default(),
        }
    }

    pub(crate) fn workflow(&self, workflow: &str) -> Arc<Workflow> {
        self.workflows.of(workflow)
    }

    pub(crate) fn action(&self, action: &str) -> Arc<Action> {
        self.actions.of(action)
    }

    /// The page as Prometheus reads it.
    pub(crate) fn render(&self, now: &Now) -> String {
        let mut page = Page::default();
        self.show_workflows(&mut page);
        self.show_actions(&mut page);
        self.show_rest(&mut page, now);
        self.http.show(&mut page);
        page.finish()
    }

    fn show_workflows(&self, page: &mut Page) {
        let all = self.workflows.all();
        let mut counter = |name, help, of: fn(&Workflow) -> &Counter| {
            page.family(name, "counter", help);
            for (workflow, series) in &all {
                page.sample(name, &[("workflowId", workflow)], of(series).value());
            }
        };
        counter("workflow_started_total", "Runs that began.", |series| {
            &series.started
        });
        counter(
            "workflow_success_total",
            "Runs that ended Succeeded.",
            |series| &series.succeeded,
        );
        counter(
            "workflow_failure_total",
            "Runs that ended Failed.",
            |series| &series.failed,
        );
        let name = "workflow_duration_seconds";
        page.family(name, "histogram", "From a run's beginning to its end.");
        for (workflow, series) in &all {
            for (status, durations) in ENDS.iter().zip(&series.durations) {
                if durations.cumulative().1 > 0 {
                    let status = status.to_string();
                    let labels = [("workflowId", &**workflow), ("status", &status)];
                    page.histogram(name, &labels, durations);
                }
            }
        }
    }

    fn show_actions(&self, page: &mut Page) {
        let all = self.actions.all();
        let mut counter = |name, help, of: fn(&Action) -> &Counter| {
            page.family(name, "counter", help);
            for (action, series) in &all {
                page.sample(name, &[("actionType", action)], of(series).value());
            }
        };
        counter("action_executed_total", "Attempts that ended.", |series| {
            &series.executed
        });
        counter("action_failed_total", "Attempts that failed.", |series| {
            &series.failed
        });
        counter(
            "action_retry_total",
            "Failed attempts that another follows.",
            |series| &series.retried,
        );
        let name = "action_duration_seconds";
        page.family(name, "histogram", "From an attempt's beginning to its end.");
        for (action, series) in &all {
            page.histogram(name, &[("actionType", action)], &series.duration);
        }
    }

    fn show_rest(&self, page: &mut Page, now: &Now) {
        page.family("queue_depth", "gauge", "Runs that wait to begin.");
        page.sample("queue_depth", &[], now.queue_depth);
        page.family("parallel_actions", "gauge", "Actions that run now.");
        page.sample("parallel_actions", &[], now.parallel_actions);
        let name = "dag_levels_executed_total";
        page.family(name, "counter", "Levels of ended runs in which a node ran.");
        page.sample(name, &[], self.levels.value());
        let name = "store_commit_seconds";
        page.family(name, "histogram", "How long the store takes to commit.");
        page.histogram(name, &[], &self.commits);
        let name = "store_append_seconds";
        let help = "From handing records to the store to its answer.";
        page.family(name, "histogram", help);
        page.histogram(name, &[], &self.appends);
        let name = "telemetry_dropped_total";
        page.family(
            name,
            "counter",
            "What could not be written or sent in time.",
        );
        page.sample(name, &[("kind", "span")], self.dropped_spans.value());
        page.sample(name, &[("kind", "line")], self.dropped_lines.value());
    }
}
