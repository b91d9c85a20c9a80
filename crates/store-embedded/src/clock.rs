//! How far a run's time of creation may lie after the time in its id. Apart from this lag, ids
//! are in the order of creation, so a list of runs created since a moment is a range of ids.
//! The stored lag only ever grows, with a margin, so that it hardly ever changes.

use rusqlite::{Connection, OptionalExtension as _};
use windlass_core::{Millis, RunId};
use windlass_store::RunRow;

use crate::error::Fault;

/// The least lag that is assumed: ids are drawn just before a run is requested.
const MARGIN: i64 = 50;

/// How much later than its id says a run was created.
fn lag(run: RunId, created_at: Millis) -> i64 {
    let id = u128::from_be_bytes(*run.as_bytes());
    // The first 48 bits of an id are its time.
    created_at
        .0
        .saturating_sub(i64::try_from(id >> 80).unwrap_or(0))
}

/// The greatest lag of any row; what no row has yet is the margin.
fn greatest(connection: &Connection) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached("SELECT value FROM fact WHERE name = 'lag'")?;
    let found = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(MARGIN))
}

/// The writer's memory of the greatest lag.
#[derive(Default)]
pub(crate) struct Lag(Option<i64>);

impl Lag {
    /// Makes sure that a row is found by its time.
    pub(crate) fn note(&mut self, connection: &Connection, row: &RunRow) -> Result<(), Fault> {
        let lag = lag(row.run, row.created_at);
        if lag <= MARGIN {
            return Ok(());
        }
        let known = match self.0 {
            Some(known) => known,
            None => greatest(connection)?,
        };
        if lag > known {
            let greater = lag.saturating_mul(2);
            connection
                .prepare_cached("INSERT OR REPLACE INTO fact (name, value) VALUES ('lag', ?)")?
                .execute([greater])?;
            self.0 = Some(greater);
        } else {
            self.0 = Some(known);
        }
        Ok(())
    }

    /// Forgets the lag, because the transaction that noted it may have been rolled back.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

/// Notes the rows of a store from before lags were noted.
pub(crate) fn note_all(connection: &Connection) -> Result<(), Fault> {
    let mut statement =
        connection.prepare("SELECT run, created_at FROM run WHERE status IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut most = MARGIN;
    while let Some(row) = rows.next()? {
        most = most.max(lag(RunId::from_bytes(row.get(0)?), Millis(row.get(1)?)));
    }
    connection.execute(
        "INSERT OR REPLACE INTO fact (name, value) VALUES ('lag', ?)",
        [most],
    )?;
    Ok(())
}

/// The least id that a run created at or after a moment can have.
pub(crate) fn least(connection: &Connection, since: Millis) -> Result<u128, Fault> {
    let time = since.0.saturating_sub(greatest(connection)?);
    let time = u128::try_from(time.max(0)).unwrap_or(0);
    // A moment beyond what an id can hold is beyond every id.
    Ok(time
        .checked_shl(80)
        .filter(|_| time < 1 << 48)
        .unwrap_or(u128::MAX))
}
