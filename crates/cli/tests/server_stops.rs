//! The server from outside: how it starts, stops, dies, and comes back.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};

use serde_json::json;
use windlass_test_support::process::{Client, ECHO, ServerProcess, WAIT, World};

const SLEEP: &str = r#"{
  "id": "sleep",
  "nodes": [{ "id": "a", "actionType": "core.sleep", "parameters": { "ms": 600000 } }]
}"#;

/// Clients that start runs until the server is gone.
struct Load {
    clients: Vec<JoinHandle<Heard>>,
    count: Arc<AtomicUsize>,
}

/// What clients were answered.
#[derive(Default)]
struct Heard {
    /// The runs that were acknowledged.
    runs: BTreeSet<String>,
    /// Everything else.
    strange: Vec<String>,
}

impl Load {
    fn on(client: &Client) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let start = |_| {
            let (client, count) = (client.clone(), Arc::clone(&count));
            spawn(move || ask(&client, &count))
        };
        Self {
            clients: (0..8).map(start).collect(),
            count,
        }
    }

    /// Waits until so many runs were acknowledged.
    fn reach(&self, count: usize) {
        while self.count.load(Ordering::Relaxed) < count {
            assert!(
                !self.clients.iter().all(JoinHandle::is_finished),
                "all clients have stopped"
            );
            std::thread::yield_now();
        }
    }

    /// The runs that were acknowledged; nothing else was ever answered.
    #[track_caller]
    fn end(self) -> BTreeSet<String> {
        let mut all = Heard::default();
        for client in self.clients {
            let heard = client.join().expect("it ends");
            all.runs.extend(heard.runs);
            all.strange.extend(heard.strange);
        }
        assert_eq!(all.strange, [""; 0]);
        all.runs
    }
}

/// Starts runs until the server does not answer. A connection that fails was never answered:
/// nothing is promised.
fn ask(client: &Client, count: &AtomicUsize) -> Heard {
    let mut heard = Heard::default();
    let headers = [("Content-Type", "application/json")];
    let path = "/api/v1/workflows/echo/execute";
    while let Ok(answer) = client.try_send("POST", path, &headers, Some(b"{}")) {
        if answer.status == 202 {
            heard.runs.insert(answer.text("executionId"));
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            heard.strange.push(format!("{answer:?}"));
        }
    }
    heard
}

/// Every acknowledged run is there and ends well.
#[track_caller]
fn all_end(client: &Client, acknowledged: &BTreeSet<String>) {
    for run in acknowledged {
        let ended = client.ended(run);
        assert_eq!(ended["status"], "Succeeded", "{ended}");
        assert_eq!(
            ended["nodes"]["say"]["attempts"].as_u64().map(|it| it > 0),
            Some(true)
        );
    }
}

#[test]
fn a_stop_under_load_fails_no_request_and_loses_no_run() {
    let world = World::new();
    let server = world.serve();
    server.client().publish(ECHO);
    let load = Load::on(&server.client());
    load.reach(300);
    server.stop();
    let acknowledged = load.end();
    assert!(acknowledged.len() >= 300);
    let server = world.serve();
    all_end(&server.client(), &acknowledged);
    server.stop();
}

#[test]
fn a_kill_under_load_loses_no_acknowledged_run() {
    let world = World::new();
    let server = world.serve();
    server.client().publish(ECHO);
    server.stop();
    for round in 1..=5 {
        let server = world.serve();
        let load = Load::on(&server.client());
        load.reach(40 * round);
        server.kill();
        let acknowledged = load.end();
        let server = world.serve();
        all_end(&server.client(), &acknowledged);
        server.kill();
    }
}

#[test]
fn what_waits_waits_on_after_a_restart() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(WAIT);
    let run = client.execute("wait", &json!({ "requestId": "r" }));
    client.wait_for(&run, "NodeWaiting");
    server.kill();
    let server = world.serve();
    let client = server.client();
    let again = client.post(
        "/api/v1/workflows/wait/execute",
        &json!({ "requestId": "r" }),
    );
    let again = again.expect(202).json();
    assert_eq!(
        (&again["executionId"], &again["existing"]),
        (&json!(run), &json!(true))
    );
    let path = format!("/api/v1/executions/{run}/signal");
    client.post(&path, &json!({ "name": "go" })).expect(200);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    server.stop();
}

#[test]
fn a_directory_has_one_server_and_an_open_address_needs_tokens() {
    let world = World::new();
    let server = world.serve();
    let second = world.run(&["serve", "--listen", "127.0.0.1:0"]).expect(6);
    assert!(
        second.stderr.contains("DATA_DIR_IN_USE"),
        "{}",
        second.stderr
    );
    server.stop();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let open = world.run(&["serve", "--listen", address]).expect(2);
        assert!(open.stderr.contains("AUTH_REQUIRED"), "{}", open.stderr);
    }
    let nowhere = world.run(&["serve", "--listen", "nowhere"]).expect(2);
    assert!(nowhere.stderr.contains("listen"), "{}", nowhere.stderr);
    fs::write(world.path().join("bad.json"), "{}").expect("a file");
    let keys = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--auth-keys",
        "bad.json",
    ];
    let keys = world.run(&keys).expect(3);
    assert!(
        keys.stderr.contains("AUTH_KEYS_UNUSABLE"),
        "{}",
        keys.stderr
    );
}

#[test]
fn commands_on_the_directory_act_through_the_server() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(WAIT);
    let run = client.execute("wait", &json!({}));
    client.wait_for(&run, "NodeWaiting");
    world.run(&["signal", &run, "go"]).expect(0);
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    server.stop();
}

