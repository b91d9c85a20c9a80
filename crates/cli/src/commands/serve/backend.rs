//! The store that a server works on: a data directory that it holds alone, or a database that
//! several processes share.

use std::time::Duration;

use serde_json::json;
use windlass_store_postgres::{OpenError, PostgresStore};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::session::{Session, Settings};

/// How long the server waits before it tries a database again that does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Opens the store.
pub(super) fn open(
    settings: &Settings,
    database: Option<&windlass_store_postgres::Settings>,
    logs_json: bool,
) -> Result<Session, Failure> {
    match database {
        None => directory(settings),
        Some(database) => {
            let store = connect(settings, database, logs_json)?;
            Ok(Session::shared(settings.clone(), store))
        }
    }
}

/// The data directory, which no other process may hold.
fn directory(settings: &Settings) -> Result<Session, Failure> {
    let session = Session::act(settings.clone())?;
    let directory = session.directory()?;
    if directory.is_holder() {
        return Ok(session);
    }
    let holder = directory.holder();
    let holder = holder.map_or("another process".to_owned(), |it| it.to_string());
    let place = settings.data_dir.display();
    let message = format!("the data directory {place} is in use by {holder}");
    Err(Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
        .hint("stop it, or name another with --data-dir"))
}

/// The database. A server that starts before its database waits for it.
fn connect(
    settings: &Settings,
    database: &windlass_store_postgres::Settings,
    logs_json: bool,
) -> Result<PostgresStore, Failure> {
    let mut told = String::new();
    loop {
        let error = match PostgresStore::open(database) {
            Ok(store) => return Ok(store),
            Err(OpenError::Refused(error)) => {
                return Err(Failure::new(Exit::Storage, "DATABASE_REFUSED", error));
            }
            Err(OpenError::Away(error)) => error.to_string(),
        };
        // Said once for each reason, not at every try.
        if error != told {
            let address = database.address();
            let line = format!("waiting for the database {address}: {error}");
            match logs_json {
                // The log has not begun.
                true => output::say(&json!({ "level": "WARN", "message": line }).to_string()),
                false => settings.output.say(&line),
            }
            told = error;
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// A name for this process that differs from those on other machines.
pub(super) fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.as_deref().map_or("host", str::trim);
    format!("{host}-{}", std::process::id())
}
