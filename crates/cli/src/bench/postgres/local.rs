//! An engine of this process, with workers of its own: a chain, many short runs, a fan-out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::{Backend, Engine, Options, Serving};
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store_postgres::PostgresStore;

use super::super::{Rig, figures, graphs};
use super::{Bench, median};
use crate::exit::Failure;

/// An engine on a fresh schema, with the leases that several processes need.
async fn rig(bench: Bench<'_>) -> Result<(Rig, String), Failure> {
    let schema = bench.database.fresh();
    let settings = bench.database.settings(&schema)?;
    let store = PostgresStore::connect(&settings).await;
    let store = store.map_err(crate::database::failure)?;
    let options = Options {
        leases: Some(LeaseOptions::default()),
        projections: Some(Arc::new(store.clone())),
        ..Options::default()
    };
    let backend: Arc<dyn Backend> = Arc::new(store);
    let engine = Engine::new(backend, windlass_actions::registry(), options).await;
    engine.serve(Serving::default()).await?;
    Ok((Rig::on(engine), schema))
}

/// A chain against as many single inserts.
pub(super) async fn chain(bench: Bench<'_>) -> Result<Value, Failure> {
    let count = bench.sizes.chain;
    let (rig, _) = rig(bench).await?;
    let request = rig
        .prepare(&graphs::chain("chain", count, "core.echo"))
        .await?;
    // The first waits until the process owns its partition.
    rig.run(&request).await?;
    let mut times = Vec::new();
    for _ in 0..bench.sizes.repeats {
        times.push(rig.run(&request).await?);
    }
    rig.engine.shutdown().await;
    let node = median(times).as_secs_f64() / count as f64;
    Ok(json!({
        "nodes": count,
        "microsecondsPerNode": node * 1e6,
        "timesAnInsert": node / bench.driver.insert.as_secs_f64(),
        "target": "at most 1.75 times a single-row insert",
    }))
}

/// Many short runs, some at a time, against single inserts on eight connections.
pub(super) async fn runs(bench: Bench<'_>) -> Result<Value, Failure> {
    let (rig, schema) = rig(bench).await?;
    let request = rig.prepare(&graphs::chain("short", 3, "core.echo")).await?;
    rig.run(&request).await?;
    let before = bench.database.records(&schema).await?;
    let begun = Instant::now();
    let count = figures::many(&rig, &request, bench.sizes).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let records = bench.database.records(&schema).await? - before;
    rig.engine.shutdown().await;
    let rate = records as f64 / seconds;
    Ok(json!({
        "runs": count,
        "inFlight": bench.sizes.in_flight,
        "seconds": seconds,
        "runsPerSecond": count as f64 / seconds,
        "transitionsPerSecond": rate,
        "timesTheInserts": rate / bench.driver.inserts,
        "target": "as many transitions a second as eight connections make single inserts",
    }))
}

/// A fan-out: how many outcomes share an append.
pub(super) async fn fan_out(bench: Bench<'_>) -> Result<Value, Failure> {
    let count = bench.sizes.fan_out;
    let (rig, schema) = rig(bench).await?;
    let request = rig
        .prepare(&graphs::fan_out("fan-out", count, "core.echo"))
        .await?;
    rig.run(&request).await?;
    let before = bench.database.records(&schema).await?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..bench.sizes.repeats {
        times.push(rig.run(&request).await?);
    }
    let records = bench.database.records(&schema).await? - before;
    rig.engine.shutdown().await;
    let records = records as f64 / bench.sizes.repeats as f64;
    let seconds = median(times).as_secs_f64();
    Ok(json!({
        "nodes": count,
        "seconds": seconds,
        "nodesPerSecond": count as f64 / seconds,
        "outcomesPerAppend": count as f64 / records,
        "target": "at least 10 outcomes an append; 20,000 nodes a second expected",
    }))
}
