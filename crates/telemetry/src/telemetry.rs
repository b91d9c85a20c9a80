//! The handle: start, watch, show, stop.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use windlass_engine::Observer;

use crate::logs::{self, Lines, LogOptions, say};
use crate::metrics::{self, HttpExchange, Metrics, QueueReading, Reading, ReadingKind};
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
    gauges: RwLock<[Option<Read>; 4]>,
    readings: RwLock<Vec<ReadMany>>,
    queue: RwLock<Option<ReadQueue>>,
    label_limit: usize,
}

type Read = Box<dyn Fn() -> u64 + Send + Sync>;

type ReadMany = Box<dyn Fn() -> Vec<Reading> + Send + Sync>;

type ReadQueue = Box<dyn Fn() -> Vec<QueueReading> + Send + Sync>;

/// Why telemetry could not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traces cannot be sent: {}", self.0)
    }
}

impl std::error::Error for StartError {}

/// A number that is read when the metrics page is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Runs that wait to begin.
    QueueDepth,
    /// Actions that run now.
    ParallelActions,
    /// Runs that the engine gave up, and that an operator has not looked after.
    DeadLetters,
    /// How far the tables that are written behind the log are behind it, in seconds.
    ProjectionLag,
}

impl Telemetry {
    /// Starts what the options ask for. With traces it must be called inside a tokio
    /// runtime. Logs go where the first call in a program says.
    pub fn start(options: TelemetryOptions) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new(options.label_limit.max(1), options.actions));
        let lines = options.logs.and_then(|logs| {
            // A program without a thread for its logs works without logs.
            logs::start(logs, metrics.dropped_lines.clone()).ok()
        });
        let exporter = options
            .traces
            .map(|traces| Exporter::start(&traces, metrics.dropped_spans.clone()))
            .transpose()
            .map_err(|error| StartError(error.to_string()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                metrics,
                exporter,
                name_tenants: options.name_tenants,
                lines,
                gauges: RwLock::default(),
                readings: RwLock::default(),
                queue: RwLock::default(),
                label_limit: options.label_limit.max(1),
            }),
        })
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

    /// Adds numbers of another part of the program to the metrics page; reading them must be
    /// quick.
    pub fn readings(&self, read: impl Fn() -> Vec<Reading> + Send + Sync + 'static) {
        let readings = self.inner.readings.write();
        let mut readings = readings.unwrap_or_else(PoisonError::into_inner);
        readings.push(Box::new(read));
    }

    /// Sets how to read what is in the work queue when the metrics page is requested.
    pub fn work_queue(&self, read: impl Fn() -> Vec<QueueReading> + Send + Sync + 'static) {
        let queue = self.inner.queue.write();
        *queue.unwrap_or_else(PoisonError::into_inner) = Some(Box::new(read));
    }

    fn read_queue(&self) -> Vec<QueueReading> {
        let queue = self.inner.queue.read();
        let queue = queue.unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().map_or_else(Vec::new, |read| read())
    }

    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut readings = self.gauges();
        let more = self.inner.readings.read();
        let more = more.unwrap_or_else(PoisonError::into_inner);
        readings.extend(more.iter().flat_map(|read| read()));
        drop(more);
        let Inner {
            metrics,
            name_tenants,
            label_limit,
            ..
        } = &*self.inner;
        let queue = metrics::queue_series(self.read_queue(), *name_tenants, *label_limit);
        metrics::render(metrics, readings, queue)
    }

    fn gauges(&self) -> Vec<Reading> {
        let gauges = self
            .inner
            .gauges
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let reading = |gauge: Gauge, name, help| Reading {
            name,
            help,
            kind: ReadingKind::Gauge,
            value: gauges[gauge as usize].as_ref().map_or(0, |read| read()),
        };
        vec![
            reading(Gauge::QueueDepth, "queue_depth", "Runs that wait to begin."),
            reading(
                Gauge::ParallelActions,
                "windlass_parallel_actions",
                "Actions that run now.",
            ),
            reading(
                Gauge::DeadLetters,
                "dead_letters",
                "Runs that wait as dead letters for an operator.",
            ),
            reading(
                Gauge::ProjectionLag,
                "windlass_projection_lag_seconds",
                "How far the tables written behind the log are behind it.",
            ),
        ]
    }

    /// Counts and logs a request that was answered.
    pub fn http(&self, exchange: &HttpExchange<'_>) {
        self.inner.metrics.http.record(exchange);
        say::http(exchange);
    }

    /// Counts an append that did not go through an engine's driver.
    pub fn append(&self, took: Duration) {
        self.inner.metrics.appended(took);
    }

    /// The function to which a store reports how long its commits take.
    pub fn commits(&self) -> impl Fn(Duration) + Send + Sync + 'static {
        let metrics = Arc::clone(&self.inner.metrics);
        move |took| metrics.committed(took)
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
