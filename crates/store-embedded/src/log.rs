//! The log: fenced appends inside the writer's transaction, and the rows that they write.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::RunId;
use windlass_store::{Append, AppendError, Appended, Error, Head, RunRow, checksum, not_waiting};

use crate::clock::Lag;
use crate::codec::{self, Indexed, RUN_COLUMNS, signed};
use crate::error::{Fault, damaged_log};
use crate::queue::Reply;
use crate::writer::{Outcome, Session, WriteJob, stopped};
use crate::{blob, claim, inbox, query};

/// Runs whose heads the writer remembers: those written lately. An entry is about 150 bytes.
const REMEMBERED: usize = 1 << 16;

/// The writer's memory of heads, so that a fence costs no read. It is right only because no
/// other process writes; it is emptied whenever a transaction is rolled back.
#[derive(Default)]
pub(crate) struct Heads {
    entries: HashMap<RunId, Entry>,
    pub(crate) lag: Lag,
}

/// What the writer must know of a run to extend it.
pub(crate) struct Entry {
    pub(crate) number: i64,
    pub(crate) head: Head,
    /// `None` for a run without a row.
    pub(crate) indexed: Option<Indexed>,
    /// Whether it is dead, which no append changes.
    pub(crate) dead: bool,
}

impl Heads {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.lag.forget();
    }

    pub(crate) fn forget(&mut self, run: RunId) {
        self.entries.remove(&run);
    }

    /// The run's entry, from memory or from the table; `None` for a run without either.
    fn load(&mut self, connection: &Connection, run: RunId) -> Result<Option<&mut Entry>, Fault> {
        if !self.entries.contains_key(&run) {
            let Some(entry) = find(connection, run)? else {
                return Ok(None);
            };
            self.remember(run, entry);
        }
        Ok(self.entries.get_mut(&run))
    }

    fn remember(&mut self, run: RunId, entry: Entry) {
        if self.entries.len() >= REMEMBERED {
            self.entries.clear();
        }
        self.entries.insert(run, entry);
    }
}

/// The run's entry in the table.
pub(crate) fn find(connection: &Connection, run: RunId) -> Result<Option<Entry>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, append_id, chain, number, status, tenant, workflow, labels, asleep, \
         parent, priority, created_at, ended_at, gate, gate_limit, dead, error_code, \
         cause_codes, origin FROM run WHERE run = ?",
    )?;
    let entry = statement.query_row([run.as_bytes()], |row| {
        // A row that cannot be read counts as missing: the log continues, and the next row
        // that comes with a record is whole.
        let indexed = indexed(row).unwrap_or(None);
        Ok(Entry {
            number: row.get(3)?,
            head: codec::head(row, 0)?,
            indexed,
            dead: row.get(15)?,
        })
    });
    Ok(entry.optional()?)
}

fn indexed(row: &Row<'_>) -> rusqlite::Result<Option<Indexed>> {
    let Some(status) = row.get(4)? else {
        return Ok(None);
    };
    Ok(Some(Indexed {
        status,
        tenant: row.get(5)?,
        workflow: row.get(6)?,
        labels: codec::labels(row, 7)?,
        asleep: row.get(8)?,
        parent: codec::optional_run(row, 9)?,
        priority: row.get(10)?,
        created_at: row.get(11)?,
        ended_at: row.get(12)?,
        gate: row.get(13)?,
        limit: row.get(14)?,
        error_code: row.get(16)?,
        cause_codes: codec::cause_codes(row, 17)?,
        origin: codec::optional_run(row, 18)?,
    }))
}

/// One call of `append`.
pub(crate) struct AppendJob {
    appends: Vec<Append>,
    /// The head after each append.
    heads: Vec<Head>,
    answers: Vec<Result<Appended, AppendError>>,
    isolated: bool,
    reply: Reply<Vec<Result<Appended, AppendError>>>,
}

