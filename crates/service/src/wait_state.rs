//! Where a node instance stands, in words: what a wait waits for, how far a loop is,
//! which run a child is. The same words wherever people look.

use windlass_core::NodeStatus;
use windlass_core::plan::NodeKind;
use windlass_core::run::{Instance, Loop, Run, WaitState};

use crate::moment::readable;

/// `3 of 200 done, 2 running, 1 failed`.
pub fn format_loop(kind: NodeKind, cycle: &Loop) -> String {
    let done = cycle.opened() - cycle.running();
    let mut words = match kind {
        NodeKind::ForEach => format!("{done} of {} done", cycle.items()),
        _ => format!("{done} {} done", plural(done, "iteration")),
    };
    if cycle.running() > 0 {
        words.push_str(&format!(", {} running", cycle.running()));
    }
    let failed = cycle.failed().count();
    if failed > 0 {
        words.push_str(&format!(", {failed} failed"));
    }
    words
}

/// How something stands that no worker has: `waiting for signal 'approve' until …`.
pub fn format_wait_state(what: &WaitState) -> String {
    match what {
        WaitState::Loop {
            done,
            total,
            running,
            failed,
        } => {
            let mut words = match total {
                Some(total) => format!("{done}/{total} done"),
                None => format!("{done} {} done", plural(*done, "iteration")),
            };
            for (count, word) in [(running, "running"), (failed, "failed")] {
                if *count > 0 {
                    words.push_str(&format!(", {count} {word}"));
                }
            }
            words
        }
        WaitState::Until(due) => format!("waiting until {}", readable(*due)),
        WaitState::Signal { name, until } => {
            let until = until.map(|until| format!(" until {}", readable(until)));
            format!("waiting for signal '{name}'{}", until.unwrap_or_default())
        }
        WaitState::Child(child) => format!("waiting for child run {child}"),
    }
}

/// `node`, or `nodes` of all numbers but one.
pub fn plural(count: impl Into<u64>, word: &str) -> String {
    let s = if count.into() == 1 { "" } else { "s" };
    format!("{word}{s}")
}

/// What a waiting instance waits for: `until …`, `for signal 'approve' until …`.
pub fn format_wait(run: &Run, node: Instance) -> String {
    let due = run.due(node).map(readable);
    if run.is_between_attempts(node) {
        return format!("next attempt at {}", due.unwrap_or_default());
    }
    match (run.kind_of(node), run.signal_of(node), due) {
        (_, Some(signal), Some(due)) => format!("for signal '{signal}' until {due}"),
        (_, Some(signal), None) => format!("for signal '{signal}'"),
        (NodeKind::RetryUntil, _, Some(due)) => {
            let next = run.cycle(node).map_or(0, Loop::opened);
            format!("iteration {next} at {due}")
        }
        (_, None, Some(due)) => format!("until {due}"),
        (_, None, None) => String::new(),
    }
}

/// The open instances inside a loop that are no loops themselves, at most `most` of
/// them, and how many there are.
pub fn open_inside(run: &Run, node: Instance, most: usize) -> (Vec<Instance>, usize) {
    let open = run.open_instances().into_iter();
    let inside = open.filter(|&one| {
        run.undone(one).is_none() && !run.kind_of(one).is_loop() && is_inside(run, one, node)
    });
    let mut found: Vec<Instance> = inside.collect();
    let count = found.len();
    // A node that waits says more than one that runs, so it comes first.
    found.sort_by_key(|&one| (run.node_status(one) != NodeStatus::Waiting, one));
    found.truncate(most);
    (found, count)
}

fn is_inside(run: &Run, node: Instance, outer: Instance) -> bool {
    let mut node = node;
    while let Some((owner, _)) = run.owner(node) {
        if owner == outer {
            return true;
        }
        node = owner;
    }
    false
}

/// Whether a run has, or had, an instance with this path. Iterations that succeeded are
/// forgotten; of those only the graph and the number can tell.
pub fn has_instance(run: &Run, path: &str) -> bool {
    if run.resolve(path).is_some() {
        return true;
    }
    let (scope, id) = match path.strip_suffix(']') {
        // `loop[3]`: the iteration itself.
        Some(_) => (path, None),
        None => match path.rsplit_once('/') {
            Some((scope, id)) => (scope, Some(id)),
            None => return false,
        },
    };
    let Some((outer, number)) = scope.strip_suffix(']').and_then(|s| s.rsplit_once('[')) else {
        return false;
    };
    let Ok(number) = number.parse::<u32>() else {
        return false;
    };
    let is_open = match run.resolve(outer) {
        Some(node) => run.cycle(node).is_some_and(|cycle| number < cycle.opened()),
        None => has_instance(run, outer),
    };
    is_open && id.is_none_or(|id| in_graph(run, outer, id))
}

/// Whether the body of the loop with this path has a node with this id.
fn in_graph(run: &Run, outer: &str, id: &str) -> bool {
    let plan = run.plan();
    let mut graph = windlass_core::plan::TOP;
    for part in outer.split('/') {
        let name = part.split('[').next().unwrap_or(part);
        let body = plan.find(graph, name).and_then(|node| plan.body(node));
        match body {
            Some(body) => graph = body,
            None => return false,
        }
    }
    plan.find(graph, id).is_some()
}
