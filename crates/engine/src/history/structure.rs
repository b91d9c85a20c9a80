//! Events of loops, waits, child runs, undoing and changing graphs.

use serde_json::{Value, json};
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::plan::NodeKind;
use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, NodeStatus};

use super::Level;
use super::derive::is_timed;
use super::draft::Draft;

/// The start of an attempt that no event has reported yet.
pub(super) fn started(run: &Run, node: Instance, ended: &AttemptEnded) -> Draft {
    Draft::new("NodeStarted", ended.started)
        .about(run, Some(node), &ended.node, ended.attempt)
        .with("worker", &*ended.worker)
}

/// The start of an attempt to undo a node, if no event has reported it yet.
pub(super) fn undo_started(run: &Run, ended: &AttemptEnded) -> Option<Draft> {
    let undoing = run.undoing_at(&ended.node, ended.attempt)?;
    // An event reported the start of undoing a child when the child was asked to.
    let told =
        run.node_status(undoing) == NodeStatus::Running || run.undone_child(undoing).is_some();
    let draft = Draft::new("CompensationStarted", ended.started)
        .node(&ended.node)
        .attempt(Some(ended.attempt))
        .with("worker", &*ended.worker);
    (!told).then_some(draft)
}

/// What an event begins, to be reported before the event itself: a loop, a wait or a child run, or
/// the next round of a loop that waited.
pub(super) fn begun(run: &Run, event: &Event, at: Millis) -> Option<Draft> {
    let path = match event {
        Event::Expanded { node, .. } | Event::Looped { node, .. } | Event::Waiting { node, .. } => {
            node
        }
        Event::ChildStarted(started) => &started.node,
        _ => return None,
    };
    let node = run.resolve(path)?;
    let attempt = Some(run.attempt(node));
    if let Event::Looped { due: None, .. } = event
        && run.node_status(node) == NodeStatus::Waiting
    {
        return Some(Draft::new("TimerFired", at).node(path).attempt(attempt));
    }
    let begins = run.since(node).is_none() || matches!(event, Event::ChildStarted(_));
    begins.then(|| Draft::new("NodeStarted", at).node(path).attempt(attempt))
}

/// The timer that ended a wait, if one did.
pub(super) fn timer_fired(
    run: &Run,
    node: Instance,
    ended: &AttemptEnded,
    error: &Value,
) -> Option<Draft> {
    let fired = match ended.result {
        AttemptResult::Succeeded(_) => run.kind_of(node) == NodeKind::Delay,
        AttemptResult::Failed(_) | AttemptResult::Retrying { .. } => {
            error["code"] == "SIGNAL_TIMEOUT"
        }
        _ => false,
    };
    let waited = is_timed(run, node) && run.due(node).is_some();
    let draft = Draft::new("TimerFired", ended.ended).node(&ended.node);
    (fired && waited).then(|| draft.attempt(Some(ended.attempt)))
}

/// The end of the child run that ended an attempt, if one did.
pub(super) fn child_finished(
    run: &Run,
    node: Instance,
    ended: &AttemptEnded,
    error: &Value,
    at: Millis,
) -> Option<Draft> {
    let child = run.child(node)?;
    let status = match &ended.result {
        AttemptResult::Succeeded(_) => "Succeeded",
        AttemptResult::Stopped {} => "Cancelled",
        // A failure of another kind, such as a timeout, is not the child's end.
        _ if error["details"]["executionId"] != json!(child) => return None,
        _ if error["code"] == "CHILD_CANCELLED" => "Cancelled",
        _ => "Failed",
    };
    let level = match status {
        "Succeeded" => Level::Info,
        _ => Level::Warn,
    };
    let draft = Draft::new("ChildFinished", at)
        .level(level)
        .node(&ended.node);
    Some(
        draft
            .attempt(Some(ended.attempt))
            .child(child)
            .with("status", status),
    )
}

/// About one iteration of a loop.
pub(super) fn iteration(run: &Run, node: Instance, iteration: u32, draft: Draft) -> Draft {
    draft
        .node(&run.path(node))
        .attempt(Some(run.attempt(node)))
        .with("iteration", iteration)
}