impl AppendJob {
    pub(crate) fn new(
        appends: Vec<Append>,
        reply: Reply<Vec<Result<Appended, AppendError>>>,
    ) -> Self {
        let mut job = Self {
            heads: Vec::new(),
            answers: Vec::with_capacity(appends.len()),
            appends,
            isolated: false,
            reply,
        };
        let bytes: usize = job.appends.iter().map(|append| append.record.len()).sum();
        if bytes <= HASHED_BY_CALLER {
            job.hash();
        }
        job
    }

    fn hash(&mut self) {
        self.heads = self.appends.iter().map(checksum::next_head).collect();
    }
}

/// Many small records are hashed on the caller's thread, because the writer has more work with
/// them than the caller; for large records it is the other way round.
const HASHED_BY_CALLER: usize = 32 << 10;

impl WriteJob for AppendJob {
    fn execute(&mut self, session: &mut Session<'_>) -> Result<(), Fault> {
        self.answers.clear();
        if self.heads.len() < self.appends.len() {
            self.hash();
        }
        for (append, next) in self.appends.iter().zip(&self.heads) {
            let answer = if self.isolated {
                append_isolated(session, append, *next)?
            } else {
                append_one(session, append, *next)?
            };
            self.answers.push(answer);
        }
        Ok(())
    }

    fn isolate(&mut self) {
        self.isolated = true;
    }

    fn finish(self: Box<Self>, outcome: Outcome) {
        let count = self.appends.len();
        let answers = match outcome {
            Outcome::Committed => self.answers,
            Outcome::Undone(error) => refuse_all(count, &AppendError::Failed(error)),
            Outcome::Unknown(error) => refuse_all(count, &unknown(error)),
        };
        self.reply.send(answers);
    }
}

/// The same refusal for each append of a batch.
pub(crate) fn refuse_all(count: usize, error: &AppendError) -> Vec<Result<Appended, AppendError>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

/// The answers to the callers of a writer that is gone: it may have written, or not.
pub(crate) fn abandoned(count: usize) -> Vec<Result<Appended, AppendError>> {
    refuse_all(count, &unknown(stopped()))
}

/// After a failed sync the store accepts nothing more, so nothing can be repeated.
fn unknown(error: Error) -> AppendError {
    AppendError::Unknown {
        error,
        append: None,
    }
}

type Answer = Result<Appended, AppendError>;

/// An append whose failure leaves the rest of the transaction as it was.
fn append_isolated(
    session: &mut Session<'_>,
    append: &Append,
    next: Head,
) -> Result<Answer, Fault> {
    let connection = session.connection;
    connection.prepare_cached("SAVEPOINT one")?.execute([])?;
    let answer = match append_one(session, append, next) {
        Ok(answer) => answer,
        // SQLite rolled back the whole transaction, not only this append.
        Err(fault) if connection.is_autocommit() => return Err(fault),
        Err(fault) => {
            connection.execute_batch("ROLLBACK TO one")?;
            session.heads.forget(append.run);
            match fault.about(append.run) {
                fatal @ Error::Fatal(_) => return Err(fatal.into()),
                error => Err(AppendError::Failed(error)),
            }
        }
    };
    connection.prepare_cached("RELEASE one")?.execute([])?;
    Ok(answer)
}

fn append_one(session: &mut Session<'_>, append: &Append, next: Head) -> Result<Answer, Fault> {
    let connection = session.connection;
    let entry = session.heads.load(connection, append.run)?;
    let head = entry.as_ref().map_or(Head::NONE, |entry| entry.head);
    if head != append.head {
        return Ok(Err(AppendError::Conflict(head)));
    }
    if let Some(held) = claim::held(connection, &append.claims)? {
        return Ok(Err(held));
    }
    if let Some(digest) = blob::missing(connection, append)? {
        let gone = Error::NotFound(format!("value {digest}"));
        return Ok(Err(AppendError::Failed(gone)));
    }
    if let Some(key) = inbox::missing(connection, append.run, &append.consumed)? {
        return Ok(Err(AppendError::Failed(not_waiting(key))));
    }
    let number = match entry {
        None => {
            let entry = insert_run(connection, append, next)?;
            let number = entry.number;
            session.heads.remember(append.run, entry);
            number
        }
        Some(entry) => {
            move_head(connection, entry, append, next)?;
            entry.number
        }
    };
    insert_record(connection, number, append, next)?;
    if let Some(row) = &append.row {
        session.heads.lag.note(connection, row)?;
    }
    claim::insert(connection, &append.claims)?;
    blob::insert(session, &append.blobs)?;
    let brought = append.blobs.iter().map(|blob| &blob.digest);
    blob::note_uses(connection, number, brought.chain(&append.uses))?;
    query::link(connection, &append.resources)?;
    inbox::consume(connection, append.run, &append.consumed)?;
    Ok(Ok(Appended { head: next }))
}

