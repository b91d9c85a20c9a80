//! How rows become columns and back. Old formats are converted here; nothing else in the
//! crate knows how a status, a label map or an unsigned number is written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Row;
use rusqlite::types::Type;
use sha2::{Digest as _, Sha256};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{Head, RunRow};

use crate::store::PARTITION;

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

/// Whether a run has ended, by the code of its status.
pub(crate) fn is_final(code: i64) -> bool {
    code >= 3
}

fn status(row: &Row<'_>, at: usize) -> rusqlite::Result<RunStatus> {
    let code: i64 = row.get(at)?;
    RunStatus::ALL
        .into_iter()
        .find(|status| status_code(*status) == code)
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(at, code))
}

/// Labels as they are stored.
pub(crate) type Labels = BTreeMap<Box<str>, Box<str>>;

/// Labels as JSON; `None` if there are none.
pub(crate) fn labels_text(labels: &Labels) -> Option<String> {
    let pairs = labels
        .iter()
        .map(|(key, value)| (key.to_string(), serde_json::Value::from(&**value)));
    (!labels.is_empty()).then(|| serde_json::Value::Object(pairs.collect()).to_string())
}

pub(crate) fn labels(row: &Row<'_>, at: usize) -> rusqlite::Result<Labels> {
    let Some(text) = row.get_ref(at)?.as_str_or_null()? else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}

pub(crate) fn run_id(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    row.get(at).map(RunId::from_bytes)
}

