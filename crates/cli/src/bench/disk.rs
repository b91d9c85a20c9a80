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

/// The time of `count` single durable appends of 256 bytes to a file that has grown
/// before, as a long-lived log has.
pub(crate) fn appends(path: &Path, count: usize) -> io::Result<Duration> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    let block = [b'.'; APPEND_BYTES];
    for _ in 0..count {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let begun = Instant::now();
    for _ in 0..count {
        file.write_all(&block)?;
        file.sync_data()?;
    }
    Ok(begun.elapsed())
}

/// How many rows a second SQLite takes in durable batches of 500.
pub(crate) fn batched_rows(path: &Path, rows: usize) -> rusqlite::Result<f64> {
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
    Ok(id as f64 / begun.elapsed().as_secs_f64())
}
