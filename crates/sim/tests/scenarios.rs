//! Scenarios that seeds found, kept readable: each broke a rule once.

use windlass_core::Digest;
use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, RequestKey};
use windlass_core::run::Input as RunInput;
use windlass_orchestrator::Begin;
use windlass_sim::harness::{ShardHarness, failure, success};
use windlass_store::{Offer, Partition};

fn harness(nodes: &str) -> ShardHarness {
    ShardHarness::new(&format!("{{\"id\":\"w\",\"nodes\":[{nodes}]}}"))
}

fn started(nodes: &str) -> ShardHarness {
    let mut harness = harness(nodes);
    harness.start(Begin::Now);
    harness.settle();
    harness
}

const A: &str = r#"{"id":"a","actionType":"act"}"#;
const A_THEN_B: &str = r#"{"id":"a","actionType":"act"},
    {"id":"b","actionType":"act","dependsOn":["a"]}"#;

#[test]
fn a_resume_hands_nothing_out_before_it_is_durable() {
    // Something is still with a worker, so that the paused run stays in memory.
    let beside = format!(r#"{A_THEN_B}, {{"id":"c","actionType":"act"}}"#);
    let mut harness = started(&beside);
    harness.command(RunCommand::Pause);
    harness.end("a", 1, success());
    harness.settle();
    harness.effects();
    harness.command(RunCommand::Resume);
    assert!(harness.effects().is_empty());
    harness.settle();
    assert_eq!(harness.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_refusal_waits_for_the_record_that_it_rests_on() {
    let mut harness = started(A);
    harness.effects();
    harness.command(RunCommand::Cancel { compensate: false });
    harness.poll();
    // The run is being stopped, as far as a record in flight says.
    harness.command(RunCommand::Pause);
    assert!(harness.effects().is_empty());
    harness.answer();
    let answers: Vec<String> = harness.effects();
    assert_eq!(answers[0], "stop a#1");
    assert_eq!(answers[1], "answer 1 ok");
    assert!(
        answers[2].starts_with("answer 2 Err(NotNow("),
        "{answers:?}"
    );
}

#[test]
fn a_request_that_comes_again_before_its_refusal_gets_the_same() {
    let mut harness = started(A);
    harness.effects();
    let reattempt = || {
        let key = RequestKey {
            key: "k".into(),
            command: Digest::of(b"reattempt"),
        };
        let actor = Actor {
            request: Some(Box::new(key)),
            ..Actor::default()
        };
        RunInput::command(RunCommand::Reattempt { nodes: vec![0] }, actor)
    };
    harness.command(RunCommand::Pause);
    harness.poll();
    harness.ask(reattempt());
    // It would be carried out now.
    harness.end("a", 1, failure());
    harness.ask(reattempt());
    harness.settle();
    let effects = harness.effects().into_iter();
    let answers: Vec<String> = effects.filter(|it| it.starts_with("answer")).collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[1].starts_with("answer 2 Err("), "{answers:?}");
    assert_eq!(answers[2].replace("answer 3", "answer 2"), answers[1]);
}

#[test]
fn nothing_is_refused_by_a_record_that_was_not_stored() {
    let mut harness = started(A);
    harness.effects();
    harness.command(RunCommand::Cancel { compensate: false });
    harness.command(RunCommand::Pause);
    harness.fail_append();
    let effects = harness.effects();
    let is_answer = |effect: &&String| effect.starts_with("answer");
    assert_eq!(effects.iter().find(is_answer), None, "{effects:?}");
}

#[test]
fn a_run_that_begins_later_is_let_go_and_begins_when_adopted() {
    let mut harness = harness(A);
    harness.start(Begin::Later);
    harness.settle();
    assert_eq!(harness.effects(), ["accepted"]);
    assert!(!harness.shard.holds(harness.run));
    harness.acquire(true);
    harness.settle();
    assert_eq!(harness.effects(), ["dispatch a#1"]);
}

#[test]
fn a_paused_run_that_was_only_loaded_goes_on_when_resumed() {
    let mut harness = started(A_THEN_B);
    harness.command(RunCommand::Pause);
    harness.end("a", 1, success());
    harness.settle();
    harness.restart(false);
    harness.command(RunCommand::Resume);
    harness.settle();
    assert_eq!(harness.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_stopping_run_that_was_only_loaded_ends_after_any_command() {
    let mut harness = started(A);
    harness.command(RunCommand::Pause);
    harness.command(RunCommand::Cancel { compensate: false });
    harness.settle();
    harness.restart(false);
    harness.command(RunCommand::Pause);
    harness.settle();
    assert!(harness.effects().contains(&"finished Cancelled".to_owned()));
}

#[test]
fn a_reattempt_takes_back_what_runs_after_an_always_edge() {
    let mut harness = started(
        r#"{"id":"f","actionType":"act","edges":[{"targetNode":"x","when":"always"}]},
           {"id":"x","actionType":"act"}"#,
    );
    harness.end("f", 1, failure());
    harness.settle();
    assert!(harness.effects().contains(&"dispatch x#1".to_owned()));
    harness.command(RunCommand::Reattempt { nodes: vec![0] });
    harness.settle();
    assert_eq!(
        harness.effects(),
        ["give up x#1", "answer 1 ok", "dispatch f#2"]
    );
    harness.end("x", 1, success());
    harness.end("f", 2, success());
    harness.settle();
    assert_eq!(harness.effects(), ["dispatch x#2"]);
}

#[test]
fn a_stop_names_the_attempt_that_the_worker_has() {
    let mut harness = started(A);
    harness.effects();
    harness.command(RunCommand::Cancel { compensate: false });
    harness.poll();
    harness.end("a", 1, failure());
    harness.command(RunCommand::Reattempt { nodes: Vec::new() });
    harness.answer();
    assert_eq!(harness.effects(), ["answer 1 ok"]);
    harness.settle();
    assert_eq!(harness.effects(), ["answer 2 ok", "dispatch a#2"]);
}

#[test]
fn recovery_does_not_hand_out_what_is_reopened_meanwhile() {
    let mut harness = started(r#"{"id":"f","actionType":"act"},{"id":"g","actionType":"act"}"#);
    harness.end("f", 1, failure());
    harness.settle();
    harness.restart(true);
    harness.poll();
    harness.command(RunCommand::Reattempt { nodes: vec![0] });
    harness.answer();
    assert!(harness.effects().is_empty());
    harness.settle();
    assert_eq!(
        harness.effects(),
        ["answer 1 ok", "dispatch f#2", "dispatch g#1"]
    );
}

#[test]
fn an_earlier_grace_does_not_end_a_later_one() {
    let mut harness = started(A);
    harness.command(RunCommand::Cancel { compensate: false });
    harness.settle();
    harness.end("a", 1, failure());
    harness.command(RunCommand::Reattempt { nodes: Vec::new() });
    harness.settle();
    harness.pass(5_000);
    harness.command(RunCommand::Cancel { compensate: false });
    harness.settle();
    harness.effects();
    harness.pass(5_000);
    harness.settle();
    assert!(harness.effects().is_empty());
    harness.pass(5_000);
    harness.settle();
    assert_eq!(harness.effects(), ["give up a#2", "finished Cancelled"]);
}

#[test]
fn a_reattempt_does_not_forget_what_waits_for_its_level() {
    let mut harness = ShardHarness::new(
        r#"{"id":"w","executionMode":"levels","nodes":[
           {"id":"f","actionType":"act"},
           {"id":"o","actionType":"act","edges":[{"targetNode":"p","when":"failure"}]},
           {"id":"p","actionType":"act"},
           {"id":"q","actionType":"act","dependsOn":["o"]},
           {"id":"h","actionType":"act","dependsOn":["o","p"]}]}"#,
    );
    harness.start(Begin::Now);
    harness.settle();
    harness.end("f", 1, failure());
    harness.end("o", 1, success());
    harness.settle();
    harness.command(RunCommand::Reattempt { nodes: vec![0] });
    harness.settle();
    harness.end("f", 2, success());
    harness.effects();
    harness.end("q", 1, success());
    harness.settle();
    assert_eq!(harness.effects(), ["dispatch h#1"]);
}

#[test]
fn an_attempt_that_a_dead_process_may_have_begun_keeps_its_number() {
    let mut harness = started(A);
    harness.effects();
    harness.restart(true);
    harness.command(RunCommand::Cancel { compensate: false });
    harness.command(RunCommand::Reattempt { nodes: Vec::new() });
    harness.settle();
    assert!(harness.effects().contains(&"dispatch a#2".to_owned()));
}

const LOOP: &str = r#"{"id":"l","forEach":{"items":[1],"body":{"nodes":[
    {"id":"x","actionType":"act"}]}}}"#;

