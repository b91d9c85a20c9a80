//! Rules about one run's state, checked independently of the code that decides.

use windlass_core::definition::{ExecutionMode, Join, When};
use windlass_core::event::{AttemptEnded, AttemptResult, Finished, StopCause};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::value::ValueRef;
use windlass_core::{Digest, Millis, NodeStatus, RunStatus};

/// What is wrong, in words.
pub type CheckResult = Result<(), String>;

/// Whether an attempt ended well.
pub(crate) fn succeeded(ended: &AttemptEnded) -> bool {
    matches!(ended.result, AttemptResult::Succeeded(_))
}

/// Every node before this one has ended in its scope, and each edge between is resolved;
/// where the join does not wait for all, enough of them are taken.
pub fn may_begin(run: &Run, node: Instance) -> CheckResult {
    let incoming = run.incoming(node);
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
    let count = taken(run, node);
    if incoming.is_empty() || count >= wanted {
        return Ok(());
    }
    let node = run.path(node);
    Err(format!("{node} went with {count} of {wanted} edges"))
}

/// Every earlier level has ended.
pub fn levels_ended(run: &Run, node: Instance) -> CheckResult {
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
pub fn due(deadline: Option<Millis>, submitted: Millis, what: &str) -> CheckResult {
    match deadline {
        Some(deadline) if deadline <= submitted => Ok(()),
        Some(deadline) => Err(format!(
            "{what} ended at {submitted:?}, before {deadline:?}"
        )),
        None => Err(format!("{what} ended though nothing set it")),
    }
}

/// The end of a run (semantics §4), asked anew.
pub fn ended_properly(run: &Run, finished: &Finished, changed: bool) -> CheckResult {
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

/// A run whose graph was replaced after it had failed, and of which the rest is undone, stays failed:
/// what the new graph added has not begun, and nothing else is open.
pub fn ended_replaced(run: &Run, finished: &Finished) -> CheckResult {
    let is_open = |node: &Instance| {
        let status = run.node_status(*node);
        !status.is_final() && status != NodeStatus::Pending
    };
    if let Some(node) = run.top_instances().find(is_open) {
        let (path, status) = (run.path(node), run.node_status(node));
        return Err(format!("a replaced graph ended while {path} is {status}"));
    }
    match finished.status {
        RunStatus::Failed => Ok(()),
        status => Err(format!("a replaced graph of a failed run ended {status}")),
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
/// it did, and what is not there any more is not open. Nodes that a join of the new graph does
/// not need any more are cancelled (semantics §3).
pub fn kept_what_began(before: &Run, after: &Run) -> CheckResult {
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
        let stands = facts(before, node) == facts(after, now) || was_let_go(before, after, node);
        if has_begun && (now != node || !stands) {
            let (was, is) = (facts(before, node), facts(after, now));
            return Err(format!("{path} was {was:?} and is {is:?} on the new graph"));
        }
    }
    Ok(())
}

type Facts = (NodeStatus, u32, Option<ValueRef>, Option<Digest>);

fn facts(run: &Run, node: Instance) -> Facts {
    let (status, attempt) = (run.node_status(node), run.attempt(node));
    (status, attempt, run.value(node), run.ancestry(node))
}

/// Whether the change cancelled an open node, and rightly.
fn was_let_go(before: &Run, after: &Run, node: Instance) -> bool {
    let (status, attempt, value, ancestry) = facts(before, node);
    let is_open = matches!(status, NodeStatus::Running | NodeStatus::Waiting);
    let let_go = (NodeStatus::Cancelled, attempt, value, ancestry);
    is_open && facts(after, node) == let_go && is_needless(before, after, node)
}

/// Whether a node leads to a join that has enough without it, perhaps through others that were
/// cancelled with it, and to nothing that waited for it.
fn is_needless(before: &Run, after: &Run, node: Instance) -> bool {
    let mut leads_to_join = false;
    for target in after.top_instances() {
        let incoming = after.incoming(target);
        if !incoming.iter().any(|(source, _)| *source == node) {
            continue;
        }
        let was = before.find_status(target);
        let had_ended = was.is_some_and(NodeStatus::is_final);
        let is_cut = after.node_status(target) == NodeStatus::Cancelled && !had_ended;
        if has_enough(after, target) || (is_cut && is_needless(before, after, target)) {
            leads_to_join = true;
        } else if is_cut || waited_for_all(after, target) {
            return false;
        }
    }
    leads_to_join
}

/// Whether a node had not begun before its last edge resolved.
fn waited_for_all(run: &Run, node: Instance) -> bool {
    match run.node_status(node) {
        NodeStatus::Pending => true,
        NodeStatus::Blocked | NodeStatus::Skipped => run.join_of(node) == Join::All,
        _ => false,
    }
}

/// Whether a join that does not wait for all has what it waits for.
fn has_enough(run: &Run, node: Instance) -> bool {
    let wanted = match run.join_of(node) {
        Join::All => return false,
        Join::Any => 1,
        Join::AtLeast(count) => count as usize,
    };
    taken(run, node) >= wanted
}

fn taken(run: &Run, node: Instance) -> usize {
    let incoming = run.incoming(node);
    let taken = incoming
        .iter()
        .filter(|(_, edge)| *edge == EdgeState::Taken);
    taken.count()
}
