//! Retention: which runs can be forgotten, and the steps in which space is given back.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, params};
use windlass_core::{Digest, Millis, RunId};
use windlass_store::{Error, Pending, Retention, RunRow};

use crate::codec::{self, RUN_COLUMNS};
use crate::error::Fault;
use crate::files::FileWork;
use crate::reader_gate::WriterRequest;
use crate::store::{answer, blocking};
use crate::writer::Session;
use crate::{EmbeddedStore, checkpoint, forget, held, read, sweep};

/// Runs forgotten in one transaction.
const RUNS: usize = 32;

/// Pages moved in one transaction: 2 MiB.
const PAGES: i64 = 512;

/// A database whose pages cannot be moved is written anew when this part of it is free.
const WORTH_REWRITING: i64 = 4;

impl Retention for EmbeddedStore {
    fn ended(&self, before: Millis, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_end \
             WHERE status >= 3 AND ended_at < ? AND NOT EXISTS (SELECT 1 FROM run AS parent \
             WHERE parent.run = run.parent AND parent.status < 3 AND parent.dead = 0) \
             ORDER BY ended_at, run.run"
        );
        self.list(move |connection, damaged_rows| {
            let mut statement = connection.prepare_cached(&sql)?;
            damaged_rows.sound(statement.query([before.0])?, limit)
        })
    }

    fn ended_count(&self) -> Pending<'_, Result<u64, Error>> {
        answer(|| {
            const SQL: &str = "SELECT count(*) FROM run INDEXED BY run_by_end WHERE status >= 3";
            self.readers().query(|connection| {
                let mut statement = connection.prepare_cached(SQL)?;
                Ok(codec::unsigned(statement.query_row([], |row| row.get(0))?))
            })
        })
    }

    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>> {
        Box::pin(async move {
            let mut count = 0;
            for part in runs.chunks(RUNS) {
                let part = part.to_vec();
                let work = move |session: &mut Session<'_>| {
                    let forgotten = forget::forget(session, &part, keep_request_ids)?;
                    forget::note_oldest(session.connection)?;
                    Ok(forgotten)
                };
                let forgotten = self.task(None, work).await?;
                count += forgotten.runs.len() as u64;
                self.clear_after(forgotten).await?;
            }
            Ok(count)
        })
    }

    fn bytes(&self) -> Pending<'_, Result<u64, Error>> {
        let (directory, readers) = (self.directory().to_owned(), self.shared_readers());
        blocking(move || {
            let held = readers.read(held::held_bytes).map_err(Fault::into_error)?;
            Ok(sweep::bytes(&directory).saturating_sub(held))
        })
    }

    fn vacuum(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            self.release_held().await?;
            self.clear_unused().await?;
            self.clear_strays().await?;
            self.shorten().await
        })
    }

    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>> {
        answer(|| {
            let used = self
                .readers()
                .read(|connection| uses(connection, run, digest));
            used.map_err(|fault| fault.about(run))
        })
    }
}

impl EmbeddedStore {
    /// Removes the files of what was forgotten.
    async fn clear_after(&self, forgotten: forget::Forgotten) -> Result<(), Error> {
        for run in &forgotten.runs {
            self.leftovers().forget(*run);
        }
        let runs = forgotten.runs;
        self.files().later(Box::new(move |directory, _| {
            for run in runs {
                checkpoint::remove_all(directory, run);
            }
            Ok(())
        }));
        self.clear_files(forgotten.values).await
    }

    /// Removes files of values that have no row. Files that a backup needs stay until the next
    /// time that space is given back.
    pub(crate) async fn clear_files(&self, digests: Vec<Digest>) -> Result<(), Error> {
        if digests.is_empty() || self.keeps_files() {
            return Ok(());
        }
        windlass_store::crash::point("before-clearing");
        let work = move |session: &mut Session<'_>| sweep::move_away(session, &digests);
        let moved = self.task(None, work).await?;
        self.files().later(Box::new(move |_, _| {
            for path in moved {
                // The rest is removed when the store is opened again.
                let _ = std::fs::remove_file(path);
            }
            Ok(())
        }));
        Ok(())
    }

