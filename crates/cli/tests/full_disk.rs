//! A server whose disk is full says so, loses nothing, and goes on by itself when there is
//! space. A limit on the size of files stands for the size of the disk.

#![cfg(target_os = "linux")]

use std::process::Command;

use serde_json::json;
use windlass_test_support::process::{ServerProcess, WAIT, World};

/// A chain that outlives the time without space, with a value that gets a file of its own.
const CHAIN: &str = r#"{
  "id": "chain",
  "nodes": [
    { "id": "first", "actionType": "core.sleep", "parameters": { "ms": 300 } },
    { "id": "second", "dependsOn": ["first"], "actionType": "core.echo",
      "parameters": { "said": "{{ trigger.say.repeat(200) }}" } },
    { "id": "third", "dependsOn": ["second"], "actionType": "core.echo" }
  ]
}"#;

/// Sets how large a file of the server may get.
fn limit(server: &ServerProcess, bytes: &str) {
    let set = Command::new("prlimit")
        .args(["--pid", &server.process().to_string()])
        .arg(format!("--fsize={bytes}:unlimited"))
        .status();
    assert!(set.expect("prlimit is installed").success());
}

#[test]
fn a_full_disk_is_told_by_the_probe_and_ends_by_itself() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(CHAIN);
    client.publish(WAIT);
    let waiting = client.execute("wait", &json!({}));
    client.wait_for(&waiting, "NodeWaiting");
    client.get("/health/ready").expect(200);
    let body = json!({ "trigger": { "say": "x".repeat(2000) } });
    let before: Vec<String> = (0..5).map(|_| client.execute("chain", &body)).collect();
    // No file may get longer than the log is: every further commit is refused.
    let log = world.path().join(".windlass/windlass.db-wal");
    let length = std::fs::metadata(&log).expect("a log").len();
    limit(&server, &length.min(64 << 10).to_string());
    let ready = client.until("/health/ready", |status, body| {
        status == 503 && body["error"]["code"] == "STORE_FULL"
    });
    assert_eq!(ready["error"]["details"][0]["pointer"], "/store", "{ready}");
    client.get("/health/live").expect(200);
    // What cannot be stored is refused with the same code, and reading goes on.
    let refused = client.post("/api/v1/workflows/chain/execute", &body);
    refused.refused(503, "STORE_FULL");
    client
        .get(&format!("/api/v1/executions/{}", before[0]))
        .expect(200);
    let pause = format!("/api/v1/executions/{waiting}/pause");
    client.post(&pause, &json!({})).refused(503, "STORE_FULL");
    limit(&server, "unlimited");
    client.until("/health/ready", |status, _| status == 200);
    // Interrupted runs are recovered without a restart.
    for run in &before {
        let path = format!("/api/v1/executions/{run}");
        client.until(&path, |_, body| body["status"] == "Succeeded");
    }
    let after = client.execute("chain", &body);
    assert_eq!(client.ended(&after)["status"], "Succeeded");
    server.stop();
    world.run(&["doctor"]).expect(0);
}
