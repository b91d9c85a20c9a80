//! What is measured, one figure a function.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Bench, Rig, Sizes, disk, expressions, graphs, http, noisy, workers};
use crate::exit::{Exit, Failure};
use windlass_engine::NewRun;

/// A figure's name and how it is measured.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Bench<'_>) -> Measuring<'_>,
}

type Measuring<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + 'a>>;

/// All figures that run in this process.
pub(crate) const ALL: [Figure; 10] = [
    Figure {
        name: "chain",
        run: |bench| Box::pin(chain(bench, "core.echo")),
    },
    Figure {
        name: "chain-50us",
        run: |bench| Box::pin(chain(bench, "bench.pause")),
    },
    Figure {
        name: "fan-out",
        run: |bench| Box::pin(fan_out(bench, "core.echo")),
    },
    Figure {
        name: "fan-out-50us",
        run: |bench| Box::pin(fan_out(bench, "bench.pause")),
    },
    Figure {
        name: "for-each",
        run: |bench| Box::pin(for_each(bench)),
    },
    Figure {
        name: "runs",
        run: |bench| Box::pin(runs(bench)),
    },
    Figure {
        name: "http",
        run: |bench| Box::pin(http::starts(bench)),
    },
    Figure {
        name: "workers",
        run: |bench| Box::pin(workers::measure(bench)),
    },
    Figure {
        name: "noisy",
        run: |bench| Box::pin(noisy::measure(bench)),
    },
    Figure {
        name: "expressions",
        run: |bench| Box::pin(async move { expressions::measure(bench) }),
    },
];

/// A chain against as many single durable appends.
async fn chain(bench: Bench<'_>, action: &str) -> Result<Value, Failure> {
    let count = bench.sizes.chain;
    let rig = Rig::new(bench)?;
    let request = rig.prepare(&graphs::chain("chain", count, action)).await?;
    // The first run grows the log once, as the first of any installation does.
    rig.run(&request).await?;
    let (mut appended, mut over, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.sizes.repeats {
        let writes = disk_writes(bench, count + 1)?;
        appended.push(writes.appended);
        over.push(writes.over);
        took.push(rig.run(&request).await?);
    }
    let (appended, over, took) = (median(appended), median(over), median(took));
    Ok(json!({
        "nodes": count,
        "seconds": took.as_secs_f64(),
        "microsecondsPerNode": took.as_secs_f64() * 1e6 / count as f64,
        "appendSeconds": appended.as_secs_f64(),
        "timesTheDisk": took.as_secs_f64() / appended.as_secs_f64(),
        "overwriteSeconds": over.as_secs_f64(),
        "timesTheOverwrites": took.as_secs_f64() / over.as_secs_f64(),
        "target": "at most 1.5 times as many single durable appends",
    }))
}

async fn fan_out(bench: Bench<'_>, action: &str) -> Result<Value, Failure> {
    let count = bench.sizes.fan_out;
    let rig = Rig::new(bench)?;
    let request = rig
        .prepare(&graphs::fan_out("fan-out", count, action))
        .await?;
    rig.run(&request).await?;
    let (mut rows, mut took) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.repeats {
        let batched = disk::batched_rows(&bench.scratch.fresh(), count)
            .map_err(|error| Failure::new(Exit::Storage, "STORE_UNAVAILABLE", error))?;
        rows.push(batched);
        took.push(rig.run(&request).await?);
    }
    let (rows, took) = (median(rows), median(took));
    let rate = |took: Duration| count as f64 / took.as_secs_f64();
    Ok(json!({
        "nodes": count,
        "seconds": took.as_secs_f64(),
        "nodesPerSecond": rate(took),
        "rowsPerSecond": rate(rows),
        "timesTheRows": rate(took) / rate(rows),
        "target": "at least 50,000 a second, and a quarter of the rate of rows in batches of 500",
    }))
}

/// A loop over items against as many plain nodes.
async fn for_each(bench: Bench<'_>) -> Result<Value, Failure> {
    let count = bench.sizes.items;
    let rig = Rig::new(bench)?;
    let plain = rig
        .prepare(&graphs::fan_out("plain", count - 2, "core.echo"))
        .await?;
    let mut items = rig.prepare(&graphs::for_each("items")).await?;
    items.request.trigger = graphs::items(count);
    rig.run(&items).await?;
    let (mut nodes, mut took) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.repeats {
        nodes.push(rig.run(&plain).await?);
        took.push(rig.run(&items).await?);
    }
    let (nodes, took) = (median(nodes), median(took));
    Ok(json!({
        "items": count,
        "seconds": took.as_secs_f64(),
        "itemsPerSecond": count as f64 / took.as_secs_f64(),
        "plainNodesPerSecond": count as f64 / nodes.as_secs_f64(),
        "timesThePlainNodes": nodes.as_secs_f64() / took.as_secs_f64(),
        "target": "at least half the rate of plain nodes",
    }))
}

/// Many short runs, some at a time.
async fn runs(bench: Bench<'_>) -> Result<Value, Failure> {
    let rig = Rig::new(bench)?;
    let request = rig.prepare(&graphs::chain("short", 3, "core.echo")).await?;
    rig.run(&request).await?;
    let begun = Instant::now();
    let count = many(&rig, &request, bench.sizes).await?;
    let took = begun.elapsed();
    Ok(json!({
        "runs": count,
        "inFlight": bench.sizes.in_flight,
        "seconds": took.as_secs_f64(),
        "runsPerSecond": count as f64 / took.as_secs_f64(),
        "target": "at least 8,000 a second",
    }))
}

/// Runs a request many times, some at a time; says how often.
pub(super) async fn many(rig: &Rig, request: &NewRun, sizes: Sizes) -> Result<usize, Failure> {
    let each = sizes.runs / sizes.in_flight;
    let lanes = (0..sizes.in_flight).map(|_| {
        let (engine, request) = (rig.engine.clone(), request.clone());
        tokio::spawn(async move {
            for _ in 0..each {
                let started = engine.start(&request).await.map_err(Failure::from)?;
                engine.wait(started.run).await.map_err(Failure::from)?;
            }
            Ok::<(), Failure>(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await
            .map_err(|error| Failure::new(Exit::Storage, "BENCH_RUN", error))??;
    }
    Ok(each * sizes.in_flight)
}

fn disk_writes(bench: Bench<'_>, count: usize) -> Result<disk::Writes, Failure> {
    let path = bench.scratch.fresh();
    disk::writes(&path, count).map_err(|error| {
        let message = format!("cannot measure the disk at {}: {error}", path.display());
        Failure::new(Exit::Storage, "STORE_UNAVAILABLE", message)
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
