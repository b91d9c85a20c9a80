//! Scenarios that seeds found, kept readable: each broke a rule once.

use windlass_core::command::RunCommand;
use windlass_core::run::Input as RunInput;
use windlass_orchestrator::Begin;
use windlass_sim::bench::{Bench, failure, success};

fn bench(nodes: &str) -> Bench {
    Bench::new(&format!("{{\"id\":\"w\",\"nodes\":[{nodes}]}}"))
}

fn started(nodes: &str) -> Bench {
    let mut bench = bench(nodes);
    bench.start(Begin::Now);
    bench.settle();
    bench
}

const A: &str = r#"{"id":"a","actionType":"act"}"#;
const A_THEN_B: &str = r#"{"id":"a","actionType":"act"},
    {"id":"b","actionType":"act","dependsOn":["a"]}"#;

#[test]
fn a_resume_hands_nothing_out_before_it_is_durable() {
    // Something is still with a worker, so that the paused run stays in memory.
    let beside = format!(r#"{A_THEN_B}, {{"id":"c","actionType":"act"}}"#);
    let mut bench = started(&beside);
    bench.command(RunCommand::Pause);
    bench.end("a", 1, success());
    bench.settle();
    bench.effects();
    bench.command(RunCommand::Resume);
    assert!(bench.effects().is_empty());
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_run_that_begins_later_is_let_go_and_begins_when_adopted() {
    let mut bench = bench(A);
    bench.start(Begin::Later);
    bench.settle();
    assert_eq!(bench.effects(), ["accepted"]);
    assert!(!bench.shard.holds(bench.run));
    bench.acquire(true);
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch a#1"]);
}

#[test]
fn a_paused_run_that_was_only_loaded_goes_on_when_resumed() {
    let mut bench = started(A_THEN_B);
    bench.command(RunCommand::Pause);
    bench.end("a", 1, success());
    bench.settle();
    bench.restart(false);
    bench.command(RunCommand::Resume);
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_stopping_run_that_was_only_loaded_ends_after_any_command() {
    let mut bench = started(A);
    bench.command(RunCommand::Pause);
    bench.command(RunCommand::Cancel { compensate: false });
    bench.settle();
    bench.restart(false);
    bench.command(RunCommand::Pause);
    bench.settle();
    assert!(bench.effects().contains(&"finished Cancelled".to_owned()));
}

#[test]
fn a_reattempt_takes_back_what_runs_after_an_always_edge() {
    let mut bench = started(
        r#"{"id":"f","actionType":"act","edges":[{"targetNode":"x","when":"always"}]},
           {"id":"x","actionType":"act"}"#,
    );
    bench.end("f", 1, failure());
    bench.settle();
    assert!(bench.effects().contains(&"dispatch x#1".to_owned()));
    bench.command(RunCommand::Reattempt { nodes: vec![0] });
    bench.settle();
    assert_eq!(
        bench.effects(),
        ["give up x#1", "answer 1 ok", "dispatch f#2"]
    );
    bench.end("x", 1, success());
    bench.end("f", 2, success());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch x#2"]);
}

#[test]
fn a_stop_names_the_attempt_that_the_worker_has() {
    let mut bench = started(A);
    bench.effects();
    bench.command(RunCommand::Cancel { compensate: false });
    bench.poll();
    bench.end("a", 1, failure());
    bench.command(RunCommand::Reattempt { nodes: Vec::new() });
    bench.answer();
    assert_eq!(bench.effects(), ["answer 1 ok"]);
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch a#2"]);
}

#[test]
fn recovery_does_not_hand_out_what_is_reopened_meanwhile() {
    let mut bench = started(r#"{"id":"f","actionType":"act"},{"id":"g","actionType":"act"}"#);
    bench.end("f", 1, failure());
    bench.settle();
    bench.restart(true);
    bench.poll();
    bench.command(RunCommand::Reattempt { nodes: vec![0] });
    bench.answer();
    assert!(bench.effects().is_empty());
    bench.settle();
    assert_eq!(
        bench.effects(),
        ["answer 1 ok", "dispatch f#2", "dispatch g#1"]
    );
}

#[test]
fn an_earlier_grace_does_not_end_a_later_one() {
    let mut bench = started(A);
    bench.command(RunCommand::Cancel { compensate: false });
    bench.settle();
    bench.end("a", 1, failure());
    bench.command(RunCommand::Reattempt { nodes: Vec::new() });
    bench.settle();
    bench.pass(5_000);
    bench.command(RunCommand::Cancel { compensate: false });
    bench.settle();
    bench.effects();
    bench.pass(5_000);
    bench.settle();
    assert!(bench.effects().is_empty());
    bench.pass(5_000);
    bench.settle();
    assert_eq!(bench.effects(), ["give up a#2", "finished Cancelled"]);
}

#[test]
fn a_reattempt_does_not_forget_what_waits_for_its_level() {
    let mut bench = Bench::new(
        r#"{"id":"w","executionMode":"levels","nodes":[
           {"id":"f","actionType":"act"},
           {"id":"o","actionType":"act","edges":[{"targetNode":"p","when":"failure"}]},
           {"id":"p","actionType":"act"},
           {"id":"q","actionType":"act","dependsOn":["o"]},
           {"id":"h","actionType":"act","dependsOn":["o","p"]}]}"#,
    );
    bench.start(Begin::Now);
    bench.settle();
    bench.end("f", 1, failure());
    bench.end("o", 1, success());
    bench.settle();
    bench.command(RunCommand::Reattempt { nodes: vec![0] });
    bench.settle();
    bench.end("f", 2, success());
    bench.effects();
    bench.end("q", 1, success());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch h#1"]);
}

#[test]
fn an_attempt_that_a_dead_process_may_have_begun_keeps_its_number() {
    let mut bench = started(A);
    bench.effects();
    bench.restart(true);
    bench.command(RunCommand::Cancel { compensate: false });
    bench.command(RunCommand::Reattempt { nodes: Vec::new() });
    bench.settle();
    assert!(bench.effects().contains(&"dispatch a#2".to_owned()));
}

const LOOP: &str = r#"{"id":"l","forEach":{"items":[1],"body":{"nodes":[
    {"id":"x","actionType":"act"}]}}}"#;

