//! Spans in OTLP's JSON form (OpenTelemetry protocol, "JSON Protobuf Encoding"): ids in
//! hexadecimal, 64-bit numbers as text.

use serde::{Serialize, Serializer};
use windlass_core::run::RunSummary;
use windlass_core::trace::{SpanId, TraceId, TraceParent};
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_engine::FinishedAttempt;

use super::Subject;

/// The body of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Export<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: &'a [Span],
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    #[serde(serialize_with = "text")]
    trace_id: TraceId,
    #[serde(serialize_with = "text")]
    span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_text")]
    parent_span_id: Option<SpanId>,
    name: String,
    /// Internal.
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    status: Status,
}

#[derive(Serialize)]
struct Status {
    code: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: Value,
}

#[derive(Serialize)]
enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "intValue")]
    Number(String),
    #[serde(rename = "boolValue")]
    Truth(bool),
}

/// A request for these spans.
pub(super) fn export<'a>(service_name: &str, spans: &'a [Span]) -> Export<'a> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            string("service.name", service_name),
            string("service.version", version),
        ],
    };
    let scope = Scope {
        name: "windlass",
        version,
    };
    Export {
        resource_spans: [ResourceSpans {
            resource,
            scope_spans: [ScopeSpans { scope, spans }],
        }],
    }
}

/// The span of a run or attempt that ended; none if the caller's trace context says that the
/// trace is not sampled.
pub(super) fn span(subject: &Subject) -> Option<Span> {
    match subject {
        Subject::Run(about, status) => run_span(about, *status),
        Subject::Attempt(attempt) => attempt_span(attempt),
    }
}

fn run_span(about: &RunSummary, status: RunStatus) -> Option<Span> {
    let queued = &about.queued;
    let asked = queued.traceparent.as_deref();
    let place = TraceParent::of_run(about.run, asked);
    // A run that was opened again has a span already; a child span covers the time since.
    let (span, parent, began) = match about.reopened_at {
        None => {
            let parent = asked.and_then(TraceParent::parse);
            let began = about.started_at.unwrap_or(about.created_at);
            (place.span, parent.map(|parent| parent.span), began)
        }
        Some(at) => (SpanId::of_reopened(about.run, at), Some(place.span), at),
    };
    let error = about.finished.as_ref().and_then(|end| end.error.as_ref());
    let mut attributes = vec![
        string("workflowId", &queued.workflow),
        int("version", about.version),
        string("executionId", &about.run.to_string()),
        string("correlationId", &queued.correlation_id),
        string("status", &status.to_string()),
    ];
    attributes.extend(error.map(|error| string("errorCode", &error.code)));
    let message = error.map(|error| format!("{}: {}", error.code, error.message));
    place.sampled.then(|| Span {
        trace_id: place.trace,
        span_id: span,
        parent_span_id: parent,
        name: format!("run {}", queued.workflow),
        kind: INTERNAL,
        start_time_unix_nano: nanoseconds(began),
        end_time_unix_nano: nanoseconds(about.ended_at.unwrap_or(began)),
        attributes,
        status: Status::new(status == RunStatus::Failed, message),
    })
}

fn attempt_span(attempt: &FinishedAttempt) -> Option<Span> {
    let place = TraceParent::of_run(attempt.run, attempt.traceparent.as_deref());
    let failed = matches!(attempt.status, NodeStatus::Failed | NodeStatus::Waiting);
    let status = if failed {
        NodeStatus::Failed
    } else {
        attempt.status
    };
    let failure = attempt.failure();
    let mut attributes = vec![
        string("workflowId", &attempt.workflow),
        int("version", attempt.version),
        string("executionId", &attempt.run.to_string()),
        string("correlationId", &attempt.correlation_id),
        string("nodeId", &attempt.node),
        string("actionType", &attempt.action),
        int("attempt", attempt.attempt),
        boolean("retry", attempt.attempt > 1),
        boolean("willRetry", attempt.again()),
        string("status", &status.to_string()),
    ];
    if attempt.undo {
        attributes.push(boolean("undo", true));
    }
    attributes.extend(failure.map(|failure| string("errorCode", &failure.code)));
    let message = failure.map(|failure| format!("{}: {}", failure.code, failure.message));
    place.sampled.then(|| Span {
        trace_id: place.trace,
        span_id: SpanId::of_attempt(attempt.run, &attempt.node, attempt.attempt, attempt.undo),
        parent_span_id: Some(place.span),
        name: attempt.action.to_string(),
        kind: INTERNAL,
        start_time_unix_nano: nanoseconds(attempt.started),
        end_time_unix_nano: nanoseconds(attempt.ended),
        attributes,
        status: Status::new(failed, message),
    })
}

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;

impl Status {
    /// `STATUS_CODE_OK` is for people to set; a span that did not fail leaves it unset.
    fn new(failed: bool, message: Option<String>) -> Self {
        Self {
            code: if failed { 2 } else { 0 },
            message: message.filter(|_| failed).unwrap_or_default(),
        }
    }
}

fn nanoseconds(at: Millis) -> String {
    let millis = u64::try_from(at.0).unwrap_or(0);
    millis.saturating_mul(1_000_000).to_string()
}

fn string(key: &'static str, value: &str) -> Attribute {
    let value = Value::Text(value.to_owned());
    Attribute { key, value }
}

fn int(key: &'static str, value: u32) -> Attribute {
    let value = Value::Number(value.to_string());
    Attribute { key, value }
}

fn boolean(key: &'static str, value: bool) -> Attribute {
    let value = Value::Truth(value);
    Attribute { key, value }
}

fn text<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn some_text<S: Serializer>(value: &Option<SpanId>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