/// What the other events say by themselves.
pub(super) fn drafts(run: &Run, event: &Event, at: Millis) -> Vec<Draft> {
    match event {
        Event::Expanded {
            node,
            attempt,
            count,
            ..
        } => {
            let draft = Draft::new("LoopExpanded", at).node(node);
            vec![draft.attempt(Some(*attempt)).with("count", *count)]
        }
        Event::Looped {
            node,
            iteration,
            due: Some(due),
        } => {
            let attempt = run.resolve(node).map(|node| run.attempt(node));
            let draft = Draft::new("TimerSet", at).node(node).attempt(attempt);
            vec![
                draft
                    .with("due", due.to_string())
                    .with("iteration", *iteration),
            ]
        }
        Event::Waiting { node, attempt, due } => {
            let signal = run.resolve(node).and_then(|node| run.signal_of(node));
            let kind = match signal {
                Some(_) => "NodeWaiting",
                None => "TimerSet",
            };
            let draft = Draft::new(kind, at).node(node).attempt(Some(*attempt));
            vec![
                draft
                    .maybe("signal", signal)
                    .maybe("due", due.map(|due| due.to_string())),
            ]
        }
        Event::SignalReceived(signal) => {
            let waiter = run.first_waiter(&signal.name);
            let mut draft = Draft::new("SignalReceived", at)
                .with("name", &*signal.name)
                .with("bytes", signal.payload.size())
                .with("kept", waiter.is_none());
            draft.node = waiter.map(|waiter| run.path(waiter));
            vec![draft.actor(&signal.actor)]
        }
        Event::ChildStarted(started) => {
            let draft = Draft::new("ChildStarted", at).node(&started.node);
            vec![
                draft
                    .attempt(Some(started.attempt))
                    .child(started.child)
                    .with("workflowId", &*started.workflow)
                    .maybe("version", started.version),
            ]
        }
        Event::SetByHand(set) => {
            let draft = Draft::new("NodeSetByHand", at).node(&set.node);
            let kind = if set.skipped { "skip" } else { "result" };
            vec![
                draft
                    .attempt(Some(set.attempt))
                    .with("kind", kind)
                    .with("outputBytes", set.output.size())
                    .actor(&set.actor),
            ]
        }
        Event::Healed { version, .. } => {
            vec![Draft::new("GraphHealed", at).with("version", *version)]
        }
        Event::Imported { definition, actor } => vec![
            Draft::new("GraphImported", at)
                .with("definition", definition.to_string())
                .actor(actor),
        ],
        other => undoing(run, other, at),
    }
}

/// What is said of undoing as a whole, and by hand.
fn undoing(run: &Run, event: &Event, at: Millis) -> Vec<Draft> {
    let by_hand = |kind: &'static str, nodes: &[Box<str>], actor| {
        let drafts = nodes.iter().map(|node| {
            let target = run.resolve_undone(node);
            let undoing = target.and_then(|target| run.undoing_of(target));
            let attempt = undoing.map(|undoing| run.attempt(undoing));
            let draft = Draft::new(kind, at).node(node);
            draft
                .attempt(attempt.filter(|&attempt| attempt > 0))
                .actor(actor)
        });
        drafts.collect()
    };
    match event {
        Event::Compensating { ending, actor } => {
            let steps = run.undo().map_or(0, |undo| undo.steps().count());
            vec![
                Draft::new("CompensationStarted", at)
                    .with("steps", steps)
                    .with("status", ending.status.as_str())
                    .actor(actor),
            ]
        }
        Event::CompensationRetried { nodes, actor } => {
            let drafts: Vec<Draft> = by_hand("NodeReattempted", nodes, actor);
            let drafts = drafts.into_iter();
            drafts
                .map(|draft| draft.with("compensation", true))
                .collect()
        }
        Event::CompensationSkipped { nodes, actor } => by_hand("CompensationSkipped", nodes, actor),
        _ => Vec::new(),
    }
}
