//! The figures of the NATS backend, each against fenced publishes that the same client makes by
//! itself with the same server and stream settings in the same run.

mod cluster;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use windlass_engine::{Backend, Engine, Options, Serving};
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::Queries as _;
use windlass_store_nats::{NatsStore, RawPublishes, Settings};

use super::{Report, Rig, Sizes, figures, graphs};
use crate::exit::{Exit, Failure};
use cluster::Place;

/// Runs at once.
const AT_ONCE: u64 = 64;

/// Measures everything whose name contains `only`. Everything stands under a prefix and a schema
/// of its own; the streams are removed at the end, the schema stays and is named.
pub(crate) fn measure(
    sizes: Sizes,
    only: Option<&str>,
    (settings, nats_url, postgres_url): (&Settings, &str, &str),
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))?;
    let name = format!("windlass_bench_{}", std::process::id());
    let database = settings.postgres().clone().schema(&name);
    let database = database.map_err(crate::database::failure)?;
    let settings = settings.clone().with_postgres(database);
    let settings = settings.prefix(&name).map_err(crate::nats::failure)?;
    runtime.block_on(async {
        let store = NatsStore::connect(&settings).await;
        let store = store.map_err(crate::nats::failure)?;
        let place = Place {
            nats_url,
            postgres_url,
            name: &name,
        };
        let measured = all((sizes, only), &store, &place, progress).await;
        let removed = store.remove_streams().await;
        let mut report = measured?;
        removed?;
        report.add("schema", json!({ "left": name }));
        Ok(report)
    })
}

async fn all(
    (sizes, only): (Sizes, Option<&str>),
    store: &NatsStore,
    place: &Place<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    progress("publishes");
    let count = (sizes.chain as u64).min(1_000);
    let raw = store.measure_publishes(count, AT_ONCE).await?;
    report.add(
        "publishes",
        json!({
            "singleMicroseconds": raw.single.as_secs_f64() * 1e6,
            "atOnce": AT_ONCE,
            "perSecondAtOnce": raw.per_second,
        }),
    );
    if wanted("chain") {
        progress("chain");
        report.add("chain", chain(sizes, store, raw).await?);
    }
    if wanted("runs") {
        progress("runs");
        report.add("runs", runs(sizes, store, raw).await?);
    }
    if wanted("chain-remote") {
        progress("chain-remote");
        let measured = cluster::chain(sizes, (store, raw), place).await?;
        report.add("chain-remote", measured);
    }
    if wanted("idle") {
        progress("idle");
        report.add("idle", cluster::idle(store, place).await?);
    }
    Ok(report)
}

/// An engine on the store, with the leases that several processes need.
async fn rig(store: &NatsStore) -> Result<Rig, Failure> {
    let options = Options {
        leases: Some(LeaseOptions::default()),
        projections: Some(Arc::new(store.postgres().clone())),
        ..Options::default()
    };
    let backend: Arc<dyn Backend> = Arc::new(store.clone());
    let engine = Engine::new(backend, windlass_actions::registry(), options).await;
    engine.serve(Serving::default()).await?;
    Ok(Rig::on(engine))
}

/// A chain against as many single publishes.
async fn chain(sizes: Sizes, store: &NatsStore, raw: RawPublishes) -> Result<Value, Failure> {
    let count = sizes.chain;
    let rig = rig(store).await?;
    let request = rig
        .prepare(&graphs::chain("chain", count, "core.echo"))
        .await?;
    // The first waits until the process owns its partition.
    rig.run(&request).await?;
    let mut times = Vec::new();
    for _ in 0..sizes.repeats {
        times.push(rig.run(&request).await?);
    }
    rig.engine.shutdown().await;
    times.sort_unstable();
    let node = times[times.len() / 2].as_secs_f64() / count as f64;
    Ok(json!({
        "nodes": count,
        "microsecondsPerNode": node * 1e6,
        "timesAPublish": node / raw.single.as_secs_f64(),
        "target": "at most 1.5 times a fenced publish with sync_interval always, 2.5 times with \
                   the server's default",
    }))
}

/// Many short runs at once against publishes at once.
async fn runs(sizes: Sizes, store: &NatsStore, raw: RawPublishes) -> Result<Value, Failure> {
    let rig = rig(store).await?;
    let request = rig.prepare(&graphs::chain("short", 3, "core.echo")).await?;
    rig.run(&request).await?;
    let before = records(store).await?;
    let begun = Instant::now();
    let count = figures::many(&rig, &request, sizes).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let records = records(store).await?.saturating_sub(before);
    rig.engine.shutdown().await;
    let rate = records as f64 / seconds;
    Ok(json!({
        "runs": count,
        "inFlight": sizes.in_flight,
        "seconds": seconds,
        "runsPerSecond": count as f64 / seconds,
        "transitionsPerSecond": rate,
        "timesThePublishes": rate / raw.per_second,
        "target": "at least half of the publishes at once with sync_interval always, a fifth with \
                   the server's default",
    }))
}

/// How many messages were published to the logs; those of ended runs are removed.
async fn records(store: &NatsStore) -> Result<u64, Failure> {
    let health = store.health().await?;
    let facts = health.facts.iter();
    let found = facts.filter(|(name, _)| name == "log_published");
    let counts = found.filter_map(|(_, value)| value.parse::<u64>().ok());
    Ok(counts.sum())
}
