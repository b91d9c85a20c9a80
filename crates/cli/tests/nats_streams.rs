//! Streams that an operator deletes or limits under a real server: callers hear 503 with
//! `Retry-After`, the server names what is wrong, and work goes on when it is right again.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_store::Wait as _;
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{OwnServer, fresh_prefix};
use windlass_test_support::postgres;
use windlass_test_support::process::{Client, ECHO, Ended, ServerProcess, WAIT, World, ended};

/// An empty installation on a server of its own.
struct Installation {
    world: World,
    nats: OwnServer,
    database: String,
    prefix: String,
}

impl Installation {
    fn new() -> Self {
        Self {
            world: World::new(),
            nats: OwnServer::start(),
            database: postgres::server().fresh(),
            prefix: fresh_prefix(),
        }
    }

    fn serve(&self) -> (ServerProcess, Client) {
        let url = self.nats.url();
        let arguments = ["--backend", "nats", "--nats-url", &url];
        let arguments = [&arguments[..], &["--postgres-url", &self.database]].concat();
        let variables = [
            ("WINDLASS_RATE_PER_MINUTE", "0"),
            ("WINDLASS_READ_RATE_PER_MINUTE", "0"),
            ("WINDLASS_NATS_PREFIX", &self.prefix),
        ];
        let server = self.world.serve_with(&arguments, &variables);
        let client = server.client();
        (server, client)
    }

    fn run(&self, command: &[&str]) -> Ended {
        let url = self.nats.url();
        let store = ["--nats-url", &url, "--postgres-url", &self.database];
        let mut command = self.world.command(&[command, &store].concat());
        command.env("WINDLASS_NATS_PREFIX", &self.prefix);
        ended(command)
    }

    /// The store, opened by the test beside the server.
    fn beside(&self) -> NatsStore {
        let database =
            windlass_store_postgres::Settings::parse(&self.database).expect("a database");
        let settings = Settings::parse(&self.nats.url(), database.pool(1)).expect("servers");
        NatsStore::open(&settings.prefix(&self.prefix).expect("a prefix")).expect("a store")
    }
}

/// Sends a request until it succeeds, as a careful client does; every other answer is a 503 that
/// says when to come again. Gives the answer, and how often it was refused.
#[track_caller]
fn insist(client: &Client, path: &str, body: &Value) -> (Value, usize) {
    for refused in 0..2_400 {
        let answer = client.post(path, body);
        if answer.status < 300 {
            return (answer.json(), refused);
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it is refused for ever")
}

#[track_caller]
fn execute(client: &Client, workflow: &str, request: &str) -> (String, usize) {
    let path = format!("/api/v1/workflows/{workflow}/execute");
    let (answer, refused) = insist(client, &path, &json!({ "requestId": request }));
    let run = answer["executionId"].as_str().expect("a run").to_owned();
    (run, refused)
}

#[track_caller]
fn succeeds(client: &Client, run: &str) {
    let path = format!("/api/v1/executions/{run}");
    let shown = client.until(&path, |status, shown| {
        status == 200 && shown["status"] != "Running" && shown["status"] != "Pending"
    });
    assert_eq!(shown["status"], "Succeeded", "{shown}");
}

#[test]
fn deleted_streams_come_back_or_are_named_and_no_run_is_lost_or_doubled() {
    let place = Installation::new();
    let (server, client) = place.serve();
    client.publish(ECHO);
    client.publish(WAIT);
    let beside = place.beside();
    let waiting: Vec<String> = (0..8).map(|_| client.waiting("wait")).collect();
    let (first, _) = execute(&client, "echo", "first");
    succeeds(&client, &first);
    for (number, name) in ["WORK", "INBOX", "KV_LEASES", "KV_CLAIMS", "KV_BLOB_INDEX"]
        .into_iter()
        .enumerate()
    {
        // The queue is made when it is needed first.
        let deleted = beside.delete_stream_for_tests(name).wait();
        assert!(deleted.is_ok() || name == "WORK", "{name}: {deleted:?}");
        let (run, _) = execute(&client, "echo", &format!("after {name}"));
        succeeds(&client, &run);
        let path = format!("/api/v1/executions/{}/signal", waiting[number]);
        insist(&client, &path, &json!({ "name": "go", "payload": 1 }));
        succeeds(&client, &waiting[number]);
    }
    // The claim of the first request was lost and came back.
    let (again, _) = execute(&client, "echo", "first");
    assert_eq!(again, first, "a request starts one run");
    // A stream of logs does not come back by itself: it is named.
    for number in 0..16 {
        let name = format!("LOG_{number}");
        beside.delete_stream_for_tests(&name).wait().expect("a log");
    }
    let refused = client.post("/api/v1/workflows/echo/execute", &json!({}));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let ready = client.get("/health/ready");
    assert_eq!(ready.status, 503, "{ready:?}");
    let advice = "windlass rebuild --from postgres";
    let doctor = place.run(&["doctor"]);
    assert!(doctor.stdout.contains("LOG_0"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains(advice), "{}", doctor.stdout);
    server.kill();
    drop(beside);
    place.run(&["rebuild", "--from", "postgres"]).expect(0);
    let (_server, client) = place.serve();
    for run in &waiting[5..] {
        let path = format!("/api/v1/executions/{run}/signal");
        insist(&client, &path, &json!({ "name": "go", "payload": 1 }));
        succeeds(&client, run);
    }
    let (again, _) = execute(&client, "echo", "first");
    assert_eq!(again, first, "a request starts one run");
}

#[test]
fn a_limit_of_jetstream_that_is_reached_is_told_and_ends_when_it_is_raised() {
    let place = Installation::new();
    let (_server, client) = place.serve();
    client.publish(ECHO);
    client.publish(WAIT);
    let run = client.waiting("wait");
    let beside = place.beside();
    let limit = |bytes: i64| {
        for number in 0..16 {
            let name = format!("LOG_{number}");
            beside
                .limit_stream_for_tests(&name, bytes)
                .wait()
                .expect("a log");
        }
    };
    limit(1);
    let refused = client.post("/api/v1/workflows/echo/execute", &json!({}));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let said = refused.refused(503, "STORE_FULL");
    assert!(
        said.to_string().contains("maximum bytes exceeded"),
        "{said}"
    );
    // A run that was under way waits, and loses nothing.
    let path = format!("/api/v1/executions/{run}/signal");
    let signalled = client.post(&path, &json!({ "name": "go", "payload": 1 }));
    assert_eq!(signalled.status, 503, "{signalled:?}");
    limit(-1);
    insist(&client, &path, &json!({ "name": "go", "payload": 1 }));
    succeeds(&client, &run);
    let (other, _) = execute(&client, "echo", "other");
    succeeds(&client, &other);
}
