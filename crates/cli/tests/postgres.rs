//! Several servers, one PostgreSQL database: what one accepts another can answer for, and what
//! one leaves behind another finishes.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, ServerProcess, WAIT, World};

/// A server on a database, with a client of its own.
fn serve(world: &World, database: &str) -> (ServerProcess, Client) {
    let arguments = ["--backend", "postgres", "--postgres-url", database];
    let server = world.serve_with(&arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")]);
    let client = server.client();
    (server, client)
}

fn signal(client: &Client, run: &str) {
    let path = format!("/api/v1/executions/{run}/signal");
    client
        .post(&path, &json!({ "name": "go", "payload": run }))
        .expect(200);
}

fn succeeded(client: &Client, run: &str) {
    let ended = client.ended(run);
    assert_eq!(ended["status"], "Succeeded", "{ended}");
}

#[test]
fn two_servers_share_the_runs_of_a_database() {
    let (one, other) = (World::new(), World::new());
    let database = database().fresh();
    let (_first, first) = serve(&one, &database);
    let (_second, second) = serve(&other, &database);
    first.publish(ECHO);
    first.publish(WAIT);
    // Whichever server works on a run, both take its start, show it and pass commands on.
    let runs: Vec<String> = (0..16)
        .map(|_| second.execute("echo", &json!({})))
        .collect();
    for run in &runs {
        succeeded(&first, run);
        succeeded(&second, run);
    }
    let waiting: Vec<String> = (0..8).map(|_| first.waiting("wait")).collect();
    for (number, run) in waiting.iter().enumerate() {
        match number % 2 {
            0 => signal(&first, run),
            _ => signal(&second, run),
        }
        succeeded(&second, run);
    }
}

/// A server pulls from the queue of all; what it cannot hand out stays there for the server that
/// works on the run.
#[test]
fn workers_that_poll_several_servers_get_every_task() {
    let (one, other) = (World::new(), World::new());
    let database = database().fresh();
    let (_first, first) = serve(&one, &database);
    let (_second, second) = serve(&other, &database);
    first.publish(r#"{"id":"remote","nodes":[{"id":"n","actionType":"py.add"}]}"#);
    let mut open: BTreeSet<String> = (0..12)
        .map(|_| first.execute("remote", &json!({})))
        .collect();
    let runs = open.clone();
    for turn in 0..200 {
        let client = if turn % 2 == 0 { &first } else { &second };
        let poll = json!({ "protocol": 1, "worker": "w", "slots": 4, "waitMs": 200,
                           "actions": [{ "actionType": "py.add" }] });
        let answer = client.post("/api/v1/workers/poll", &poll).expect(200);
        for task in answer.json()["tasks"].as_array().expect("a list") {
            let path = format!(
                "/api/v1/workers/tasks/{}/complete",
                task["taskId"].as_str().expect("an id")
            );
            let done = json!({ "lease": task["lease"], "output": 1 });
            client.post(&path, &done).expect(200);
            open.remove(task["executionId"].as_str().expect("an id"));
        }
        if open.is_empty() {
            break;
        }
    }
    assert!(open.is_empty(), "no worker got {open:?}");
    for run in &runs {
        succeeded(&second, run);
    }
}

#[test]
fn the_runs_of_a_server_that_is_killed_end_on_another() {
    let (one, other) = (World::new(), World::new());
    let database = database().fresh();
    let (killed, first) = serve(&one, &database);
    first.publish(WAIT);
    let runs: Vec<String> = (0..8).map(|_| first.waiting("wait")).collect();
    let (_second, second) = serve(&other, &database);
    killed.kill();
    for run in &runs {
        signal(&second, run);
        succeeded(&second, run);
    }
}

#[test]
fn the_runs_of_a_server_that_stops_are_handed_over() {
    let (one, other) = (World::new(), World::new());
    let database = database().fresh();
    let (stopped, first) = serve(&one, &database);
    first.publish(WAIT);
    let runs: Vec<String> = (0..8).map(|_| first.waiting("wait")).collect();
    let (_second, second) = serve(&other, &database);
    stopped.stop();
    for run in &runs {
        signal(&second, run);
        succeeded(&second, run);
    }
}

#[test]
fn a_database_that_cannot_be_worked_with_is_refused_with_what_to_do() {
    let world = World::new();
    let unknown = database().url().replace("/postgres", "/no-such-database");
    let arguments = ["serve", "--backend", "postgres", "--postgres-url", &unknown];
    let refused = world.run(&arguments).expect(74);
    assert!(
        refused.stderr.contains("DATABASE_REFUSED"),
        "{}",
        refused.stderr
    );
    let refused = world.run(&["serve", "--backend", "postgres"]).expect(2);
    assert!(
        refused.stderr.contains("--postgres-url"),
        "{}",
        refused.stderr
    );
}

#[test]
fn secrets_of_a_cluster_need_a_key_that_all_processes_share() {
    let world = World::new();
    let (_server, client) = serve(&world, &database().fresh());
    let secret = json!({ "name": "KEY", "value": "open sesame" });
    let refused = client.post("/api/v1/secrets", &secret).json();
    assert_eq!(refused["error"]["code"], "SECRET_KEY_UNUSABLE", "{refused}");
}
