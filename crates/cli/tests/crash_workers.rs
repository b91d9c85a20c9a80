//! `kill -9` of the server at the places that work for workers outside it passes: a worker
//! that sends again what was not answered ends each attempt once, and loses nothing.

#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_test_support::process::{HttpAnswer, ServerProcess, World};

/// Where the server is killed, and at which passings.
const POINTS: &[(&str, &[u64])] = &[
    ("before-work-push", &[1, 2, 3]),
    ("after-work-pull", &[1, 2, 3]),
    ("work-reported", &[1, 2, 3]),
    ("before-commit", &[2, 3, 4, 5, 6, 7]),
    ("after-commit", &[2, 3, 4, 5, 6, 7]),
    ("work-recorded", &[1, 2, 3]),
    ("at-finish", &[1]),
];

/// A task that the killed server may have handed out waits for its worker no longer than this,
/// three times.
const QUICK: (&str, &str) = ("WINDLASS_WORKER_HEARTBEAT", "100ms");

const CHAIN: &str = r#"{
  "id": "chain",
  "nodes": [
    { "id": "a", "actionType": "py.step" },
    { "id": "b", "actionType": "py.step", "dependsOn": ["a"],
      "parameters": { "before": "{{ context.data['a'] }}" } },
    { "id": "c", "actionType": "py.step", "dependsOn": ["b"],
      "parameters": { "before": "{{ context.data['b'] }}" } }
  ]
}"#;

/// A server that is started again whenever it was killed.
struct Restarted {
    world: World,
    server: ServerProcess,
    deaths: usize,
}

impl Restarted {
    fn new(crash_at: &str) -> Self {
        let world = World::new();
        let server = world.serve_with(&[], &[("WINDLASS_CRASH_AT", crash_at), QUICK]);
        Self {
            world,
            server,
            deaths: 0,
        }
    }

    fn try_post(&mut self, path: &str, body: &str) -> Option<HttpAnswer> {
        self.try_send("POST", path, Some(body.as_bytes()))
    }

    /// One answer, if the server lives to give it; else the next one is there on return.
    fn try_send(&mut self, method: &str, path: &str, body: Option<&[u8]>) -> Option<HttpAnswer> {
        let headers = [("Content-Type", "application/json")];
        let client = self.server.client();
        match client.try_send(method, path, &headers, body) {
            Ok(answer) if answer.status != 503 => Some(answer),
            Ok(_) => None,
            Err(_) => {
                self.deaths += 1;
                assert!(self.deaths < 5, "the server dies again and again");
                self.server = self.world.serve_with(&[], &[QUICK]);
                None
            }
        }
    }

    /// The answer, asked for until it comes.
    fn post(&mut self, path: &str, body: &str) -> HttpAnswer {
        loop {
            if let Some(answer) = self.try_post(path, body) {
                return answer;
            }
        }
    }

