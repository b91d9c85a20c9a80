//! Rows that are damaged, in lists of many: each is found and told, and keeps no other from
//! its list. What breaks the walk itself, such as a damaged page, is an error still.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows};
use windlass_core::RunId;
use windlass_store::{Damage, RunRow};

use crate::codec;
use crate::connect::DATABASE;
use crate::error::Fault;

/// How many runs are remembered until somebody asks; the others are met again.
const MOST: usize = 1000;

/// Why a row cannot be read; an error that is not the row's is handed on.
pub(crate) fn reason(error: rusqlite::Error) -> rusqlite::Result<Box<str>> {
    match error {
        rusqlite::Error::SqliteFailure(..) => Err(error),
        error => Ok(format!("the stored row is damaged: {error}").into()),
    }
}

/// The text of a column as far as it can be read: what a damaged row is called by.
pub(crate) fn text(row: &Row<'_>, at: usize) -> Box<str> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => String::from_utf8_lossy(bytes).into(),
        Ok(ValueRef::Integer(number)) => number.to_string().into(),
        _ => "?".into(),
    }
}

/// A tenant as far as it can be read; empty is none.
pub(crate) fn tenant(row: &Row<'_>, at: usize) -> Option<Box<str>> {
    Some(text(row, at)).filter(|tenant| !tenant.is_empty())
}

/// Runs whose damaged rows lists came upon.
#[derive(Default)]
pub(crate) struct Met(Mutex<BTreeMap<RunId, Damage>>);

impl Met {
    /// See `Queries::left_out`.
    pub(crate) fn take(&self) -> Vec<Damage> {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *met).into_values().collect()
    }

    /// Keeps that a run's row is damaged; any other error is handed on.
    pub(crate) fn note(&self, run: RunId, error: rusqlite::Error) -> Result<(), Fault> {
        let damage = Damage {
            place: DATABASE.into(),
            run: Some(run),
            sequence: None,
            offset: None,
            reason: reason(error)?.into(),
        };
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MOST {
            met.insert(run, damage);
        }
        Ok(())
    }

    /// The first sound rows of a list of runs, at most `limit`. The statement selects
    /// `RUN_COLUMNS` and has no limit of its own, so that damaged ones take nobody's place.
    pub(crate) fn sound(&self, mut rows: Rows<'_>, limit: usize) -> Result<Vec<RunRow>, Fault> {
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            match codec::run_row(row) {
                Ok(sound) => found.push(sound),
                Err(error) => self.leave_out(row, error)?,
            }
        }
        Ok(found)
    }

    /// One without an id can be told by nobody but the check of everything.
    fn leave_out(&self, row: &Row<'_>, error: rusqlite::Error) -> Result<(), Fault> {
        let dead = row.get::<_, bool>(codec::DEAD_COLUMN).unwrap_or(false);
        match codec::run_id(row, 0) {
            Ok(run) if !dead => self.note(run, error),
            _ => reason(error).map(drop).map_err(Fault::from),
        }
    }
}
