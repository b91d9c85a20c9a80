//! Claims: checked before an append changes anything, made in its transaction.

use rusqlite::{Connection, OptionalExtension};
use windlass_store::{AppendError, Claim};

use crate::error::Fault;

/// The value that holds a claim.
pub(crate) fn value(
    connection: &Connection,
    namespace: &str,
    key: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM claim WHERE namespace = ? AND key = ?")?;
    Ok(statement
        .query_row([namespace, key], |row| row.get(0))
        .optional()?)
}

/// The refusal of the first claim that somebody holds.
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

/// Makes claims that nobody holds.
pub(crate) fn insert(connection: &Connection, claims: &[Claim]) -> Result<(), Fault> {
    for claim in claims {
        connection
            .prepare_cached("INSERT OR IGNORE INTO claim (namespace, key, value) VALUES (?, ?, ?)")?
            .execute((claim.namespace, &claim.key, &claim.value))?;
    }
    Ok(())
}