#[test]
fn a_loop_whose_result_is_set_lets_its_iterations_go() {
    let mut harness = started(LOOP);
    assert_eq!(harness.effects(), ["accepted", "dispatch l[0]/x#1"]);
    let (node, inner) = (harness.instance("l"), harness.instance("l[0]/x"));
    harness.command(RunCommand::Skip { node });
    harness.poll();
    // Its worker does not know yet.
    harness.end_index(inner, 1, success());
    harness.settle();
    let effects = harness.effects();
    assert!(
        effects.contains(&"finished Succeeded".to_owned()),
        "{effects:?}"
    );
}

#[test]
fn a_result_is_not_set_where_the_node_could_not_run() {
    let mut harness = started(A_THEN_B);
    harness.command(RunCommand::Cancel { compensate: false });
    harness.end("a", 1, failure());
    let node = harness.instance("b");
    harness.command(RunCommand::Skip { node });
    harness.settle();
    let effects = harness.effects();
    let answer = effects.iter().find(|effect| effect.starts_with("answer 2"));
    assert!(
        answer.is_some_and(|answer| answer.contains("Err")),
        "{effects:?}"
    );
}

fn heal(harness: &mut ShardHarness, nodes: &str) {
    let text = format!("{{\"id\":\"w\",\"inFlight\":\"healing\",\"nodes\":[{nodes}]}}");
    let plan = windlass_sim::workload::plan(&text);
    let definition = windlass_core::Digest::of(text.as_bytes());
    harness.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    harness.settle();
}