fn insert_run(connection: &Connection, append: &Append, next: Head) -> Result<Entry, Fault> {
    let number = match &append.row {
        None => connection
            .prepare_cached(
                "INSERT INTO run (run, sequence, append_id, chain) VALUES (?, ?, ?, ?)",
            )?
            .insert(params![
                append.run.as_bytes(),
                signed(next.sequence),
                signed(next.append_id),
                next.chain,
            ])?,
        Some(row) => insert_row(connection, append.run, next, row)?,
    };
    Ok(Entry {
        number,
        head: next,
        indexed: append.row.as_ref().map(codec::indexed),
        dead: false,
    })
}

/// Inserts a run that has a row, and returns its number.
pub(crate) fn insert_row(
    connection: &Connection,
    run: RunId,
    head: Head,
    row: &RunRow,
) -> Result<i64, Fault> {
    const SQL: &str = "INSERT INTO run (run, sequence, append_id, chain, status, version, \
         priority, created_at, started_at, ended_at, wake_at, tenant, workflow, request_id, \
         error_code, parent, labels, sum, asleep, gate, gate_limit, error_message, cause_codes, origin) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    query::label(connection, run, &codec::indexed(row))?;
    Ok(connection.prepare_cached(SQL)?.insert(params![
        run.as_bytes(),
        signed(head.sequence),
        signed(head.append_id),
        head.chain,
        codec::status_code(row.status),
        row.version,
        row.priority,
        row.created_at.0,
        row.started_at.map(|at| at.0),
        row.ended_at.map(|at| at.0),
        row.wake_at.map(|at| at.0),
        row.tenant,
        row.workflow,
        row.request_id,
        row.error_code,
        row.parent.as_ref().map(RunId::as_bytes),
        codec::labels_text(&row.labels),
        codec::run_sum(row, false).value(),
        row.asleep,
        row.gate,
        row.limit,
        row.error_message,
        codec::cause_codes_text(&row.cause_codes),
        row.origin.as_ref().map(RunId::as_bytes),
    ])?)
}

/// Moves the head by compare-and-set, and writes the row if there is one.
fn move_head(
    connection: &Connection,
    entry: &mut Entry,
    append: &Append,
    next: Head,
) -> Result<(), Fault> {
    const SQL: &str = "UPDATE run SET sequence = ?, append_id = ?, chain = ? \
         WHERE number = ? AND sequence = ? AND chain = ?";
    let moved = match &append.row {
        Some(row) if !entry.indexed.as_ref().is_some_and(|old| old.holds(row)) => {
            let moved = update_row(connection, entry, next, row)?;
            entry.indexed = Some(codec::indexed(row));
            moved
        }
        Some(row) => update_row_in_place(connection, entry, next, row)?,
        None => connection.prepare_cached(SQL)?.execute(params![
            signed(next.sequence),
            signed(next.append_id),
            next.chain,
            entry.number,
            signed(append.head.sequence),
            append.head.chain,
        ])?,
    };
    if moved != 1 {
        let reason = "the run's head in the table is not the one in memory";
        return Err(damaged_log(append.run, append.head.sequence, reason).into());
    }
    entry.head = next;
    Ok(())
}

