//! What the oracle takes for right when a run's graph is exchanged under open work.

use windlass_core::NodeStatus;
use windlass_core::command::RunCommand;
use windlass_core::run::{Input as RunInput, Run};
use windlass_orchestrator::Begin;
use windlass_sim::bench::{Bench, success};
use windlass_sim::{rules, workload};

const A_AND_B: &str = r#"{"id":"a","actionType":"act"},{"id":"b","actionType":"act"}"#;
const JOIN: &str = r#"{"id":"j","actionType":"act","dependsOn":["a","b"],"join":"any"}"#;
const SERVED: &str = r#"{"id":"x","actionType":"act","dependsOn":["a"]}"#;

fn healing(nodes: &str) -> String {
    format!("{{\"id\":\"w\",\"inFlight\":\"healing\",\"nodes\":[{nodes}]}}")
}

fn state(bench: &Bench) -> Run {
    let run = bench.shard.run(bench.run);
    run.expect("the shard holds the run").clone()
}

fn status(run: &Run, path: &str) -> NodeStatus {
    run.node_status(run.resolve(path).expect("the graph has the node"))
}

/// `a` runs and `b` has succeeded: the state before, and after a graph with more nodes.
fn exchanged(more: &str) -> (Run, Bench) {
    let mut bench = Bench::new(&healing(A_AND_B));
    bench.start(Begin::Now);
    bench.settle();
    bench.end("b", 1, success());
    bench.pass(250);
    bench.settle();
    let before = state(&bench);
    assert_eq!(status(&before, "a"), NodeStatus::Running);
    let text = healing(&format!("{A_AND_B},{more}"));
    let (plan, definition) = (
        workload::plan(&text),
        windlass_core::Digest::of(text.as_bytes()),
    );
    bench.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    bench.settle();
    (before, bench)
}

#[test]
fn what_a_new_join_has_enough_without_is_let_go() {
    let (before, bench) = exchanged(JOIN);
    let after = state(&bench);
    assert_eq!(status(&after, "a"), NodeStatus::Cancelled);
    assert_eq!(rules::kept_what_began(&before, &after), Ok(()));
}

#[test]
fn what_serves_something_else_stays_and_may_not_be_let_go() {
    let (before, mut bench) = exchanged(&format!("{JOIN},{SERVED}"));
    let after = state(&bench);
    assert_eq!(status(&after, "a"), NodeStatus::Running);
    assert_eq!(rules::kept_what_began(&before, &after), Ok(()));
    // The same end of `a`, for another reason: `x` waited for it.
    stop(&mut bench);
    let verdict = rules::kept_what_began(&before, &state(&bench));
    assert!(verdict.is_err_and(|reason| reason.starts_with("a was")));
}

#[test]
fn what_leads_to_no_join_may_not_be_let_go() {
    let (before, mut bench) = exchanged(r#"{"id":"y","actionType":"act"}"#);
    stop(&mut bench);
    let verdict = rules::kept_what_began(&before, &state(&bench));
    assert!(verdict.is_err_and(|reason| reason.starts_with("a was")));
}

/// Everything that is open becomes Cancelled. The end is not durable yet, so that the
/// shard still holds the run.
fn stop(bench: &mut Bench) {
    bench.command(RunCommand::Cancel { compensate: false });
    bench.settle();
    bench.pass(10_000);
    assert_eq!(status(&state(bench), "a"), NodeStatus::Cancelled);
}
