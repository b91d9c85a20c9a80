//! What the oracle takes for right when a run's graph is exchanged under open work.

use windlass_core::NodeStatus;
use windlass_core::command::RunCommand;
use windlass_core::run::{Input as RunInput, Run};
use windlass_orchestrator::Begin;
use windlass_sim::harness::{ShardHarness, success};
use windlass_sim::{rules, workload};

const A_AND_B: &str = r#"{"id":"a","actionType":"act"},{"id":"b","actionType":"act"}"#;
const JOIN: &str = r#"{"id":"j","actionType":"act","dependsOn":["a","b"],"join":"any"}"#;
const SERVED: &str = r#"{"id":"x","actionType":"act","dependsOn":["a"]}"#;

fn healing(nodes: &str) -> String {
    format!("{{\"id\":\"w\",\"inFlight\":\"healing\",\"nodes\":[{nodes}]}}")
}

fn state(harness: &ShardHarness) -> Run {
    let run = harness.shard.run(harness.run);
    run.expect("the shard holds the run").clone()
}

fn status(run: &Run, path: &str) -> NodeStatus {
    run.node_status(run.resolve(path).expect("the graph has the node"))
}

/// `a` runs and `b` has succeeded: the state before, and after a graph with more nodes.
fn exchanged(more: &str) -> (Run, ShardHarness) {
    let mut harness = ShardHarness::new(&healing(A_AND_B));
    harness.start(Begin::Now);
    harness.settle();
    harness.end("b", 1, success());
    harness.pass(250);
    harness.settle();
    let before = state(&harness);
    assert_eq!(status(&before, "a"), NodeStatus::Running);
    let text = healing(&format!("{A_AND_B},{more}"));
    let (plan, definition) = (
        workload::plan(&text),
        windlass_core::Digest::of(text.as_bytes()),
    );
    harness.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    harness.settle();
    (before, harness)
}

#[test]
fn what_a_new_join_has_enough_without_is_let_go() {
    let (before, harness) = exchanged(JOIN);
    let after = state(&harness);
    assert_eq!(status(&after, "a"), NodeStatus::Cancelled);
    assert_eq!(rules::kept_what_began(&before, &after), Ok(()));
}

#[test]
fn what_serves_something_else_stays_and_may_not_be_let_go() {
    let (before, mut harness) = exchanged(&format!("{JOIN},{SERVED}"));
    let after = state(&harness);
    assert_eq!(status(&after, "a"), NodeStatus::Running);
    assert_eq!(rules::kept_what_began(&before, &after), Ok(()));
    // The same end of `a`, for another reason: `x` waited for it.
    stop(&mut harness);
    let verdict = rules::kept_what_began(&before, &state(&harness));
    assert!(verdict.is_err_and(|reason| reason.starts_with("a was")));
}

#[test]
fn what_leads_to_no_join_may_not_be_let_go() {
    let (before, mut harness) = exchanged(r#"{"id":"y","actionType":"act"}"#);
    stop(&mut harness);
    let verdict = rules::kept_what_began(&before, &state(&harness));
    assert!(verdict.is_err_and(|reason| reason.starts_with("a was")));
}

/// Everything that is open becomes Cancelled. The end is not durable yet, so that the shard still
/// has the run in memory.
fn stop(harness: &mut ShardHarness) {
    harness.command(RunCommand::Cancel { compensate: false });
    harness.settle();
    harness.pass(10_000);
    assert_eq!(status(&state(harness), "a"), NodeStatus::Cancelled);
}
