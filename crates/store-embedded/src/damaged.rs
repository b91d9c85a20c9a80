//! Rows that are damaged, in lists of many: each is found and told, and keeps no other from
//! its list. What breaks the walk itself, such as a damaged page, is an error still.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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

/// What a damaged row is called, and whose it is: the columns of both. Nothing if that cannot
/// be read either; then nobody could ask for it, and the check of everything alone tells it.
pub(crate) fn name(row: &Row<'_>, (key, owner): (usize, usize)) -> Option<Name> {
    let key: Box<str> = row.get(key).ok()?;
    let owner: Option<Box<str>> = row.get(owner).ok()?;
    Some((key, owner.filter(|owner| !owner.is_empty())))
}

/// See [`name`].
pub(crate) type Name = (Box<str>, Option<Box<str>>);

/// What a list gives of its rows: `None` is left out.
pub(crate) fn given<T>(
    rows: impl Iterator<Item = rusqlite::Result<Option<T>>>,
) -> rusqlite::Result<Vec<T>> {
    rows.filter_map(Result::transpose).collect()
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
