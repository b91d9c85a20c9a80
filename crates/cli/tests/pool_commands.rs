//! Pools from outside: `windlass pools`, the API, what publishing refuses, and what `why` says.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, HttpAnswer, World};

/// One node that holds a slot of the pool `db` for as long as the test needs.
const SLOW: &str = r#"{ "id": "slow", "nodes": [{ "id": "n", "actionType": "core.sleep",
  "pool": { "name": "db" }, "parameters": { "ms": 600000 } }] }"#;

fn put(client: &Client, path: &str, body: &Value) -> HttpAnswer {
    let headers = [("Content-Type", "application/json")];
    let body = body.to_string();
    client.send("PUT", path, &headers, Some(body.as_bytes()))
}

#[test]
fn pools_are_made_listed_and_removed_by_commands() {
    let world = World::new();
    let made = world.run(&["pools", "set", "db", "2", "--json"]).expect(0);
    assert_eq!(
        made.json(),
        json!({ "name": "db", "slots": 2, "created": true })
    );
    world.run(&["pools", "set", "db", "3"]).expect(0);
    let listed = world.run(&["pools", "--json"]).expect(0).json();
    let pool = &listed["items"][0];
    assert_eq!(
        (&pool["name"], &pool["slots"], &pool["used"]),
        (&json!("db"), &json!(3), &json!(0))
    );
    world
        .run(&["pools", "set", "a b", "1", "--json"])
        .failed(3, "POOL_INVALID");
    world
        .run(&["pools", "set", "db", "0", "--json"])
        .failed(3, "POOL_INVALID");
    let file = world.definition("slow.json", SLOW);
    let file = file.to_str().expect("a path");
    world.run(&["publish", file]).expect(0);
    world
        .run(&["pools", "remove", "db", "--json"])
        .failed(6, "POOL_IN_USE");
    world
        .run(&["pools", "remove", "other", "--json"])
        .failed(4, "POOL_NOT_FOUND");
}

#[test]
fn publishing_refuses_a_pool_that_does_not_exist_or_is_too_small() {
    let world = World::new();
    let file = world.definition("slow.json", SLOW);
    let file = file.to_str().expect("a path");
    let checked = world.run(&["validate", file, "--json"]).expect(0).json();
    assert_eq!(checked["problems"][0]["code"], "POOL_UNCHECKED");
    for command in ["publish", "run"] {
        world
            .run(&[command, file, "--json"])
            .failed(3, "POOL_UNKNOWN");
    }
    world.run(&["pools", "set", "db", "1"]).expect(0);
    let large = SLOW.replace(r#""name": "db""#, r#""name": "db", "slots": 2"#);
    let large = world.definition("large.json", &large);
    let large = large.to_str().expect("a path");
    world
        .run(&["publish", large, "--json"])
        .failed(3, "POOL_UNKNOWN");
    world.run(&["publish", file]).expect(0);
}

#[test]
fn a_server_shows_who_holds_slots_and_why_names_them() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let made = put(
        &client,
        "/api/v1/pools",
        &json!({ "name": "db", "slots": 1 }),
    )
    .expect(200);
    assert_eq!(made.json()["created"], true);
    put(&client, "/api/v1/pools/db", &json!({ "slots": 0 })).refused(422, "POOL_INVALID");
    client.publish(SLOW);
    let first = client.execute("slow", &json!({}));
    client.until("/api/v1/pools/db", |_, pool| pool["used"] == 1);
    let second = client.execute("slow", &json!({}));
    let pool = client.until("/api/v1/pools/db", |_, pool| pool["waiting"] == 1);
    assert_eq!(pool["holders"][0]["executionId"], json!(first));
    assert_eq!(pool["waiters"][0]["executionId"], json!(second));
    let why = client.get(&format!("/api/v1/executions/{second}/why"));
    let why = why.expect(200).json();
    let node = &why["nodes"][0];
    assert_eq!(node["status"], "Queued");
    assert_eq!(node["pool"]["name"], "db");
    let reason = node["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("'db'") && reason.contains(&first),
        "{reason}"
    );
    client
        .delete("/api/v1/pools/db")
        .refused(409, "POOL_IN_USE");
    put(&client, "/api/v1/pools/db", &json!({ "slots": 2 })).expect(200);
    client.until("/api/v1/pools/db", |_, pool| pool["used"] == 2);
    for run in [first, second] {
        let path = format!("/api/v1/executions/{run}/cancel");
        client.post(&path, &json!({}));
    }
    client.until("/api/v1/pools/db", |_, pool| pool["used"] == 0);
}

#[test]
fn a_paused_run_holds_no_slot_for_a_node_that_no_worker_has() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    put(&client, "/api/v1/pools/db", &json!({ "slots": 1 })).expect(200);
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 1,
                       "actions": [{ "actionType": "x.do" }] });
    client.post("/api/v1/workers/poll", &poll).expect(200);
    let node = |id: &str, action: &str| {
        json!({ "id": id, "nodes": [
            { "id": "n", "actionType": action, "pool": { "name": "db" } } ] })
    };
    client.publish(&node("outside", "x.do").to_string());
    client.publish(&node("inside", "core.echo").to_string());
    let outside = client.execute("outside", &json!({}));
    client.until("/api/v1/pools", |_, listed| listed["items"][0]["used"] == 1);
    let place = format!("/api/v1/executions/{outside}");
    client
        .post(&format!("{place}/pause"), &json!({}))
        .expect(200);
    let inside = client.execute("inside", &json!({}));
    assert_eq!(client.ended(&inside)["status"], "Succeeded");
    // Once it is resumed, the node asks again, and a worker gets it.
    client
        .post(&format!("{place}/resume"), &json!({}))
        .expect(200);
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000,
                       "actions": [{ "actionType": "x.do" }] });
    let polled = client
        .post("/api/v1/workers/poll", &poll)
        .expect(200)
        .json();
    assert_eq!(polled["tasks"][0]["node"], "n", "{polled}");
    server.kill();
}
