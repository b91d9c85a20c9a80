//! Spans of runs and attempts, as the OTLP exporter takes them. Their ids derive from the run,
//! the node's path and the attempt's number.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    SpanContext, SpanId as OtelSpanId, SpanKind, Status, TraceFlags, TraceId as OtelTraceId,
    TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use windlass_core::run::RunSummary;
use windlass_core::trace::{SpanId, TraceParent};
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_engine::FinishedAttempt;

use super::Subject;

/// The span of a run or attempt that ended; none if the caller's trace context says that the
/// trace is not sampled.
pub(super) fn data(subject: &Subject) -> Option<SpanData> {
    match subject {
        Subject::Run(about, status) => run_span(about, *status),
        Subject::Attempt(attempt) => attempt_span(attempt),
    }
}

fn run_span(about: &RunSummary, status: RunStatus) -> Option<SpanData> {
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
        attribute("workflowId", queued.workflow.to_string()),
        attribute("version", i64::from(about.version)),
        attribute("executionId", about.run.to_string()),
        attribute("correlationId", queued.correlation_id.to_string()),
        attribute("status", status.to_string()),
    ];
    attributes.extend(error.map(|error| attribute("errorCode", error.code.to_string())));
    let message = error.map(|error| format!("{}: {}", error.code, error.message));
    let place = Place {
        trace: place,
        span,
        parent,
        is_remote: about.reopened_at.is_none(),
    };
    let times = (began, about.ended_at.unwrap_or(began));
    let status = span_status(status == RunStatus::Failed, message);
    place.span(
        format!("run {}", queued.workflow),
        times,
        attributes,
        status,
    )
}

fn attempt_span(attempt: &FinishedAttempt) -> Option<SpanData> {
    let place = TraceParent::of_run(attempt.run, attempt.traceparent.as_deref());
    let failed = matches!(attempt.status, NodeStatus::Failed | NodeStatus::Waiting);
    let status = if failed {
        NodeStatus::Failed
    } else {
        attempt.status
    };
    let failure = attempt.failure();
    let mut attributes = vec![
        attribute("workflowId", attempt.workflow.to_string()),
        attribute("version", i64::from(attempt.version)),
        attribute("executionId", attempt.run.to_string()),
        attribute("correlationId", attempt.correlation_id.to_string()),
        attribute("nodeId", attempt.node.to_string()),
        attribute("actionType", attempt.action.to_string()),
        attribute("attempt", i64::from(attempt.attempt)),
        attribute("retry", attempt.attempt > 1),
        attribute("willRetry", attempt.again()),
        attribute("status", status.to_string()),
    ];
    if attempt.undo {
        attributes.push(attribute("undo", true));
    }
    attributes.extend(failure.map(|failure| attribute("errorCode", failure.code.to_string())));
    let message = failure.map(|failure| format!("{}: {}", failure.code, failure.message));
    let place = Place {
        trace: place,
        span: SpanId::of_attempt(attempt.run, &attempt.node, attempt.attempt, attempt.undo),
        parent: Some(place.span),
        is_remote: false,
    };
    let times = (attempt.started, attempt.ended);
    let status = span_status(failed, message);
    place.span(attempt.action.to_string(), times, attributes, status)
}

/// A span's place in its trace.
struct Place {
    trace: TraceParent,
    span: SpanId,
    parent: Option<SpanId>,
    /// Whether another program made the parent.
    is_remote: bool,
}

impl Place {
    /// The span; none if the trace is not sampled.
    fn span(
        self,
        name: String,
        (start, end): (Millis, Millis),
        attributes: Vec<KeyValue>,
        status: Status,
    ) -> Option<SpanData> {
        let trace = OtelTraceId::from_bytes(self.trace.trace.0);
        let span = OtelSpanId::from_bytes(self.span.0);
        let parent = self.parent.map(|parent| OtelSpanId::from_bytes(parent.0));
        self.trace.sampled.then(|| SpanData {
            span_context: SpanContext::new(
                trace,
                span,
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent.unwrap_or(OtelSpanId::INVALID),
            parent_span_is_remote: parent.is_some() && self.is_remote,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: time(start),
            end_time: time(end),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: InstrumentationScope::builder("windlass")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        })
    }
}

/// `Ok` is for operators to set; a span that did not fail leaves its status unset.
fn span_status(failed: bool, message: Option<String>) -> Status {
    match failed {
        true => Status::error(message.unwrap_or_default()),
        false => Status::Unset,
    }
}

fn time(at: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

fn attribute(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(key, value)
}
