//! Traces: a span for each run and each attempt, sent as OTLP over HTTP.
//!
//! The exporter is our own, in OTLP's JSON form: our spans are made whole when they
//! end, from durable facts and with ids that derive from them, which the usual SDKs,
//! made for spans that live in a process, only offer by detours. It needs nothing that
//! the program does not have already; the SDK with its protobufs would add some twenty
//! packages for the same request.

mod endpoint;
mod exporter;
mod otlp;

pub use endpoint::{Endpoint, EndpointError};
pub(crate) use exporter::Exporter;
use windlass_core::RunStatus;
use windlass_core::run::RunSummary;
use windlass_engine::FinishedAttempt;

/// Where spans go.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The collector.
    pub endpoint: Endpoint,
    /// Headers of every request, such as an authorisation.
    pub headers: Vec<(String, String)>,
    /// What the program is called there.
    pub service_name: String,
    /// How many spans wait at most; what comes then is dropped and counted.
    pub queue: usize,
}

impl TraceOptions {
    /// The usual options for a collector.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            headers: Vec::new(),
            service_name: "windlass".to_owned(),
            queue: 8192,
        }
    }
}

/// What a span is about. It becomes a span on the exporter's task.
pub(crate) enum Subject {
    Run(Box<RunSummary>, RunStatus),
    Attempt(Box<FinishedAttempt>),
}
