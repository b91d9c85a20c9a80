//! Sends spans to a collector, in batches. The engine never waits for it: its queue is bounded,
//! and spans that do not fit, or that the collector refuses for good, are dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::otlp::{self, Span};
use super::{Subject, TraceOptions};
use crate::logs::say;
use crate::metrics::Counter;

/// Spans of one request: some hundred kilobytes.
const BATCH: usize = 512;

/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// How long a collector may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a batch is sent before it is dropped, and how long is waited in between.
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// How long an orderly shutdown waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

enum Item {
    Span(Subject),
    /// Answered when everything before is sent or dropped.
    Flush(oneshot::Sender<()>),
}

/// Where spans are put.
#[derive(Clone)]
pub(crate) struct Exporter {
    queue: mpsc::Sender<Item>,
    dropped: Arc<Counter>,
}

impl Exporter {
    /// Starts the task; it ends when the last clone is gone.
    pub(crate) fn start(options: TraceOptions, dropped: Arc<Counter>) -> Self {
        let (queue, items) = mpsc::channel(options.queue.max(1));
        let sender = Sender {
            options,
            items,
            client: None,
            dropped: Arc::clone(&dropped),
            failing: false,
        };
        tokio::spawn(sender.run());
        Self { queue, dropped }
    }

    /// Takes what ended; never waits.
    pub(crate) fn put(&self, subject: Subject) {
        if self.queue.try_send(Item::Span(subject)).is_err() {
            self.dropped.add(1);
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
    options: TraceOptions,
    items: mpsc::Receiver<Item>,
    /// Made for the first batch; a program without spans has none.
    client: Option<reqwest::Client>,
    dropped: Arc<Counter>,
    /// The last batch could not be sent, and that was logged.
    failing: bool,
}

/// Why a batch was not taken.
enum Refusal {
    /// Another try may go better.
    Later(String),
    ForGood(String),
}

impl Sender {
    async fn run(mut self) {
        let mut spans = Vec::new();
        while let Some(first) = self.items.recv().await {
            let flushed = self.gather(first, &mut spans).await;
            if !spans.is_empty() {
                self.send(&spans).await;
                spans.clear();
            }
            if let Some(done) = flushed {
                // The caller of `flush` may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    /// Waits for a batch to be full, old enough, or wanted.
    async fn gather(&mut self, first: Item, spans: &mut Vec<Span>) -> Option<oneshot::Sender<()>> {
        let deadline = Instant::now() + LINGER;
        let mut next = Some(first);
        while let Some(item) = next {
            match item {
                Item::Flush(done) => return Some(done),
                Item::Span(subject) => spans.extend(otlp::span(&subject)),
            }
            if spans.len() >= BATCH {
                break;
            }
            next = timeout_at(deadline, self.items.recv()).await.ok().flatten();
        }
        None
    }

    async fn send(&mut self, spans: &[Span]) {
        let body = otlp::export(&self.options.service_name, spans);
        let body = serde_json::to_vec(&body).expect("spans are numbers and text");
        let mut pause = FIRST_PAUSE;
        let mut refused = String::new();
        for attempt in 1..=TRIES {
            match self.post(body.clone()).await {
                Ok(()) => {
                    self.failing = false;
                    return;
                }
                Err(Refusal::ForGood(reason)) => {
                    refused = reason;
                    break;
                }
                Err(Refusal::Later(reason)) => refused = reason,
            }
            if attempt < TRIES {
                sleep(pause).await;
                pause *= 4;
            }
        }
        self.dropped.add(spans.len() as u64);
        if !std::mem::replace(&mut self.failing, true) {
            say::spans_refused(&refused, spans.len());
        }
    }

    async fn post(&mut self, body: Vec<u8>) -> Result<(), Refusal> {
        let url = self.options.endpoint.url().clone();
        let client = self.client().map_err(Refusal::ForGood)?;
        let request = client.post(url).header(CONTENT_TYPE, "application/json");
        // The address may hold a key.
        let answer = request.body(body).send().await;
        let answer = answer.map_err(|error| Refusal::Later(error.without_url().to_string()))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let reason = format!("the collector answered {status}");
        // OTLP's list of answers after which trying again makes sense.
        Err(match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Refusal::Later(reason),
            _ => Refusal::ForGood(reason),
        })
    }

    fn client(&mut self) -> Result<&reqwest::Client, String> {
        if self.client.is_none() {
            self.client = Some(build(&self.options)?);
        }
        self.client
            .as_ref()
            .ok_or_else(|| "no HTTP client".to_owned())
    }
}

fn build(options: &TraceOptions) -> Result<reqwest::Client, String> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let invalid = |_| format!("the header '{name}' of the collector is not one");
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(()))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid(()))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .timeout(ANSWER_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .default_headers(headers)
        .build()
        .map_err(|error| format!("the HTTP client could not be made: {error}"))
}