#[test]
fn a_loop_whose_result_is_set_lets_its_iterations_go() {
    let mut bench = started(LOOP);
    assert_eq!(bench.effects(), ["accepted", "dispatch l[0]/x#1"]);
    let (node, inner) = (bench.instance("l"), bench.instance("l[0]/x"));
    bench.command(RunCommand::Skip { node });
    bench.poll();
    // Its worker does not know yet.
    bench.end_index(inner, 1, success());
    bench.settle();
    let effects = bench.effects();
    assert!(
        effects.contains(&"finished Succeeded".to_owned()),
        "{effects:?}"
    );
}

#[test]
fn a_result_is_not_set_where_the_node_could_not_run() {
    let mut bench = started(A_THEN_B);
    bench.command(RunCommand::Cancel { compensate: false });
    bench.end("a", 1, failure());
    let node = bench.instance("b");
    bench.command(RunCommand::Skip { node });
    bench.settle();
    let effects = bench.effects();
    let answer = effects.iter().find(|effect| effect.starts_with("answer 2"));
    assert!(
        answer.is_some_and(|answer| answer.contains("Err")),
        "{effects:?}"
    );
}

fn heal(bench: &mut Bench, nodes: &str) {
    let text = format!("{{\"id\":\"w\",\"inFlight\":\"healing\",\"nodes\":[{nodes}]}}");
    let plan = windlass_sim::workload::plan(&text);
    let definition = windlass_core::Digest::of(text.as_bytes());
    bench.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    bench.settle();
}

fn healing(nodes: &str) -> Bench {
    Bench::new(&format!(
        "{{\"id\":\"w\",\"inFlight\":\"healing\",\"failurePolicy\":\"failFast\",\"nodes\":[{nodes}]}}"
    ))
}

#[test]
fn a_newer_version_of_a_run_that_has_not_begun_begins_at_its_entries() {
    let mut bench = healing(A_THEN_B);
    bench.start(Begin::Later);
    heal(
        &mut bench,
        r#"{"id":"b","actionType":"act","dependsOn":["a"]},{"id":"a","actionType":"act"}"#,
    );
    assert_eq!(bench.effects(), ["accepted", "answer 1 ok"]);
    let state = bench.shard.run(bench.run);
    assert!(state.is_none_or(|state| state.started_at().is_none()));
}

