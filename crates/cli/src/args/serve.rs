//! What `windlass serve` takes.

use clap::{Args, ValueEnum};

/// `windlass serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// The storage backend that keeps the runs [default: embedded]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// The database of --backend postgres and nats, as postgres://user@host/database
    #[arg(long, value_name = "URL")]
    pub(crate) postgres_url: Option<String>,
    /// The servers of --backend nats, separated by commas, as nats://host:4222
    #[arg(long, value_name = "URL")]
    pub(crate) nats_url: Option<String>,
    /// When a start is acknowledged: as soon as the log has it, or when the database of
    /// --backend nats has it too [default: log]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) ack: Option<Acknowledge>,
    /// What this process does, of api, orchestrator, worker and scheduler, or all [default: all]
    #[arg(long, value_enum, value_name = "ROLE", value_delimiter = ',')]
    pub(crate) role: Vec<Role>,
    /// What the workers here have, for nodes that require it
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    pub(crate) worker_labels: Vec<String>,
    /// How many actions run at once [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// Also serve health and metrics on this address, on connections of their own
    #[arg(long, value_name = "ADDR")]
    pub(crate) probe_listen: Option<String>,
    /// Allow an address beyond loopback without tokens
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Without tokens, answer to this name too: name, name:port or *.name; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// The keys of tokens: a JWKS document in a file or at a URL
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) auth_keys: Option<String>,
    /// The issuer that tokens must name
    #[arg(long, value_name = "ISSUER")]
    pub(crate) auth_issuer: Option<String>,
    /// The audience that tokens must name
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) auth_audience: Option<String>,
    /// Refuse tokens without tenant_id
    #[arg(long)]
    pub(crate) auth_require_tenant: bool,
    /// The certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<String>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<String>,
    /// Let core.exec run programs on this machine
    #[arg(long)]
    pub(crate) allow_exec: bool,
}

/// `windlass dev`
#[derive(Debug, Args)]
pub(crate) struct Dev {
    #[command(flatten)]
    pub(crate) serve: Serve,
    /// Start four runs to explore: done, failed, waiting for approval, in progress
    #[arg(long)]
    pub(crate) demo: bool,
    /// Do not open the page in a browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// The storage backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// A data directory of this process
    Embedded,
    /// A PostgreSQL database that several processes share
    Postgres,
    /// NATS JetStream for logs and queues, PostgreSQL for everything else
    Nats,
}

/// When a start is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acknowledge {
    /// The log has it
    Log,
    /// The database has it too
    Projected,
}

impl Acknowledge {
    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Projected => "projected",
        }
    }
}

impl Backend {
    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Postgres => "postgres",
            Self::Nats => "nats",
        }
    }
}

/// The roles that a server process can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Everything
    All,
    /// HTTP: requests, the page, workers in any language
    Api,
    /// Owns partitions, and decides on the runs in them
    Orchestrator,
    /// Calls actions
    Worker,
    /// Schedules and retention
    Scheduler,
}

impl Role {
    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        use windlass_store::Role as One;
        match self {
            Self::All => "all",
            Self::Api => One::Api.as_str(),
            Self::Orchestrator => One::Orchestrator.as_str(),
            Self::Worker => One::Worker.as_str(),
            Self::Scheduler => One::Scheduler.as_str(),
        }
    }
}
