//! A small pool of read-only connections, opened when needed. Reading never goes through
//! the writer, and sees everything that was acknowledged before it began.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use windlass_store::Error;

use crate::connect;
use crate::error::Fault;
use crate::reader_gate::ReaderGate;

/// Connections kept for the next reader; more are opened under load and closed after.
const KEPT: usize = 4;

/// How many steps of SQLite's machine pass between looks at the clock.
const STEPS: i32 = 1_000;

/// The pool.
pub(crate) struct Readers {
    database: PathBuf,
    /// A list or a search that takes longer is given up.
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
    gate: Arc<ReaderGate>,
}

impl Readers {
    pub(crate) fn new(database: &Path, timeout: Duration) -> Self {
        Self {
            database: database.to_owned(),
            timeout,
            idle: Mutex::new(Vec::new()),
            gate: Arc::default(),
        }
    }

    /// Where the writer can ask readers to leave.
    pub(crate) fn gate(&self) -> Arc<ReaderGate> {
        Arc::clone(&self.gate)
    }

    /// Reads something small and bounded.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let _inside = self.gate.enter();
        self.read_long(work)
    }

    /// Reads for as long as it takes, without holding up the writer, whose commits stay in its
    /// log meanwhile.
    pub(crate) fn read_long<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let connection = self.take()?;
        let result = work(&connection);
        self.return_connection(connection);
        result
    }

    /// Runs a query that might be long, for a limited time. If the writer asks it to leave, it
    /// begins again, while there is time.
    pub(crate) fn query<T>(
        &self,
        work: impl Fn(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let result = self.attempt(deadline, &work);
            match result {
                Err(fault) if is_interrupted(&fault) => {
                    if Instant::now() > deadline {
                        let text = format!("the query took longer than {:?}", self.timeout);
                        return Err(Error::Timeout(text));
                    }
                }
                other => return other.map_err(Fault::into_error),
            }
        }
    }

    fn attempt<T>(
        &self,
        deadline: Instant,
        work: impl Fn(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let inside = self.gate.enter();
        let mut connection = self.take()?;
        let (gate, round) = (self.gate(), inside.round);
        let give_up = move || Instant::now() > deadline || gate.is_asked(round);
        let result = connection
            .progress_handler(STEPS, Some(give_up))
            .map_err(Fault::from)
            .and_then(|()| work(&connection));
        if connection.progress_handler(0, None::<fn() -> bool>).is_ok() {
            self.return_connection(connection);
        }
        result
    }

    fn take(&self) -> Result<Connection, Fault> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Ok(connect::open_reader(&self.database)?),
        }
    }

    fn return_connection(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_interrupted(fault: &Fault) -> bool {
    let Fault::Sqlite(error) = fault else {
        return false;
    };
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use windlass_core::Digest;
    use windlass_store::{Blob, Blobs as _, Queries as _, RunFilter, Wait as _, block_on};

    use super::*;
    use crate::{EmbeddedStore, Options};

    /// Counts without end, inside a transaction that has begun to read.
    fn count_for_ever(connection: &Connection) -> Result<i64, Fault> {
        let transaction = connection.unchecked_transaction()?;
        transaction.query_row("SELECT count(*) FROM run", [], |_| Ok(()))?;
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
             SELECT count(*) FROM n";
        Ok(transaction.query_row(endless, [], |row| row.get(0))?)
    }

    fn open(directory: &Path, query_timeout: Duration) -> EmbeddedStore {
        let options = Options {
            durable: false,
            query_timeout,
            ..Options::default()
        };
        EmbeddedStore::open(directory, options).unwrap().store
    }

    #[test]
    fn a_query_that_takes_too_long_is_given_up_and_its_connection_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path(), Duration::from_millis(20));
        for _ in 0..3 {
            let error = store.readers().query(count_for_ever).unwrap_err();
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            assert!(error.to_string().contains("20ms"), "{error}");
            assert_eq!(store.readers().idle().len(), 1, "it is used again");
            store.runs(&RunFilter::default()).wait().unwrap();
        }
        // Neither a transaction nor the limit is left on it.
        let connection = store.readers().take().unwrap();
        assert!(connection.is_autocommit());
    }

    #[test]
    fn a_slow_reader_neither_holds_up_the_writer_nor_lets_its_log_grow() {
        const BOUND: u64 = 64 << 20;
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path(), Duration::from_secs(3600));
        let (begun, begins) = mpsc::channel();
        let (stop, stops) = mpsc::channel::<()>();
        let slow = {
            let store = store.clone();
            let stops = Mutex::new(stops);
            thread::spawn(move || {
                let mut rounds = 0;
                let rounds = Mutex::new(&mut rounds);
                store
                    .readers()
                    .query(|connection| {
                        **rounds.lock().unwrap() += 1;
                        begun.send(()).unwrap();
                        match stops.lock().unwrap().try_recv() {
                            Ok(()) => Ok(**rounds.lock().unwrap()),
                            Err(_) => count_for_ever(connection),
                        }
                    })
                    .unwrap()
            })
        };
        begins.recv().unwrap();
        let log = root.path().join("windlass.db-wal");
        let mut longest = 0;
        // Three times what the log may hold.
        for n in 0..1000u64 {
            let mut bytes = vec![1; 200 << 10];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            let blob = Blob {
                digest: Digest::of(&bytes),
                bytes: bytes.into(),
            };
            block_on(store.put_blob(blob)).unwrap();
            longest = longest.max(log.metadata().unwrap().len());
            if n == 700 {
                stop.send(()).unwrap();
            }
        }
        assert!(longest > BOUND / 2, "the reader held the log up: {longest}");
        assert!(longest < BOUND + (4 << 20), "{longest}");
        assert!(slow.join().unwrap() >= 2, "it made way and began again");
    }
}
