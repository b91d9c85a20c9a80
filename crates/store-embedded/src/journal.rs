//! Maintains the write-ahead log: grows it once, so that commits overwrite existing blocks
//! instead of extending the file, checkpoints it by size, and marks how much of it is
//! acknowledged.
//!
//! Runs on the writer's thread between transactions. It never touches the database file or
//! the `-shm` file: closing a second descriptor on those would drop SQLite's own locks.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use windlass_store::{Error, crash};

use crate::error::{Fault, from_io, is_full};
use crate::files::sync_failed;
use crate::mark::{Mark, MarkFile, PAGES, PageSum};
use crate::reader_gate::{ReaderGate, WriterRequest};
use crate::wal::{self, FRAME, Scan};

/// When the log is copied into the database. Large enough that pages written often are
/// copied once for many commits, small enough to copy in some tens of milliseconds.
const CHECKPOINT_BYTES: u64 = 16 << 20;

/// How much further the log may get before the next try, if a reader held up the last.
const CHECKPOINT_STEP: u64 = 4 << 20;

/// The log does not get longer than this, except for the transaction that reaches it: readers
/// that hold up a checkpoint must leave then.
const MOST_BYTES: u64 = 64 << 20;

/// How long the writer waits for readers to leave. They look up every few milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);

/// The log is grown ahead once a process made this many commits: a command that runs
/// one small workflow and ends should not pay for it.
const COMMITS_BEFORE_GROWTH: u64 = 32;

/// The log is grown when less than this is left.
const ROOM: u64 = 128 << 10;

const FIRST_GROWTH: u64 = 1 << 20;

/// The last frames that are looked at for pages to mark when the store is closed.
const LOOKED_AT: u64 = 16;

/// The state of the write-ahead log in this process.
pub(crate) struct Journal {
    path: PathBuf,
    /// What SQLite reports.
    reported: Arc<Reported>,
    commits: u64,
    /// How many of the reported commits the mark covers.
    marked: u64,
    /// What is acknowledged.
    mark: Mark,
    /// Frames that were there when the log was opened: whether a checkpoint had copied them is
    /// not known for certain.
    found: u64,
    mark_file: MarkFile,
    /// The log, for reading its end.
    log: Option<File>,
    /// The file's length as far as we know.
    length: u64,
    checkpoint_at: u64,
    /// What the log held when it was last looked at.
    seen: u64,
    gate: Arc<ReaderGate>,
    durable: bool,
}

/// What SQLite reports after each commit.
#[derive(Default)]
struct Reported {
    /// Frames in the log.
    frames: AtomicU64,
    commits: AtomicU64,
}

