//! What one run's evaluations do to others: a chain and a health probe, alone and while a
//! thousand nodes of another run exhaust their steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::server::{Connection, Server, broken};
use super::{Bench, graphs};
use crate::exit::Failure;

/// Nodes that exhaust their steps.
const NOISY_NODES: usize = 1000;

/// Needs more steps than an evaluation has, and takes them one by one.
const EXHAUSTING: &str =
    "Array.from({length: 2000}, (_, i) => Array.from({length: 2000}, (_, j) => i * j).length)";

/// How often the server is asked whether it lives.
const PROBE_EVERY: Duration = Duration::from_millis(5);

pub(super) async fn measure(bench: Bench<'_>) -> Result<Value, Failure> {
    let folder = bench.scratch.fresh();
    std::fs::create_dir_all(&folder).map_err(|error| broken(&error))?;
    let server = Server::start(&folder)?;
    let mut connection = Connection::open(server.address).await?;
    let chain = graphs::chain("quiet", bench.sizes.chain, "core.echo");
    connection.post("/api/v1/workflows", &chain, 201).await?;
    connection.post("/api/v1/workflows", &noise(), 201).await?;
    // The first run grows the log.
    run(&mut connection).await?;
    let alone = median(&mut connection, bench.sizes.repeats).await?;

    let started = connection
        .post("/api/v1/workflows/noise/execute", "{}", 202)
        .await?;
    let noisy = started["executionId"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let stop = Arc::new(AtomicBool::new(false));
    let probes = probe(server.address, Arc::clone(&stop));
    let beside = median(&mut connection, bench.sizes.repeats).await?;
    let page = connection
        .get(&format!("/api/v1/executions/{noisy}"))
        .await?;
    let still_noisy = page["status"] == "Running";
    stop.store(true, Ordering::Relaxed);
    let mut probes = probes.await.map_err(|error| broken(&error))??;
    probes.sort_unstable();

    let begun = Instant::now();
    let cancel = format!("/api/v1/executions/{noisy}/cancel");
    connection.post(&cancel, "{}", 200).await?;
    ended(&mut connection, &noisy).await?;
    let cancelled = begun.elapsed();
    let p99 = probes[(probes.len() * 99 / 100).min(probes.len() - 1)];
    Ok(json!({
        "noisyNodes": NOISY_NODES,
        "noisyToTheEnd": still_noisy,
        "chainAloneSeconds": alone.as_secs_f64(),
        "chainBesideSeconds": beside.as_secs_f64(),
        "timesAlone": beside.as_secs_f64() / alone.as_secs_f64(),
        "healthProbes": probes.len(),
        "healthP99Millis": p99.as_secs_f64() * 1000.0,
        "cancelSeconds": cancelled.as_secs_f64(),
        "target": "the chain takes at most twice as long; health answers within 50 ms at p99",
    }))
}

/// Nodes that need more steps than an evaluation has.
fn noise() -> String {
    let nodes = (0..NOISY_NODES).map(|node| {
        json!({
            "id": format!("n{node}"),
            "actionType": "core.script",
            "parameters": { "expression": EXHAUSTING },
        })
    });
    json!({ "id": "noise", "nodes": nodes.collect::<Vec<_>>() }).to_string()
}

async fn median(connection: &mut Connection, repeats: usize) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..repeats {
        times.push(run(connection).await?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// One run of the chain.
async fn run(connection: &mut Connection) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let started = connection
        .post("/api/v1/workflows/quiet/execute", "{}", 202)
        .await?;
    let id = started["executionId"].as_str().unwrap_or_default();
    ended(connection, id).await?;
    Ok(begun.elapsed())
}

async fn ended(connection: &mut Connection, id: &str) -> Result<(), Failure> {
    let path = format!("/api/v1/executions/{id}?nodes=n0");
    loop {
        let page = connection.get(&path).await?;
        if !page["endedAt"].is_null() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asks for `/health/live` until it is asked to stop, and returns the times of the answers.
fn probe(
    address: std::net::SocketAddr,
    stop: Arc<AtomicBool>,
) -> JoinHandle<Result<Vec<Duration>, Failure>> {
    tokio::spawn(async move {
        let mut connection = Connection::open(address).await?;
        let mut times = Vec::new();
        while !stop.load(Ordering::Relaxed) || times.is_empty() {
            let begun = Instant::now();
            connection.get("/health/live").await?;
            times.push(begun.elapsed());
            tokio::time::sleep(PROBE_EVERY).await;
        }
        Ok(times)
    })
}
