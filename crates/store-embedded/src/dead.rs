//! Dead letters, and the mark that keeps processes from acquiring their runs.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use windlass_core::{Millis, RunId};
use windlass_store::{DeadLetter, DeadLetters, Error, Pending, TenantFilter};

use crate::EmbeddedStore;
use crate::codec::{self, Sum};
use crate::damaged;
use crate::error::Fault;
use crate::log;
use crate::query::limit_value;
use crate::store::answer;
use crate::writer::Session;

impl DeadLetters for EmbeddedStore {
    fn add_dead_letter(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>> {
        self.task(None, move |session| add_dead_letter(session, &letter))
    }

    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>> {
        let sql = letters_sql(tenant);
        // Nothing, or what is longer than any id, and greater.
        let before = before.map_or_else(|| vec![0xff; 17], |run| run.as_bytes().to_vec());
        let mut values: Vec<Value> = vec![before.into(), limit_value(limit).into()];
        if let TenantFilter::Only(tenant) = tenant {
            values.push(tenant.as_deref().map(str::to_owned).into());
        }
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&values))?;
            let mut letters = Vec::new();
            while let Some(row) = rows.next()? {
                letters.extend(listed(row)?);
            }
            Ok(letters)
        })
    }

    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>> {
        answer(|| {
            let sql = format!("SELECT {COLUMNS} FROM dead_letter WHERE run = ?");
            let found = self.readers().read(|connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                Ok(statement
                    .query_row([run.as_bytes()], letter_row)
                    .optional()?)
            });
            found.map_err(|fault| fault.about(run))
        })
    }

    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        self.task(None, move |session| {
            let found = remove(session.connection, run)?;
            if found {
                mark(session, run, false)?;
            }
            Ok(found)
        })
    }

    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        self.task(None, move |session| remove(session.connection, run))
    }
}

const COLUMNS: &str = "run, tenant, workflow, reason, payload, deliveries, at, sum";

fn letters_sql(tenant: &TenantFilter) -> String {
    let (index, condition) = match tenant {
        TenantFilter::Any => ("sqlite_autoindex_dead_letter_1", ""),
        TenantFilter::Only(_) => ("dead_letter_by_tenant", "AND tenant IS ?3"),
    };
    format!(
        "SELECT {COLUMNS} FROM dead_letter INDEXED BY {index} \
         WHERE run < ?1 {condition} ORDER BY run DESC LIMIT ?2"
    )
}

fn add_dead_letter(session: &mut Session<'_>, letter: &DeadLetter) -> Result<(), Fault> {
    const SQL: &str = "INSERT OR REPLACE INTO dead_letter \
         (run, tenant, workflow, reason, payload, deliveries, at, sum) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    session.connection.prepare_cached(SQL)?.execute(params![
        letter.run.as_bytes(),
        letter.tenant,
        letter.workflow,
        letter.reason,
        letter.payload,
        letter.deliveries,
        letter.at.0,
        sum(letter).value(),
    ])?;
    mark(session, letter.run, true)
}

/// Sets in a run's row whether it is dead. A dead run does not wait, so it is not parked either. A
/// damaged row stays damaged: its run can become a dead letter all the same.
fn mark(session: &mut Session<'_>, run: RunId, dead: bool) -> Result<(), Fault> {
    const SQL: &str = "UPDATE run SET dead = ?2, aside = 0, sum = coalesce(?3, sum) WHERE run = ?1";
    let row = log::row(session.connection, run).ok().flatten();
    let sum = row.map(|row| codec::run_sum(&row, dead).value());
    session
        .connection
        .prepare_cached(SQL)?
        .execute(params![run.as_bytes(), dead, sum])?;
    session.heads.forget(run);
    Ok(())
}

fn remove(connection: &Connection, run: RunId) -> Result<bool, Fault> {
    let removed = connection
        .prepare_cached("DELETE FROM dead_letter WHERE run = ?")?
        .execute([run.as_bytes()])?;
    Ok(removed == 1)
}

fn letter_row(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let letter = DeadLetter {
        run: codec::run_id(row, 0)?,
        tenant: row.get(1)?,
        workflow: row.get(2)?,
        reason: row.get(3)?,
        payload: row.get(4)?,
        deliveries: row.get(5)?,
        at: codec::millis(row, 6)?,
        damage: None,
    };
    sum(&letter).check(row, 7)?;
    Ok(letter)
}

/// A letter in a list: of a damaged one, only the run is returned. Only the full check finds
/// one without an id.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<DeadLetter>> {
    let error = match letter_row(row) {
        Ok(letter) => return Ok(Some(letter)),
        Err(error) => error,
    };
    let damage = damaged::reason(error)?;
    Ok(codec::run_id(row, 0).ok().map(|run| DeadLetter {
        run,
        tenant: row.get(1).unwrap_or_default(),
        workflow: "".into(),
        reason: "".into(),
        payload: b"null".to_vec(),
        deliveries: 0,
        at: Millis(0),
        damage: Some(damage),
    }))
}

fn sum(letter: &DeadLetter) -> Sum {
    Sum::default()
        .bytes(letter.run.as_bytes())
        .optional_text(letter.tenant.as_deref())
        .text(&letter.workflow)
        .text(&letter.reason)
        .bytes(&letter.payload)
        .number(letter.deliveries.into())
        .number(letter.at.0)
}

/// Reads every letter, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM dead_letter"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        letter_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn lists_walk_an_index() {
        let any = letters_sql(&TenantFilter::Any);
        assert_searches(&any, "sqlite_autoindex_dead_letter_1");
        let only = letters_sql(&TenantFilter::Only(None));
        assert_searches(&only, "dead_letter_by_tenant");
    }
}
