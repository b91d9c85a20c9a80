//! An engine on the in-memory store that is watched, and a collector on loopback that
//! answers as each test says.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test has nothing better to do than to stop, and not every test needs all"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_actions::{Allowed, registry_with};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Engine, NewRun, Observer, Options, SecretSource};
use windlass_store::{MemoryStore, Wait as _};
use windlass_telemetry::{Gauge, Telemetry, TelemetryOptions, TraceOptions};
use windlass_test_support::catalogue;
use windlass_test_support::services::{ServiceReply, ServiceRequest, StubServer};

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

/// A collector: the requests that it got, and how it answers them.
#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) address: String,
    server: StubServer,
}

/// A span as the collector got it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) failed: bool,
    pub(crate) tags: BTreeMap<String, String>,
}

impl Collector {
    /// Answers with these statuses in turn, and the last one for ever.
    pub(crate) fn start(statuses: &'static [u16]) -> Self {
        let mut statuses = statuses.iter().copied();
        let mut status = 200;
        let server = StubServer::start(move |_| {
            status = statuses.next().unwrap_or(status);
            ServiceReply::Json(status, Vec::new(), serde_json::json!({}))
        });
        let address = server.url.clone();
        Self { address, server }
    }

    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry::start(TelemetryOptions {
            traces: Some(TraceOptions::new(self.address.parse().unwrap())),
            ..TelemetryOptions::default()
        })
    }

    pub(crate) fn requests(&self) -> Vec<ServiceRequest> {
        self.server.seen("")
    }

    pub(crate) fn spans(&self) -> Vec<Received> {
        let requests = self.server.seen("/v1/traces");
        let requests = requests.iter();
        requests
            .flat_map(|request| spans_of(&request.body))
            .collect()
    }
}

fn spans_of(body: &[u8]) -> Vec<Received> {
    let body: Value = serde_json::from_slice(body).expect("OTLP in its JSON form");
    let resource = &body["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(resource["key"], "service.name");
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    spans.as_array().unwrap().iter().map(received).collect()
}

fn received(span: &Value) -> Received {
    let text = |key: &str| span[key].as_str().map(str::to_owned);
    let number = |key: &str| span[key].as_str().unwrap().parse().unwrap();
    let tag = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next();
        let value = match value.unwrap() {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (attribute["key"].as_str().unwrap().to_owned(), value)
    };
    Received {
        trace: text("traceId").unwrap(),
        id: text("spanId").unwrap(),
        parent: text("parentSpanId"),
        name: text("name").unwrap(),
        start: number("startTimeUnixNano"),
        end: number("endTimeUnixNano"),
        failed: span["status"]["code"] == 2,
        tags: span["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .map(tag)
            .collect(),
    }
}

/// The value of a sample on a page.
pub(crate) fn sample(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().unwrap())
}
