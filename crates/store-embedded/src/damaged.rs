//! Damaged rows in lists: each is found and reported, and the other rows are still listed.
//! Damage that breaks the walk itself, such as a damaged page, is still an error.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Row, Rows};
use windlass_core::RunId;
use windlass_store::{Damage, RunRow};

use crate::codec;
use crate::connect::DATABASE;
use crate::error::Fault;

/// How many damaged runs are remembered until a caller asks for them; a later list finds the
/// others again.
const MOST: usize = 1000;

/// Why a row cannot be read; an error that is not the row's fault is returned as it is.
pub(crate) fn reason(error: rusqlite::Error) -> rusqlite::Result<Box<str>> {
    match error {
        rusqlite::Error::SqliteFailure(..) => Err(error),
        error => Ok(format!("the stored row is damaged: {error}").into()),
    }
}

/// The key and the tenant of a damaged row, from these columns. `None` if they cannot be read
/// either; then no caller can ask for the row, and only the full check reports it.
pub(crate) fn name(row: &Row<'_>, (key, owner): (usize, usize)) -> Option<Name> {
    let key: Box<str> = row.get(key).ok()?;
    let owner: Option<Box<str>> = row.get(owner).ok()?;
    Some((key, owner.filter(|owner| !owner.is_empty())))
}

/// See [`name`].
pub(crate) type Name = (Box<str>, Option<Box<str>>);

/// The rows that a list returns: `None` is left out.
pub(crate) fn given<T>(
    rows: impl Iterator<Item = rusqlite::Result<Option<T>>>,
) -> rusqlite::Result<Vec<T>> {
    rows.filter_map(Result::transpose).collect()
}

/// Runs whose damaged rows lists have found.
#[derive(Default)]
pub(crate) struct DamagedRows(Mutex<BTreeMap<RunId, Damage>>);

impl DamagedRows {
    /// See `Queries::left_out`.
    pub(crate) fn take(&self) -> Vec<Damage> {
        let mut damaged_rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *damaged_rows).into_values().collect()
    }

    /// Remembers that a run's row is damaged; any other error is returned as it is.
    pub(crate) fn note(&self, run: RunId, error: rusqlite::Error) -> Result<(), Fault> {
        let damage = Damage {
            place: DATABASE.into(),
            run: Some(run),
            sequence: None,
            offset: None,
            reason: reason(error)?.into(),
        };
        let mut damaged_rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged_rows.len() < MOST {
            damaged_rows.insert(run, damage);
        }
        Ok(())
    }

    /// The first sound rows of a list of runs, at most `limit`. The statement selects
    /// `RUN_COLUMNS` and has no limit of its own, so that damaged rows do not take the place
    /// of sound ones.
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

    /// Leaves a damaged row out of a list; only the full check reports one without an id.
    fn leave_out(&self, row: &Row<'_>, error: rusqlite::Error) -> Result<(), Fault> {
        let dead = row.get::<_, bool>(codec::DEAD_COLUMN).unwrap_or(false);
        match codec::run_id(row, 0) {
            Ok(run) if !dead => self.note(run, error),
            _ => reason(error).map(drop).map_err(Fault::from),
        }
    }
}
