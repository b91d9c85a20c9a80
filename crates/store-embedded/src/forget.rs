//! Forgetting runs, inside the writer's transaction: each is removed completely or not at all.
//!
//! Values are shared between runs, and `blob_use` says which run uses which. It does not cover
//! values that are older than the table, so these stay until the last run from that time is
//! forgotten.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::{Digest, RunId};
use windlass_store::{crash, request_key};

use crate::codec::{self, Indexed, record_key};
use crate::error::Fault;
use crate::writer::Session;
use crate::{claim, inbox, log, query};

/// The runs that were forgotten, and the values whose files are to be removed now.
#[derive(Default)]
pub(crate) struct Forgotten {
    pub(crate) runs: Vec<RunId>,
    /// Values that were files.
    pub(crate) values: Vec<Digest>,
}

/// See `Retention::forget`.
pub(crate) fn forget(
    session: &mut Session<'_>,
    runs: &[RunId],
    keep_request_ids: bool,
) -> Result<Forgotten, Fault> {
    let oldest = first_known_value(session.connection)?;
    let mut forgotten = Forgotten::default();
    for run in runs {
        let Some(number) = forget_row(session.connection, *run, keep_request_ids)? else {
            continue;
        };
        session.heads.forget(*run);
        crash::point("in-forget");
        forget_log(session.connection, *run, number)?;
        let used = forget_uses(session.connection, number)?;
        for digest in used {
            if remove_unused(session.connection, &digest, oldest)? == Some(true) {
                forgotten.values.push(digest);
            }
        }
        forgotten.runs.push(*run);
    }
    Ok(forgotten)
}

/// Removes a run's row and its index entries; returns its number if it could be forgotten.
fn forget_row(
    connection: &Connection,
    run: RunId,
    keep_request_id: bool,
) -> Result<Option<i64>, Fault> {
    let Some(entry) = log::find(connection, run)? else {
        return Ok(None);
    };
    let Some(row) = &entry.indexed else {
        return Ok(None);
    };
    if !(codec::is_final(row.status) || entry.dead) || is_unfinished(connection, row.parent)? {
        return Ok(None);
    }
    if !keep_request_id {
        let request_id: Box<str> = connection
            .prepare_cached("SELECT coalesce(request_id, '') FROM run WHERE number = ?")?
            .query_row([entry.number], |row| row.get(0))?;
        let key = request_key(row.tenant.as_deref(), &row.workflow, &request_id);
        claim::release(connection, run, &key)?;
    }
    forget_links(connection, run, row)?;
    connection
        .prepare_cached("DELETE FROM run WHERE number = ?")?
        .execute([entry.number])?;
    Ok(Some(entry.number))
}

/// Whether a run is there and neither ended nor dead.
fn is_unfinished(connection: &Connection, run: Option<RunId>) -> Result<bool, Fault> {
    let Some(run) = run else { return Ok(false) };
    let sql = "SELECT status < 3 AND dead = 0 FROM run WHERE run = ? AND status IS NOT NULL";
    let found = connection
        .prepare_cached(sql)?
        .query_row([run.as_bytes()], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(false))
}

fn forget_links(connection: &Connection, run: RunId, row: &Indexed) -> Result<(), Fault> {
    query::unlabel(connection, run, row)?;
    for sql in [
        "DELETE FROM resource WHERE run = ?",
        "DELETE FROM dead_letter WHERE run = ?",
        "DELETE FROM checkpoint WHERE run = ?",
    ] {
        connection.prepare_cached(sql)?.execute([run.as_bytes()])?;
    }
    inbox::forget(connection, run)
}

fn forget_log(connection: &Connection, run: RunId, number: i64) -> Result<(), Fault> {
    let (Some(first), Some(last)) = (record_key(number, 0), record_key(number, u32::MAX.into()))
    else {
        let reason = "the run's number is beyond the bounds of a log";
        return Err(crate::error::damaged_log(run, 1, reason).into());
    };
    for sql in [
        "DELETE FROM record WHERE id BETWEEN ? AND ?",
        "DELETE FROM segment WHERE id BETWEEN ? AND ?",
    ] {
        connection.prepare_cached(sql)?.execute([first, last])?;
    }
    Ok(())
}

/// The values that a run used.
fn forget_uses(connection: &Connection, number: i64) -> Result<Vec<Digest>, Fault> {
    let mut statement = connection.prepare_cached("SELECT digest FROM blob_use WHERE run = ?")?;
    let used = statement.query_map([number], |row| codec::digest(row, 0))?;
    let used = used.collect::<Result<Vec<_>, _>>()?;
    if !used.is_empty() {
        connection
            .prepare_cached("DELETE FROM blob_use WHERE run = ?")?
            .execute([number])?;
    }
    Ok(used)
}

/// Removes a value that no run uses, unless it is older than the table of uses. Returns
/// whether it was a file; `None` if it was not removed.
pub(crate) fn remove_unused(
    connection: &Connection,
    digest: &Digest,
    oldest: i64,
) -> Result<Option<bool>, Fault> {
    const SQL: &str = "DELETE FROM blob WHERE digest = ?1 AND number >= ?2 \
         AND NOT EXISTS (SELECT 1 FROM blob_use WHERE digest = ?1) RETURNING bytes IS NULL";
    let mut statement = connection.prepare_cached(SQL)?;
    let removed = statement.query_row(params![digest.0, oldest], |row| row.get(0));
    Ok(removed.optional()?)
}

/// The number of the first value whose uses are all known.
pub(crate) fn first_known_value(connection: &Connection) -> Result<i64, Fault> {
    const SQL: &str = "SELECT value, EXISTS (SELECT 1 FROM run WHERE number <= \
         (SELECT value FROM fact WHERE name = 'old_runs')) FROM fact WHERE name = 'old_values'";
    let found = connection.prepare_cached(SQL)?.query_row([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
    });
    Ok(match found.optional()? {
        Some((last, true)) => last + 1,
        _ => 0,
    })
}

/// Once no run is left from before uses were noted, all uses are known. Run numbers may be
/// given again then, so this must be noted before a new run gets one.
pub(crate) fn note_oldest(connection: &Connection) -> Result<(), Fault> {
    if first_known_value(connection)? == 0 {
        connection
            .prepare_cached("DELETE FROM fact WHERE name IN ('old_runs', 'old_values')")?
            .execute([])?;
    }
    Ok(())
}
