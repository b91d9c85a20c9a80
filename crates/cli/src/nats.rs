//! The NATS servers that a command names, by flag, variable or file, and the database beside them.

use windlass_store_nats::{Login, NatsStore, OpenError, Settings};

use crate::config::Config;
use crate::database;
use crate::exit::{Exit, Failure};

/// Why Windlass makes no backup of streams, and what does.
pub(crate) const NO_BACKUP: &str = "the runs are in NATS JetStream and PostgreSQL, which have their own backups: \
     `pg_dump` copies the database, which holds every record up to its watermark, and `nats stream \
     backup` copies a stream";

/// The settings: what the command names, else what the configuration does.
pub(crate) fn settings(
    config: &Config,
    nats_url: Option<&str>,
    postgres_url: Option<&str>,
) -> Result<Settings, Failure> {
    let invalid = |message: String| Failure::new(Exit::Usage, "SETTING_INVALID", message);
    let Some(urls) = nats_url.or_else(|| config.value("nats_url")) else {
        let hint = "name it with --nats-url or WINDLASS_NATS_URL, as nats://host:4222";
        return Err(invalid("no NATS server is named".to_owned()).hint(hint));
    };
    let database = database::settings(config, postgres_url)?;
    let wrong = |name: &str, error: OpenError| invalid(format!("{name}: {error}"));
    let settings = Settings::parse(urls, database).map_err(|error| wrong("nats_url", error))?;
    let prefix = config.value("nats_prefix").unwrap_or("wl");
    let settings = settings
        .prefix(prefix)
        .map_err(|error| wrong("nats_prefix", error))?;
    let login = match (config.value("nats_creds"), config.value("nats_nkey")) {
        (Some(_), Some(_)) => {
            let message = "nats_creds and nats_nkey are two ways to log in: set one".to_owned();
            return Err(invalid(message));
        }
        (Some(file), None) => Login::Credentials(file.into()),
        (None, Some(file)) => Login::NkeyFile(file.into()),
        (None, None) => Login::InUrl,
    };
    let settings = match config.value("nats_ca") {
        Some(file) => settings.root_certificates(file.as_ref()),
        None => settings,
    };
    let settings = match config.number("nats_replicas") {
        Some(count) => settings.replicas(count),
        None => settings,
    };
    Ok(settings
        .login(login)
        .ack_projected(config.value("ack") == Some("projected")))
}

/// Opens a store that must be there now.
pub(crate) fn open(settings: &Settings) -> Result<NatsStore, Failure> {
    NatsStore::open(settings).map_err(failure)
}

/// Why the servers cannot be used.
pub(crate) fn failure(error: OpenError) -> Failure {
    match error {
        OpenError::Refused(error) => Failure::new(Exit::Storage, "NATS_REFUSED", error),
        OpenError::Away(error) => Failure::new(Exit::Unreachable, "NATS_AWAY", error)
            .hint("check that nats-server and the database run and can be reached from here"),
    }
}