fn healing(nodes: &str) -> ShardHarness {
    ShardHarness::new(&format!(
        "{{\"id\":\"w\",\"inFlight\":\"healing\",\"failurePolicy\":\"failFast\",\"nodes\":[{nodes}]}}"
    ))
}

#[test]
fn a_newer_version_of_a_run_that_has_not_begun_begins_at_its_entries() {
    let mut harness = healing(A_THEN_B);
    harness.start(Begin::Later);
    heal(
        &mut harness,
        r#"{"id":"b","actionType":"act","dependsOn":["a"]},{"id":"a","actionType":"act"}"#,
    );
    assert_eq!(harness.effects(), ["accepted", "answer 1 ok"]);
    let state = harness.shard.run(harness.run);
    assert!(state.is_none_or(|state| state.started_at().is_none()));
}

#[test]
fn a_newer_version_does_not_add_to_a_run_that_is_being_stopped() {
    let mut harness = healing(r#"{"id":"a","actionType":"act"},{"id":"slow","actionType":"act"}"#);
    harness.start(Begin::Now);
    harness.settle();
    harness.end("a", 1, failure());
    harness.settle();
    harness.effects();
    heal(
        &mut harness,
        r#"{"id":"a","actionType":"act"},{"id":"slow","actionType":"act"},{"id":"new","actionType":"act"}"#,
    );
    let effects = harness.effects();
    assert!(effects[0].contains("NotNow"), "{effects:?}");
    harness.end("slow", 1, success());
    harness.settle();
    assert!(harness.effects().contains(&"finished Failed".to_owned()));
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
    let mut harness = ShardHarness::new(&sequential(&first));
    harness.start(Begin::Now);
    harness.settle();
    assert_eq!(harness.effects(), ["accepted", "dispatch l#1"]);
    // `l` is cancelled, `b` is ready as well and stands where `a` stood.
    let text = sequential(&format!("{},{}", node("a"), node("b")));
    let plan = windlass_sim::workload::plan(&text);
    let definition = windlass_core::Digest::of(text.as_bytes());
    harness.ask(RunInput::Heal {
        version: 2,
        definition,
        plan,
    });
    harness.settle();
    let effects = harness.effects();
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
    let mut harness = started(&nodes);
    harness.end("a", 1, success());
    harness.end("b", 1, success());
    harness.end("f", 1, failure());
    harness.settle();
    let (a, b) = (harness.instance("a"), harness.instance("b"));
    assert!(harness.effects().contains(&"dispatch b#1".to_owned()));
    let undoing = |harness: &ShardHarness, target| {
        let state = harness.shard.run(harness.run).expect("the run is held");
        let mut open = state.open_instances().into_iter();
        open.find(|&node| state.undone(node) == Some(target))
    };
    let node = undoing(&harness, b).expect("b is undone first");
    harness.end_index(node, 1, failure());
    harness.settle();
    assert_eq!(harness.effects(), ["dispatch a#1"]);
    harness.command(RunCommand::RetryCompensation { nodes: vec![b] });
    harness.settle();
    // It waits for its turn.
    assert_eq!(harness.effects(), ["answer 1 ok"]);
    let node = undoing(&harness, a).expect("a is undone");
    harness.end_index(node, 1, success());
    harness.settle();
    assert_eq!(harness.effects(), ["dispatch b#2"]);
}

#[test]
fn a_run_that_sleeps_for_its_child_is_looked_at_after_a_restart() {
    let mut harness = started(
        r#"{"id":"s","waitForSignal":{"name":"go"}},
           {"id":"c","subworkflow":{"workflowId":"other","input":{}},"dependsOn":["s"]}"#,
    );
    assert!(harness.store.row(harness.run).is_some_and(|row| row.asleep));
    harness.acquire(false);
    harness.command(RunCommand::Signal { name: "go".into() });
    harness.settle();
    assert!(
        harness
            .store
            .row(harness.run)
            .is_some_and(|row| !row.asleep)
    );
}

#[test]
fn a_run_that_sleeps_is_wanted_when_its_child_could_not_be_started() {
    let mut harness = started(r#"{"id":"c","subworkflow":{"workflowId":"other","input":{}}}"#);
    // Children often end soon: only after a while is the run released.
    assert!(harness.shard.holds(harness.run));
    harness.pass(1000);
    assert!(!harness.shard.holds(harness.run));
    harness.effects();
    let failure = windlass_core::run::Failure::permanent("WORKFLOW_NOT_FOUND", "on the bench");
    let input = windlass_orchestrator::ShardInput::ChildFailed {
        run: harness.run,
        node: 0,
        attempt: 1,
        failure: Box::new(failure),
    };
    harness.shard.handle(input, harness.now);
    let effects = harness.effects();
    assert!(effects[0].starts_with("WakeParent"), "{effects:?}");
}

/// The record that carries out an offered command consumes its item, and no other record does.
#[test]
fn an_item_is_consumed_by_the_record_that_carries_its_command_out() {
    let mut harness = started(A);
    harness.effects();
    let pause = |key: &str| {
        let actor = Actor {
            request: Some(Box::new(RequestKey {
                key: key.into(),
                command: Digest::of(b"pause"),
            })),
            ..Actor::default()
        };
        RunInput::command(RunCommand::Pause, actor)
    };
    let consumed = |harness: &ShardHarness| harness.in_flight[0].consumed.clone();
    let offer = Offer {
        run: harness.run,
        partition: Partition(0),
        key: "command/k".into(),
        bytes: Vec::new(),
    };
    assert!(harness.store.offer(offer));
    harness.ask_for_item(pause("k"), Some("command/k"));
    assert_eq!(harness.poll(), 1);
    assert_eq!(consumed(&harness), ["command/k".into()]);
    // The same request again, and one that is refused: neither consumes anything.
    harness.ask_for_item(pause("k"), Some("command/k"));
    harness.ask_for_item(pause("other"), Some("command/other"));
    harness.answer();
    let effects = harness.effects();
    assert!(effects.contains(&"answer 1 ok".to_owned()), "{effects:?}");
    assert!(effects.contains(&"answer 2 ok".to_owned()), "{effects:?}");
    assert!(
        effects
            .iter()
            .any(|it| it.starts_with("answer 3") && it.contains("NotNow"))
    );
    assert_eq!(harness.store.inbox(harness.run), []);
    harness.command(RunCommand::Resume);
    assert_eq!(harness.poll(), 1);
    assert!(consumed(&harness).is_empty());
}
