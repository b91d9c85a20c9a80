//! Claims: checked before an append changes anything, made in its transaction.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::RunId;
use windlass_store::{AppendError, Claim, REQUEST_CLAIM};

use crate::codec::Sum;
use crate::error::Fault;

/// The value that holds a claim.
pub(crate) fn value(
    connection: &Connection,
    namespace: &str,
    key: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT value, sum FROM claim WHERE namespace = ? AND key = ?")?;
    Ok(statement
        .query_row([namespace, key], |row| {
            let value: Vec<u8> = row.get(0)?;
            sum(namespace, key, &value).check(row, 1)?;
            Ok(value)
        })
        .optional()?)
}

/// The refusal of the first of these claims that is already held.
pub(crate) fn held(
    connection: &Connection,
    claims: &[Claim],
) -> Result<Option<AppendError>, Fault> {
    for claim in claims {
        if let Some(value) = value(connection, claim.namespace, &claim.key)? {
            return Ok(Some(AppendError::Held {
                namespace: claim.namespace,
                value,
            }));
        }
    }
    Ok(None)
}

/// Makes claims, which must be free.
pub(crate) fn insert(connection: &Connection, claims: &[Claim]) -> Result<(), Fault> {
    for claim in claims {
        put(connection, claim.namespace, &claim.key, &claim.value)?;
    }
    Ok(())
}

/// Makes a claim, unless its key is taken.
pub(crate) fn put(
    connection: &Connection,
    namespace: &str,
    key: &str,
    value: &[u8],
) -> Result<(), Fault> {
    const SQL: &str =
        "INSERT OR IGNORE INTO claim (namespace, key, value, sum) VALUES (?, ?, ?, ?)";
    let sum = sum(namespace, key, value).value();
    let mut statement = connection.prepare_cached(SQL)?;
    statement.execute((namespace, key, value, sum))?;
    Ok(())
}

/// Gives up the claim on a run's request id, if the run holds it.
pub(crate) fn release(connection: &Connection, run: RunId, key: &str) -> Result<(), Fault> {
    let holder = run.to_string();
    let held = value(connection, REQUEST_CLAIM, key)?;
    if held.is_some_and(|value| value.starts_with(holder.as_bytes())) {
        connection
            .prepare_cached("DELETE FROM claim WHERE namespace = ? AND key = ?")?
            .execute([REQUEST_CLAIM, key])?;
    }
    Ok(())
}

fn sum(namespace: &str, key: &str, value: &[u8]) -> Sum {
    Sum::default().text(namespace).text(key).bytes(value)
}

/// Reads every claim, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare("SELECT namespace, key, value, sum FROM claim")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (namespace, key): (Box<str>, Box<str>) = (row.get(0)?, row.get(1)?);
        let value: Vec<u8> = row.get(2)?;
        sum(&namespace, &key, &value).check(row, 3)?;
    }
    Ok(())
}
