//! Tending the write-ahead log: growing it once, so that commits overwrite blocks that are
//! there instead of extending the file, and checkpointing it by size.
//!
//! Runs on the writer's thread between transactions. It never touches the database file or
//! the `-shm` file: closing a second descriptor on those would drop SQLite's own locks.

use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use windlass_store::{Error, crash};

use crate::error::{Fault, from_io};
use crate::files::sync_failed;
use crate::gate::{Gate, Wish};
use crate::mark::Mark;
use crate::wal;

/// Bytes of a frame in the log: a header and a page.
const FRAME: u64 = 24 + 4096;

/// When the log is copied into the database. Large enough that pages written often are
/// copied once for many commits, small enough to copy in some tens of milliseconds.
const CHECKPOINT_BYTES: u64 = 16 << 20;

/// How much further the log may get before the next try, if a reader held up the last.
const CHECKPOINT_STEP: u64 = 4 << 20;

/// The log does not get longer than this, but for the transaction that reaches it: readers
/// that hold it up must make way then.
const MOST_BYTES: u64 = 64 << 20;

/// How long the writer waits for readers to make way. They look up every few milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// The log is grown ahead once a process made this many commits: a command that runs
/// one small workflow and ends should not pay for it.
const COMMITS_BEFORE_GROWTH: u64 = 32;

/// The log is grown when less than this is left.
const ROOM: u64 = 128 << 10;

const FIRST_GROWTH: u64 = 1 << 20;

/// The state of the write-ahead log in this process.
pub(crate) struct Journal {
    path: PathBuf,
    /// Frames in the log after the last commit, as SQLite reports them.
    frames: Arc<AtomicU64>,
    commits: u64,
    /// Frames that were whole when it was opened.
    found: u64,
    /// The file's length as far as we know.
    length: u64,
    checkpoint_at: u64,
    /// What the log held when it was last looked at.
    seen: u64,
    gate: Arc<Gate>,
    durable: bool,
}

impl Journal {
    /// Watches the commits of the writing connection.
    pub(crate) fn watch(
        connection: &mut Connection,
        path: &Path,
        found: u64,
        gate: Arc<Gate>,
        durable: bool,
    ) -> rusqlite::Result<Self> {
        let frames = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&frames);
        connection.wal_hook(Some(
            move |_: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
                seen.store(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            },
        ))?;
        Ok(Self {
            path: path.to_owned(),
            frames,
            commits: 0,
            found,
            length: path.metadata().map_or(0, |metadata| metadata.len()),
            checkpoint_at: checkpoint_bytes(),
            seen: 0,
            gate,
            durable,
        })
    }

    /// Leaves word of how much of the log is acknowledged, for whoever opens it next.
    pub(crate) fn leave_mark(&self) {
        let frames = match self.frames.load(Ordering::Relaxed) {
            0 => self.found,
            frames => frames,
        };
        let is_there = |metadata: &std::fs::Metadata| metadata.len() >= wal::length(frames);
        let metadata = self.path.metadata().ok().filter(is_there);
        if let (Some(_), Some(salts)) = (metadata, wal::salts(&self.path)) {
            Mark { salts, frames }.leave(self.directory());
        }
    }

    /// The directory that it is in.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Whether what is written is synced.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Counts a transaction; whether something is due after it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.commits += 1;
        let used = self.look();
        used >= self.checkpoint_at || self.wants_growth(used)
    }

    /// What the log holds. If that is less than before, the log began anew.
    fn look(&mut self) -> u64 {
        let used = 32 + self.frames.load(Ordering::Relaxed) * FRAME;
        if used < self.seen {
            self.checkpoint_at = checkpoint_bytes();
        }
        self.seen = used;
        used
    }

    fn wants_growth(&self, used: u64) -> bool {
        let length = self.length.max(used);
        self.commits >= commits_before_growth() && length < CHECKPOINT_BYTES && used + ROOM > length
    }

    /// What is due after a transaction. Only a failed sync is worth an error to the caller:
    /// growing and checkpointing are tried again.
    pub(crate) fn tend(&mut self, connection: &Connection) -> Result<(), Error> {
        self.commits += 1;
        let used = self.look();
        self.length = self.length.max(used);
        if let Some(wish) = self.gate.take_wish() {
            return self.shrink(connection, wish);
        }
        if used >= self.checkpoint_at {
            // A reader, or a full disk, may keep it from being complete, or the log from
            // beginning anew after it.
            self.checkpoint_at = used + CHECKPOINT_STEP;
            let copied = if used < MOST_BYTES {
                checkpoint(connection)
            } else {
                self.gate.alone(PATIENCE, || checkpoint(connection))
            };
            copied.map_err(Fault::into_error)?;
        } else if self.wants_growth(used) {
            self.grow()?;
        }
        Ok(())
    }

    /// Makes the database as short as what it holds. Copying the log cuts it.
    fn shrink(&mut self, connection: &Connection, wish: Wish) -> Result<(), Error> {
        if wish == Wish::Rewrite {
            let sql = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM;";
            connection
                .execute_batch(sql)
                .map_err(|error| Fault::from(error).into_error())?;
        }
        let copied = self.gate.alone(PATIENCE, || checkpoint(connection));
        copied.map(drop).map_err(Fault::into_error)
    }

    /// Writes zeros behind the log's end: SQLite takes them for the end, and later commits
    /// need not change the file's size. Real zeros, because blocks that are only reserved
    /// are converted on first use, which costs the same as growing.
    fn grow(&mut self) -> Result<(), Error> {
        let target = (self.length * 2).clamp(FIRST_GROWTH, CHECKPOINT_BYTES + ROOM);
        let attempt = || {
            let mut file = OpenOptions::new().write(true).open(&self.path)?;
            let end = file.seek(SeekFrom::End(0))?;
            let zeros = vec![0; 64 << 10];
            let mut left = target.saturating_sub(end);
            while left > 0 {
                let part = left.min(zeros.len() as u64);
                file.write_all(&zeros[..usize::try_from(part).unwrap_or(0)])?;
                left -= part;
            }
            Ok(file)
        };
        let grown = attempt().map_err(|error: io::Error| from_io(&self.path, &error));
        // Whatever happened, do not try again before the log has used what it has.
        self.length = target;
        let file = grown?;
        crash::point("after-growth");
        if self.durable {
            file.sync_all()
                .map_err(|error| sync_failed(&self.path, &error))?;
        }
        Ok(())
    }
}

fn commits_before_growth() -> u64 {
    crash::setting("WINDLASS_COMMITS_BEFORE_GROWTH").unwrap_or(COMMITS_BEFORE_GROWTH)
}

fn checkpoint_bytes() -> u64 {
    crash::setting("WINDLASS_CHECKPOINT_BYTES").unwrap_or(CHECKPOINT_BYTES)
}

/// Copies the log into the database; says whether all of it was.
pub(crate) fn checkpoint(connection: &Connection) -> Result<bool, Fault> {
    crash::during("in-checkpoint");
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
    let (busy, log, copied) = statement.query_row([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
        ))
    })?;
    crash::point("after-checkpoint");
    Ok(busy == 0 && log == copied)
}
