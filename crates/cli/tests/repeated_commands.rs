//! A command that comes again over HTTP with its `Idempotency-Key` gets the first answer and
//! changes nothing (semantics §12.5), also after the server was killed.

use serde_json::{Value, json};
use windlass_test_support::process::{
    Client, FAIL, HttpAnswer, ServerProcess, WAIT, World, serving,
};

/// Waits for the signal `go` three times.
const THREE: &str = r#"{
  "id": "three",
  "nodes": [
    { "id": "one", "waitForSignal": { "name": "go" } },
    { "id": "two", "dependsOn": ["one"], "waitForSignal": { "name": "go" } },
    { "id": "last", "dependsOn": ["two"], "waitForSignal": { "name": "go" } }
  ]
}"#;

fn started() -> (World, ServerProcess, Client) {
    serving(&[WAIT, FAIL, THREE])
}

fn send(client: &Client, run: &str, command: &str, key: &str, body: &Value) -> HttpAnswer {
    let path = format!("/api/v1/executions/{run}/{command}");
    let headers = [
        ("Content-Type", "application/json"),
        ("Idempotency-Key", key),
    ];
    client.send("POST", &path, &headers, Some(body.to_string().as_bytes()))
}

fn events(client: &Client, run: &str) -> Vec<Value> {
    let path = format!("/api/v1/executions/{run}?include=events");
    let shown = client.get(&path).expect(200).json();
    shown["events"].as_array().expect("events").clone()
}

fn count(client: &Client, run: &str, kind: &str) -> usize {
    let events = events(client, run);
    events.iter().filter(|event| event["kind"] == kind).count()
}

#[test]
fn a_signal_that_is_sent_twice_with_one_key_is_received_once_also_after_a_crash() {
    let (world, server, client) = started();
    let run = client.waiting("three");
    let body = json!({ "name": "go", "payload": { "n": 1 } });
    let first = send(&client, &run, "signal", "s-1", &body)
        .expect(200)
        .json();
    let again = send(&client, &run, "signal", "s-1", &body)
        .expect(200)
        .json();
    assert_eq!(again, first);
    server.kill();
    let server = world.serve();
    let client = server.client();
    let again = send(&client, &run, "signal", "s-1", &body)
        .expect(200)
        .json();
    assert_eq!(again, first);
    assert_eq!(count(&client, &run, "SignalReceived"), 1);
    // Another key is another request, also where the signal is the same.
    send(&client, &run, "signal", "s-2", &body).expect(200);
    assert_eq!(count(&client, &run, "SignalReceived"), 2);
}

#[test]
fn a_cancel_that_is_sent_twice_gets_the_same_answer_also_when_the_run_has_ended() {
    let (_world, _server, client) = started();
    let run = client.waiting("wait");
    let cancel = |reason: &str| {
        let body = json!({ "reason": reason });
        send(&client, &run, "cancel", "c-1", &body)
    };
    let first = cancel("enough").expect(200).json();
    assert_eq!(client.ended(&run)["status"], "Cancelled");
    // The reason is not part of the command's identity.
    assert_eq!(cancel("again").expect(200).json(), first);
    assert_eq!(count(&client, &run, "RunCancelRequested"), 1);
    // Without the key, and with a new one, the state counts.
    let path = format!("/api/v1/executions/{run}/cancel");
    client.post(&path, &json!({})).refused(409, "RUN_ENDED");
    send(&client, &run, "cancel", "c-2", &json!({})).refused(409, "RUN_ENDED");
    // The audit has it once.
    let audit = client.get("/api/v1/audit").expect(200).json();
    let entries = audit["items"].as_array().expect("entries").iter();
    let cancels = entries.filter(|entry| entry["what"] == "executions.cancel");
    assert_eq!(cancels.count(), 1, "{audit}");
}

