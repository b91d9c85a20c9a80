//! Starting runs over HTTP: a server of its own, asked by many connections that each wait
//! for an answer before they ask again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Connection, Server, broken};
use super::{Bench, Sizes, graphs};
use crate::exit::Failure;

/// How long an idle server is looked at.
const IDLE: Duration = Duration::from_secs(2);

/// Starts runs, and looks at the server before it has anything to do.
pub(super) async fn starts(bench: Bench<'_>) -> Result<Value, Failure> {
    let folder = bench.scratch.fresh();
    std::fs::create_dir_all(&folder).map_err(|error| broken(&error))?;
    let server = Server::start(&folder)?;
    let text = graphs::chain("short", 3, "core.echo");
    let mut first = Connection::open(server.address).await?;
    first.post("/api/v1/workflows", &text, 201).await?;
    first
        .post("/api/v1/workflows/short/execute", "{}", 202)
        .await?;
    tokio::time::sleep(IDLE / 4).await;
    let (memory, before) = (server.resident(), server.ticks());
    tokio::time::sleep(IDLE).await;
    let idle = server
        .ticks()
        .zip(before)
        .map(|(after, before)| after - before);
    let begun = Instant::now();
    let count = flood(server.address, bench.sizes).await?;
    let took = begun.elapsed();
    let after = bench.scratch.fresh();
    let raw = super::disk::writes(&after, count.min(1000)).map_err(|error| broken(&error))?;
    let appends = count.min(1000) as f64 / raw.appended.as_secs_f64();
    let rate = count as f64 / took.as_secs_f64();
    Ok(json!({
        "starts": count,
        "connections": bench.sizes.in_flight,
        "seconds": took.as_secs_f64(),
        "startsPerSecond": rate,
        "timesSingleAppends": rate / appends,
        "idleResidentBytes": memory,
        "idleProcessorTicks": idle,
        "target": "at least 5,000 a second, durable; idle under 60 MiB and without work",
    }))
}

/// Starts runs on many connections; says how many.
pub(super) async fn flood(address: SocketAddr, sizes: Sizes) -> Result<usize, Failure> {
    let lanes = sizes.in_flight;
    let each = (sizes.runs / lanes).max(1);
    let lanes = (0..lanes).map(|_| {
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..each {
                connection
                    .post("/api/v1/workflows/short/execute", "{}", 202)
                    .await?;
            }
            Ok::<(), Failure>(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.map_err(|error| broken(&error))??;
    }
    Ok(each * sizes.in_flight)
}
