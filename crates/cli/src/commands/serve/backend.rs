//! The store that a server works on: a data directory that it holds alone, or a database that
//! several processes share.

use std::time::Duration;

use serde_json::json;
use windlass_store_nats::NatsStore;
use windlass_store_postgres::{OpenError, PostgresStore};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::session::{Session, Settings};

/// How long the server waits before it tries a database again that does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Where runs are kept.
pub(super) enum Place {
    /// In the data directory.
    Directory,
    /// In a database that several processes share.
    Database(Box<windlass_store_postgres::Settings>),
    /// In NATS and a database that several processes share.
    Nats(Box<windlass_store_nats::Settings>),
}

/// Opens the store.
pub(super) fn open(
    settings: &Settings,
    place: &Place,
    logs_json: bool,
) -> Result<Session, Failure> {
    let waiting = Waiting {
        settings,
        logs_json,
    };
    match place {
        Place::Directory => directory(settings),
        Place::Database(database) => {
            let what = format!("the database {}", database.address());
            let store = waiting.until_there(&what, || match PostgresStore::open(database) {
                Ok(store) => Ok(Ok(store)),
                Err(OpenError::Away(error)) => Ok(Err(error.to_string())),
                Err(refused) => Err(crate::database::failure(refused)),
            })?;
            Ok(Session::shared(settings.clone(), store))
        }
        Place::Nats(nats) => {
            let what = format!("NATS at {} and its database", nats.address());
            let store = waiting.until_there(&what, || match NatsStore::open(nats) {
                Ok(store) => Ok(Ok(store)),
                Err(windlass_store_nats::OpenError::Away(error)) => Ok(Err(error.to_string())),
                Err(refused) => Err(crate::nats::failure(refused)),
            })?;
            Ok(Session::shared_in_nats(settings.clone(), store))
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

/// A server that starts before its database, or NATS, waits for it.
struct Waiting<'a> {
    settings: &'a Settings,
    logs_json: bool,
}

impl Waiting<'_> {
    /// Tries until it is there; the inner error says why it is not.
    fn until_there<S>(
        &self,
        what: &str,
        open: impl Fn() -> Result<Result<S, String>, Failure>,
    ) -> Result<S, Failure> {
        let mut told = String::new();
        loop {
            let error = match open()? {
                Ok(store) => return Ok(store),
                Err(error) => error,
            };
            // Said once for each reason, not at every try.
            if error != told {
                let line = format!("waiting for {what}: {error}");
                match self.logs_json {
                    // The log has not begun.
                    true => output::say(&json!({ "level": "WARN", "message": line }).to_string()),
                    false => self.settings.output.say(&line),
                }
                told = error;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
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
