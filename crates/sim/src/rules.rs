//! Rules about one run's state, asked anew and apart from the code that decides.

use windlass_core::definition::{ExecutionMode, Join, When};
use windlass_core::event::{AttemptEnded, AttemptResult, Finished, StopCause};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, NodeStatus, RunStatus};

/// What is wrong, in words.
pub type Verdict = Result<(), String>;

/// Whether an attempt ended well.
pub(crate) fn succeeded(ended: &AttemptEnded) -> bool {
    matches!(ended.result, AttemptResult::Succeeded(_))
}

/// Every node before this one has ended in its scope, and each edge between is resolved;
/// where the join does not wait for all, enough of them are taken.
pub fn may_begin(run: &Run, node: Instance) -> Verdict {
    let incoming = run.incoming(node);
    let taken = incoming
        .iter()
        .filter(|(_, edge)| *edge == EdgeState::Taken);
    let wanted = match run.join_of(node) {
        Join::All => {
            return incoming.iter().try_for_each(|&(source, edge)| {
                let status = run.node_status(source);
                if status.is_final() && edge != EdgeState::Unresolved {
                    return Ok(());
                }
                let (node, source) = (run.path(node), run.path(source));
                Err(format!("{node} went before {source}, which is {status}"))
            });
        }
        Join::Any => 1,
        Join::AtLeast(count) => count as usize,
    };
    let count = taken.count();
    if incoming.is_empty() || count >= wanted {
        return Ok(());
    }
    let node = run.path(node);
    Err(format!("{node} went with {count} of {wanted} edges"))
}

/// Every earlier level has ended.
pub fn levels_ended(run: &Run, node: Instance) -> Verdict {
    let plan = run.plan();
    let is_top = (node as usize) < plan.len();
    if plan.execution_mode() != ExecutionMode::Levels || !is_top {
        return Ok(());
    }
    for other in 0..plan.len() as NodeIndex {
        if plan.level(other) < plan.level(node) && !run.node_status(other).is_final() {
            let (node, other) = (plan.id(node), plan.id(other));
            return Err(format!("{node} went before {other} of an earlier level"));
        }
    }
    Ok(())
}

/// Something with a time happens when that has come.
pub fn due(deadline: Option<Millis>, submitted: Millis, what: &str) -> Verdict {
    match deadline {
        Some(deadline) if deadline <= submitted => Ok(()),
        Some(deadline) => Err(format!(
            "{what} ended at {submitted:?}, before {deadline:?}"
        )),
        None => Err(format!("{what} ended though nothing set it")),
    }
}

/// The end of a run (semantics §4), asked anew.
pub fn ended_properly(run: &Run, finished: &Finished, changed: bool) -> Verdict {
    let begun = run.started_at().is_some();
    let mut top = run
        .instances()
        .filter(|&node| !run.path(node).contains('/'));
    if let Some(node) = top.find(|&node| begun && !run.node_status(node).is_final()) {
        let (path, status) = (run.path(node), run.node_status(node));
        return Err(format!("the run ended while {path} is {status}"));
    }
    let unhandled = run.failed().any(|node| !is_handled(run, node, changed));
    let expected = match run.stop_cause() {
        Some(StopCause::Cancel) => RunStatus::Cancelled,
        Some(StopCause::Timeout) => RunStatus::Failed,
        _ if unhandled => RunStatus::Failed,
        _ => RunStatus::Succeeded,
    };
    if finished.status == expected {
        Ok(())
    } else {
        let status = finished.status;
        Err(format!("the run ended {status}, not {expected}"))
    }
}

/// In a graph that was exchanged a node's number is not its place.
fn is_handled(run: &Run, node: Instance, changed: bool) -> bool {
    if changed {
        return run.is_handled(node);
    }
    let plan = run.plan();
    plan.outgoing(node).any(|edge| {
        let target = run.node_status(plan.edge(edge).target);
        plan.edge(edge).when == When::Failure
            && run.edge_state(edge) == EdgeState::Taken
            && !matches!(target, NodeStatus::Blocked | NodeStatus::Cancelled)
    })
}

/// The graph was exchanged (semantics §9): what has begun and is in the new one stands as
/// it did, and what is not there any more is not open.
pub fn kept_what_began(before: &Run, after: &Run) -> Verdict {
    for node in before.top_instances() {
        let path = before.path(node);
        let status = before.node_status(node);
        let Some(now) = after.resolve(&path) else {
            let open = after
                .find_status(node)
                .is_some_and(|status| !status.is_final());
            if open {
                return Err(format!("{path} is removed and still open"));
            }
            continue;
        };
        let has_begun = match status {
            NodeStatus::Pending | NodeStatus::Blocked | NodeStatus::Queued => false,
            NodeStatus::Skipped => before.attempt(node) > 0,
            _ => true,
        };
        let facts = |run: &Run, node: Instance| {
            let (status, attempt) = (run.node_status(node), run.attempt(node));
            (status, attempt, run.value(node), run.ancestry(node))
        };
        if has_begun && (now != node || facts(before, node) != facts(after, now)) {
            let (was, is) = (facts(before, node), facts(after, now));
            return Err(format!("{path} was {was:?} and is {is:?} on the new graph"));
        }
    }
    Ok(())
}
