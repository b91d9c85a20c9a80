//! The machine's own limits: what a raw append costs, and how fast batches of rows are
//! taken with the store's own settings.

use std::fs::OpenOptions;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// A record's size in the raw measurement.
const APPEND_BYTES: usize = 256;

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
