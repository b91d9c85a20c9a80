//! The machine's own limits: what a raw append costs, and how fast SQLite takes batches
//! of rows with the settings of the embedded store.

use std::fs::OpenOptions;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

/// A record's size in the raw measurement.
const APPEND_BYTES: usize = 256;

/// How many rows a batch holds.
const BATCH_ROWS: usize = 500;

/// The time of single durable writes of 256 bytes.
pub(crate) struct Writes {
    /// Appended to the end of a file.
    pub(crate) appended: Duration,
    /// Over what the file held before: its size stays, and the file system writes less.
    pub(crate) over: Duration,
}

/// Measures `count` single durable writes, each way.
pub(crate) fn writes(path: &Path, count: usize) -> io::Result<Writes> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    let mut measure = || {
        file.seek(SeekFrom::Start(0))?;
        let begun = Instant::now();
        for _ in 0..count {
            file.write_all(&[b'.'; APPEND_BYTES])?;
            file.sync_data()?;
        }
        io::Result::Ok(begun.elapsed())
    };
    Ok(Writes {
        appended: measure()?,
        over: measure()?,
    })
}

/// The time in which SQLite takes rows in durable batches of 500.
pub(crate) fn batched_rows(path: &Path, rows: usize) -> rusqlite::Result<Duration> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE row (id INTEGER PRIMARY KEY, body BLOB NOT NULL);",
    )?;
    let body = [b'.'; APPEND_BYTES];
    let begun = Instant::now();
    let mut id = 0i64;
    for _ in 0..rows.div_ceil(BATCH_ROWS) {
        let batch = connection.transaction()?;
        {
            let mut insert = batch.prepare_cached("INSERT INTO row (id, body) VALUES (?, ?)")?;
            for _ in 0..BATCH_ROWS {
                id += 1;
                insert.execute(params![id, &body[..]])?;
            }
        }
        batch.commit()?;
    }
    Ok(begun.elapsed())
}
