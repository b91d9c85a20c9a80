//! The inbox: a table that holds what was offered until an append consumes it.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::RunId;
use windlass_store::InboxItem;

use crate::codec::{self, Sum};
use crate::error::Fault;

/// Keeps an item unless there is one under that key.
pub(crate) fn offer(
    connection: &Connection,
    run: RunId,
    key: &str,
    bytes: &[u8],
) -> Result<bool, Fault> {
    let kept = connection
        .prepare_cached("INSERT OR IGNORE INTO inbox (run, key, bytes, sum) VALUES (?, ?, ?, ?)")?
        .execute((run.as_bytes(), key, bytes, sum(run, key, bytes).value()))?;
    Ok(kept == 1)
}

/// What waits for a run, oldest first.
pub(crate) fn items(connection: &Connection, run: RunId) -> Result<Vec<InboxItem>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT key, bytes, sum FROM inbox WHERE run = ? ORDER BY number")?;
    let items = statement.query_map([run.as_bytes()], |row| {
        let item = InboxItem {
            key: row.get(0)?,
            bytes: row.get(1)?,
        };
        sum(run, &item.key, &item.bytes).check(row, 2)?;
        Ok(item)
    })?;
    Ok(items.collect::<Result<_, _>>()?)
}

/// See `Store::offered`: from run to run through the index, however much each has.
pub(crate) fn offered(
    connection: &Connection,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let mut statement =
        transaction.prepare_cached("SELECT run FROM inbox WHERE run > ? ORDER BY run LIMIT 1")?;
    let mut after = after.map_or_else(Vec::new, |run| run.as_bytes().to_vec());
    let mut runs = Vec::new();
    while runs.len() < limit {
        let next = statement.query_row([&after], |row| codec::run_id(row, 0));
        let Some(run) = next.optional()? else { break };
        after = run.as_bytes().to_vec();
        runs.push(run);
    }
    Ok(runs)
}

/// Removes what an append consumed.
pub(crate) fn consume(connection: &Connection, run: RunId, keys: &[Box<str>]) -> Result<(), Fault> {
    for key in keys {
        connection
            .prepare_cached("DELETE FROM inbox WHERE run = ? AND key = ?")?
            .execute((run.as_bytes(), key))?;
    }
    Ok(())
}

fn sum(run: RunId, key: &str, bytes: &[u8]) -> Sum {
    Sum::default().bytes(run.as_bytes()).text(key).bytes(bytes)
}
