//! `windlass migrate`: everything from a data directory to a database, or back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_service::migration::{Copied, MigrationError, Movable, migrate};
use windlass_store_embedded::{EmbeddedStore, Options};
use windlass_store_postgres::SchemaChange;

use crate::args::database::Migrate;
use crate::config::Config;
use crate::database;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::session::Settings;

/// Whether the configuration's backend is meant, or the one beside it.
enum Place {
    Directory(PathBuf),
    Database(Box<windlass_store_postgres::Settings>),
    Nats(Box<windlass_store_nats::Settings>),
}

impl Place {
    fn source(settings: &Settings, config: &Config, arguments: &Migrate) -> Result<Self, Failure> {
        match arguments.from.name() {
            "postgres" => {
                let url = arguments.database.postgres_url.as_deref();
                Ok(Self::Database(database::settings(config, url)?.into()))
            }
            "nats" => Self::nats(
                config,
                arguments,
                arguments.database.postgres_url.as_deref(),
            ),
            _ => Ok(Self::Directory(settings.data_dir.clone())),
        }
    }

    fn nats(config: &Config, arguments: &Migrate, url: Option<&str>) -> Result<Self, Failure> {
        let named = arguments.nats.nats_url.as_deref();
        Ok(Self::Nats(
            crate::nats::settings(config, named, url)?.into(),
        ))
    }

    fn target(settings: &Settings, config: &Config, arguments: &Migrate) -> Result<Self, Failure> {
        let both = arguments.from == arguments.to;
        match arguments.to.name() {
            "postgres" => {
                let url = match (both, &arguments.to_postgres_url) {
                    (true, None) => return Err(missing("--to-postgres-url URL")),
                    (_, Some(url)) => Some(url.as_str()),
                    (false, None) => arguments.database.postgres_url.as_deref(),
                };
                Ok(Self::Database(database::settings(config, url)?.into()))
            }
            "nats" if both => Err(Failure::new(
                Exit::Usage,
                "USAGE",
                "from NATS to NATS nothing is copied: use another backend in between",
            )),
            "nats" => {
                let named = arguments.to_postgres_url.as_deref();
                let url = named.or(arguments.database.postgres_url.as_deref());
                Self::nats(config, arguments, url)
            }
            _ => match (both, &arguments.to_data_dir) {
                (true, None) => Err(missing("--to-data-dir DIR")),
                (_, Some(directory)) => Ok(Self::Directory(directory.clone())),
                (false, None) => Ok(Self::Directory(settings.data_dir.clone())),
            },
        }
    }

    /// Opens the source: a data directory is held for as long as it is read.
    fn open_source(&self) -> Result<Box<dyn Movable>, Failure> {
        match self {
            Self::Database(database) => {
                let database = database.as_ref().clone();
                let database = database.schema_change(SchemaChange::Update);
                Ok(Box::new(database::open(&database)?))
            }
            Self::Nats(nats) => Ok(Box::new(crate::nats::open(nats)?)),
            Self::Directory(directory) => {
                let options = Options {
                    create: false,
                    query_timeout: PATIENCE,
                    ..Options::default()
                };
                held(EmbeddedStore::open(directory, options)?.store, directory)
            }
        }
    }

    fn open_target(&self) -> Result<Box<dyn Movable>, Failure> {
        match self {
            Self::Database(database) => {
                let database = database.as_ref().clone().migrating(true);
                Ok(Box::new(database::open(&database)?))
            }
            Self::Nats(nats) => {
                let nats = nats.as_ref().clone().migrating(true);
                Ok(Box::new(crate::nats::open(&nats)?))
            }
            Self::Directory(directory) => {
                let options = Options {
                    migrating: true,
                    query_timeout: PATIENCE,
                    ..Options::default()
                };
                held(EmbeddedStore::open(directory, options)?.store, directory)
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Directory(directory) => {
                let full = directory.canonicalize();
                format!("{}", full.as_ref().unwrap_or(directory).display())
            }
            Self::Database(database) => database.place(),
            Self::Nats(nats) => format!("NATS {} with {}", nats.address(), nats.postgres().place()),
        }
    }
}

/// How long a list may take: nothing else waits for the store.
const PATIENCE: Duration = Duration::from_secs(60);

fn missing(flag: &str) -> Failure {
    let message = format!("where to? name it with {flag}");
    Failure::new(Exit::Usage, "USAGE", message)
}

/// A data directory that this process alone writes to.
fn held(store: EmbeddedStore, directory: &Path) -> Result<Box<dyn Movable>, Failure> {
    if store.is_holder() {
        return Ok(Box::new(store));
    }
    let holder = store.holder();
    let holder = holder.map_or("another process".to_owned(), |it| it.to_string());
    let place = directory.display();
    let message = format!("the data directory {place} is in use by {holder}");
    Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message).hint("stop it first"))
}

