//! What the commands about a database take.

use std::path::PathBuf;

use clap::Args;

/// Where the database is.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Database {
    /// The database, as postgres://user@host/database
    #[arg(long, value_name = "URL")]
    pub(crate) postgres_url: Option<String>,
}

/// Where the servers of NATS are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Nats {
    /// The servers of the backend nats, separated by commas, as nats://host:4222
    #[arg(long, value_name = "URL")]
    pub(crate) nats_url: Option<String>,
}

/// `windlass rebuild`
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    /// Restore the streams of the backend nats that were lost, from the records in the database
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) from: Option<RebuildSource>,
    #[command(flatten)]
    pub(crate) database: Database,
    #[command(flatten)]
    pub(crate) nats: Nats,
}

/// What lost streams are restored from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RebuildSource {
    /// The records in PostgreSQL
    Postgres,
}

/// `windlass query`
#[derive(Debug, Args)]
pub(crate) struct Query {
    /// One statement that only reads, such as "select * from workflow_executions"
    pub(crate) sql: String,
    #[command(flatten)]
    pub(crate) database: Database,
    /// Taken so that one set of flags serves all commands; the tables are in the database alone
    #[arg(long, value_name = "URL")]
    nats_url: Option<String>,
    /// At most this many rows
    #[arg(long, default_value_t = 1000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
    /// Give up after this many seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) timeout: u32,
}

/// `windlass migrate`
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// The kind of store that everything is copied from
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) from: super::serve::Backend,
    /// The kind of store that everything is copied to
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) to: super::serve::Backend,
    #[command(flatten)]
    pub(crate) database: Database,
    #[command(flatten)]
    pub(crate) nats: Nats,
    /// The data directory to copy to, where both are embedded
    #[arg(long, value_name = "DIR")]
    pub(crate) to_data_dir: Option<PathBuf>,
    /// The database to copy to, where both are postgres
    #[arg(long, value_name = "URL")]
    pub(crate) to_postgres_url: Option<String>,
}
