//! The figures of the PostgreSQL backend, each against what the same driver does by itself with the
//! same database in the same run.

mod cluster;
mod local;
mod raw;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::{Client, NoTls};
use windlass_store_postgres::Settings;

use super::server::broken;
use super::{Report, Scratch, Sizes};
use crate::exit::{Exit, Failure};

/// The parameters of a URL that are Windlass's own, which the driver does not know.
const OWN: [&str; 4] = ["schema", "sslmode", "sslrootcert", "cluster"];

/// Measures everything whose name contains `only`.
pub(crate) fn measure(
    sizes: Sizes,
    only: Option<&str>,
    url: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Storage, "RUNTIME_FAILED", error))?;
    let database = Database::new(url)?;
    let scratch = Scratch::new()?;
    let measured: Result<Report, Failure> = runtime.block_on(async {
        let mut report = Report::default();
        let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
        if wanted(IDLE) {
            progress(IDLE);
            report.add(IDLE, cluster::idle(&database, &scratch).await?);
        }
        progress("driver");
        let driver = raw::measure(&database, sizes).await?;
        report.add("driver", driver.json());
        let bench = Bench {
            sizes,
            database: &database,
            scratch: &scratch,
            driver: &driver,
        };
        for name in NAMES.into_iter().filter(|name| wanted(name)) {
            progress(name);
            report.add(name, one(name, bench).await?);
        }
        Ok(report)
    });
    // The schemas go, whatever came of it.
    let removed = runtime.block_on(database.remove());
    let report = measured?;
    removed?;
    Ok(report)
}

/// What an idle cluster asks of the database. It comes before all else: the database counts its
/// own transactions too, and cleans up behind the others.
const IDLE: &str = "idle";

/// The figures against the driver, in their order.
const NAMES: [&str; 6] = [
    "chain",
    "chain-remote",
    "runs",
    "fan-out",
    "fan-out-remote",
    "http",
];

async fn one(name: &str, bench: Bench<'_>) -> Result<Value, Failure> {
    match name {
        "chain" => local::chain(bench).await,
        "chain-remote" => cluster::chain(bench).await,
        "runs" => local::runs(bench).await,
        "fan-out" => local::fan_out(bench).await,
        "fan-out-remote" => cluster::fan_out(bench).await,
        _ => cluster::starts(bench).await,
    }
}

/// What a figure is measured with.
#[derive(Clone, Copy)]
struct Bench<'a> {
    sizes: Sizes,
    database: &'a Database,
    scratch: &'a Scratch,
    driver: &'a raw::Driver,
}

/// The database, and the schemas that were made in it.
struct Database {
    url: String,
    plain: String,
    schemas: AtomicU32,
}

impl Database {
    fn new(url: &str) -> Result<Self, Failure> {
        let mut plain = url::Url::parse(url).map_err(|error| broken(&error))?;
        let pairs: Vec<(String, String)> = plain
            .query_pairs()
            .filter(|(name, _)| !OWN.contains(&&**name))
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        plain.set_query(None);
        if !pairs.is_empty() {
            plain.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(Self {
            url: url.to_owned(),
            plain: plain.into(),
            schemas: AtomicU32::default(),
        })
    }

    /// The name of a schema that nothing has used.
    fn fresh(&self) -> String {
        schema(self.schemas.fetch_add(1, Ordering::Relaxed))
    }

    /// The settings of a store in a schema.
    fn settings(&self, schema: &str) -> Result<Settings, Failure> {
        let settings = Settings::parse(&self.url).and_then(|it| it.schema(schema));
        settings.map_err(crate::database::failure)
    }

    /// A connection of the driver alone, without TLS.
    async fn connect(&self) -> Result<Client, Failure> {
        let connected = tokio_postgres::connect(&self.plain, NoTls).await;
        let (client, connection) = connected.map_err(|error| {
            let message = format!("the driver cannot connect without TLS: {error}");
            Failure::new(Exit::Unreachable, "DATABASE_AWAY", message)
        })?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// How many records the logs of a schema have.
    async fn records(&self, schema: &str) -> Result<i64, Failure> {
        let client = self.connect().await?;
        let text = format!("select coalesce(sum(seq), 0)::bigint from {schema}.head");
        let row = client.query_one(&text, &[]).await;
        Ok(row.map_err(|error| broken(&error))?.get(0))
    }

    /// Removes what was made here.
    async fn remove(&self) -> Result<(), Failure> {
        let client = self.connect().await?;
        for number in 0..self.schemas.load(Ordering::Relaxed) {
            let text = format!("drop schema if exists {} cascade", schema(number));
            let dropped = client.batch_execute(&text).await;
            dropped.map_err(|error| broken(&error))?;
        }
        Ok(())
    }
}

fn schema(number: u32) -> String {
    format!("windlass_bench_{}_{number}", std::process::id())
}

/// The middle one.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
