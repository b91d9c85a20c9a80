//! Processes with a role each: nodes that another process works on, starts over HTTP, and what a
//! cluster asks of its database while nothing happens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::Client;

use super::super::server::{Connection, Helper, Server};
use super::super::{graphs, http};
use super::{Bench, Database, Scratch, broken, median};
use crate::exit::Failure;

/// How long an idle cluster is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The variables of a process on a schema, with these roles.
fn variables(database: &Database, schema: &str, role: &str) -> Vec<(&'static str, String)> {
    vec![
        ("WINDLASS_BACKEND", "postgres".to_owned()),
        ("WINDLASS_POSTGRES_URL", database.url.clone()),
        ("WINDLASS_POSTGRES_SCHEMA", schema.to_owned()),
        ("WINDLASS_ROLE", role.to_owned()),
        ("WINDLASS_RATE_PER_MINUTE", "0".to_owned()),
        ("WINDLASS_READ_RATE_PER_MINUTE", "0".to_owned()),
    ]
}

/// A process with the API among its roles.
fn server(bench: Bench<'_>, schema: &str, role: &str) -> Result<Server, Failure> {
    Server::with(
        &bench.scratch.fresh(),
        &variables(bench.database, schema, role),
    )
}

/// An owner and a worker, each a process of its own.
struct Pair {
    server: Server,
    _worker: Helper,
    schema: String,
    database: Client,
}

impl Pair {
    async fn start(bench: Bench<'_>) -> Result<Self, Failure> {
        let schema = bench.database.fresh();
        Ok(Self {
            server: server(bench, &schema, "api,orchestrator,scheduler")?,
            _worker: Helper::start(
                &bench.scratch.fresh(),
                &variables(bench.database, &schema, "worker"),
            )?,
            schema,
            database: bench.database.connect().await?,
        })
    }

    async fn publish(&self, text: &str) -> Result<(), Failure> {
        let mut connection = Connection::open(self.server.address).await?;
        connection.post("/api/v1/workflows", text, 201).await?;
        Ok(())
    }

    /// Runs a workflow to its end; the time between its beginning and its end, by its own record.
    async fn run(&self, workflow: &str) -> Result<Duration, Failure> {
        let mut connection = Connection::open(self.server.address).await?;
        let path = format!("/api/v1/workflows/{workflow}/execute");
        let started = connection.post(&path, "{}", 202).await?;
        let run = started["executionId"].as_str().unwrap_or_default();
        let text = format!(
            "select status, (1000 * extract(epoch from end_time - start_time))::bigint \
             from {}.workflow_executions where id = '{run}'",
            self.schema
        );
        loop {
            let row = self.database.query_one(&text, &[]).await;
            let row = row.map_err(|error| broken(&error))?;
            if let Some(millis) = row.get::<_, Option<i64>>(1) {
                let status: String = row.get(0);
                return match &*status {
                    "Succeeded" => Ok(Duration::from_millis(millis.unsigned_abs())),
                    _ => Err(broken(&format!("a measured run ended {status}"))),
                };
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A chain whose nodes another process works on.
pub(super) async fn chain(bench: Bench<'_>) -> Result<Value, Failure> {
    let count = bench.sizes.chain;
    let pair = Pair::start(bench).await?;
    pair.publish(&graphs::chain("chain", count, "core.echo"))
        .await?;
    pair.run("chain").await?;
    let mut times = Vec::new();
    for _ in 0..bench.sizes.repeats {
        times.push(pair.run("chain").await?);
    }
    let node = median(times).as_secs_f64() / count as f64;
    Ok(json!({
        "nodes": count,
        "microsecondsPerNode": node * 1e6,
        "timesAnInsert": node / bench.driver.insert.as_secs_f64(),
        "target": "at most 8 times a single-row insert",
    }))
}

/// A fan-out whose nodes another process works on.
pub(super) async fn fan_out(bench: Bench<'_>) -> Result<Value, Failure> {
    let count = bench.sizes.fan_out;
    let pair = Pair::start(bench).await?;
    pair.publish(&graphs::fan_out("fan-out", count, "core.echo"))
        .await?;
    pair.run("fan-out").await?;
    let before = bench.database.records(&pair.schema).await?;
    let took = pair.run("fan-out").await?;
    let records = bench.database.records(&pair.schema).await? - before;
    Ok(json!({
        "nodes": count,
        "seconds": took.as_secs_f64(),
        "nodesPerSecond": count as f64 / took.as_secs_f64(),
        "outcomesPerAppend": count as f64 / records as f64,
        "target": "at least 10 outcomes an append; 3,000 nodes a second expected",
    }))
}

/// Starts over HTTP, which a process with the role API appends.
pub(super) async fn starts(bench: Bench<'_>) -> Result<Value, Failure> {
    let schema = bench.database.fresh();
    let server = server(bench, &schema, "api")?;
    let text = graphs::chain("short", 3, "core.echo");
    let mut first = Connection::open(server.address).await?;
    first.post("/api/v1/workflows", &text, 201).await?;
    first
        .post("/api/v1/workflows/short/execute", "{}", 202)
        .await?;
    let begun = Instant::now();
    let count = http::flood(server.address, bench.sizes).await?;
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    Ok(json!({
        "starts": count,
        "connections": bench.sizes.in_flight,
        "startsPerSecond": rate,
        "timesTheBatchedStarts": rate / bench.driver.starts,
        "target": "at least a quarter of the batched starts; 4,000 a second expected",
    }))
}

/// Transactions of the database while four processes have nothing to do.
pub(super) async fn idle(database: &Database, scratch: &Scratch) -> Result<Value, Failure> {
    let schema = database.fresh();
    let roles = ["api", "orchestrator", "worker", "scheduler"];
    let helpers = roles.map(|role| {
        let variables = variables(database, &schema, role);
        Helper::start(&scratch.fresh(), &variables)
    });
    let helpers = helpers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let client = database.connect().await?;
    let count = async || -> Result<i64, Failure> {
        let text = "select xact_commit + xact_rollback from pg_stat_database \
                    where datname = current_database()";
        let row = client.query_one(text, &[]).await;
        Ok(row.map_err(|error| broken(&error))?.get(0))
    };
    // What they do when they start is over.
    tokio::time::sleep(IDLE / 2).await;
    let before = count().await?;
    tokio::time::sleep(IDLE).await;
    let transactions = count().await? - before;
    let (processes, seconds) = (helpers.len() as f64, IDLE.as_secs_f64());
    let expected = processes * (seconds / 3.0 + seconds / 10.0);
    Ok(json!({
        "processes": helpers.len(),
        "seconds": seconds,
        "transactions": transactions,
        "expected": expected,
        "target": "a heartbeat of each process in 3 s and a look in 10 s, and no other statement",
    }))
}
