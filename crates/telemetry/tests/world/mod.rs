//! An engine on the in-memory store that is observed, and its telemetry.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test has nothing better to do than to stop, and not every test needs all"
)]

use std::sync::Arc;

use windlass_actions::{Allowed, registry_with};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Engine, NewRun, Observer, Options, SecretSource};
use windlass_store::{MemoryStore, Wait as _};
use windlass_telemetry::{Gauge, Telemetry, TelemetryOptions, TraceOptions};
use windlass_test_support::catalogue;
use windlass_test_support::collector::HttpCollector;

/// What the secret named `key` is.
pub(crate) const SECRET: &str = "hunter2-\"quoted\"-ß";

struct OneSecret;

impl SecretSource for OneSecret {
    fn secret(&self, name: &str) -> Option<String> {
        (name == "key").then(|| SECRET.to_owned())
    }
}

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) engine: Engine,
    pub(crate) telemetry: Telemetry,
}

impl World {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        Self::on(MemoryStore::new(), telemetry)
    }

    /// One that this observer watches, and telemetry does not.
    pub(crate) fn watched(telemetry: Telemetry, observer: Arc<dyn Observer>) -> Self {
        Self::with(MemoryStore::new(), telemetry, observer)
    }

    /// Another process on a store.
    pub(crate) fn on(store: MemoryStore, telemetry: Telemetry) -> Self {
        let observer = telemetry.observer();
        Self::with(store, telemetry, observer)
    }

    fn with(store: MemoryStore, telemetry: Telemetry, observer: Arc<dyn Observer>) -> Self {
        let registry = registry_with(windlass_actions::Options {
            http_allowed: Allowed::parse(["127.0.0.1"]).unwrap(),
            exec: false,
            ..windlass_actions::Options::default()
        });
        let options = Options {
            observer: Some(observer),
            traces: telemetry.traces(),
            secrets: Arc::new(OneSecret),
            ..Options::default()
        };
        let engine = Engine::new(Arc::new(store.clone()), registry, options).wait();
        let running = engine.clone();
        telemetry.gauge(Gauge::ParallelActions, move || {
            running.running_actions() as u64
        });
        Self {
            store,
            engine,
            telemetry,
        }
    }

    pub(crate) async fn publish(&self, text: &str) -> NewRun {
        catalogue::publish(&self.store, None, text).await
    }

    pub(crate) async fn start(&self, request: &NewRun) -> RunId {
        self.engine.start(request).await.expect("started").run
    }

    pub(crate) async fn run(&self, text: &str) -> (RunId, RunStatus) {
        let request = self.publish(text).await;
        let run = self.start(&request).await;
        (run, self.engine.wait(run).await.expect("ended"))
    }
}

/// Telemetry without logs and traces.
pub(crate) fn metrics_alone() -> Telemetry {
    started(TelemetryOptions::default())
}

pub(crate) fn started(options: TelemetryOptions) -> Telemetry {
    Telemetry::start(options).unwrap()
}

/// Telemetry that sends spans to a collector over HTTP.
pub(crate) fn sends_to(collector: &HttpCollector) -> Telemetry {
    started(TelemetryOptions {
        traces: Some(traces_to(collector)),
        ..TelemetryOptions::default()
    })
}

pub(crate) fn traces_to(collector: &HttpCollector) -> TraceOptions {
    TraceOptions::new(Some(collector.address.parse().unwrap()))
}

/// The value of a sample on a page.
pub(crate) fn sample(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().unwrap())
}
