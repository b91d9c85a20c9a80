//! The commands that look, on the real binary: what they print and how they end.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::stored_runs::World;
use windlass_test_support::process::Ended;

/// A definition with everything worth looking at: success, retry, failure, a route
/// around a failure, a branch not chosen, and something blocked.
const MIXED: &str = r#"{
  "id": "mixed",
  "labels": { "team": "x" },
  "vars": { "region": "eu" },
  "nodes": [
    { "id": "fetch", "name": "Fetch it", "actionType": "core.echo",
      "parameters": { "n": "{{ trigger.n }}" },
      "edges": [
        { "targetNode": "big", "condition": "output.n > 10" },
        { "targetNode": "flaky" }, { "targetNode": "charge" }, { "targetNode": "risky" } ] },
    { "id": "big", "actionType": "core.echo" },
    { "id": "flaky", "actionType": "core.fail",
      "parameters": { "untilAttempt": 2, "retriable": true, "message": "not yet" },
      "policies": { "retry": { "maxAttempts": 3, "baseDelayMs": 1 } } },
    { "id": "charge", "actionType": "core.fail",
      "parameters": { "code": "CARD_DECLINED", "message": "no money" },
      "edges": [ { "targetNode": "ship" } ] },
    { "id": "ship", "actionType": "core.echo", "edges": [ { "targetNode": "thank" } ] },
    { "id": "thank", "actionType": "core.echo" },
    { "id": "risky", "actionType": "core.fail", "onFailure": "repair" },
    { "id": "repair", "actionType": "core.echo" }
  ]
}"#;

fn keys(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

fn set<'a>(keys: &[&'a str]) -> BTreeSet<&'a str> {
    keys.iter().copied().collect()
}

#[test]
fn an_execution_has_exactly_the_keys_of_the_interface() {
    let world = World::new();
    let run = world.run(MIXED, r#"{"n": 3}"#);
    let shown = world.windlass(&["show", &run, "--json"]).expect(0).json();
    let order: Vec<&str> = shown
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        order,
        [
            "executionId",
            "workflowId",
            "version",
            "graph",
            "requestId",
            "tenantId",
            "correlationId",
            "priority",
            "labels",
            "status",
            "error",
            "compensation",
            "trigger",
            "vars",
            "output",
            "createdAt",
            "startedAt",
            "endedAt",
            "updatedAt",
            "parent",
            "origin",
            "counts",
            "nodes",
        ]
    );
    assert_eq!(shown["executionId"], run.as_str());
    assert_eq!(shown["graph"], "pinned");
    assert_eq!(shown["status"], "Failed");
    assert_eq!(shown["error"]["code"], "NODE_FAILED");
    assert_eq!(shown["error"]["nodes"], serde_json::json!(["charge"]));
    assert_eq!(shown["trigger"], serde_json::json!({ "n": 3 }));
    assert_eq!(shown["vars"], serde_json::json!({ "region": "eu" }));
    assert_eq!(shown["labels"], serde_json::json!({ "team": "x" }));
    for null in ["tenantId", "compensation", "output", "parent", "origin"] {
        assert!(shown[null].is_null(), "{null}");
    }
    assert_eq!(
        shown["counts"],
        serde_json::json!({ "succeeded": 3, "failed": 2, "skipped": 1, "blocked": 2,
            "cancelled": 0, "running": 0, "pending": 0 })
    );
    let nodes = shown["nodes"].as_object().expect("nodes");
    assert_eq!(nodes.len(), 8);
    for (id, node) in nodes {
        let expected = set(&[
            "status",
            "name",
            "actionType",
            "attempts",
            "input",
            "output",
            "error",
            "handled",
            "blockedBy",
            "ancestryHash",
            "startedAt",
            "endedAt",
            "durationMs",
        ]);
        assert_eq!(keys(node), expected, "{id}");
    }
    assert_eq!(nodes["fetch"]["name"], "Fetch it");
    assert_eq!(nodes["fetch"]["output"], serde_json::json!({ "n": 3 }));
    assert_eq!(nodes["fetch"]["attempts"], 1);
    assert_eq!(nodes["flaky"]["attempts"], 2);
    assert_eq!(nodes["charge"]["handled"], false);
    assert_eq!(nodes["charge"]["error"]["code"], "CARD_DECLINED");
    assert_eq!(
        keys(&nodes["charge"]["error"]),
        set(&["code", "message", "retriable", "details"])
    );
    assert_eq!(nodes["risky"]["handled"], true);
    assert!(nodes["fetch"]["handled"].is_null());
    assert_eq!(nodes["big"]["status"], "Skipped");
    assert!(nodes["big"]["startedAt"].is_null());
    assert_eq!(nodes["thank"]["status"], "Blocked");
    assert_eq!(nodes["thank"]["blockedBy"], serde_json::json!(["charge"]));
    assert_eq!(nodes["ship"]["attempts"], 0);
    assert_eq!(
        nodes["fetch"]["ancestryHash"].as_str().map(str::len),
        Some(64)
    );
}

