//! A small pool of read-only connections, opened when needed. Reading never goes through
//! the writer, and sees everything that was acknowledged before it began.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass_store::Error;

use crate::connect;
use crate::error::Fault;

/// Connections kept for the next reader; more are opened under load and closed after.
const KEPT: usize = 4;

/// A list or a search that takes longer is given up.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many steps of SQLite's machine pass between looks at the clock.
const STEPS: i32 = 10_000;

/// The pool.
pub(crate) struct Readers {
    database: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(database: &Path) -> Self {
        Self {
            database: database.to_owned(),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Reads something small and bounded.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let connection = self.take()?;
        let result = work(&connection);
        self.give_back(connection);
        result
    }

    /// Runs a query that might be long, for a limited time.
    pub(crate) fn query<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let mut connection = self.take().map_err(Fault::into_error)?;
        let deadline = Instant::now() + QUERY_TIMEOUT;
        let result = connection
            .progress_handler(STEPS, Some(move || Instant::now() > deadline))
            .map_err(Fault::from)
            .and_then(|()| work(&connection));
        if connection.progress_handler(0, None::<fn() -> bool>).is_ok() {
            self.give_back(connection);
        }
        result.map_err(Fault::into_error)
    }

    fn take(&self) -> Result<Connection, Fault> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Ok(connect::open_reader(&self.database)?),
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
