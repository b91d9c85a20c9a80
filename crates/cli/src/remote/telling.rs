//! What happened to a run, as its progress shows it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_core::NodeStatus;
use windlass_core::run::Run;
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
    progress.take_over(run);
}

fn show_node(progress: &Progress, run: &Run, event: &PublicEvent) {
    let Some(path) = event.node.as_deref() else {
        return;
    };
    let Some(node) = run.resolve(path) else {
        return;
    };
    let action = run.action_of(node).unwrap_or_default();
    let status = match event.kind {
        "NodeStarted" => {
            // One that has ended since is told with its end.
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
    let standing = match status {
        NodeStatus::Waiting => run.standing(node),
        _ => None,
    };
    progress.changed(&[(node, status)], standing.as_slice());
    if let "NodeFailed" | "NodeRetryScheduled" = event.kind
        && let Some(error) = event.data.get("error")
    {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let again = event.kind == "NodeRetryScheduled";
        progress.failed(node, text("code"), text("message"), again);
    }
}
