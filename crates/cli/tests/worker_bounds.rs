//! What a poll and a report may hold, and what becomes of what they hold: limits by name, the
//! wait that a worker asks for, metadata, links and trace context; and what definitions are told
//! of the types that workers have declared.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use windlass_core::Millis;
use windlass_service::moment::since;
use windlass_test_support::process::{Client, World};

const TWO: &str = r#"{ "id": "two", "nodes": [
    { "id": "a", "actionType": "py.a",
      "policies": { "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } } },
    { "id": "b", "actionType": "py.b" }] }"#;

fn poll(action: &str) -> Value {
    json!({ "protocol": 1, "worker": "w", "waitMs": 30_000,
            "actions": [{ "actionType": action }] })
}

#[track_caller]
fn task(client: &Client, action: &str) -> Value {
    let answer = client.post("/api/v1/workers/poll", &poll(action));
    answer.expect(200).json()["tasks"][0].clone()
}

#[track_caller]
fn say(client: &Client, task: &Value, what: &str, mut body: Value) {
    body["lease"] = task["lease"].clone();
    let id = task["taskId"].as_str().expect("an id");
    let path = format!("/api/v1/workers/tasks/{id}/{what}");
    client.post(&path, &body).expect(200);
}

#[test]
fn a_poll_stays_within_its_bounds() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let asked = |key: &str, value: Value| {
        let mut body = poll("py.a");
        body["waitMs"] = json!(0);
        body[key] = value;
        client.post("/api/v1/workers/poll", &body)
    };
    let many = |count: usize| json!(vec!["x"; count]);
    for (key, most, more) in [
        ("slots", json!(1000), json!(1001)),
        ("labels", many(64), many(65)),
        ("holding", many(10_000), many(10_001)),
        ("worker", json!("w".repeat(256)), json!("w".repeat(257))),
    ] {
        asked(key, most).expect(200);
        let refused = asked(key, more);
        assert_eq!(refused.status, 400, "{key}: {refused:?}");
    }
    for (key, wrong) in [
        ("slots", json!(0)),
        ("waitMs", json!(30_001)),
        ("labels", json!(["two words"])),
        ("worker", json!("")),
        ("nonsense", json!(1)),
        ("actions", json!([{ "actionType": "two words" }])),
        (
            "actions",
            json!([{ "actionType": "py.a", "description": "d".repeat(5_000) }]),
        ),
    ] {
        let refused = asked(key, wrong);
        assert_eq!(refused.status, 400, "{key}: {refused:?}");
    }
    let scalar = json!([{ "actionType": "py.a", "parametersSchema": 5 }]);
    asked("actions", scalar).refused(422, "SCHEMA_INVALID");
    server.stop();
}

#[test]
fn the_wait_that_a_worker_asks_for_is_kept_and_bounded() {
    let world = World::new();
    let server = world.serve_with(&[], &[("WINDLASS_LIMIT_RETRY_AFTER", "30m")]);
    let client = server.client();
    client.publish(TWO);
    for (asked, wait) in [(90_000, 90_000), (u64::MAX, 1_800_000)] {
        let run = client.execute("two", &json!({}));
        let first = task(&client, "py.a");
        let error = json!({ "code": "BUSY", "message": "later", "retriable": true,
                            "retryAfterMs": asked });
        let before = now();
        say(&client, &first, "fail", error);
        let after = now();
        let shown = client.get(&format!("/api/v1/executions/{run}?include=events"));
        let shown = shown.expect(200).json();
        let events = shown["events"].as_array().expect("a list");
        let retry = events.iter().find(|it| it["kind"] == "NodeRetryScheduled");
        let retry = retry.expect("it is tried again");
        let due = retry["data"]["due"].as_str().expect("a moment");
        let due = since(due, Millis(0)).expect("a moment").0;
        // The wait counts from the decision, which falls between the report and its answer.
        assert!((before + wait..=after + wait).contains(&due), "{retry}");
    }
    server.stop();
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_millis() as i64
}

