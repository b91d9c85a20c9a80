//! What is logged, each with its level, its sentence and its fields. Absent fields are
//! left out. Messages of failures are those that are recorded, cleaned of secrets.

use std::net::SocketAddr;
use std::time::Duration;

use tracing::{debug, error, info, warn};
use windlass_core::run::RunSummary;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::FinishedAttempt;

use crate::metrics::HttpExchange;

/// The target of all events of this program, to which the level applies.
const TARGET: &str = "windlass";

/// A run began, or was recovered from a process that is gone.
pub(crate) fn began(about: &RunSummary, recovered: bool) {
    let queued = &about.queued;
    info!(
        target: TARGET,
        correlationId = &*queued.correlation_id,
        workflowId = &*queued.workflow,
        version = about.version,
        executionId = %about.run,
        "{}",
        if recovered { "run recovered" } else { "run began" },
    );
}

/// A run ended.
pub(crate) fn finished(about: &RunSummary, status: RunStatus, milliseconds: u64) {
    let queued = &about.queued;
    let error = about.finished.as_ref().and_then(|end| end.error.as_ref());
    let cause = error.and_then(|error| error.causes.first());
    let cause_run = cause.map(|cause| tracing::field::display(cause.execution_id));
    let cause_node = cause.map(|cause| &*cause.node);
    let cause_code = cause.map(|cause| &*cause.code);
    let cause_message = cause.map(|cause| &*cause.message);
    let (code, error) = (
        error.map(|error| &*error.code),
        error.map(|error| &*error.message),
    );
    macro_rules! say {
        ($level:ident) => {
            $level!(
                target: TARGET,
                correlationId = &*queued.correlation_id,
                workflowId = &*queued.workflow,
                version = about.version,
                executionId = %about.run,
                status = %status,
                durationMs = milliseconds,
                code,
                error,
                causeExecutionId = cause_run,
                causeNode = cause_node,
                causeCode = cause_code,
                causeMessage = cause_message,
                "run finished",
            )
        };
    }
    if status == RunStatus::Failed {
        say!(warn);
    } else {
        say!(info);
    }
}

/// An attempt ended: a failure is a warning, anything else is logged at debug level.
pub(crate) fn attempt(attempt: &FinishedAttempt, milliseconds: u64) {
    macro_rules! say {
        ($level:ident, $code:expr, $error:expr, $message:literal) => {
            $level!(
                target: TARGET,
                correlationId = &*attempt.correlation_id,
                workflowId = &*attempt.workflow,
                version = attempt.version,
                executionId = %attempt.run,
                nodeId = &*attempt.node,
                actionType = &*attempt.action,
                attempt = attempt.attempt,
                undo = attempt.undo.then_some(true),
                durationMs = milliseconds,
                code = $code,
                error = $error,
                $message,
            )
        };
    }
    match (attempt.failure(), attempt.again()) {
        (Some(failure), true) => {
            say!(
                warn,
                Some(&*failure.code),
                Some(&*failure.message),
                "attempt failed, another follows"
            );
        }
        (Some(failure), false) => {
            say!(
                warn,
                Some(&*failure.code),
                Some(&*failure.message),
                "attempt failed"
            );
        }
        (None, _) if attempt.status == NodeStatus::Failed => {
            say!(warn, None::<&str>, None::<&str>, "attempt failed");
        }
        (None, _) => say!(debug, None::<&str>, None::<&str>, "attempt ended"),
    }
}

/// A request was answered: a failure of the server is an error, a refused request is logged at
/// info level, the rest at debug level.
pub(crate) fn http(exchange: &HttpExchange<'_>) {
    let micros = u64::try_from(exchange.took.as_micros()).unwrap_or(u64::MAX);
    macro_rules! say {
        ($level:ident) => {
            $level!(
                target: TARGET,
                correlationId = exchange.correlation_id,
                method = exchange.method,
                route = exchange.route,
                status = exchange.status,
                durationUs = micros,
                "request answered",
            )
        };
    }
    match exchange.status {
        500.. => say!(error),
        400..500 => say!(info),
        _ => say!(debug),
    }
}

/// What a dead letter is about.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetter<'a> {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: &'a str,
    /// The workflow's version.
    pub version: u32,
    /// What ties the run to the outside.
    pub correlation_id: Option<&'a str>,
    /// The code of the reason.
    pub code: &'a str,
    /// The reason, cleaned of secrets.
    pub reason: &'a str,
}

/// A run became a dead letter.
pub fn dead_letter(letter: &DeadLetter<'_>) {
    error!(
        target: TARGET,
        correlationId = letter.correlation_id,
        workflowId = letter.workflow,
        version = letter.version,
        executionId = %letter.run,
        code = letter.code,
        error = letter.reason,
        "run became a dead letter",
    );
}

/// A run cannot be read, and is left as it is.
pub fn quarantined(run: RunId, reason: &str) {
    error!(
        target: TARGET,
        executionId = %run,
        error = reason,
        "run cannot be read and is left alone",
    );
}

/// Something stored is damaged.
pub(crate) fn damaged(what: &str, reason: &str) {
    error!(
        target: TARGET,
        what,
        error = reason,
        "stored data is damaged; all other data stays in use",
    );
}

/// The store that several processes share does not answer.
pub(crate) fn store_away(reason: &str) {
    warn!(
        target: TARGET,
        error = reason,
        "the store does not answer; what was acknowledged is safe, and work resumes by itself",
    );
}

/// The store answers again.
pub(crate) fn store_back(after: Duration) {
    let seconds = after.as_secs_f64();
    info!(target: TARGET, seconds, "the store answers again; work resumes");
}

/// Runs that were under way when the program last ended were recovered.
pub fn recovered(runs: usize, paused: usize, unreadable: usize) {
    info!(target: TARGET, runs, paused, unreadable, "recovery done");
}

/// The server listens.
pub fn server_started(address: SocketAddr) {
    let version = env!("CARGO_PKG_VERSION");
    info!(target: TARGET, %address, program = version, "server started");
}

/// Something that people are told on a terminal, where the log is for programs.
pub fn note(text: &str) {
    info!(target: TARGET, "{text}");
}

/// The server accepts no new requests and finishes those under way.
pub fn server_draining() {
    info!(target: TARGET, "server draining");
}

/// The server has ended.
pub fn server_stopped() {
    info!(target: TARGET, "server stopped");
}

/// Spans could not be sent: logged once, until sending succeeds again.
pub(crate) fn spans_refused(reason: &str, spans: usize) {
    warn!(target: TARGET, error = reason, spans, "spans could not be sent");
}
