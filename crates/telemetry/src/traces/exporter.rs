//! Sends spans to a collector, in batches. The engine never waits for it: its queue is bounded,
//! and spans that do not fit, or that the collector refuses for good, are dropped and counted.

use std::time::Duration;

use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
    WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector as _, SdkProvidedResourceDetector,
    TelemetryResourceDetector,
};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Protocol, Subject, TraceOptions, span};
use crate::logs::say;
use crate::metrics::Counter;

/// How long an orderly shutdown waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// What the program is called at a collector, unless a variable says otherwise.
const SERVICE_NAME: &str = "windlass";

enum Item {
    Span(Subject),
    /// Answered when everything before is sent or dropped.
    Flush(oneshot::Sender<()>),
}

/// Where spans are put.
#[derive(Clone)]
pub(crate) struct Exporter {
    queue: mpsc::Sender<Item>,
    dropped: Counter,
}

impl Exporter {
    /// Starts the task; it ends when the last clone is gone. Must be called inside a tokio
    /// runtime.
    pub(crate) fn start(
        options: &TraceOptions,
        dropped: Counter,
    ) -> Result<Self, ExporterBuildError> {
        let (queue, items) = mpsc::channel(options.queue.max(1));
        let mut exporter = build(options)?;
        exporter.set_resource(&resource());
        let sender = Sender {
            exporter,
            items,
            batch: options.batch.max(1),
            delay: options.delay,
            timeout: options.timeout,
            dropped: dropped.clone(),
            failing: false,
        };
        tokio::spawn(sender.run());
        Ok(Self { queue, dropped })
    }

    /// Takes what ended; never waits.
    pub(crate) fn put(&self, subject: Subject) {
        if self.queue.try_send(Item::Span(subject)).is_err() {
            self.dropped.inc();
        }
    }

    /// Returns when every queued span is sent or dropped, or it takes too long.
    pub(crate) async fn flush(&self) {
        let flush = async {
            let (done, sent) = oneshot::channel();
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        let _ = timeout(FLUSH_TIMEOUT, flush).await;
    }
}

struct Sender {
    exporter: SpanExporter,
    items: mpsc::Receiver<Item>,
    batch: usize,
    delay: Duration,
    timeout: Duration,
    dropped: Counter,
    /// The last batch could not be sent, and that was logged.
    failing: bool,
}

impl Sender {
    async fn run(mut self) {
        while let Some(first) = self.items.recv().await {
            let mut spans = Vec::new();
            let flushed = self.gather(first, &mut spans).await;
            if !spans.is_empty() {
                self.send(spans).await;
            }
            if let Some(done) = flushed {
                // The caller of `flush` may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    /// Waits until a batch is full or old enough, or a flush is requested.
    async fn gather(
        &mut self,
        first: Item,
        spans: &mut Vec<SpanData>,
    ) -> Option<oneshot::Sender<()>> {
        let deadline = Instant::now() + self.delay;
        let mut next = Some(first);
        while let Some(item) = next {
            match item {
                Item::Flush(done) => return Some(done),
                Item::Span(subject) => spans.extend(span::data(&subject)),
            }
            if spans.len() >= self.batch {
                break;
            }
            next = timeout_at(deadline, self.items.recv()).await.ok().flatten();
        }
        None
    }

    async fn send(&mut self, spans: Vec<SpanData>) {
        let count = spans.len();
        // The exporter's own deadline does not interrupt a call that is under way.
        let refused = match timeout(self.timeout, self.exporter.export(spans)).await {
            Ok(Ok(())) => {
                self.failing = false;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the collector did not answer in time".to_owned(),
        };
        self.dropped.inc_by(count as u64);
        if !std::mem::replace(&mut self.failing, true) {
            say::spans_refused(&refused, count);
        }
    }
}

fn build(options: &TraceOptions) -> Result<SpanExporter, ExporterBuildError> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = options.endpoint.as_ref();
    match options.protocol {
        Protocol::Http => {
            let mut builder = SpanExporter::builder()
                .with_http()
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_timeout(options.timeout)
                .with_http_client(client(options)?);
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.http());
            }
            builder.build()
        }
        Protocol::Grpc => {
            let mut builder = SpanExporter::builder()
                .with_tonic()
                .with_timeout(options.timeout)
                // Without it the exporter would trust no certificate at all.
                .with_tls_config(ClientTlsConfig::new().with_enabled_roots());
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.grpc());
            }
            builder.build()
        }
    }
}

/// The client for HTTP: it follows no redirect, which could take headers with keys elsewhere.
fn client(options: &TraceOptions) -> Result<reqwest::Client, ExporterBuildError> {
    reqwest::Client::builder()
        .timeout(options.timeout)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| ExporterBuildError::InternalFailure(format!("HTTP client: {error}")))
}

/// What sends the spans: the program and its version, unless the standard variables say
/// otherwise, and what else they say.
fn resource() -> Resource {
    // `OTEL_SERVICE_NAME` wins over a name in `OTEL_RESOURCE_ATTRIBUTES`: what comes last wins.
    let builder = Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
            Box::new(SdkProvidedResourceDetector),
        ]);
    let detected = SdkProvidedResourceDetector.detect();
    let name = detected.get(&Key::from_static_str("service.name"));
    match name {
        Some(name) if !name.as_str().starts_with("unknown_service") => builder.build(),
        _ => builder.with_service_name(SERVICE_NAME).build(),
    }
}