#[test]
fn what_a_report_holds_beside_the_output_is_recorded() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(TWO);
    let link =
        json!({ "system": "crm", "type": "lead", "id": "7", "url": "https://crm.example/7" });
    let run = client.execute("two", &json!({}));
    let done = task(&client, "py.b");
    let report = json!({ "output": 1, "meta": { "rows": 3 }, "resources": [link] });
    say(&client, &done, "complete", report);
    let path = format!("/api/v1/executions/{run}?include=actions,resources");
    let shown = client.get(&path).expect(200).json();
    let action = &shown["actions"][0];
    assert_eq!(
        (&action["node"], &action["meta"]["rows"]),
        (&json!("b"), &json!(3))
    );
    let made = &shown["resources"][0];
    for (key, value) in [
        ("system", "crm"),
        ("type", "lead"),
        ("id", "7"),
        ("node", "b"),
    ] {
        assert_eq!(made[key], value, "{made}");
    }
    // Links that no record can have fail the node, and none of them is kept.
    for links in [
        json!(vec![link.clone(); 1001]),
        json!([{ "system": "s".repeat(257), "type": "t", "id": "1" }]),
        json!([{ "system": "s", "type": "t", "id": "\u{0}" }]),
    ] {
        let run = client.execute("two", &json!({}));
        let done = task(&client, "py.b");
        let report = json!({ "output": 1, "resources": links });
        say(&client, &done, "complete", report);
        let path = format!("/api/v1/executions/{run}?include=resources");
        let shown = client.get(&path).expect(200).json();
        let code = &shown["nodes"]["b"]["error"]["code"];
        assert_eq!(code, "RESOURCE_INVALID", "{shown}");
        assert_eq!(shown["resources"], json!([]));
    }
    server.stop();
}

#[test]
fn a_worker_gets_the_trace_context_of_the_request() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(TWO);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [
        ("Content-Type", "application/json"),
        ("traceparent", &*parent),
    ];
    let path = "/api/v1/workflows/two/execute";
    client.send("POST", path, &headers, Some(b"{}")).expect(202);
    let given = task(&client, "py.b");
    let traceparent = given["traceparent"].as_str().expect("a context");
    assert!(traceparent.contains(trace), "{traceparent}");
    server.stop();
}

#[test]
fn definitions_are_checked_against_what_workers_have_declared() {
    let world = World::new();
    let server = world.serve();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let mut declared = poll("py.typed");
    declared["waitMs"] = json!(0);
    declared["actions"][0]["parametersSchema"] = schema;
    let answer = server.client().post("/api/v1/workers/poll", &declared);
    answer.expect(200);
    let write = |name: &str, action: &str, n: Value| {
        let node = json!({ "id": "n", "actionType": action, "parameters": { "n": n } });
        let text = json!({ "id": name, "nodes": [node] }).to_string();
        std::fs::write(world.path().join(format!("{name}.json")), text).expect("a file");
    };
    write("fits", "py.typed", json!(1));
    write("misfits", "py.typed", json!("one"));
    write("unknown", "py.none", json!(1));
    let address = format!("http://{}", server.address());
    // Through the server, and beside it in its data directory.
    for place in [&["--server", &*address][..], &[]] {
        for command in ["validate", "publish"] {
            let told = |name: &str, code: i32| {
                let file = format!("{name}.json");
                let ended = world.run(&[place, &[command, &file]].concat()).expect(code);
                format!("{}{}", ended.stdout, ended.stderr)
            };
            let fits = told("fits", 0);
            assert!(!fits.contains("UNKNOWN_ACTION"), "{command}: {fits}");
            let misfits = told("misfits", 3);
            assert!(misfits.contains("integer"), "{command}: {misfits}");
            let unknown = told("unknown", 0);
            assert!(unknown.contains("UNKNOWN_ACTION"), "{command}: {unknown}");
        }
    }
    server.stop();
}
