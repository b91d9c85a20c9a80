//! What happened to a run, as its progress shows it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_core::NodeStatus;
use windlass_core::run::{Instance, Run};
use windlass_engine::history::PublicEvent;

use crate::progress::{Phase, Progress};

/// Shows what happened; the run is what it led to.
pub(super) fn show(progress: &Progress, run: &Run, events: &[Arc<PublicEvent>]) {
    for event in events {
        match event.kind {
            "RunPaused" => progress.phase(Phase::Paused),
            "RunResumed" => progress.phase(Phase::Running),
            "RunCancelRequested" => progress.phase(Phase::Stopping),
            _ => show_node(progress, run, event),
        }
    }
    progress.load(run);
}

fn show_node(progress: &Progress, run: &Run, event: &PublicEvent) {
    let Some(path) = event.node.as_deref() else {
        return;
    };
    // The iteration may be gone since, but its failure still gets a line.
    if let Some(node) = run.resolve(path) {
        show_status(progress, run, node, event);
    }
    show_failure(progress, path, event);
}

fn show_failure(progress: &Progress, path: &str, event: &PublicEvent) {
    let Some(error) = event.data.get("error") else {
        return;
    };
    let node = match event.kind {
        "NodeFailed" | "NodeRetryScheduled" => path.to_owned(),
        "CompensationFailed" => format!("compensation of {path}"),
        _ => return,
    };
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let again = event.data.contains_key("nextAttempt");
    progress.failed(&node, text("code"), text("message"), again);
}

fn show_status(progress: &Progress, run: &Run, node: Instance, event: &PublicEvent) {
    let path = event.node.as_deref().unwrap_or_default();
    let action = run.action_of(node).unwrap_or_default();
    let status = match event.kind {
        "NodeStarted" => {
            // A node that has ended since is shown with its end.
            if run.node_status(node) == NodeStatus::Running {
                progress.runs_for(node, path, action, Duration::ZERO);
            }
            return;
        }
        "NodeSucceeded" | "NodeSetByHand" => NodeStatus::Succeeded,
        "NodeFailed" => NodeStatus::Failed,
        "NodeSkipped" => NodeStatus::Skipped,
        "NodeBlocked" => NodeStatus::Blocked,
        "NodeCancelled" => NodeStatus::Cancelled,
        "NodeWaiting" | "NodeRetryScheduled" => NodeStatus::Waiting,
        _ => return,
    };
    if let Some(took) = event.data.get("durationMs").and_then(Value::as_u64) {
        progress.runs_for(node, path, action, Duration::from_millis(took));
    }
    let waiting_node = match status {
        NodeStatus::Waiting => run.waiting_node(node),
        _ => None,
    };
    progress.changed(&[(node, status)], waiting_node.as_slice());
}