#[test]
fn a_reattempt_that_is_sent_twice_is_one_reattempt() {
    let (_world, _server, client) = started();
    let run = client.execute("fail", &json!({}));
    assert_eq!(client.ended(&run)["status"], "Failed");
    let body = json!({ "nodes": ["bad"] });
    let first = send(&client, &run, "reattempt", "r-1", &body);
    let first = first.expect(200).json();
    assert_eq!(client.ended(&run)["status"], "Failed");
    let again = send(&client, &run, "reattempt", "r-1", &body);
    assert_eq!(again.expect(200).json(), first);
    assert_eq!(count(&client, &run, "NodeReattempted"), 1);
    send(&client, &run, "reattempt", "r-2", &body).expect(200);
    assert_eq!(count(&client, &run, "NodeReattempted"), 2);
}

#[test]
fn every_command_on_a_run_takes_a_key() {
    let (_world, _server, client) = started();
    let twice = |run: &str, command: &str, body: Value| {
        let key = format!("k-{command}");
        let first = send(&client, run, command, &key, &body).expect(200).json();
        let again = send(&client, run, command, &key, &body).expect(200).json();
        assert_eq!(again, first, "{command}");
        first
    };
    let run = client.waiting("three");
    let resumed = twice(&run, "resume", json!({}));
    assert_eq!(resumed["status"], "Running");
    assert_eq!(twice(&run, "pause", json!({}))["status"], "Paused");
    // The resume was carried out before the pause: it does not come again after it.
    let again = send(&client, &run, "resume", "k-resume", &json!({}));
    assert_eq!(again.expect(200).json(), resumed);
    let exported = client.get(&format!("/api/v1/executions/{run}/export"));
    twice(&run, "import", exported.expect(200).json());
    send(&client, &run, "resume", "k-go-on", &json!({})).expect(200);
    twice(&run, "set-result", json!({ "node": "one", "output": 1 }));
    twice(&run, "skip", json!({ "node": "two" }));
    assert_eq!(count(&client, &run, "NodeSetByHand"), 2);
    assert_eq!(count(&client, &run, "GraphImported"), 1);
    // A key is the run's own.
    let other = client.waiting("three");
    assert_eq!(twice(&other, "pause", json!({}))["status"], "Paused");
}

#[test]
fn a_key_belongs_to_one_command_and_a_refused_one_leaves_it_free() {
    let (_world, _server, client) = started();
    let run = client.waiting("three");
    let go = |n: u32| json!({ "name": "go", "payload": n });
    send(&client, &run, "signal", "k", &json!({ "name": "no" })).refused(409, "SIGNAL_UNKNOWN");
    send(&client, &run, "signal", "k", &go(1)).expect(200);
    let reused = send(&client, &run, "signal", "k", &go(2)).refused(409, "IDEMPOTENCY_KEY_REUSED");
    let message = reused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("'k'"), "{reused}");
    send(&client, &run, "cancel", "k", &json!({})).refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(count(&client, &run, "SignalReceived"), 1);
    // A dry run answers whatever the key.
    let dry = json!({ "name": "go", "payload": 2, "dryRun": true });
    send(&client, &run, "signal", "k", &dry).expect(200);
}

#[test]
fn a_key_has_a_limit() {
    let (_world, _server, client) = started();
    let run = client.waiting("wait");
    let pause = |key: &str| send(&client, &run, "pause", key, &json!({}));
    pause("").refused(400, "HEADER_INVALID");
    let refused = pause(&"k".repeat(257)).refused(400, "HEADER_INVALID");
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("256 bytes"), "{refused}");
    assert_eq!(
        pause(&"k".repeat(256)).expect(200).json()["status"],
        "Paused"
    );
}

#[test]
fn many_at_the_same_time_with_one_key_are_carried_out_once() {
    let (_world, _server, client) = started();
    let run = client.waiting("three");
    let asking: Vec<_> = (0..16)
        .map(|_| {
            let (client, run) = (client.clone(), run.clone());
            let body = json!({ "name": "go" });
            std::thread::spawn(move || {
                let answer = send(&client, &run, "signal", "same", &body);
                answer.expect(200).json()
            })
        })
        .collect();
    let mut answers: Vec<Value> = asking.into_iter().map(|it| it.join().unwrap()).collect();
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(count(&client, &run, "SignalReceived"), 1);
}
