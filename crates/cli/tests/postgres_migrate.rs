//! Everything moves between a data directory and a database, also if the move is killed on its
//! way; unfinished runs go on where they arrive.

use serde_json::{Value, json};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, WAIT, World, ended};

fn serve(world: &World, arguments: &[&str]) -> (ServerProcess, Client) {
    let server = world.serve_with(arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")]);
    let client = server.client();
    (server, client)
}

/// Migrates, killed at the given passing of a place, and then to the end.
fn migrate(world: &World, arguments: &[&str], kills: &[&str]) -> Value {
    let arguments = [&["migrate", "--json"][..], arguments].concat();
    for kill in kills {
        let mut command = world.command(&arguments);
        command.env("WINDLASS_CRASH_AT", kill);
        let killed = ended(command);
        assert_ne!(
            killed.code, 0,
            "it was not killed at {kill}: {}",
            killed.stderr
        );
    }
    world.run(&arguments).expect(0).json()
}

/// What the API shows of runs, but for what changes from process to process.
fn shown(client: &Client, runs: &[String]) -> Vec<Value> {
    let shown = runs.iter().map(|run| {
        let path = format!("/api/v1/executions/{run}?include=actions,events");
        client.get(&path).expect(200).json()
    });
    shown.collect()
}

fn signal(client: &Client, run: &str) {
    let path = format!("/api/v1/executions/{run}/signal");
    let body = json!({ "name": "go", "payload": 1 });
    client.post(&path, &body).expect(200);
    assert_eq!(client.ended(run)["status"], "Succeeded");
}

fn put_pool(client: &Client) {
    let pool = json!({ "slots": 3 }).to_string();
    let headers = [("Content-Type", "application/json")];
    let put = client.send("PUT", "/api/v1/pools/db", &headers, Some(pool.as_bytes()));
    assert!(put.status < 300, "{put:?}");
}

fn pool_is_there(client: &Client) {
    let pool = client.get("/api/v1/pools/db").expect(200).json();
    assert_eq!(pool["slots"], 3, "{pool}");
}

#[test]
fn everything_moves_there_and_back_though_the_moves_are_killed() {
    let world = World::new();
    let url = database().fresh();
    let (server, client) = serve(&world, &["--data-dir", "one"]);
    for definition in [ECHO, FAIL, WAIT] {
        client.publish(definition);
    }
    let large = "x".repeat(20_000);
    let mut runs = vec![
        client.execute("echo", &json!({ "trigger": { "say": large } })),
        client.execute(
            "fail",
            &json!({ "requestId": "kept", "labels": { "a": "b" } }),
        ),
    ];
    runs.extend((0..70).map(|_| client.execute("echo", &json!({}))));
    for run in &runs {
        client.ended(run);
    }
    let waiting: Vec<String> = (0..4).map(|_| client.waiting("wait")).collect();
    let schedule = json!({ "id": "yearly", "workflowId": "echo", "cron": "0 0 1 1 *" });
    let put = client.post("/api/v1/schedules", &schedule);
    assert!(put.status < 300, "{put:?}");
    put_pool(&client);
    let before = shown(&client, &runs);
    server.stop();

    let there = [
        "--from",
        "embedded",
        "--data-dir",
        "one",
        "--to",
        "postgres",
    ];
    let there = [&there[..], &["--postgres-url", &url]].concat();
    let serve_there = ["--backend", "postgres", "--postgres-url", &url];
    // Half of it is there, and no server takes it for the whole.
    let mut command = world.command(&[&["migrate"][..], &there[..]].concat());
    command.env("WINDLASS_CRASH_AT", "migrate-append:2");
    assert_ne!(ended(command).code, 0);
    let refused = world
        .run(&[&["serve"][..], &serve_there[..]].concat())
        .expect(74);
    assert!(
        refused.stderr.contains("not complete"),
        "{}",
        refused.stderr
    );
    let moved = migrate(&world, &there, &["migrate-append:3", "migrate-verify:1"]);
    assert!(moved["digest"].is_string(), "{moved}");
    // A second time there is something.
    let again = world.run(&[&["migrate", "--json"][..], &there[..]].concat());
    again.failed(6, "TARGET_NOT_EMPTY");

    let (server, client) = serve(&world, &serve_there);
    assert_eq!(shown(&client, &runs), before);
    signal(&client, &waiting[0]);
    signal(&client, &waiting[1]);
    let repeated = json!({ "requestId": "kept", "labels": { "a": "b" } });
    assert_eq!(
        client
            .post("/api/v1/workflows/fail/execute", &repeated)
            .json()["executionId"],
        runs[1]
    );
    let schedules = client.get("/api/v1/schedules").expect(200).json();
    assert!(schedules.to_string().contains("yearly"), "{schedules}");
    pool_is_there(&client);
    let later = client.execute("echo", &json!({}));
    client.ended(&later);
    runs.push(later);
    let before = shown(&client, &runs);
    // A database that is served is not copied.
    let back = [
        "--from",
        "postgres",
        "--postgres-url",
        &url,
        "--to",
        "embedded",
    ];
    let back = [&back[..], &["--data-dir", "two"]].concat();
    let served = world.run(&[&["migrate", "--json"][..], &back[..]].concat());
    served.failed(6, "STORE_IN_USE");
    server.stop();

    let kills = ["migrate-append:1", "migrate-append:2", "migrate-verify:1"];
    let mut command = world.command(&[&["migrate"][..], &back[..]].concat());
    command.env("WINDLASS_CRASH_AT", "migrate-append:2");
    assert_ne!(ended(command).code, 0);
    let refused = world.run(&["serve", "--data-dir", "two"]).expect(74);
    assert!(
        refused.stderr.contains("not complete"),
        "{}",
        refused.stderr
    );
    migrate(&world, &back, &kills);
    let (_server, client) = serve(&world, &["--data-dir", "two"]);
    assert_eq!(shown(&client, &runs), before);
    signal(&client, &waiting[2]);
    signal(&client, &waiting[3]);
    for run in &runs[..3] {
        world.run(&["--data-dir", "two", "verify", run]).expect(0);
    }
}
