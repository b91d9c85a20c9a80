//! The handle: start, watch, show, stop.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use windlass_engine::Observer;

use crate::logs::{self, Lines, LogOptions, say};
use crate::metrics::{HttpExchange, Metrics, Now};
use crate::observer::Watcher;
use crate::traces::{Exporter, TraceOptions};

/// How many values of a label have a series of their own, by default.
const LABEL_LIMIT: usize = 200;

/// What is logged, traced and counted, and where it goes.
#[derive(Debug)]
pub struct TelemetryOptions {
    /// Logs; without it nothing is written.
    pub logs: Option<LogOptions>,
    /// Traces; without it no spans are made.
    pub traces: Option<TraceOptions>,
    /// Whether workflows of tenants are counted by name: only safe where no tenant can read the
    /// page.
    pub name_tenants: bool,
    /// The actions that are counted by name, all others being `other`; without it, those that
    /// come first.
    pub actions: Option<BTreeSet<Box<str>>>,
    /// How many workflows, actions and routes are counted by name; the others are `other`.
    pub label_limit: usize,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self {
            logs: None,
            traces: None,
            name_tenants: false,
            actions: None,
            label_limit: LABEL_LIMIT,
        }
    }
}

/// Logs, traces and metrics of a program. Cloning it is cheap.
#[derive(Clone)]
pub struct Telemetry {
    inner: Arc<Inner>,
}

struct Inner {
    metrics: Arc<Metrics>,
    exporter: Option<Exporter>,
    name_tenants: bool,
    lines: Option<Lines>,
    gauges: RwLock<[Option<Read>; 2]>,
}

type Read = Box<dyn Fn() -> u64 + Send + Sync>;

/// A number that is read when the metrics page is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Runs that wait to begin.
    QueueDepth,
    /// Actions that run now.
    ParallelActions,
}

impl Telemetry {
    /// Starts what the options ask for. With traces it must be called inside a tokio
    /// runtime. Logs go where the first call in a program says.
    pub fn start(options: TelemetryOptions) -> Self {
        let metrics = Arc::new(Metrics::new(options.label_limit.max(1), options.actions));
        let lines = options.logs.and_then(|logs| {
            // A program without a thread for its logs goes on without logs.
            logs::start(logs, Arc::clone(&metrics.dropped_lines)).ok()
        });
        let exporter = options
            .traces
            .map(|traces| Exporter::start(traces, Arc::clone(&metrics.dropped_spans)));
        Self {
            inner: Arc::new(Inner {
                metrics,
                exporter,
                name_tenants: options.name_tenants,
                lines,
                gauges: RwLock::default(),
            }),
        }
    }

    /// The observer to give to an engine; set the engine's `traces` to [`Self::traces`].
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Watcher {
            metrics: Arc::clone(&self.inner.metrics),
            exporter: self.inner.exporter.clone(),
            name_tenants: self.inner.name_tenants,
        })
    }

    /// Whether spans are made.
    pub fn traces(&self) -> bool {
        self.inner.exporter.is_some()
    }

    /// Sets how to read a number when the metrics page is requested; it must be quick.
    pub fn gauge(&self, gauge: Gauge, read: impl Fn() -> u64 + Send + Sync + 'static) {
        let mut gauges = self
            .inner
            .gauges
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        gauges[gauge as usize] = Some(Box::new(read));
    }

    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        let gauges = self
            .inner
            .gauges
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let read = |gauge: Gauge| gauges[gauge as usize].as_ref().map_or(0, |read| read());
        self.inner.metrics.render(&Now {
            queue_depth: read(Gauge::QueueDepth),
            parallel_actions: read(Gauge::ParallelActions),
        })
    }

    /// Counts and logs a request that was answered.
    pub fn http(&self, exchange: &HttpExchange<'_>) {
        self.inner.metrics.http.record(exchange);
        say::http(exchange);
    }

    /// Counts an append that did not go through an engine's driver.
    pub fn append(&self, took: Duration) {
        self.inner.metrics.appends.observe(took);
    }

    /// The function to which a store reports how long its commits take.
    pub fn commits(&self) -> impl Fn(Duration) + Send + Sync + 'static {
        let metrics = Arc::clone(&self.inner.metrics);
        move |took| metrics.commits.observe(took)
    }

    /// Sends and writes what is queued; a collector or reader that does not answer is not
    /// waited for long.
    pub async fn shutdown(&self) {
        if let Some(exporter) = &self.inner.exporter {
            exporter.flush().await;
        }
        if let Some(lines) = self.inner.lines.clone() {
            // A thread that panicked has nothing left to write.
            let _ = tokio::task::spawn_blocking(move || lines.flush()).await;
        }
    }
}
