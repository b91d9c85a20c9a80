//! Several servers over NATS and one PostgreSQL database: what one accepts another can answer for,
//! and what one leaves behind another finishes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;
use windlass_test_support::nats::{OwnServer, fresh_prefix};
use windlass_test_support::postgres::Proxy;
use windlass_test_support::process::{Client, ECHO, ServerProcess, WAIT, World};
use windlass_test_support::{nats, postgres};

/// An empty installation.
struct Place {
    nats: String,
    database: String,
    prefix: String,
}

impl Place {
    fn new() -> Self {
        Self::on(nats::server().url())
    }

    fn on(url: &str) -> Self {
        Self {
            nats: url.to_owned(),
            database: postgres::server().fresh(),
            prefix: fresh_prefix(),
        }
    }

    fn arguments(&self) -> [&str; 6] {
        let Self { nats, database, .. } = self;
        [
            "--backend",
            "nats",
            "--nats-url",
            nats,
            "--postgres-url",
            database,
        ]
    }

    /// A server, with a client of its own.
    fn serve(&self, world: &World, more: &[&str]) -> (ServerProcess, Client) {
        let variables = [
            ("WINDLASS_RATE_PER_MINUTE", "0"),
            ("WINDLASS_NATS_PREFIX", &self.prefix),
        ];
        let arguments = [&self.arguments()[..], more].concat();
        let server = world.serve_with(&arguments, &variables);
        let client = server.client();
        (server, client)
    }
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
fn two_servers_share_the_runs_of_nats() {
    let (one, other) = (World::new(), World::new());
    let place = Place::new();
    let (_first, first) = place.serve(&one, &[]);
    let (_second, second) = place.serve(&other, &["--ack", "projected"]);
    first.publish(ECHO);
    first.publish(WAIT);
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
/// works on the run. Outcomes that are larger than a record travel as values.
#[test]
fn workers_that_poll_several_servers_on_nats_get_every_task() {
    let (one, other) = (World::new(), World::new());
    let place = Place::new();
    let (_first, first) = place.serve(&one, &[]);
    let (_second, second) = place.serve(&other, &[]);
    first.publish(r#"{"id":"remote","nodes":[{"id":"n","actionType":"py.add"}]}"#);
    let runs: BTreeSet<String> = (0..12)
        .map(|_| first.execute("remote", &json!({})))
        .collect();
    let mut open = runs.clone();
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
            let done = json!({ "lease": task["lease"], "output": "x".repeat(20_000) });
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
fn the_runs_of_a_server_on_nats_that_is_killed_end_on_another() {
    let (one, other) = (World::new(), World::new());
    let place = Place::new();
    let (killed, first) = place.serve(&one, &[]);
    first.publish(WAIT);
    let runs: Vec<String> = (0..8).map(|_| first.waiting("wait")).collect();
    let (_second, second) = place.serve(&other, &[]);
    killed.kill();
    for run in &runs {
        signal(&second, run);
        succeeded(&second, run);
    }
}

#[test]
fn everything_moves_from_a_data_directory_to_nats_and_back() {
    let world = World::new();
    let place = Place::new();
    let run = {
        let server = world.serve();
        let client = server.client();
        client.publish(WAIT);
        let run = client.waiting("wait");
        server.stop();
        run
    };
    let variables = [("WINDLASS_NATS_PREFIX", &*place.prefix)];
    let migrate = |from: &str, to: &str, more: &[&str]| {
        let arguments = [
            &["migrate", "--from", from, "--to", to][..],
            &place.arguments()[2..],
            more,
        ];
        let mut command = world.command(&arguments.concat());
        command.envs(variables);
        windlass_test_support::process::ended(command)
    };
    migrate("embedded", "nats", &[]).expect(0);
    let back = world.path().join("back");
    let back = back.to_str().expect("a path");
    migrate("nats", "embedded", &["--to-data-dir", back]).expect(0);
    let (_server, client) = place.serve(&world, &[]);
    signal(&client, &run);
    succeeded(&client, &run);
}

#[test]
fn a_nats_server_that_cannot_be_worked_with_is_refused_with_what_to_do() {
    let world = World::new();
    let refused = world.run(&["serve", "--backend", "nats"]).expect(2);
    assert!(refused.stderr.contains("--nats-url"), "{}", refused.stderr);
    let place = Place::new();
    let mut command = world.command(&[&["doctor"][..], &place.arguments()[2..]].concat());
    command.env("WINDLASS_NATS_PREFIX", &place.prefix);
    let doctor = windlass_test_support::process::ended(command);
    assert!(doctor.stdout.contains("nats_server"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("sync_interval"), "{}", doctor.stdout);
}

/// What waiting does not help against ends `serve` at once, and `doctor` says the same.
#[test]
fn a_login_or_setting_that_nats_refuses_is_named_with_what_to_do() {
    let world = World::new();
    let users = "authorization { users: [ { user: ann, password: right } ] }";
    let server = OwnServer::with(users);
    let as_user = |user: &str| server.url().replacen("nats://", user, 1);
    let (good, wrong) = (as_user("nats://ann:right@"), as_user("nats://ann:wrong@"));
    let missing = world.path().join("missing");
    let missing = missing.to_str().expect("a path");
    let none = world.path().join("none.pem");
    std::fs::write(&none, "no certificate").expect("a file");
    let none = none.to_str().expect("a path");
    let cases: [(&str, (&str, &str), &[&str]); 5] = [
        (&wrong, ("WINDLASS_ACK", "log"), &["'ann'", "nats_url"]),
        (&good, ("WINDLASS_NATS_CREDS", missing), &["nats_creds"]),
        (&good, ("WINDLASS_NATS_NKEY", missing), &["nats_nkey"]),
        (&good, ("WINDLASS_NATS_CA", none), &["nats_ca"]),
        (&good, ("WINDLASS_NATS_REPLICAS", "3"), &["nats_replicas"]),
    ];
    for (url, (name, value), words) in cases {
        let place = Place::on(url);
        let run = |command: &[&str]| {
            let mut command = world.command(&[command, &place.arguments()[2..]].concat());
            command.env("WINDLASS_NATS_PREFIX", &place.prefix);
            command.env(name, value);
            windlass_test_support::process::ended(command)
        };
        let refused = run(&["serve", "--backend", "nats"]).expect(74);
        let doctor = run(&["doctor"]);
        for word in words {
            assert!(refused.stderr.contains(word), "{}", refused.stderr);
            assert!(doctor.stdout.contains(word), "{}", doctor.stdout);
        }
        let told = refused.stderr + &doctor.stdout + &doctor.stderr;
        assert!(!told.contains("right"), "a password is told: {told}");
    }
    let (_process, client) = Place::on(&good).serve(&world, &[]);
    client.publish(ECHO);
    succeeded(&client, &client.execute("echo", &json!({})));
}

/// A server that lost everything is refused with what to do, which helps.
#[test]
fn streams_that_nats_lost_are_restored_and_the_runs_go_on() {
    let world = World::new();
    let mut server = OwnServer::start();
    let place = Place::on(&server.url());
    let (process, client) = place.serve(&world, &["--ack", "projected"]);
    client.publish(WAIT);
    let runs: Vec<String> = (0..4).map(|_| client.waiting("wait")).collect();
    process.stop();
    server.kill();
    server.lose_everything();
    server.start_again();
    let run = |command: &[&str]| {
        let arguments = [command, &place.arguments()[2..]].concat();
        let mut command = world.command(&arguments);
        command.env("WINDLASS_NATS_PREFIX", &place.prefix);
        windlass_test_support::process::ended(command)
    };
    let refused = run(&["serve", "--backend", "nats"]).expect(74);
    let advice = "windlass rebuild --from postgres";
    assert!(refused.stderr.contains(advice), "{}", refused.stderr);
    let restored = run(&["rebuild", "--from", "postgres", "--json"]).expect(0);
    assert_eq!(restored.json()["restored"], 4);
    let (_process, client) = place.serve(&world, &[]);
    for run in &runs {
        signal(&client, run);
        succeeded(&client, run);
    }
}

#[test]
fn a_server_waits_for_a_broker_that_is_away_and_says_so() {
    let proxy = Proxy::to(nats::server().url().trim_start_matches("nats://"));
    proxy.refuse(true);
    let place = Place::on(&format!("nats://{}", proxy.address()));
    let world = World::new();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let mut command = world.command(&[&serve[..], &place.arguments()].concat());
    command.env("WINDLASS_NATS_PREFIX", &place.prefix);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let mut said = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let waits = said.find(|line| {
        let line = line.as_deref().unwrap_or_default();
        line.contains("waiting for NATS")
    });
    assert!(waits.is_some(), "it does not say that it waits");
    proxy.refuse(false);
    let mut out = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let listening = out.next().expect("it says where it listens").expect("text");
    let listening: serde_json::Value = serde_json::from_str(&listening).expect("JSON");
    let url = listening["url"].as_str().expect("its address");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let client = Client::new(address, None);
    client.until("/health/ready", |status, _| status == 200);
    server.kill().expect("it lives");
    server.wait().expect("it ends");
}
