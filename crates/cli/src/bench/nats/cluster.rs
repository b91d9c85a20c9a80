//! Processes with a role each on NATS: nodes that another process works on, and what a cluster asks
//! of JetStream while nothing happens.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{RunId, RunStatus};
use windlass_store::Queries as _;
use windlass_store_nats::{NatsStore, RawPublishes};

use super::super::server::{Connection, Helper, Server, broken};
use super::super::{Scratch, Sizes, graphs};
use crate::exit::Failure;

/// How long an idle cluster is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How processes find the servers: the addresses as the caller named them, and the name under which
/// everything of the measurement stands.
pub(crate) struct Place<'a> {
    pub(crate) nats_url: &'a str,
    pub(crate) postgres_url: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    fn variables(&self, role: &str) -> Vec<(&'static str, String)> {
        vec![
            ("WINDLASS_BACKEND", "nats".to_owned()),
            ("WINDLASS_NATS_URL", self.nats_url.to_owned()),
            ("WINDLASS_NATS_PREFIX", self.name.to_owned()),
            ("WINDLASS_POSTGRES_URL", self.postgres_url.to_owned()),
            ("WINDLASS_POSTGRES_SCHEMA", self.name.to_owned()),
            ("WINDLASS_ROLE", role.to_owned()),
            ("WINDLASS_RATE_PER_MINUTE", "0".to_owned()),
            ("WINDLASS_READ_RATE_PER_MINUTE", "0".to_owned()),
        ]
    }
}

/// A chain whose nodes another process works on, against single publishes.
pub(super) async fn chain(
    sizes: Sizes,
    (store, raw): (&NatsStore, RawPublishes),
    place: &Place<'_>,
) -> Result<Value, Failure> {
    let (count, scratch) = (sizes.chain, Scratch::new()?);
    let roles = place.variables("api,orchestrator,scheduler");
    let server = Server::with(&scratch.fresh(), &roles)?;
    let _worker = Helper::start(&scratch.fresh(), &place.variables("worker"))?;
    let mut connection = Connection::open(server.address).await?;
    let text = graphs::chain("remote", count, "core.echo");
    connection.post("/api/v1/workflows", &text, 201).await?;
    let mut times = Vec::new();
    for _ in 0..sizes.repeats {
        let path = "/api/v1/workflows/remote/execute";
        let started = connection.post(path, "{}", 202).await?;
        let run = started["executionId"]
            .as_str()
            .and_then(|it| it.parse().ok());
        let run = run.ok_or_else(|| broken(&"a start was answered without an id"))?;
        times.push(duration(store, run).await?);
    }
    times.sort_unstable();
    let node = times[times.len() / 2].as_secs_f64() / count as f64;
    Ok(json!({
        "nodes": count,
        "microsecondsPerNode": node * 1e6,
        "timesAPublish": node / raw.single.as_secs_f64(),
        "target": "two fenced publishes and one publish",
    }))
}

/// The time between the beginning of a run and its end, by its own record.
async fn duration(store: &NatsStore, run: RunId) -> Result<Duration, Failure> {
    loop {
        let row = store.run(run).await?;
        let ended = row.and_then(|row| Some((row.status, row.ended_at?.0 - row.started_at?.0)));
        match ended {
            Some((RunStatus::Succeeded, millis)) => {
                return Ok(Duration::from_millis(millis.unsigned_abs()));
            }
            Some((status, _)) => return Err(broken(&format!("a measured run ended {status}"))),
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// What four processes ask of JetStream while they have nothing to do.
pub(super) async fn idle(store: &NatsStore, place: &Place<'_>) -> Result<Value, Failure> {
    let scratch = Scratch::new()?;
    let roles = ["api", "orchestrator", "worker", "scheduler"];
    let helpers = roles.map(|role| Helper::start(&scratch.fresh(), &place.variables(role)));
    let helpers = helpers.into_iter().collect::<Result<Vec<_>, _>>()?;
    // What they do when they start is over.
    tokio::time::sleep(IDLE / 2).await;
    let before = store.measure_requests().await?;
    tokio::time::sleep(IDLE).await;
    let after = store.measure_requests().await?;
    let (processes, seconds) = (helpers.len() as f64, IDLE.as_secs_f64());
    Ok(json!({
        "processes": helpers.len(),
        "seconds": seconds,
        "leaseMessages": after.leases - before.leases,
        "requests": after.requests - before.requests,
        "logMessages": after.logs - before.logs,
        "expectedLeaseMessages": processes * seconds / 3.0,
        "target": "a heartbeat of each process in 3 s, and no record",
    }))
}
