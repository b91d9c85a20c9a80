//! The numbers of the HTTP server on the metrics page.

use windlass_api::Figure;
use windlass_api::auth::Auth;
use windlass_engine::Engine;
use windlass_store::Wait as _;
use windlass_store_nats::NatsStore;
use windlass_store_postgres::PostgresStore;
use windlass_telemetry::{QueueReading, Reading, ReadingKind, Telemetry};

/// How many kinds of items of the work queue are counted.
const MOST_KINDS: usize = 1_000;

/// Reads numbers of the server.
pub(super) trait Figures: Fn() -> Vec<Figure> + Send + Sync + 'static {}

impl<F: Fn() -> Vec<Figure> + Send + Sync + 'static> Figures for F {}

/// Adds the numbers of connections, bodies and keys to the metrics page.
pub(super) fn show(
    telemetry: &Telemetry,
    (connections, bodies): (impl Figures, impl Figures),
    auth: &Auth,
) {
    let keys_of_tokens = auth.clone();
    telemetry.readings(move || {
        let figures = [connections(), bodies(), keys_of_tokens.figures()];
        figures.into_iter().flatten().map(reading).collect()
    });
}

/// Adds what this process has of the cluster.
pub(super) fn show_cluster(telemetry: &Telemetry, engine: &Engine) {
    let engine = engine.clone();
    telemetry.readings(move || {
        vec![
            gauge(
                "windlass_partitions_owned",
                "Partitions that this process works on.",
                engine.partitions_owned(),
            ),
            gauge(
                "windlass_session_live",
                "Whether the session of this process is live.",
                engine.session_is_live().into(),
            ),
        ]
    });
}

/// Adds the numbers of connections to the database, and what holds back its cleaning.
pub(super) fn show_database(telemetry: &Telemetry, database: PostgresStore) {
    telemetry.readings(move || {
        let pool = database.pool_state();
        // Asked only when the page is: a database that does not answer has no such line.
        let oldest = database.oldest_transaction().wait().ok();
        let oldest = oldest.map(|age| Reading {
            name: "windlass_database_oldest_transaction_seconds",
            help: "Age of the oldest open transaction; it holds back cleaning.",
            kind: ReadingKind::Gauge,
            value: age.as_secs(),
        });
        let pool = [
            gauge(
                "windlass_database_pool_limit",
                "Connections that the pool may open to the database.",
                pool.limit,
            ),
            gauge(
                "windlass_database_pool_open",
                "Connections of the pool that are open.",
                pool.open,
            ),
            gauge(
                "windlass_database_pool_free",
                "Open connections of the pool that no call has.",
                pool.free,
            ),
            gauge(
                "windlass_database_pool_waiting",
                "Calls that wait for a connection of the pool.",
                pool.waiting,
            ),
        ];
        pool.into_iter().chain(oldest).collect()
    });
}

fn gauge(name: &'static str, help: &'static str, value: usize) -> Reading {
    Reading {
        name,
        help,
        kind: ReadingKind::Gauge,
        value: value as u64,
    }
}

/// Adds how far the database is behind the log in NATS.
pub(super) fn show_nats(telemetry: &Telemetry, store: NatsStore) {
    telemetry.readings(move || {
        let mut readings = vec![Reading {
            name: "windlass_nats_unapplied_records",
            help: "Records that this process published to NATS and the database has not yet.",
            kind: ReadingKind::Gauge,
            value: store.unapplied(),
        }];
        // While NATS does not answer, nothing is known.
        readings.extend(store.behind().wait().ok().map(|value| Reading {
            name: "windlass_nats_log_lag_records",
            help: "Messages of all processes in the logs in NATS that the database has not yet.",
            kind: ReadingKind::Gauge,
            value,
        }));
        readings
    });
}

/// What is in the work queue of this store, for all processes that share it.
pub(super) fn work_queue(engine: &Engine) -> Vec<QueueReading> {
    let depth = engine.store().queue_depth(MOST_KINDS).wait();
    let kinds = depth.unwrap_or_default().into_iter();
    let kinds = kinds.map(|kind| QueueReading {
        of_tenant: kind.tenant.is_some(),
        labels: kind.requires,
        waiting: kind.waiting,
        leased: kind.leased,
    });
    kinds.collect()
}

fn reading(figure: Figure) -> Reading {
    Reading {
        name: figure.name,
        help: figure.help,
        kind: match figure.only_grows {
            true => ReadingKind::Counter,
            false => ReadingKind::Gauge,
        },
        value: figure.value,
    }
}