#[test]
fn attempts_resources_and_events_are_added_on_request() {
    let world = World::new();
    let run = world.run(MIXED, r#"{"n": 3}"#);
    let arguments = [
        "show",
        &run,
        "--json",
        "--include",
        "actions,resources,events",
        "--nodes",
        "flaky",
    ];
    let shown = world.windlass(&arguments).expect(0).json();
    assert_eq!(shown["nodes"].as_object().map(|nodes| nodes.len()), Some(1));
    assert_eq!(shown["resources"], serde_json::json!([]));
    let actions = shown["actions"].as_array().expect("actions");
    let of_flaky: Vec<&Value> = actions.iter().filter(|a| a["node"] == "flaky").collect();
    assert_eq!(of_flaky.len(), 2);
    assert_eq!(of_flaky[0]["status"], "Failed");
    assert_eq!(of_flaky[1]["status"], "Succeeded");
    assert_eq!(of_flaky[0]["idempotencyKey"], of_flaky[1]["idempotencyKey"]);
    assert_eq!(of_flaky[0]["idempotencyKey"], format!("{run}/flaky"));
    let expected = set(&[
        "node",
        "attempt",
        "status",
        "parameters",
        "output",
        "error",
        "startedAt",
        "endedAt",
        "worker",
        "idempotencyKey",
        "meta",
    ]);
    assert_eq!(keys(of_flaky[0]), expected);
    assert!(
        shown["events"]
            .as_array()
            .is_some_and(|events| events.len() > 10)
    );
    let unknown = world.windlass(&["show", &run, "--nodes", "nope", "--json"]);
    unknown.failed(4, "NODE_NOT_FOUND");
}

#[test]
fn events_are_numbered_lines_in_causal_order() {
    let world = World::new();
    let run = world.run(MIXED, r#"{"n": 3}"#);
    let text = world.windlass(&["events", &run, "--json"]).expect(0).stdout;
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for (number, event) in events.iter().enumerate() {
        let order: Vec<&str> = event
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            // Events of nodes that have a name for people have it too.
            .filter(|key| *key != "name")
            .collect();
        let expected = [
            "v", "position", "at", "level", "category", "kind", "node", "attempt", "data",
        ];
        assert_eq!(order, expected);
        assert_eq!(event["v"], 1);
        assert_eq!(event["position"], number as u64 + 1);
        assert!(event["data"].is_object());
    }
    let place = |kind: &str, node: &str| {
        let found = events
            .iter()
            .position(|e| e["kind"] == kind && (node.is_empty() || e["node"] == node));
        found.unwrap_or_else(|| panic!("no {kind} of '{node}' in\n{text}"))
    };
    assert_eq!(place("RunQueued", ""), 0);
    assert_eq!(place("RunStarted", ""), 1);
    assert!(events[0]["node"].is_null() && events[0]["attempt"].is_null());
    assert_eq!(events[0]["category"], "orchestrator");
    assert!(place("NodeStarted", "fetch") < place("NodeSucceeded", "fetch"));
    assert!(place("NodeSucceeded", "fetch") < place("NodeStarted", "flaky"));
    assert!(place("NodeRetryScheduled", "flaky") < place("NodeSucceeded", "flaky"));
    assert!(place("NodeFailed", "charge") < place("NodeBlocked", "ship"));
    assert!(place("NodeFailed", "risky") < place("NodeStarted", "repair"));
    assert_eq!(
        events[place("NodeStarted", "flaky")]["category"],
        "action:core.fail"
    );
    assert_eq!(
        events[place("NodeBlocked", "thank")]["data"]["blockedBy"],
        serde_json::json!(["charge"])
    );
    place("NodeSkipped", "big");
    let last = events.last().expect("events");
    assert_eq!(last["kind"], "RunFinished");
    assert_eq!(last["data"]["status"], "Failed");
    let starts = events.iter().filter(|e| e["kind"] == "NodeStarted").count();
    assert_eq!(starts, 6, "{text}");
    let rest = world
        .windlass(&["events", &run, "--json", "--after", "3"])
        .expect(0)
        .stdout;
    assert_eq!(rest.lines().count(), events.len() - 3);
}

#[test]
fn runs_are_listed_in_pages() {
    let world = World::new();
    let none = world.windlass(&["runs"]);
    none.failed(4, "NO_DATA_DIR");
    let small = r#"{"id":"small","nodes":[{"id":"a","actionType":"core.echo"}]}"#;
    let first = world.run(small, "{}");
    let second = world.run(MIXED, r#"{"n": 3}"#);
    let page = world.windlass(&["runs", "--json"]).expect(0).json();
    assert!(page["next"].is_null());
    let items = page["items"].as_array().expect("items");
    assert_eq!(items.len(), 2);
    assert_eq!(items[0]["executionId"], second.as_str());
    assert_eq!(items[0]["error"]["code"], "NODE_FAILED");
    assert!(items[1]["error"].is_null());
    for key in [
        "workflowId",
        "version",
        "status",
        "createdAt",
        "startedAt",
        "endedAt",
        "updatedAt",
        "labels",
        "requestId",
        "priority",
    ] {
        assert!(items[0].get(key).is_some(), "{key}");
    }
    let page = world
        .windlass(&["runs", "--json", "--limit", "1"])
        .expect(0)
        .json();
    let cursor = page["next"].as_str().expect("a cursor").to_owned();
    let page = world
        .windlass(&["runs", "--json", "--limit", "1", "--cursor", &cursor])
        .expect(0)
        .json();
    assert_eq!(page["items"][0]["executionId"], first.as_str());
    let count = |arguments: &[&str]| {
        let mut all = vec!["runs", "--json"];
        all.extend(arguments);
        let page = world.windlass(&all).expect(0).json();
        page["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(count(&["--status", "failed"]), 1);
    assert_eq!(count(&["--workflow", "small"]), 1);
    assert_eq!(count(&["--label", "team=x"]), 1);
    assert_eq!(count(&["--since", "1h"]), 2);
    assert_eq!(count(&["--since", "2100-01-01"]), 0);
    world
        .windlass(&["runs", "--status", "odd"])
        .failed(2, "STATUS_UNKNOWN");
    let table = world.windlass(&["runs"]).expect(0).stdout;
    assert!(
        table.contains("mixed v1") && table.contains("NODE_FAILED"),
        "{table}"
    );
}

#[test]
fn the_result_ends_as_the_run_did() {
    let world = World::new();
    let small =
        r#"{"id":"small","nodes":[{"id":"a","actionType":"core.echo","parameters":{"x":[1]}}]}"#;
    let run = world.run(small, "{}");
    let answer = world.windlass(&["result", &run]).expect(0);
    assert_eq!(answer.stdout, "{\n  \"x\": [\n    1\n  ]\n}\n");
    let run = world.run(MIXED, r#"{"n": 3}"#);
    let answer = world.windlass(&["result", &run]);
    assert_eq!((answer.code, answer.stdout.as_str()), (1, ""));
    assert!(
        answer.stderr.contains("error[NODE_FAILED]"),
        "{}",
        answer.stderr
    );
    let queued = world.queue(small, "{}");
    world
        .windlass(&["result", &queued])
        .failed(7, "RUN_NOT_ENDED");
    world
        .windlass(&["result", "0000"])
        .failed(4, "RUN_NOT_FOUND");
}

#[test]
fn a_run_is_shown_to_people() {
    let world = World::new();
    let run = world.run(MIXED, r#"{"n": 3}"#);
    let Ended { stdout, stderr, .. } = world.windlass(&["show", "@last"]).expect(0);
    for part in [
        "✗ mixed v1  Failed",
        &run,
        "3 succeeded · 2 failed · 1 skipped · 2 blocked",
        "NODE_FAILED: charge failed: CARD_DECLINED: no money",
        "CARD_DECLINED: no money",
        "by charge",
        "Fetch it",
    ] {
        assert!(stdout.contains(part), "{part} is missing:\n{stdout}");
    }
    assert!(stderr.contains("next: windlass reattempt"), "{stderr}");
    assert!(
        stdout.lines().all(|line| line.chars().count() <= 100),
        "{stdout}"
    );
}
