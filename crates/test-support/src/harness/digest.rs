//! Everything that can be seen of a run from outside, as text to compare.

use std::fmt::Write as _;

use windlass_core::run::{Instance, Run};

pub fn digest(run: &Run) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        run.status(),
        run.created_at(),
        run.started_at(),
        run.ended_at(),
        run.stop_cause(),
        run.grace_deadline(),
        run.timeout_at(),
        run.pending_decision(),
    );
    let finished = run.finished().map(serde_json::to_string);
    let _ = writeln!(text, "{} {finished:?}", run.records());
    let _ = writeln!(
        text,
        "version {} {} frozen {} open {} asleep {} wake {:?}",
        run.version(),
        run.definition(),
        run.is_frozen(),
        run.open(),
        run.is_asleep(),
        run.wake_at(),
    );
    for node in run.instances() {
        instance(run, node, &mut text);
    }
    undoing(run, &mut text);
    let kept: Vec<(&str, usize)> = run.kept_signals().collect();
    let children: Vec<_> = run.open_children().collect();
    let mut due: Vec<_> = run.due_nodes().collect();
    due.sort_unstable();
    let _ = writeln!(text, "kept {kept:?} children {children:?} due {due:?}");
    let _ = writeln!(text, "again {:?}", run.retriable_nodes());
    let _ = writeln!(text, "answered {:?}", run.answered().collect::<Vec<_>>());
    for (name, value) in run.vars() {
        let _ = write!(text, "{name}={:?} ", value.text());
    }
    text
}

fn instance(run: &Run, node: Instance, text: &mut String) {
    let _ = write!(
        text,
        "{node} {} {} {} {} {:?} {:?} {:?} {:?} {} {} {}{}{}",
        run.path(node),
        run.node_status(node),
        run.attempt(node),
        run.attempts(node),
        run.blocked_by(node),
        run.value(node),
        run.ancestry(node),
        run.due(node),
        run.is_handled(node),
        run.idempotency_key(node),
        if run.is_reused(node) { " reused" } else { "" },
        if run.is_by_hand(node) { " by hand" } else { "" },
        if run.may_hand_out(node) {
            " may go"
        } else {
            ""
        },
    );
    if let Some(cycle) = run.cycle(node) {
        let _ = write!(text, " {cycle:?}");
    }
    if let Some(name) = run.signal_of(node) {
        let _ = write!(text, " first {:?}", run.first_waiter(name));
    }
    let _ = writeln!(
        text,
        " since {:?} {:?}",
        run.since(node),
        run.edges_from(node)
    );
}

fn undoing(run: &Run, text: &mut String) {
    let would: Vec<Instance> = run.would_undo().collect();
    let _ = writeln!(text, "would undo {would:?}");
    let Some(undo) = run.undo() else {
        return;
    };
    for (target, status) in undo.steps() {
        let node = run.undoing_of(target).expect("a step has an instance");
        let _ = writeln!(
            text,
            "undo {target} by {node} {status} {} {} {:?} {}",
            run.attempt(node),
            run.attempts(node),
            run.due(node),
            run.idempotency_key(node),
        );
    }
}
