//! Everything moves between PostgreSQL and NATS with its own database: history and values stay as
//! they were, both stores have one digest, and unfinished runs go on where they arrive.

use serde_json::{Value, json};
use windlass_test_support::nats::{fresh_prefix, server as nats};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, FAIL, ServerProcess, WAIT, World, ended};

/// A prefix in NATS, with a database of its own.
struct Installation {
    prefix: String,
    url: String,
}

impl Installation {
    fn fresh() -> Self {
        Self {
            prefix: fresh_prefix(),
            url: database().fresh(),
        }
    }

    fn serve(&self, world: &World) -> (ServerProcess, Client) {
        let place = ["--nats-url", nats().url(), "--postgres-url", &self.url];
        let arguments = [&["--backend", "nats"][..], &place].concat();
        serve(world, &arguments, &self.prefix)
    }
}

fn serve(world: &World, arguments: &[&str], prefix: &str) -> (ServerProcess, Client) {
    let variables = [
        ("WINDLASS_RATE_PER_MINUTE", "0"),
        ("WINDLASS_NATS_PREFIX", prefix),
    ];
    let server = world.serve_with(arguments, &variables);
    let client = server.client();
    (server, client)
}

/// Migrates from the database `from` to the database `to`, one of them that of NATS.
fn migrate(world: &World, prefix: &str, (from, to): ([&str; 2], [&str; 2])) -> Value {
    let mut command = world.command(&[
        "migrate",
        "--json",
        "--from",
        from[0],
        "--postgres-url",
        from[1],
        "--to",
        to[0],
        "--to-postgres-url",
        to[1],
        "--nats-url",
        nats().url(),
    ]);
    command.env("WINDLASS_NATS_PREFIX", prefix);
    ended(command).expect(0).json()
}

/// What the API shows of runs: their history and values too.
fn shown(client: &Client, runs: &[String]) -> Vec<Value> {
    let shown = runs.iter().map(|run| {
        let path = format!("/api/v1/executions/{run}?include=actions,events");
        client.get(&path).expect(200).json()
    });
    shown.collect()
}

/// Each of the runs has an owner, whichever of the many partitions of the source it was in.
fn go_on(client: &Client, runs: &[String]) {
    for run in runs {
        let path = format!("/api/v1/executions/{run}/verify");
        let verified = client.get(&path).expect(200).json();
        assert_eq!(verified["valid"], true, "{verified}");
        let path = format!("/api/v1/executions/{run}/signal");
        let body = json!({ "name": "go", "payload": 1 });
        client.post(&path, &body).expect(200);
        assert_eq!(client.ended(run)["status"], "Succeeded");
    }
}

#[test]
fn everything_moves_from_postgres_to_nats_and_back() {
    let world = World::new();
    let (place, first, last) = (
        Installation::fresh(),
        database().fresh(),
        database().fresh(),
    );
    let on = |url: &str| -> (ServerProcess, Client) {
        let arguments = ["--backend", "postgres", "--postgres-url", url];
        serve(&world, &arguments, &place.prefix)
    };
    let (server, client) = on(&first);
    for definition in [ECHO, FAIL, WAIT] {
        client.publish(definition);
    }
    let large = "x".repeat(20_000);
    let mut runs = vec![
        client.execute("echo", &json!({ "trigger": { "say": large } })),
        client.execute("fail", &json!({ "requestId": "kept" })),
    ];
    for run in &runs {
        client.ended(run);
    }
    let waiting: Vec<String> = (0..12).map(|_| client.waiting("wait")).collect();
    let (first_waiting, rest) = waiting.split_at(4);
    let (second_waiting, third_waiting) = rest.split_at(4);
    let before = shown(&client, &runs);
    server.stop();

    let to = ["nats", &*place.url];
    let there = migrate(&world, &place.prefix, (["postgres", &first], to));
    assert_eq!(there["runs"], 14, "{there}");
    let (server, client) = place.serve(&world);
    assert_eq!(shown(&client, &runs), before);
    go_on(&client, first_waiting);
    let repeated = client.post(
        "/api/v1/workflows/fail/execute",
        &json!({ "requestId": "kept" }),
    );
    assert_eq!(repeated.json()["executionId"], runs[1], "{repeated:?}");
    let later = client.execute("echo", &json!({}));
    client.ended(&later);
    runs.push(later);
    runs.extend_from_slice(first_waiting);
    let before = shown(&client, &runs);
    server.stop();

    let back = migrate(&world, &place.prefix, (to, ["postgres", &last]));
    assert_eq!(back["runs"], 15, "{back}");
    assert_ne!(back["digest"], there["digest"], "it has more runs");
    let (_server, client) = on(&last);
    assert_eq!(shown(&client, &runs), before);
    go_on(&client, second_waiting);
    // The first source is as it was, and another copy of it has the same digest.
    let third = Installation::fresh();
    let again = migrate(
        &world,
        &third.prefix,
        (["postgres", &first], ["nats", &third.url]),
    );
    assert_eq!(again["digest"], there["digest"]);
    let (_server, client) = third.serve(&world);
    // Rows that are made anew from the logs leave the runs with their owners.
    let rebuilding = client.post("/api/v1/rebuild", &json!({})).expect(202);
    client.finished(&rebuilding.text("id"));
    go_on(&client, third_waiting);
}