pub(crate) fn optional_run(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<RunId>> {
    Ok(row.get::<_, Option<[u8; 16]>>(at)?.map(RunId::from_bytes))
}

pub(crate) fn digest(row: &Row<'_>, at: usize) -> rusqlite::Result<Digest> {
    row.get(at).map(Digest)
}

pub(crate) fn millis(row: &Row<'_>, at: usize) -> rusqlite::Result<Millis> {
    row.get(at).map(Millis)
}

pub(crate) fn optional_millis(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Millis>> {
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

/// A checksum over the columns of a row, which must be given in a fixed order.
#[derive(Default)]
pub(crate) struct Sum(Sha256);

impl Sum {
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(mut self, number: i64) -> Self {
        self.0.update(number.to_le_bytes());
        self
    }

    /// Nothing differs from an empty text.
    pub(crate) fn optional_text(self, text: Option<&str>) -> Self {
        match text {
            None => self.number(0),
            Some(text) => self.number(1).text(text),
        }
    }

    pub(crate) fn optional_number(self, number: Option<i64>) -> Self {
        match number {
            None => self.number(0),
            Some(number) => self.number(1).number(number),
        }
    }

    /// The checksum as it is stored.
    pub(crate) fn value(self) -> i64 {
        let full: [u8; 32] = self.0.finalize().into();
        let mut short = [0; 8];
        short.copy_from_slice(&full[..8]);
        i64::from_le_bytes(short)
    }

    /// Compares with what the row's column `at` holds.
    pub(crate) fn check(self, row: &Row<'_>, at: usize) -> rusqlite::Result<()> {
        let stored: i64 = row.get(at)?;
        if self.value() == stored {
            return Ok(());
        }
        let reason = "the row does not match its checksum".into();
        Err(rusqlite::Error::FromSqlConversionFailure(
            at,
            Type::Integer,
            reason,
        ))
    }
}

/// The checksum of a run's row; what the row itself says of being dead does not count.
pub(crate) fn run_sum(row: &RunRow, dead: bool) -> Sum {
    let millis = |at: Option<Millis>| at.map(|at| at.0);
    let mut sum = Sum::default()
        .bytes(row.run.as_bytes())
        .number(status_code(row.status))
        .number(row.version.into())
        .number(row.priority.into())
        .number(row.created_at.0)
        .optional_number(millis(row.started_at))
        .optional_number(millis(row.ended_at))
        .optional_number(millis(row.wake_at))
        .optional_text(row.tenant.as_deref())
        .text(&row.workflow)
        .text(&row.request_id)
        .optional_text(row.error_code.as_deref())
        .bytes(row.parent.as_ref().map_or(&[][..], |run| run.as_bytes()));
    for (key, value) in &row.labels {
        sum = sum.text(key).text(value);
    }
    // Rows from before there were these columns keep their checksum.
    if row.asleep {
        sum = sum.number(1);
    }
    if row.gate.is_some() || row.limit > 0 {
        sum = sum.optional_text(row.gate.as_deref());
        sum = sum.number(row.limit.into());
    }
    if let Some(message) = &row.error_message {
        sum = sum.text(message);
    }
    for code in &row.cause_codes {
        sum = sum.text("cause").text(code);
    }
    if let Some(origin) = &row.origin {
        sum = sum.text("origin").bytes(origin.as_bytes());
    }
    if dead { sum.text("dead") } else { sum }
}

/// The columns that [`run_row`] reads.
pub(crate) const RUN_COLUMNS: &str = "run.run, status, version, priority, created_at, started_at, \
     ended_at, wake_at, tenant, workflow, request_id, error_code, parent, labels, sum, asleep, \
     gate, gate_limit, dead, error_message, cause_codes, origin";

/// Where `dead` stands among them.
pub(crate) const DEAD_COLUMN: usize = 18;

pub(crate) fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let decoded = RunRow {
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
        parent: optional_run(row, 12)?,
        labels: labels(row, 13)?,
        asleep: row.get(15)?,
        gate: row.get(16)?,
        limit: row.get(17)?,
        dead: row.get(DEAD_COLUMN)?,
        error_message: row.get(19)?,
        cause_codes: cause_codes(row, 20)?,
        origin: optional_run(row, 21)?,
        partition: PARTITION,
    };
    run_sum(&decoded, decoded.dead).check(row, 14)?;
    Ok(decoded)
}

/// What identifies the row's place in the indexes: while it does not change, an update
/// can leave the indexed columns alone.
pub(crate) fn indexed(row: &RunRow) -> Indexed {
    Indexed {
        status: status_code(row.status),
        tenant: row.tenant.clone(),
        workflow: row.workflow.clone(),
        labels: row.labels.clone(),
        error_code: row.error_code.clone(),
        cause_codes: row.cause_codes.clone(),
        origin: row.origin,
        asleep: row.asleep,
        parent: row.parent,
        priority: row.priority,
        created_at: row.created_at.0,
        ended_at: row.ended_at.map(|at| at.0),
        gate: row.gate.clone(),
        limit: row.limit,
    }
}

impl Indexed {
    /// Whether a row has the same place in the indexes.
    pub(crate) fn holds(&self, row: &RunRow) -> bool {
        self.status == status_code(row.status)
            && self.workflow == row.workflow
            && self.tenant == row.tenant
            && self.labels == row.labels
            && self.error_code == row.error_code
            && self.cause_codes == row.cause_codes
            && self.origin == row.origin
            && self.asleep == row.asleep
            && self.parent == row.parent
            && self.priority == row.priority
            && self.created_at == row.created_at.0
            && self.ended_at == row.ended_at.map(|at| at.0)
            && self.gate == row.gate
            && self.limit == row.limit
    }

    /// What the run is found by in the table of labels: keys and values, each pair once.
    pub(crate) fn terms(&self) -> Vec<(&str, Cow<'_, str>)> {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| (&**key, Cow::Borrowed(&**value)));
        let codes: BTreeSet<&str> = self
            .error_code
            .iter()
            .chain(&self.cause_codes)
            .map(|code| &**code)
            .collect();
        let codes = codes.into_iter().map(|code| (ERROR_KEY, code.into()));
        let origin = self.origin.iter();
        let origin = origin.map(|origin| (ORIGIN_KEY, origin.to_string().into()));
        labels.chain(codes).chain(origin).collect()
    }
}

/// The key under which runs are found by the codes of their errors. No label has it: a label's key
/// is a name, without control characters.
pub(crate) const ERROR_KEY: &str = "\u{1}error";

/// The key under which runs are found by the run they were forked from.
pub(crate) const ORIGIN_KEY: &str = "\u{1}origin";

/// The codes of root causes as text; nothing, if there are none.
pub(crate) fn cause_codes_text(codes: &[Box<str>]) -> Option<String> {
    (!codes.is_empty()).then(|| serde_json::json!(codes).to_string())
}

pub(crate) fn cause_codes(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<Box<str>>> {
    let Some(text) = row.get::<_, Option<String>>(at)? else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}

/// See [`indexed`].
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) status: i64,
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) workflow: Box<str>,
    pub(crate) labels: Labels,
    pub(crate) error_code: Option<Box<str>>,
    pub(crate) cause_codes: Vec<Box<str>>,
    pub(crate) origin: Option<RunId>,
    pub(crate) asleep: bool,
    pub(crate) parent: Option<RunId>,
    pub(crate) priority: u8,
    pub(crate) created_at: i64,
    pub(crate) ended_at: Option<i64>,
    pub(crate) gate: Option<Box<str>>,
    pub(crate) limit: u32,
}
