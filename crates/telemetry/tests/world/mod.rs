//! An engine on the in-memory store that is watched, and a collector on loopback that
//! answers as each test says.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test has nothing better to do than to stop, and not every test needs all"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use windlass_actions::{Allowed, registry_with};
use windlass_core::definition::{self, Source, signature};
use windlass_core::plan::Plan;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_engine::{Engine, NewRun, Observer, Options, SecretSource};
use windlass_store::{Catalogue as _, MemoryStore, NewDefinition, Wait as _};
use windlass_telemetry::{Gauge, Telemetry, TelemetryOptions, TraceOptions};

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
        let source = Source::new("test.json", text.as_bytes());
        let parsed = definition::parse(&source, &Default::default()).expect("a valid definition");
        let digest = Digest::of(text.as_bytes());
        let new = NewDefinition {
            tenant: None,
            workflow: parsed.definition.id.clone(),
            display_name: None,
            digest,
            text: Arc::from(text.as_bytes()),
            signature: signature(&parsed.definition),
            at: Millis(0),
        };
        let published = self.store.publish(new).await.expect("published");
        let plan = Arc::new(Plan::build(parsed.definition).expect("a plan"));
        NewRun::new(plan, published.version, digest)
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

/// A request's head, in lower case, and its body.
pub(crate) type Request = (String, Vec<u8>);

/// A collector: the requests that it got, and how it answers them.
#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
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
    pub(crate) async fn start(statuses: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let collector = Self {
            address,
            requests: Arc::clone(&requests),
        };
        tokio::spawn(async move {
            let mut statuses = statuses.iter().copied();
            let mut status = "200 OK";
            while let Ok((mut stream, _)) = listener.accept().await {
                status = statuses.next().unwrap_or(status);
                let request = read_request(&mut stream).await;
                requests.lock().unwrap().push(request);
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        collector
    }

    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry::start(TelemetryOptions {
            traces: Some(TraceOptions::new(self.address.parse().unwrap())),
            ..TelemetryOptions::default()
        })
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Received> {
        let requests = self.requests();
        let bodies = requests
            .iter()
            .filter(|(head, _)| head.starts_with("post /v1/traces "));
        bodies.flat_map(|(_, body)| spans_of(body)).collect()
    }
}

async fn read_request(stream: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    loop {
        let mut part = vec![0; 64 * 1024];
        let count = stream.read(&mut part).await.unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            assert!(count > 0, "the request has no end");
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.trim().parse::<usize>().unwrap());
        if bytes.len() >= end + 4 + length || count == 0 {
            return (head, bytes.split_off(end + 4));
        }
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