/// Copies everything, and checks the copy.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Migrate,
) -> Result<Exit, Failure> {
    settings.refuse_server("migrate", "both stores", "name them, without --server")?;
    let from = Place::source(settings, config, arguments)?;
    let to = Place::target(settings, config, arguments)?;
    if from.name() == to.name() {
        let message = "source and target are the same".to_owned();
        return Err(Failure::new(Exit::Usage, "USAGE", message));
    }
    let source = from.open_source()?;
    let target = to.open_target()?;
    let name = json!({ "from": from.name() }).to_string();
    let output = settings.output;
    let mut next = Instant::now() + Duration::from_secs(1);
    let mut progress = move |copied: &Copied| {
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs(1);
            let Copied { runs, records, .. } = copied;
            output.say(&format!("copied {runs} runs, {records} records"));
        }
    };
    let migrated = crate::access::runtime()?
        .block_on(migrate(&*source, &*target, &name, &mut progress))
        .map_err(|error| failure(error, &to))?;
    told(output, &migrated.copied, &migrated.digest.to_string(), &to)?;
    Ok(Exit::Done)
}

fn told(output: Output, copied: &Copied, digest: &str, to: &Place) -> Result<(), Failure> {
    if output.json {
        return output.json(&json!({
            "runs": copied.runs,
            "records": copied.records,
            "definitions": copied.definitions,
            "schedules": copied.schedules,
            "hooks": copied.hooks,
            "secrets": copied.secrets,
            "pools": copied.pools,
            "deadLetters": copied.dead_letters,
            "audit": copied.audit,
            "digest": digest,
        }));
    }
    let Copied {
        runs,
        records,
        definitions,
        ..
    } = copied;
    output.line(&format!(
        "copied {runs} runs with {records} records and {definitions} definitions to {}; both have \
         the digest {digest}",
        to.name()
    ))?;
    if copied.secrets + copied.hooks > 0 {
        output.say(
            "secrets are sealed with the key of the source: give the target the same one, by \
             WINDLASS_SEALING_KEY or sealing_key_file",
        );
    }
    Ok(())
}

fn failure(error: MigrationError, to: &Place) -> Failure {
    let place = to.name();
    match error {
        MigrationError::Store(error) => Failure::from(error)
            .hint("what was copied stays; the same command continues where it was"),
        MigrationError::NotEmpty(what) => {
            let message = format!("{place} is not empty: it holds {what}");
            Failure::new(Exit::Conflict, "TARGET_NOT_EMPTY", message)
                .hint("name an empty data directory, or another schema by `schema=` in the URL")
        }
        MigrationError::Served(message) => Failure::new(Exit::Conflict, "STORE_IN_USE", message)
            .hint("stop every process on it first; one that died counts for 10 seconds more"),
        MigrationError::Other(mark) => {
            let message = format!("{place} holds another migration that is not complete: {mark}");
            Failure::new(Exit::Conflict, "TARGET_NOT_EMPTY", message)
                .hint("continue that one, or delete what it has copied")
        }
        MigrationError::Differs(message) => {
            let message = format!("the copy is not the same as the source: {message}");
            Failure::new(Exit::Storage, "MIGRATION_DIFFERS", message).hint(
                "did a process write to the source meanwhile? run the command again; the target \
                 stays closed until both are the same",
            )
        }
    }
}
