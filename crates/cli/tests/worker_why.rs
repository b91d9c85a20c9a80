//! What `why` says of a node that a worker outside the server does: which worker has it and
//! until when, that its lease ran out, that it is being stopped, and that it waits for its turn.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, World};

const BOUNDED: &str = r#"{ "id": "bounded", "maxParallel": 1, "nodes": [
    { "id": "a", "actionType": "py.one" }, { "id": "b", "actionType": "py.one" }] }"#;

fn poll(client: &Client, worker: &str) -> Value {
    let body = json!({ "protocol": 1, "worker": worker, "waitMs": 30_000,
                       "actions": [{ "actionType": "py.one" }] });
    let answer = client.post("/api/v1/workers/poll", &body).expect(200);
    answer.json()["tasks"][0].clone()
}

/// What is said of a node, once it is so.
fn why(client: &Client, run: &str, node: &str, is_so: impl Fn(&Value) -> bool) -> String {
    let path = format!("/api/v1/executions/{run}/why");
    let find = |answer: &Value| {
        let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
        nodes.into_iter().find(|it| it["node"] == node)
    };
    let found = client.until(&path, |status, answer| {
        status == 200 && find(answer).is_some_and(|node| is_so(&node))
    });
    let node = find(&found).expect("it was there");
    node["reason"].as_str().expect("a sentence").to_owned()
}

#[test]
fn each_state_of_a_remote_attempt_is_named() {
    let world = World::new();
    let server = world.serve_with(&[], &[("WINDLASS_WORKER_HEARTBEAT", "400ms")]);
    let client = server.client();
    client.publish(BOUNDED);
    let run = client.execute("bounded", &json!({}));
    let first = poll(&client, "alpha");
    assert_eq!(first["node"], "a");
    let reason = why(&client, &run, "a", |it| {
        it["work"]["leaseUntil"].is_string()
    });
    assert!(reason.contains("running on alpha since"), "{reason}");
    let reason = why(&client, &run, "b", |_| true);
    assert!(reason.contains("maxParallel"), "{reason}");
    // The worker is silent.
    let silent = |it: &Value| {
        it["reason"]
            .as_str()
            .is_some_and(|it| it.contains("ran out"))
    };
    let reason = why(&client, &run, "a", silent);
    assert!(reason.contains("alpha"), "{reason}");
    let second = poll(&client, "beta");
    assert_eq!(second["taskId"], first["taskId"]);
    let cancel = format!("/api/v1/executions/{run}/cancel");
    client.post(&cancel, &json!({})).expect(200);
    let reason = why(&client, &run, "a", |it| it["work"]["stop"] == true);
    assert!(reason.contains("beta is asked to stop"), "{reason}");
    assert!(reason.contains("the node ends by"), "{reason}");
    server.stop();
}

#[test]
fn a_paused_run_names_the_worker_that_has_its_node() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(BOUNDED);
    let run = client.execute("bounded", &json!({}));
    poll(&client, "alpha");
    let pause = format!("/api/v1/executions/{run}/pause");
    client.post(&pause, &json!({})).expect(200);
    let reason = why(&client, &run, "a", |_| true);
    assert!(reason.contains("running on alpha"), "{reason}");
    let reason = why(&client, &run, "b", |_| true);
    assert!(reason.contains("paused"), "{reason}");
    server.stop();
}