    /// The run once it has ended, with its events. The server may be killed after it answered
    /// the last report, while it records the end: then its successor records it.
    fn ended(&mut self, run: &str) -> Value {
        let path = format!("/api/v1/executions/{run}?include=events");
        for _ in 0..6_000 {
            if let Some(answer) = self.try_send("GET", &path, None) {
                let shown = answer.expect(200).json();
                if !matches!(shown["status"].as_str(), Some("Queued" | "Running")) {
                    return shown;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{run} does not end");
    }
}

fn carried_through(point: &str, count: u64) -> usize {
    let mut server = Restarted::new(&format!("{point}:{count}"));
    let published = server.post("/api/v1/workflows", CHAIN);
    assert!(matches!(published.status, 200 | 201), "{published:?}");
    let start = json!({ "requestId": "one" }).to_string();
    let run = server.post("/api/v1/workflows/chain/execute", &start);
    let run = run.expect(202).text("executionId");
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000, "holding": [],
                       "actions": [{ "actionType": "py.step" }] })
    .to_string();
    let mut sent: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut attempts = BTreeSet::new();
    while sent.len() < 3 {
        let Some(answer) = server.try_post("/api/v1/workers/poll", &poll) else {
            continue;
        };
        let answer = answer.expect(200).json();
        for task in answer["tasks"].as_array().expect("a list") {
            let node = task["node"].as_str().expect("a node").to_owned();
            attempts.insert((
                node.clone(),
                task["attempt"].as_u64(),
                task["idempotencyKey"].to_string(),
            ));
            let path = format!(
                "/api/v1/workers/tasks/{}/complete",
                task["taskId"].as_str().expect("an id")
            );
            // What is sent again says something else, which must not count.
            loop {
                let outputs = sent.entry(node.clone()).or_default();
                let output = format!("{node}-{}", outputs.len());
                outputs.insert(output.clone());
                let body = json!({ "lease": task["lease"], "output": output }).to_string();
                if let Some(answer) = server.try_post(&path, &body) {
                    answer.expect(200);
                    break;
                }
            }
        }
    }
    let shown = server.ended(&run);
    assert_eq!(shown["status"], "Succeeded", "{point}:{count}");
    assert_eq!(
        attempts.len(),
        3,
        "{point}:{count}: one attempt, one key: {attempts:?}"
    );
    for node in ["a", "b", "c"] {
        let output = shown["nodes"][node]["output"].as_str().expect("a text");
        assert!(sent[node].contains(output), "{point}:{count}: {output}");
        let is_end = |event: &&Value| event["kind"] == "NodeSucceeded" && event["node"] == node;
        let events = shown["events"].as_array().expect("a list").iter();
        assert_eq!(events.filter(is_end).count(), 1, "{point}:{count}: {node}");
    }
    server.deaths
}

#[test]
fn each_attempt_ends_once_wherever_the_server_is_killed() {
    let mut deaths = 0;
    for (point, counts) in POINTS {
        for (at, count) in counts.iter().enumerate() {
            let died = carried_through(point, *count);
            assert!(died > 0 || at > 0, "{point} is never passed");
            deaths += died;
        }
    }
    assert!(deaths >= POINTS.len(), "{deaths}");
}

const ONE: &str = r#"{ "id": "one", "nodes": [{ "id": "a", "actionType": "py.step" }] }"#;

#[test]
fn a_second_hand_out_counts_though_the_server_died_before_it_answered() {
    let mut server = Restarted::new("after-work-noted:1");
    server.post("/api/v1/workflows", ONE).expect(201);
    let run = server.post("/api/v1/workflows/one/execute", "{}");
    let run = run.expect(202).text("executionId");
    // The worker says that it has nothing: what it was given before comes again.
    let poll = json!({ "protocol": 1, "worker": "w", "waitMs": 30_000, "holding": [],
                       "actions": [{ "actionType": "py.step" }] })
    .to_string();
    let first = server
        .post("/api/v1/workers/poll", &poll)
        .expect(200)
        .json()["tasks"][0]
        .clone();
    assert_eq!(server.deaths, 0);
    let again = server
        .post("/api/v1/workers/poll", &poll)
        .expect(200)
        .json()["tasks"][0]
        .clone();
    assert_eq!(server.deaths, 1, "the note is written before the answer");
    assert_eq!(first["taskId"], again["taskId"]);
    let id = first["taskId"].as_str().expect("an id");
    let path = format!("/api/v1/workers/tasks/{id}/complete");
    let report = |task: &Value, output: &str| {
        json!({ "lease": task["lease"], "output": output }).to_string()
    };
    let late = server.post(&path, &report(&first, "first"));
    late.refused(409, "LEASE_LOST");
    server.post(&path, &report(&again, "again")).expect(200);
    let shown = server.ended(&run);
    assert_eq!(shown["nodes"]["a"]["output"], "again");
    let events = shown["events"].as_array().expect("a list");
    let ends = events.iter().filter(|it| it["kind"] == "NodeSucceeded");
    assert_eq!(ends.count(), 1);
}