    /// Removes values that no log refers to: the run that brought one never recorded that.
    async fn clear_unused(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let (last, unused) = self
                .readers()
                .query(|connection| sweep::unused(connection, after))?;
            if !unused.is_empty() {
                let work =
                    move |session: &mut Session<'_>| sweep::remove(session.connection, &unused);
                let files = self.task(None, work).await?;
                self.clear_files(files).await?;
            }
            if last.is_none() {
                return Ok(());
            }
            after = last;
        }
    }

    /// Removes files that a crash left between a transaction and what follows it.
    async fn clear_strays(&self) -> Result<(), Error> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let strays = Arc::clone(&found);
        let readers = self.shared_readers();
        let look: FileWork = Box::new(move |directory, _| {
            let digests = sweep::strays(directory, &readers)?;
            *strays.lock().unwrap_or_else(PoisonError::into_inner) = digests;
            Ok(())
        });
        let rows = |session: &mut Session<'_>| checkpoint::remove_strays(session.connection);
        self.task(Some(look), rows).await?;
        let digests = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        self.clear_files(digests).await
    }

    /// Moves the last pages of the database to where pages are free, and cuts it.
    async fn shorten(&self) -> Result<(), Error> {
        let space = self.readers().read(Space::of).map_err(Fault::into_error)?;
        let writer_request = if space.can_move {
            while self
                .task(None, |session| move_pages(session.connection))
                .await?
            {}
            WriterRequest::Copy
        } else if space.free > space.pages / WORTH_REWRITING {
            WriterRequest::Rewrite
        } else {
            WriterRequest::Copy
        };
        self.readers().gate().writer_request(writer_request);
        // The writer looks at wishes after a transaction, so the second transaction follows
        // its work.
        for _ in 0..2 {
            self.task(None, |_| Ok(())).await?;
        }
        Ok(())
    }
}

/// The pages of a database.
struct Space {
    can_move: bool,
    pages: i64,
    free: i64,
}

impl Space {
    fn of(connection: &Connection) -> Result<Self, Fault> {
        let number = |name: &str| {
            connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        Ok(Self {
            can_move: number("auto_vacuum")? != 0,
            pages: number("page_count")?,
            free: number("freelist_count")?,
        })
    }
}

/// Moves some pages; whether there are more.
fn move_pages(connection: &Connection) -> Result<bool, Fault> {
    let before = Space::of(connection)?.free;
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    let free = Space::of(connection)?.free;
    Ok(free > 0 && free < before)
}

/// See `Retention::uses`. The logs of old runs are searched for the digest as text.
fn uses(connection: &Connection, run: RunId, digest: &Digest) -> Result<bool, Fault> {
    const NOTED: &str = "SELECT EXISTS (SELECT 1 FROM blob_use WHERE run = ? AND digest = ?)";
    const OLD: &str = "SELECT EXISTS (SELECT 1 FROM fact WHERE name = 'old_runs' AND value >= ?)";
    let Some((number, _)) = read::locate(connection, run)? else {
        return Ok(false);
    };
    let noted = connection
        .prepare_cached(NOTED)?
        .query_row(params![number, digest.0], |row| row.get(0))?;
    let old: bool = connection
        .prepare_cached(OLD)?
        .query_row([number], |row| row.get(0))?;
    if noted || !old {
        return Ok(noted);
    }
    let text = digest.to_string();
    let mut from = 1;
    loop {
        let page = read::read(connection, run, from, 1 << 20, None)?;
        let Some(last) = page.last() else {
            return Ok(false);
        };
        from = last.sequence + 1;
        let names = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        if page.iter().any(|record| names(&record.bytes)) {
            return Ok(true);
        }
    }
}
