//! `executionMode: sequential`: one node instance at a time, in definition order, whatever
//! kind of node it is.

use serde_json::{Value, json};
use windlass_test_support::process::World;

fn ran(world: &World, name: &str, text: &str) -> Value {
    world.definition(name, text);
    world.run(&["run", name, "--json", "-q"]).expect(0).json()
}

/// Kind and node of the run's events of these kinds.
fn events(world: &World, run: &Value, kinds: &[&str]) -> Vec<String> {
    let id = run["executionId"].as_str().expect("an id");
    let printed = world.run(&["events", id, "--json"]).expect(0).stdout;
    let events = printed.lines().map(|line| -> Value {
        let event = serde_json::from_str(line);
        event.expect("JSON")
    });
    events
        .filter(|event| kinds.iter().any(|kind| event["kind"] == *kind))
        .map(|event| {
            let kind = event["kind"].as_str().expect("a kind").to_owned();
            format!("{kind} {}", event["node"].as_str().unwrap_or("-"))
        })
        .collect()
}

#[test]
fn a_loop_sees_what_nodes_before_it_in_the_definition_left() {
    let world = World::new();
    let run = ran(
        &world,
        "loop.json",
        r#"{"id":"loop","executionMode":"sequential","vars":{"list":[]},"nodes":[
          {"id":"fill","actionType":"core.script","parameters":{"expression":"[1, 2]"},
           "setVars":{"list":"{{ output }}"}},
          {"id":"each","forEach":{"items":"{{ vars.list }}","body":{"nodes":[
            {"id":"one","actionType":"core.echo","parameters":{"n":"{{ item }}"}}]}}},
          {"id":"last","actionType":"core.echo"}]}"#,
    );
    assert_eq!(run["nodes"]["each"]["output"], json!([{"n": 1}, {"n": 2}]));
    assert_eq!(
        events(&world, &run, &["NodeStarted"]),
        [
            "NodeStarted fill",
            "NodeStarted each",
            "NodeStarted each[0]/one",
            "NodeStarted each[1]/one",
            "NodeStarted last"
        ]
    );
}

#[test]
fn a_child_run_goes_alone_and_a_timer_lets_the_next_go() {
    let world = World::new();
    world.definition(
        "child.json",
        r#"{"id":"child","nodes":[{"id":"k","actionType":"core.fail",
          "parameters":{"untilAttempt":1}}]}"#,
    );
    world.run(&["publish", "child.json"]).expect(0);
    let run = ran(
        &world,
        "mixed.json",
        r#"{"id":"mixed","executionMode":"sequential","nodes":[
          {"id":"a","actionType":"core.sleep","parameters":{"ms":20}},
          {"id":"child","subworkflow":{"workflowId":"child","input":{}}},
          {"id":"rest","delay":{"ms":300}},
          {"id":"b","actionType":"core.sleep","parameters":{"ms":1}},
          {"id":"after","actionType":"core.echo","dependsOn":["rest"]}]}"#,
    );
    assert_eq!(
        events(&world, &run, &["NodeStarted", "NodeSucceeded"]),
        [
            "NodeStarted a",
            "NodeSucceeded a",
            "NodeStarted child",
            "NodeSucceeded child",
            "NodeStarted rest",
            "NodeStarted b",
            "NodeSucceeded b",
            "NodeSucceeded rest",
            "NodeStarted after",
            "NodeSucceeded after"
        ]
    );
}

#[test]
fn a_child_that_is_started_again_waits_for_its_turn() {
    let world = World::new();
    world.definition(
        "child.json",
        r#"{"id":"child","nodes":[{"id":"k","actionType":"core.fail"}]}"#,
    );
    world.run(&["publish", "child.json"]).expect(0);
    world.definition(
        "again.json",
        r#"{"id":"again","executionMode":"sequential","nodes":[
          {"id":"child","subworkflow":{"workflowId":"child","input":{}},"onFailure":"end",
           "policies":{"retry":{"maxAttempts":2,"baseDelayMs":50,"jitter":false}}},
          {"id":"b","actionType":"core.sleep","parameters":{"ms":600}},
          {"id":"end","actionType":"core.echo"}]}"#,
    );
    let run = world.run(&["run", "again.json", "--json", "-q"]).expect(0);
    assert_eq!(
        events(
            &world,
            &run.json(),
            &["ChildStarted", "ChildFinished", "NodeSucceeded"]
        ),
        [
            "ChildStarted child",
            "ChildFinished child",
            "NodeSucceeded b",
            "ChildStarted child",
            "ChildFinished child",
            "NodeSucceeded end"
        ]
    );
}

#[test]
fn an_interrupted_run_begins_what_had_not_had_its_turn() {
    let world = World::new();
    world.definition(
        "left.json",
        r#"{"id":"left","executionMode":"sequential","nodes":[
          {"id":"slow","actionType":"core.sleep","parameters":{"ms":6000}},
          {"id":"each","forEach":{"items":[1],"body":{"nodes":[
            {"id":"one","actionType":"core.echo"}]}}}]}"#,
    );
    let left = world.run(&["run", "left.json", "--wait", "3", "-q"]);
    left.expect(7);
    let run = world.run(&["resume", "@last", "--json", "-q"]).expect(0);
    let started = events(&world, &run.json(), &["NodeSucceeded"]);
    assert_eq!(
        started,
        [
            "NodeSucceeded slow",
            "NodeSucceeded each[0]/one",
            "NodeSucceeded each"
        ]
    );
}

#[test]
fn an_attempt_has_one_worker_in_events_and_in_attempts() {
    let world = World::new();
    let run = ran(
        &world,
        "long.json",
        r#"{"id":"long","nodes":[{"id":"a","actionType":"core.sleep","parameters":{"ms":600}}]}"#,
    );
    let id = run["executionId"].as_str().expect("an id");
    let show = ["show", id, "--json", "--include", "actions,events"];
    let shown = world.run(&show).expect(0).json();
    let events = shown["events"].as_array().expect("events");
    let began = events.iter().find(|event| event["kind"] == "NodeStarted");
    let worker = &began.expect("it started")["data"]["worker"];
    assert_eq!(worker, &shown["actions"][0]["worker"]);
}
