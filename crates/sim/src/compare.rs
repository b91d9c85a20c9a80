//! Whether two states of a run are observably equal: compares every public accessor of both,
//! unless they share the same data anyway.

use std::borrow::Cow;
use std::fmt::Debug;

use windlass_core::NodeStatus;
use windlass_core::run::{Held, Instance, Run};
use windlass_core::value::ValueRef;

/// The first difference between a live state and the replay of its log, in words.
pub fn difference(live: &Run, replayed: &Run) -> Option<String> {
    if live.is_same(replayed) {
        return None;
    }
    let (live, replayed) = (&*settled(live), &*settled(replayed));
    run_difference(live, replayed)
        .or_else(|| {
            let is_same = live.instances().eq(replayed.instances());
            let nodes = |run: &Run| run.instances().collect::<Vec<_>>();
            (!is_same).then(|| differ("nodes", nodes(live), nodes(replayed)))
        })
        .or_else(|| {
            let mut nodes = live.instances();
            nodes.find_map(|node| node_difference(live, replayed, node))
        })
}

/// A state without what the next event makes it forget: one that comes from a checkpoint
/// has forgotten it already.
fn settled(run: &Run) -> Cow<'_, Run> {
    if run.instances_to_free().is_empty() {
        return Cow::Borrowed(run);
    }
    let mut run = run.clone();
    run.snapshot();
    Cow::Owned(run)
}

fn run_difference(live: &Run, replayed: &Run) -> Option<String> {
    let mut edges = 0..live.plan().edges().len() as u32;
    let counts = |run: &Run| {
        let all = [
            NodeStatus::Pending,
            NodeStatus::Queued,
            NodeStatus::Running,
            NodeStatus::Waiting,
            NodeStatus::Succeeded,
            NodeStatus::Failed,
            NodeStatus::Skipped,
            NodeStatus::Blocked,
            NodeStatus::Cancelled,
        ];
        all.map(|status| run.count(status))
    };
    same("status", live.status(), replayed.status())
        .or_else(|| same("created", live.created_at(), replayed.created_at()))
        .or_else(|| same("started", live.started_at(), replayed.started_at()))
        .or_else(|| same("ended", live.ended_at(), replayed.ended_at()))
        .or_else(|| same("records", live.records(), replayed.records()))
        .or_else(|| same("finished", live.finished(), replayed.finished()))
        .or_else(|| same("counts", counts(live), counts(replayed)))
        .or_else(|| same("open", live.open(), replayed.open()))
        .or_else(|| same("todo", live.pending_decision(), replayed.pending_decision()))
        .or_else(|| same("stop", live.stop_cause(), replayed.stop_cause()))
        .or_else(|| same("grace", live.grace_deadline(), replayed.grace_deadline()))
        .or_else(|| same("hand", live.stop_actor(), replayed.stop_actor()))
        .or_else(|| same("timeout", live.timeout_at(), replayed.timeout_at()))
        .or_else(|| {
            let is_same = vars(live).eq(vars(replayed));
            let all = |run| vars(run).collect::<Vec<_>>();
            (!is_same).then(|| differ("vars", all(live), all(replayed)))
        })
        .or_else(|| same("trigger", held(live.trigger()), held(replayed.trigger())))
        .or_else(|| {
            let failed = |run: &Run| run.failed().collect::<Vec<_>>();
            same("failed", failed(live), failed(replayed))
        })
        .or_else(|| {
            let retriable = |run: &Run| run.retriable_nodes();
            same("retriable", retriable(live), retriable(replayed))
        })
        .or_else(|| waiting_difference(live, replayed))
        .or_else(|| {
            edges.find_map(|edge| {
                let (live, replayed) = (live.edge_state(edge), replayed.edge_state(edge));
                (live != replayed).then(|| differ(&format!("edge {edge}"), live, replayed))
            })
        })
}

/// What runs wait for, and what is undone.
fn waiting_difference(live: &Run, replayed: &Run) -> Option<String> {
    let children = |run: &Run| run.open_children().collect::<Vec<_>>();
    let kept = |run: &Run| -> Vec<(String, usize)> {
        let kept = run.kept_signals();
        kept.map(|(name, count)| (name.to_owned(), count)).collect()
    };
    let would_undo = |run: &Run| run.would_undo().collect::<Vec<_>>();
    let steps = |run: &Run| run.undo().map(|undo| undo.steps().collect::<Vec<_>>());
    let graph = |run: &Run| {
        (
            run.version(),
            run.definition(),
            run.is_frozen(),
            run.heals(),
        )
    };
    same("children", children(live), children(replayed))
        .or_else(|| same("signals", kept(live), kept(replayed)))
        .or_else(|| same("completed", would_undo(live), would_undo(replayed)))
        .or_else(|| same("undoing", steps(live), steps(replayed)))
        .or_else(|| same("graph", graph(live), graph(replayed)))
        .or_else(|| same("asleep", live.is_asleep(), replayed.is_asleep()))
        .or_else(|| same("wake", live.wake_at(), replayed.wake_at()))
}

fn node_difference(live: &Run, replayed: &Run, node: Instance) -> Option<String> {
    let facts = |run: &Run| {
        (
            (run.node_status(node), run.attempt(node), run.attempts(node)),
            (run.value(node), run.ancestry(node), run.due(node)),
            (run.may_hand_out(node), run.is_by_hand(node)),
            run.child(node),
        )
    };
    let of_node = |difference: String| format!("{} {difference}", live.path(node));
    same("facts", facts(live), facts(replayed))
        .or_else(|| same("loop", live.cycle(node), replayed.cycle(node)))
        .or_else(|| same("blockers", live.blocked_by(node), replayed.blocked_by(node)))
        .or_else(|| same("incoming", live.incoming(node), replayed.incoming(node)))
        .or_else(|| same("path", live.path(node), replayed.path(node)))
        .or_else(|| {
            let key = |run: &Run| run.idempotency_key(node);
            same("key", key(live), key(replayed))
        })
        .map(of_node)
}

fn vars(run: &Run) -> impl Iterator<Item = (&str, Content<'_>)> {
    let vars = run.vars().iter();
    vars.map(|(name, value)| (&**name, held(value)))
}

/// A value that a state holds: its text, or where that is.
type Content<'a> = (Option<&'a str>, Option<ValueRef>);

fn held(held: &Held) -> Content<'_> {
    (held.text().map(|text| &**text), held.blob())
}

fn same<T: PartialEq + Debug>(what: &str, live: T, replayed: T) -> Option<String> {
    (live != replayed).then(|| differ(what, live, replayed))
}

fn differ<T: Debug>(what: &str, live: T, replayed: T) -> String {
    format!("{what}: live {live:?}, replayed from the durable log {replayed:?}")
}
