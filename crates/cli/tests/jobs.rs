//! Jobs over many runs outlive their server.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, WAIT, World};

const RUNS: usize = 250;

fn state(client: &Client, job: &str) -> Value {
    client
        .get(&format!("/api/v1/bulk/{job}"))
        .expect(200)
        .json()
}

#[test]
fn a_job_goes_on_after_its_server_was_killed_and_is_still_known_after_that() {
    let world = World::new();
    let unlimited = [("WINDLASS_RATE_PER_MINUTE", "0")];
    let mut server = world.serve_with(&[], &unlimited);
    let mut client = server.client();
    client.publish(WAIT);
    let runs: Vec<String> = (0..RUNS)
        .map(|_| client.execute("wait", &json!({})))
        .collect();
    for run in &runs {
        client.wait_for(run, "NodeWaiting");
    }
    let body = json!({ "action": "cancel", "filter": { "workflow": "wait" }, "reason": "enough" });
    let job = client.post("/api/v1/bulk", &body).expect(202).text("id");
    // Three deaths in the middle of it, wherever that is.
    for _ in 0..3 {
        server.kill();
        server = world.serve_with(&[], &unlimited);
        client = server.client();
        assert!(state(&client, &job)["seen"].as_u64() <= Some(RUNS as u64));
    }
    let ended = client.finished(&job);
    assert_eq!(
        (&ended["done"], &ended["failed"]),
        (&json!(RUNS), &json!(0)),
        "{ended}"
    );
    for run in &runs {
        assert_eq!(client.ended(run)["status"], "Cancelled");
    }
    server.stop();
    let server = world.serve();
    assert_eq!(state(&server.client(), &job), ended);
    // Others do not see it, whatever its id.
    server
        .client()
        .get("/api/v1/bulk/none")
        .refused(404, "JOB_NOT_FOUND");
}

/// Waits for the signal `go` twice, so that one which came twice would be seen.
const TWICE: &str = r#"{
  "id": "twice",
  "nodes": [
    { "id": "one", "waitForSignal": { "name": "go" } },
    { "id": "two", "dependsOn": ["one"], "waitForSignal": { "name": "go" } }
  ]
}"#;

#[test]
fn a_job_that_goes_on_after_a_crash_repeats_no_command() {
    const RUNS: usize = 100;
    let world = World::new();
    let unlimited = [("WINDLASS_RATE_PER_MINUTE", "0")];
    let mut server = world.serve_with(&[], &unlimited);
    let mut client = server.client();
    client.publish(TWICE);
    let runs: Vec<String> = (0..RUNS)
        .map(|_| client.execute("twice", &json!({})))
        .collect();
    for run in &runs {
        client.wait_for(run, "NodeWaiting");
    }
    let filter = json!({ "workflow": "twice" });
    let body = json!({ "action": "signal", "name": "go", "filter": filter });
    let job = client.post("/api/v1/bulk", &body).expect(202).text("id");
    for _ in 0..3 {
        server.kill();
        server = world.serve_with(&[], &unlimited);
        client = server.client();
    }
    let ended = client.finished(&job);
    assert_eq!(
        (&ended["done"], &ended["failed"]),
        (&json!(RUNS), &json!(0)),
        "{ended}"
    );
    for run in &runs {
        let shown = client.get(&format!("/api/v1/executions/{run}?include=events"));
        let shown = shown.expect(200).json();
        let events = shown["events"].as_array().expect("events").iter();
        let signals = events.filter(|event| event["kind"] == "SignalReceived");
        assert_eq!(signals.count(), 1, "{run}");
    }
}