#[test]
fn a_backup_is_restored_elsewhere() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let run = client.execute("echo", &json!({ "trigger": { "say": "kept" } }));
    client.ended(&run);
    let copy = client.send("POST", "/api/v1/backup", &[], None).expect(200);
    let length = copy.header("content-length").expect("a length");
    assert_eq!(length, copy.body.len().to_string());
    fs::write(world.path().join("copy"), &copy.body).expect("a file");
    client.execute("echo", &json!({}));
    server.stop();
    world
        .run(&["restore", "copy", "--data-dir", "other"])
        .expect(0);
    let shown = world
        .run(&["runs", "--json", "--data-dir", "other"])
        .expect(0)
        .json();
    assert_eq!(shown["items"].as_array().map(Vec::len), Some(1), "{shown}");
    let shown = world.run(&["show", &run, "--json", "--data-dir", "other"]);
    let shown = shown.expect(0).json();
    assert_eq!(shown["nodes"]["say"]["output"], json!({ "said": "kept" }));
}

#[test]
fn what_derives_from_the_logs_is_made_anew() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let runs: Vec<String> = (0..9).map(|_| client.execute("echo", &json!({}))).collect();
    for run in &runs {
        client.ended(run);
    }
    let before = client.get("/api/v1/executions").expect(200).json();
    let job = client
        .send("POST", "/api/v1/rebuild", &[], None)
        .expect(202);
    let state = client.finished(&job.text("id"));
    assert_eq!(
        (&state["done"], &state["failed"]),
        (&json!(9), &json!(0)),
        "{state}"
    );
    assert_eq!(client.get("/api/v1/executions").expect(200).json(), before);
    server.stop();
}

/// A server that finds a run whose last process was killed with it in hand.
fn bereaved(world: &World) -> (ServerProcess, String) {
    let server = world.serve();
    let client = server.client();
    client.publish(SLEEP);
    let run = client.execute("sleep", &json!({ "trigger": { "note": "payload" } }));
    client.wait_for(&run, "NodeStarted");
    server.kill();
    let server = world.serve_with(&[], &[("WINDLASS_MAX_POISON_RETRIES", "1")]);
    (server, run)
}

#[test]
fn what_kills_its_bearer_is_a_dead_letter() {
    let world = World::new();
    let (server, run) = bereaved(&world);
    let client = server.client();
    let letters = "/api/v1/dead-letters";
    let listed = client.get(letters).expect(200).json();
    assert_eq!(listed["items"][0]["executionId"], run.as_str(), "{listed}");
    assert_eq!(listed["items"][0]["deliveries"], 1);
    client.post(letters, &json!({})).refused(400, "USAGE");
    let gone = json!({ "executionId": ["0192aaaa-0000-7000-8000-000000000000"] });
    client.post(letters, &gone).refused(404, "LETTER_NOT_FOUND");
    let requeued = client.post(letters, &json!({ "executionId": [run] }));
    assert_eq!(requeued.expect(200).json()["executionIds"], json!([run]));
    assert_eq!(client.get(letters).expect(200).json()["items"], json!([]));
    // The server executes it again.
    client.wait_for(&run, "RunRecovered");
    let path = format!("/api/v1/executions/{run}/cancel");
    client.post(&path, &json!({})).expect(200);
    client.ended(&run);
    server.stop();
}

#[test]
fn dead_letters_are_purged() {
    let world = World::new();
    let (server, run) = bereaved(&world);
    let client = server.client();
    let purged = client
        .delete("/api/v1/dead-letters?all=true")
        .expect(200)
        .json();
    assert_eq!(purged["executionIds"], json!([run]));
    assert_eq!(
        client.get("/api/v1/dead-letters").expect(200).json()["items"],
        json!([])
    );
    let audit = client.get("/api/v1/audit").expect(200).json();
    assert_eq!(audit["items"][0]["what"], "dead-letters.purge");
    let shown = client.get(&format!("/api/v1/executions/{run}"));
    let shown = shown.expect(200).json();
    assert_eq!(shown["status"], "Failed", "{shown}");
    assert_eq!(shown["error"]["code"], "DEAD_LETTERED", "{shown}");
    let listed = client.get("/api/v1/executions?status=Failed").expect(200);
    let listed = listed.json()["items"][0].clone();
    assert_eq!(listed["executionId"], run.as_str(), "{listed}");
    assert_eq!(listed["error"]["code"], "DEAD_LETTERED", "{listed}");
    server.stop();
    purged_run_is_found(&world, &run);
}

/// What people see of a purged run.
fn purged_run_is_found(world: &World, run: &str) {
    let shown = world.run(&["show", run]).expect(0).stdout;
    assert!(shown.contains("DEAD_LETTERED"), "{shown}");
    let why = world.run(&["why", run]).expect(0).stdout;
    assert!(why.contains("dead letter"), "{why}");
    let result = world.run(&["result", run]).expect(1);
    let said = format!("{}{}", result.stdout, result.stderr);
    assert!(said.contains("DEAD_LETTERED"), "{said}");
    let runs = ["runs", "--status", "failed", "--json"];
    let runs = world.run(&runs).expect(0).json();
    assert_eq!(runs["items"][0]["executionId"], run, "{runs}");
    world.run(&["verify", run]).expect(0);
}

#[test]
fn dead_letters_are_purged_without_a_server() {
    let world = World::new();
    let (server, run) = bereaved(&world);
    server.stop();
    let purged = world.run(&["dead-letters", "purge", &run]).expect(0).stdout;
    assert!(purged.contains("DEAD_LETTERED"), "{purged}");
    purged_run_is_found(&world, &run);
    world.run(&["dead-letters", "purge", &run]).expect(4);
    // Nothing is left to recover.
    let server = world.serve();
    let client = server.client();
    let events = client.get(&format!("/api/v1/executions/{run}"));
    assert_eq!(events.expect(200).json()["status"], "Failed");
    server.stop();
}
