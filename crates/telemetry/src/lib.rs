//! Observability: JSON logs, OpenTelemetry traces and Prometheus metrics.
//!
//! All of it is fed by an [`Observer`](windlass_engine::Observer) of the engine and a
//! few calls of the server. It never holds the engine up: lines and spans that cannot be
//! written or sent in time are dropped and counted. It knows neither a store nor HTTP routes.

mod logs;
mod metrics;
mod observer;
mod telemetry;
mod traces;

pub use logs::{Format, LogOptions, LogSink, say};
pub use metrics::{HttpExchange, METRICS_TYPE, QueueReading, Reading, ReadingKind};
pub use telemetry::{Gauge, StartError, Telemetry, TelemetryOptions};
pub use traces::{Endpoint, EndpointError, Protocol, TraceOptions, TraceSettingsError};