impl Journal {
    /// Watches the commits of the writing connection.
    pub(crate) fn watch(
        connection: &mut Connection,
        path: &Path,
        scan: &Scan,
        gate: Arc<ReaderGate>,
        durable: bool,
    ) -> rusqlite::Result<Self> {
        let reported = Arc::new(Reported::default());
        let told = Arc::clone(&reported);
        connection.wal_hook(Some(
            move |_: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
                let frames = u64::try_from(count).unwrap_or(0);
                told.frames.store(frames, Ordering::Relaxed);
                told.commits.fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        ))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            path: path.to_owned(),
            reported,
            commits: 0,
            marked: 0,
            mark: found(scan, Mark::read(directory)),
            found: scan.committed,
            mark_file: MarkFile::new(directory),
            log: None,
            length: path.metadata().map_or(0, |metadata| metadata.len()),
            checkpoint_at: checkpoint_bytes(),
            seen: 0,
            gate,
            durable,
        })
    }

    /// Marks what was committed since the last time as acknowledged: it is durable, and its
    /// callers have not been answered yet.
    pub(crate) fn acknowledge(&mut self) {
        let commits = self.reported.commits.load(Ordering::Relaxed);
        if commits == self.marked {
            return;
        }
        crash::point("before-mark");
        if self.advance(commits - self.marked).is_ok() {
            self.marked = commits;
            self.mark_file.write(&self.mark);
        }
        crash::point("after-mark");
    }

    /// Brings the mark up to the log's end. If that cannot be read, an older mark stays.
    fn advance(&mut self, commits: u64) -> io::Result<()> {
        let frames = self.reported.frames.load(Ordering::Relaxed);
        let log = match &self.log {
            Some(log) => log,
            None => self.log.insert(File::open(&self.path)?),
        };
        let frame = wal::frame_at(log, frames)?;
        if frame.salts != self.mark.log.salts || frames < self.mark.frames {
            let log = wal::identify(log)?;
            if log.salts != frame.salts {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.mark = Mark {
                log,
                ..Mark::default()
            };
            self.found = 0;
        }
        self.mark.frames = frames;
        self.mark.commits += commits;
        self.mark.pages = [PageSum::default(); PAGES];
        self.mark.pages[0] = frame.into();
        Ok(())
    }

    /// Marks the log's end more closely when the store is closed.
    pub(crate) fn leave_mark(&mut self) {
        self.acknowledge();
        if self.mark.frames == 0 {
            return;
        }
        match self.last_pages() {
            Ok(pages) if pages[0].page > 0 => self.mark.pages = pages,
            _ => {}
        }
        self.mark_file.write(&self.mark);
    }

    /// The pages of the last frames that no checkpoint may have copied.
    fn last_pages(&self) -> io::Result<[PageSum; PAGES]> {
        let mut pages = [PageSum::default(); PAGES];
        let log = File::open(&self.path)?;
        let known = self.mark.touched.max(self.found);
        let first = known.max(self.mark.frames.saturating_sub(LOOKED_AT)) + 1;
        let mut count = 0;
        for frame in (first..=self.mark.frames).rev() {
            let frame = wal::frame_at(&log, frame)?;
            let is_known = pages.iter().any(|known| known.page == frame.page);
            if frame.salts == self.mark.log.salts && count < PAGES && !is_known {
                pages[count] = frame.into();
                count += 1;
            }
        }
        Ok(pages)
    }

    /// The directory that it is in.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Whether what is written is synced.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Counts a transaction; returns whether maintenance is due after it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.commits += 1;
        let used = self.look();
        used >= self.checkpoint_at || self.wants_growth(used)
    }

    /// What the log holds. If that is less than before, the log began anew.
    fn look(&mut self) -> u64 {
        let used = 32 + self.reported.frames.load(Ordering::Relaxed) * FRAME;
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

    /// Does the maintenance that is due after a transaction. Only a failed sync is returned as
    /// an error: growing and checkpointing are tried again.
    pub(crate) fn tend(&mut self, connection: &Connection) -> Result<(), Error> {
        self.commits += 1;
        let used = self.look();
        self.length = self.length.max(used);
        if let Some(writer_request) = self.gate.take_request() {
            return self.shrink(connection, writer_request);
        }
        if used >= self.checkpoint_at {
            // A reader, or a full disk, may keep the copy from being complete, or SQLite from
            // beginning the log anew.
            self.checkpoint_at = used + CHECKPOINT_STEP;
            self.checkpoint(connection, used >= MOST_BYTES)?;
        } else if self.wants_growth(used) {
            self.grow()?;
        }
        Ok(())
    }

    /// Shortens the database to what it holds; copying the log cuts the file.
    fn shrink(
        &mut self,
        connection: &Connection,
        writer_request: WriterRequest,
    ) -> Result<(), Error> {
        if writer_request == WriterRequest::Rewrite {
            let sql = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM;";
            connection
                .execute_batch(sql)
                .map_err(|error| Fault::from(error).into_error())?;
        }
        self.acknowledge();
        self.checkpoint(connection, true)
    }

    /// Why the log cannot get longer, if that is for lack of space.
    pub(crate) fn lacks_space(&self) -> Option<Error> {
        let error = extend(&self.path).err()?;
        is_full(&error).then(|| from_io(&self.path, &error))
    }

    /// Copies the log into the database, as far as readers allow; `alone` first asks them to
    /// leave.
    pub(crate) fn checkpoint(&mut self, connection: &Connection, alone: bool) -> Result<(), Error> {
        self.mark.touched = self.mark.frames;
        self.mark.pages = [PageSum::default(); PAGES];
        if self.mark.frames > 0 {
            self.mark_file.write(&self.mark);
            // No older mark may come back once pages are copied: it would not cover them.
            if self.durable {
                self.mark_file.sync()?;
            }
        }
        let copied = if alone {
            let gate = Arc::clone(&self.gate);
            gate.alone(PATIENCE, || copy(connection))
        } else {
            copy(connection)
        };
        // Only a complete copy is synced.
        if copied.map_err(Fault::into_error)? && self.mark.frames > 0 {
            self.mark.copied = self.mark.frames;
            self.mark_file.write(&self.mark);
            crash::point("after-checkpoint-mark");
        }
        Ok(())
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

/// Writes a page behind a file's end, and takes it off again.
fn extend(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    let written = file.write_all(&[0; FRAME as usize]);
    file.set_len(end)?;
    written
}

fn commits_before_growth() -> u64 {
    crash::setting("WINDLASS_COMMITS_BEFORE_GROWTH").unwrap_or(COMMITS_BEFORE_GROWTH)
}

fn checkpoint_bytes() -> u64 {
    crash::setting("WINDLASS_CHECKPOINT_BYTES").unwrap_or(CHECKPOINT_BYTES)
}

/// What is known of a log that was found when the store was opened.
fn found(scan: &Scan, mark: Option<Mark>) -> Mark {
    let same = mark.filter(|mark| !mark.old && Some(mark.log) == scan.log);
    let exact = same.filter(|mark| mark.frames == scan.committed);
    Mark {
        log: scan.log.unwrap_or_default(),
        frames: scan.committed,
        commits: scan.commits,
        copied: same.map_or(0, |mark| mark.copied),
        pages: exact.map_or_else(Default::default, |mark| mark.pages),
        // Without a mark, it is not known whether a checkpoint had begun.
        touched: same.map_or(scan.committed, |mark| mark.touched),
        ..Mark::default()
    }
}

/// Copies the log into the database; returns whether all of it was copied.
fn copy(connection: &Connection) -> Result<bool, Fault> {
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