/// Updates head and row, every column of it. A run that does not wait to begin is not parked.
pub(crate) fn update_row(
    connection: &Connection,
    entry: &Entry,
    next: Head,
    row: &RunRow,
) -> Result<usize, Fault> {
    const SQL: &str = "UPDATE run SET sequence = ?1, append_id = ?2, chain = ?3, status = ?7, \
         version = ?8, priority = ?9, created_at = ?10, started_at = ?11, ended_at = ?12, \
         wake_at = ?13, tenant = ?14, workflow = ?15, request_id = ?16, error_code = ?17, \
         parent = ?18, labels = ?19, sum = ?20, asleep = ?21, gate = ?22, gate_limit = ?23, \
         error_message = ?24, cause_codes = ?25, origin = ?26, aside = aside AND ?7 = 0 \
         WHERE number = ?4 AND sequence = ?5 AND chain = ?6";
    relabel(connection, entry, row)?;
    Ok(connection.prepare_cached(SQL)?.execute(params![
        signed(next.sequence),
        signed(next.append_id),
        next.chain,
        entry.number,
        signed(entry.head.sequence),
        entry.head.chain,
        codec::status_code(row.status),
        row.version,
        row.priority,
        row.created_at.0,
        row.started_at.map(|at| at.0),
        row.ended_at.map(|at| at.0),
        row.wake_at.map(|at| at.0),
        row.tenant,
        row.workflow,
        row.request_id,
        row.error_code,
        row.parent.as_ref().map(RunId::as_bytes),
        codec::labels_text(&row.labels),
        codec::run_sum(row, entry.dead).value(),
        row.asleep,
        row.gate,
        row.limit,
        row.error_message,
        codec::cause_codes_text(&row.cause_codes),
        row.origin.as_ref().map(RunId::as_bytes),
    ])?)
}

/// Updates the labels by which the run is found to those of the row.
fn relabel(connection: &Connection, entry: &Entry, row: &RunRow) -> Result<(), Fault> {
    if let Some(old) = &entry.indexed {
        query::unlabel(connection, row.run, old)?;
    }
    query::label(connection, row.run, &codec::indexed(row))
}

/// Updates head and row where no indexed column changes, which spares the indexes; the one
/// of wake-up times holds only runs that sleep.
fn update_row_in_place(
    connection: &Connection,
    entry: &Entry,
    next: Head,
    row: &RunRow,
) -> Result<usize, Fault> {
    const SQL: &str = "UPDATE run SET sequence = ?1, append_id = ?2, chain = ?3, version = ?7, \
         started_at = ?8, wake_at = ?9, request_id = ?10, error_code = ?11, sum = ?12, \
         error_message = ?13 \
         WHERE number = ?4 AND sequence = ?5 AND chain = ?6";
    Ok(connection.prepare_cached(SQL)?.execute(params![
        signed(next.sequence),
        signed(next.append_id),
        next.chain,
        entry.number,
        signed(entry.head.sequence),
        entry.head.chain,
        row.version,
        row.started_at.map(|at| at.0),
        row.wake_at.map(|at| at.0),
        row.request_id,
        row.error_code,
        codec::run_sum(row, entry.dead).value(),
        row.error_message,
    ])?)
}

fn insert_record(
    connection: &Connection,
    number: i64,
    append: &Append,
    next: Head,
) -> Result<(), Fault> {
    let Some(key) = codec::record_key(number, next.sequence) else {
        let reason = "2^31 runs or 2^32 records of a run are the most it can hold";
        return Err(Error::Unavailable(reason.into()).into());
    };
    connection
        .prepare_cached(
            "INSERT INTO record (id, writer, append_id, chain, bytes) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![
            key,
            signed(append.writer.0),
            signed(append.append_id),
            next.chain,
            append.record,
        ])?;
    Ok(())
}

/// A run's row.
pub(crate) fn row(connection: &Connection, run: RunId) -> Result<Option<RunRow>, Fault> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE run.run = ? AND status IS NOT NULL");
    let mut statement = connection.prepare_cached(&sql)?;
    let row = statement.query_row([run.as_bytes()], codec::run_row);
    Ok(row.optional()?)
}