#[test]
fn a_newer_version_does_not_add_to_a_run_that_is_being_stopped() {
    let mut bench = healing(r#"{"id":"a","actionType":"act"},{"id":"slow","actionType":"act"}"#);
    bench.start(Begin::Now);
    bench.settle();
    bench.end("a", 1, failure());
    bench.settle();
    bench.effects();
    heal(
        &mut bench,
        r#"{"id":"a","actionType":"act"},{"id":"slow","actionType":"act"},{"id":"new","actionType":"act"}"#,
    );
    let effects = bench.effects();
    assert!(effects[0].contains("NotNow"), "{effects:?}");
    bench.end("slow", 1, success());
    bench.settle();
    assert!(bench.effects().contains(&"finished Failed".to_owned()));
}

#[test]
fn what_is_ready_goes_in_the_order_of_a_newer_version() {
    let sequential = |nodes: &str| {
        format!(
            "{{\"id\":\"w\",\"inFlight\":\"healing\",\"executionMode\":\"sequential\",\"nodes\":[{nodes}]}}"
        )
    };
    let node = |id: &str| format!(r#"{{"id":"{id}","actionType":"act"}}"#);
    let first = format!(
        r#"{{"id":"l","actionType":"act","edges":[{{"targetNode":"b","when":"always"}}]}},{},{}"#,
        node("a"),
        node("b")
    );
    let mut bench = Bench::new(&sequential(&first));
    bench.start(Begin::Now);
    bench.settle();
    assert_eq!(bench.effects(), ["accepted", "dispatch l#1"]);
    // `l` is let go, `b` is ready as well and stands where `a` stood.
    let text = sequential(&format!("{},{}", node("a"), node("b")));
    let plan = windlass_sim::workload::plan(&text);
    let definition = windlass_core::Digest::of(text.as_bytes());
    bench.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    bench.settle();
    let effects = bench.effects();
    assert!(effects.contains(&"dispatch a#1".to_owned()), "{effects:?}");
    assert!(!effects.contains(&"dispatch b#1".to_owned()), "{effects:?}");
}

#[test]
fn compensations_that_are_tried_again_go_one_at_a_time() {
    let undone = |id: &str| {
        format!(r#"{{"id":"{id}","actionType":"act","compensate":{{"actionType":"undo"}}}}"#)
    };
    let nodes = [undone("a"), undone("b"), A_THEN_B.replace("\"a\"", "\"f\"")].join(",");
    let nodes = nodes.replace(
        r#""id":"b","actionType":"act","dependsOn""#,
        r#""id":"g","actionType":"act","dependsOn""#,
    );
    let mut bench = started(&nodes);
    bench.end("a", 1, success());
    bench.end("b", 1, success());
    bench.end("f", 1, failure());
    bench.settle();
    let (a, b) = (bench.instance("a"), bench.instance("b"));
    assert!(bench.effects().contains(&"dispatch b#1".to_owned()));
    let undoing = |bench: &Bench, target| {
        let state = bench.shard.run(bench.run).expect("the run is held");
        let mut open = state.open_instances().into_iter();
        open.find(|&node| state.undone(node) == Some(target))
    };
    let node = undoing(&bench, b).expect("b is undone first");
    bench.end_index(node, 1, failure());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch a#1"]);
    bench.command(RunCommand::RetryCompensation { nodes: vec![b] });
    bench.settle();
    // It waits for its turn.
    assert_eq!(bench.effects(), ["answer 1 ok"]);
    let node = undoing(&bench, a).expect("a is undone");
    bench.end_index(node, 1, success());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch b#2"]);
}

#[test]
fn a_run_that_sleeps_for_its_child_is_looked_at_after_a_restart() {
    let mut bench = started(
        r#"{"id":"s","waitForSignal":{"name":"go"}},
           {"id":"c","subworkflow":{"workflowId":"other","input":{}},"dependsOn":["s"]}"#,
    );
    assert!(bench.store.row(bench.run).is_some_and(|row| row.asleep));
    bench.acquire(false);
    bench.command(RunCommand::Signal { name: "go".into() });
    bench.settle();
    assert!(bench.store.row(bench.run).is_some_and(|row| !row.asleep));
}

#[test]
fn a_run_that_sleeps_is_wanted_when_its_child_could_not_be_started() {
    let mut bench = started(r#"{"id":"c","subworkflow":{"workflowId":"other","input":{}}}"#);
    // Children often end soon: only after a while is the run let go.
    assert!(bench.shard.holds(bench.run));
    bench.pass(1000);
    assert!(!bench.shard.holds(bench.run));
    bench.effects();
    let failure = windlass_core::run::Failure::permanent("WORKFLOW_NOT_FOUND", "on the bench");
    let input = windlass_orchestrator::Input::ChildFailed {
        run: bench.run,
        node: 0,
        attempt: 1,
        failure: Box::new(failure),
    };
    bench.shard.handle(input, bench.now);
    let effects = bench.effects();
    assert!(effects[0].starts_with("Wanted"), "{effects:?}");
}
