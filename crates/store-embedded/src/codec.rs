//! How rows become columns and back. Old formats are converted here; nothing else in the
//! crate knows how a status, a label map or an unsigned number is written.

use std::collections::BTreeMap;

use rusqlite::Row;
use rusqlite::types::Type;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{Head, RunRow};

/// A record's key from its run's number and its sequence number; `None` past the bounds
/// of 2^31 runs and 2^32 records a run.
pub(crate) fn record_key(number: i64, sequence: u64) -> Option<i64> {
    let sequence = u32::try_from(sequence).ok()?;
    let number = i32::try_from(number).ok()?;
    Some((i64::from(number) << 32) | i64::from(sequence))
}

/// The sequence number in a record's key.
pub(crate) fn sequence_of(key: i64) -> u64 {
    (key & 0xffff_ffff) as u64
}

/// Unsigned numbers are stored as the signed ones with the same bits.
pub(crate) fn signed(number: u64) -> i64 {
    number as i64
}

pub(crate) fn unsigned(number: i64) -> u64 {
    number as u64
}

/// Final statuses are those from 3 on; an index and the walk of recovery rely on it.
pub(crate) fn status_code(status: RunStatus) -> i64 {
    match status {
        RunStatus::Pending => 0,
        RunStatus::Running => 1,
        RunStatus::Paused => 2,
        RunStatus::Succeeded => 3,
        RunStatus::Failed => 4,
        RunStatus::Cancelled => 5,
    }
}

fn status(row: &Row<'_>, at: usize) -> rusqlite::Result<RunStatus> {
    let code: i64 = row.get(at)?;
    RunStatus::ALL
        .into_iter()
        .find(|status| status_code(*status) == code)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(at, code))
}

/// Labels as JSON, keys in order; `None` if there are none.
pub(crate) fn labels_text(labels: &BTreeMap<Box<str>, Box<str>>) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    let text: Vec<String> = labels.iter().map(|(k, v)| label_text(k, v)).collect();
    Some(format!("{{{}}}", text.join(",")))
}

/// One label as it stands in [`labels_text`].
pub(crate) fn label_text(key: &str, value: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    format!("{}:{}", quoted(key), quoted(value))
}

fn labels(row: &Row<'_>, at: usize) -> rusqlite::Result<BTreeMap<Box<str>, Box<str>>> {
    let Some(text) = row.get_ref(at)?.as_str_or_null()? else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}

pub(crate) fn run_id(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    row.get(at).map(RunId::from_bytes)
}

pub(crate) fn digest(row: &Row<'_>, at: usize) -> rusqlite::Result<Digest> {
    row.get(at).map(Digest)
}

pub(crate) fn millis(row: &Row<'_>, at: usize) -> rusqlite::Result<Millis> {
    row.get(at).map(Millis)
}

fn optional_millis(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Millis>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Millis))
}

/// The columns `sequence, append_id, chain`, from `at` on.
pub(crate) fn head(row: &Row<'_>, at: usize) -> rusqlite::Result<Head> {
    Ok(Head {
        sequence: unsigned(row.get(at)?),
        append_id: unsigned(row.get(at + 1)?),
        chain: row.get(at + 2)?,
    })
}

/// The columns that [`run_row`] reads.
pub(crate) const RUN_COLUMNS: &str = "run, status, version, priority, created_at, started_at, \
     ended_at, wake_at, tenant, workflow, request_id, error_code, parent, labels";

pub(crate) fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        run: run_id(row, 0)?,
        status: status(row, 1)?,
        version: row.get(2)?,
        priority: row.get(3)?,
        created_at: millis(row, 4)?,
        started_at: optional_millis(row, 5)?,
        ended_at: optional_millis(row, 6)?,
        wake_at: optional_millis(row, 7)?,
        tenant: row.get(8)?,
        workflow: row.get(9)?,
        request_id: row.get(10)?,
        error_code: row.get(11)?,
        parent: row.get::<_, Option<[u8; 16]>>(12)?.map(RunId::from_bytes),
        labels: labels(row, 13)?,
    })
}

/// What identifies the row's place in the indexes: while it does not change, an update
/// can leave the indexed columns alone.
pub(crate) fn indexed(row: &RunRow) -> Indexed {
    Indexed {
        status: status_code(row.status),
        tenant: row.tenant.clone(),
        workflow: row.workflow.clone(),
    }
}

/// See [`indexed`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) status: i64,
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) workflow: Box<str>,
}
