//! Old and new processes on one database: a process leaves what a newer one wrote for another where
//! it is, goes on with everything else, and a process that knows the form takes it. The recorded
//! forms are those of `crates/engine/tests/wire`.

use serde_json::json;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{Client, ECHO, ServerProcess, WAIT, World};

/// An attempt that takes longer than its owner is killed.
const SLEEP: &str = r#"{"id":"sleep","nodes":[
    {"id":"n","actionType":"core.sleep","parameters":{"ms":3000}}]}"#;

/// Commands as versions of the program wrote them; the last line is of this version.
const COMMANDS: &str = include_str!("../../engine/tests/wire/commands-1.jsonl");

fn role(world: &World, database: &str, role: &str) -> ServerProcess {
    let mut arguments = vec!["--backend", "postgres", "--postgres-url", database];
    arguments.extend(["--role", role]);
    world.serve_with(&arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")])
}

/// SQL beside the processes.
struct Sql {
    runtime: Runtime,
    client: tokio_postgres::Client,
}

impl Sql {
    fn new(url: &str) -> Self {
        let schema = url.split_once("schema=").expect("a schema").1;
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let connected = tokio_postgres::connect(database().url(), NoTls).await;
            let (client, connection) = connected.expect("a database");
            tokio::spawn(connection);
            let path = format!("set search_path to {schema}");
            client.batch_execute(&path).await.expect("a schema");
            client
        });
        Self { runtime, client }
    }

    /// Runs a statement; how many rows it changed.
    #[track_caller]
    fn execute(&self, text: &str) -> u64 {
        let done = self.runtime.block_on(self.client.execute(text, &[]));
        done.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The number in the first column of the only row.
    #[track_caller]
    fn number(&self, text: &str) -> i64 {
        let row = self.runtime.block_on(self.client.query_one(text, &[]));
        row.unwrap_or_else(|error| panic!("{text}: {error}")).get(0)
    }

    /// Waits until a statement has changed a row.
    fn until_changed(&self, text: &str) {
        while self.execute(text) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[track_caller]
fn succeeded(client: &Client, run: &str) {
    let ended = client.ended(run);
    assert_eq!(ended["status"], "Succeeded", "{ended}");
}

/// The statement that makes another version of what a column holds.
fn versioned(table: &str, column: &str, run: &str, from: u32, to: u32) -> String {
    format!(
        "update {table} set {column} = convert_to(replace(convert_from({column}, 'UTF8'), \
         '\"v\":{from},', '\"v\":{to},'), 'UTF8') where run = '{run}' \
         and convert_from({column}, 'UTF8') like '{{\"v\":{from},%'"
    )
}

#[test]
fn a_worker_leaves_a_dispatch_of_a_newer_owner() {
    let url = database().fresh();
    let worlds: Vec<World> = (0..2).map(|_| World::new()).collect();
    let owner = role(&worlds[0], &url, "api,orchestrator,scheduler");
    let client = owner.client();
    client.publish(ECHO);
    let run = client.execute("echo", &json!({}));
    let sql = Sql::new(&url);
    sql.until_changed(&versioned("work", "payload", &run, 1, 2));
    let _worker = role(&worlds[1], &url, "worker");
    // The worker works: others that came later end.
    for _ in 0..3 {
        let other = client.execute("echo", &json!({}));
        succeeded(&client, &other);
    }
    let shown = client.get(&format!("/api/v1/executions/{run}")).json();
    assert_eq!(shown["status"], "Running", "{shown}");
    let left = format!(
        "select count(*) from work where run = '{run}' \
         and convert_from(payload, 'UTF8') like '{{\"v\":2,%'"
    );
    assert_eq!(sql.number(&left), 1, "it is there for a newer worker");
    sql.until_changed(&versioned("work", "payload", &run, 2, 1));
    succeeded(&client, &run);
}

#[test]
fn an_owner_leaves_a_command_of_a_newer_process() {
    let url = database().fresh();
    let world = World::new();
    let server = role(&world, &url, "all");
    let client = server.client();
    client.publish(WAIT);
    let run = client.waiting("wait");
    let sql = Sql::new(&url);
    let command = COMMANDS.lines().last().expect("a line");
    let newer = command.replacen("\"v\":1", "\"v\":2", 1);
    let offered = sql.execute(&format!(
        "insert into inbox (run, key, partition, body) \
         select run, 'command/k', partition, convert_to('{newer}', 'UTF8') \
         from (select id as run, partition from workflow_executions where id = '{run}') it"
    ));
    assert_eq!(offered, 1);
    // The owner goes on with what it knows.
    for command in ["pause", "resume"] {
        let path = format!("/api/v1/executions/{run}/{command}");
        client.post(&path, &json!({})).expect(200);
    }
    let waits = format!(
        "select count(*) from inbox where run = '{run}' and key = 'command/k' and refusal is null"
    );
    // It looks at the inbox of its partitions every ten seconds.
    std::thread::sleep(std::time::Duration::from_secs(12));
    assert_eq!(sql.number(&waits), 1, "it is there for a newer owner");
    let shown = client.get(&format!("/api/v1/executions/{run}")).json();
    assert_eq!(shown["status"], "Running", "{shown}");
    sql.until_changed(&versioned("inbox", "body", &run, 2, 1));
    succeeded(&client, &run);
    assert_eq!(sql.number(&waits), 0, "a record consumed it");
}

#[test]
fn an_owner_leaves_an_outcome_of_a_newer_worker() {
    let url = database().fresh();
    let worlds: Vec<World> = (0..3).map(|_| World::new()).collect();
    let roles = "api,orchestrator,scheduler";
    let killed = role(&worlds[0], &url, roles);
    let _worker = role(&worlds[1], &url, "worker");
    let client = killed.client();
    client.publish(ECHO);
    client.publish(SLEEP);
    let run = client.execute("sleep", &json!({}));
    let sql = Sql::new(&url);
    let begun = format!("select count(*) from work where run = '{run}' and lease is not null");
    while sql.number(&begun) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    killed.kill();
    // Without an owner the outcome waits: a newer worker might have written it.
    sql.until_changed(&versioned("inbox", "body", &run, 1, 2));
    let owner = role(&worlds[2], &url, roles);
    let client = owner.client();
    client.until("/api/v1/cluster", |_, cluster| {
        let mut sessions = cluster["sessions"].as_array().into_iter().flatten();
        sessions.any(|it| it["self"] == true && it["partitions"] == 64)
    });
    // The owner has the run, and goes on with what it knows.
    for command in ["pause", "resume"] {
        let path = format!("/api/v1/executions/{run}/{command}");
        client.post(&path, &json!({})).expect(200);
    }
    let other = client.execute("echo", &json!({}));
    succeeded(&client, &other);
    // It looks at the inbox of its partitions every ten seconds.
    std::thread::sleep(std::time::Duration::from_secs(12));
    let waits = format!(
        "select count(*) from inbox where run = '{run}' and key like 'outcome/%' \
         and refusal is null and convert_from(body, 'UTF8') like '{{\"v\":2,%'"
    );
    assert_eq!(sql.number(&waits), 1, "it is there for a newer owner");
    let again = format!("select count(*) from work where run = '{run}'");
    assert_eq!(sql.number(&again), 0, "the attempt is not made again");
    let path = format!("/api/v1/executions/{run}");
    let shown = client.get(&path).json();
    assert_eq!(shown["status"], "Running", "{shown}");
    sql.until_changed(&versioned("inbox", "body", &run, 2, 1));
    succeeded(&client, &run);
    let ended = client.get(&path).json();
    assert_eq!(ended["nodes"]["n"]["attempts"], 1, "{ended}");
}
