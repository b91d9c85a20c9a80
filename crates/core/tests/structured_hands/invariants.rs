//! The invariants of every run at every moment between two inputs.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::NodeStatus;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};

pub(crate) fn check(run: &Run, definition: &str) {
    assert_eq!(run.pending_decision(), None, "something is left to decide");
    let early = early_joins(definition);
    let mut active = 0;
    for node in run.instances() {
        let path = run.path(node);
        let status = run.node_status(node);
        // Nodes that are not needed any more stay until the next event, out of reach.
        let is_there = run.resolve(&path) == Some(node);
        let is_open = run.open_instances().contains(&node);
        assert!(is_there || !is_open, "{path} is {status} and out of reach");
        if !is_there {
            continue;
        }
        let is_work = !run.is_structural(node);
        active += u32::from(is_work && matches!(status, NodeStatus::Queued | NodeStatus::Running));
        let blocked = status == NodeStatus::Blocked;
        assert_eq!(blocked, !run.blocked_by(node).is_empty(), "{path} {status}");
        edges(run, node, &early);
        cycle(run, node);
        let is_final = run.status().is_final();
        assert!(
            !is_final || status.is_final(),
            "{path} is {status} at the end"
        );
    }
    for (node, _) in run.due_nodes() {
        assert!(
            run.open_instances().contains(&node),
            "{node} is due and not open"
        );
    }
    for name in ["go", "more"] {
        if let Some(node) = run.first_waiter(name) {
            assert_eq!(run.find_status(node), Some(NodeStatus::Waiting));
        }
    }
    let undoes = run
        .open_instances()
        .iter()
        .any(|&node| run.undone(node).is_some());
    if run.is_asleep() && !undoes {
        assert_eq!(active, 0, "a run sleeps that has work");
    }
    if active == 0 && !undoes && !run.status().is_final() {
        let begun = run.status() == windlass_core::RunStatus::Running;
        assert!(run.is_asleep() || !begun, "a run is awake that has no work");
    }
}

/// Edges resolve when, and only when, their source has ended, and no node that waits for all
/// of them begins before.
fn edges(run: &Run, node: Instance, early: &[String]) {
    let has_ended = run.node_status(node).is_final();
    for (_, target, state) in run.edges_from(node) {
        let path = run.path(target);
        let is_resolved = state != EdgeState::Unresolved;
        assert_eq!(is_resolved, has_ended, "{} -> {path}", run.path(node));
        let id = path.rsplit('/').next().expect("a name");
        let waits_for_all = !early.iter().any(|early| early == id);
        let has_begun = run.open_instances().contains(&target);
        // A new graph may put a node before one that has begun.
        let has_changed = early.first().is_some_and(|first| first.is_empty());
        let may_begin = is_resolved || !waits_for_all || has_changed;
        assert!(!has_begun || may_begin, "{path} began too early");
    }
}

/// A loop that has ended has nothing open inside, and counts what is there.
fn cycle(run: &Run, node: Instance) {
    let Some(cycle) = run.cycle(node) else {
        return;
    };
    let prefix = format!("{}[", run.path(node));
    let inside = run.instances();
    let inside: Vec<Instance> = inside
        .filter(|&node| {
            let path = run.path(node);
            path.starts_with(&prefix) && run.resolve(&path) == Some(node)
        })
        .collect();
    if !run.open_instances().contains(&node) {
        assert_eq!(cycle.running(), 0, "{prefix}");
        for &node in &inside {
            assert!(run.node_status(node).is_final(), "{}", run.path(node));
        }
    }
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for &node in &inside {
        *counts.entry(run.node_status(node).as_str()).or_default() += 1;
    }
    for &node in &inside {
        let status = run.node_status(node);
        let counted = cycle.count(status);
        // Iterations that were freed are counted too.
        assert!(counted >= counts[status.as_str()], "{prefix} {status}");
        if !status.is_final() {
            assert_eq!(counted, counts[status.as_str()], "{prefix} {status}");
        }
    }
}

/// Ids of nodes that need not wait for all their edges; an empty one comes first if the
/// graph has changed, and several definitions are given.
fn early_joins(definition: &str) -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        if let Value::Object(object) = value
            && let (Some(_), Some(id)) = (object.get("join"), object.get("id"))
        {
            found.extend(id.as_str().map(str::to_owned));
        }
        match value {
            Value::Object(object) => object.values().for_each(|value| collect(value, found)),
            Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    let definition: Value = serde_json::from_str(definition).expect("a definition");
    if definition.is_array() {
        found.push(String::new());
    }
    collect(&definition, &mut found);
    found
}
