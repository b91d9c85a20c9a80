//! Traces: a span for each run and each attempt, sent by OpenTelemetry's OTLP exporter.
//!
//! A span is made whole when it ends, from durable facts and with ids that derive from them,
//! so the SDK's tracer, whose spans live in a process, has no part in it. Neither has its batch
//! processor: it does not say how many spans it drops, and its thread cannot drive an
//! asynchronous HTTP client. The encoding, the transports, the retries, the resource and most
//! of the standard variables are the library's.

mod endpoint;
mod exporter;
mod settings;
mod span;

pub use endpoint::{Endpoint, EndpointError};
pub(crate) use exporter::Exporter;
pub use settings::{Protocol, TraceOptions, TraceSettingsError};
use windlass_core::RunStatus;
use windlass_core::run::RunSummary;
use windlass_engine::FinishedAttempt;

/// What a span is about. It becomes a span on the exporter's task.
pub(crate) enum Subject {
    Run(Box<RunSummary>, RunStatus),
    Attempt(Box<FinishedAttempt>),
}
