//! The inbox: a table that holds what was offered until an append consumes it. The reason of a
//! refused item is a note, because few items are refused and each is read once.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::RunId;
use windlass_store::{
    Error, Inbox, InboxBounds, InboxItem, Offer, OfferAnswer, Partition, Partitions, Pending,
    Wakes as _, offered_bells,
};

use crate::codec::{self, Sum};
use crate::error::Fault;
use crate::store::{PARTITION, answer, nothing};
use crate::{EmbeddedStore, key_value};

/// The kind of note that holds why an item was refused.
const REFUSED: &str = "refused-offer";

impl Inbox for EmbeddedStore {
    fn offer(&self, offers: Vec<Offer>) -> Pending<'_, Result<Vec<bool>, Error>> {
        let runs: Vec<(Partition, RunId)> =
            offers.iter().map(|it| (it.partition, it.run)).collect();
        let offered = self.task(None, move |session| {
            let offers = offers.iter();
            offers
                .map(|offer| offer_one(session.connection, offer))
                .collect::<Result<Vec<bool>, _>>()
        });
        Box::pin(async move {
            let offered = offered.await?;
            self.ring(&offered_bells(&runs, &offered)).await?;
            Ok(offered)
        })
    }

    fn inbox_page(
        &self,
        run: RunId,
        after: u64,
        most: InboxBounds,
    ) -> Pending<'_, Result<Vec<InboxItem>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| page(connection, run, after, most))
                .map_err(|fault| fault.about(run))
        })
    }

    fn offered(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        self.list(move |connection, _| offered_runs(connection, after, limit))
    }

    fn refuse(&self, run: RunId, key: &str, reason: &[u8]) -> Pending<'_, Result<bool, Error>> {
        let (key, reason) = (key.to_owned(), reason.to_vec());
        self.task(None, move |session| {
            refuse_one(session.connection, run, &key, &reason)
        })
    }

    fn answer(&self, run: RunId, key: &str) -> Pending<'_, Result<Option<OfferAnswer>, Error>> {
        answer(|| {
            self.readers()
                .read(|connection| answer_to(connection, run, key))
                .map_err(|fault| fault.about(run))
        })
    }

    fn discard(&self, run: RunId, key: &str) -> Pending<'_, Result<bool, Error>> {
        let key = key.to_owned();
        self.task(None, move |session| {
            discard_one(session.connection, run, &key)
        })
    }
}

/// Keeps an item unless there is one under that key, waiting or refused.
fn offer_one(connection: &Connection, offer: &Offer) -> Result<bool, Fault> {
    let (run, key, bytes) = (offer.run, &*offer.key, &*offer.bytes);
    if key_value::find(connection, REFUSED, &refused_key(run, key))?.is_some() {
        return Ok(false);
    }
    let kept = connection
        .prepare_cached("INSERT OR IGNORE INTO inbox (run, key, bytes, sum) VALUES (?, ?, ?, ?)")?
        .execute((run.as_bytes(), key, bytes, sum(run, key, bytes).value()))?;
    Ok(kept == 1)
}

/// All that waits for a run, oldest first.
pub(crate) fn items(connection: &Connection, run: RunId) -> Result<Vec<InboxItem>, Fault> {
    let (items, bytes) = (usize::MAX, usize::MAX);
    page(connection, run, 0, InboxBounds { items, bytes })
}

/// What waits for a run after a place, oldest first.
fn page(
    connection: &Connection,
    run: RunId,
    after: u64,
    most: InboxBounds,
) -> Result<Vec<InboxItem>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key, bytes, sum, number FROM inbox WHERE run = ? AND number > ? ORDER BY number",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let items = statement.query_map((run.as_bytes(), after), |row| {
        let item = InboxItem {
            number: u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default(),
            key: row.get(0)?,
            bytes: row.get(1)?,
        };
        sum(run, &item.key, &item.bytes).check(row, 2)?;
        Ok(item)
    })?;
    Ok(most.cut(items)?)
}

/// See [`Inbox::offered`]: from run to run through the index, however much each has.
fn offered_runs(
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

/// The first of these keys that does not wait.
pub(crate) fn missing<'k>(
    connection: &Connection,
    run: RunId,
    keys: &'k [Box<str>],
) -> Result<Option<&'k str>, Fault> {
    for key in keys {
        if !waits(connection, run, key)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Removes what an append consumed.
pub(crate) fn consume(connection: &Connection, run: RunId, keys: &[Box<str>]) -> Result<(), Fault> {
    for key in keys {
        take(connection, run, key)?;
    }
    Ok(())
}

/// Refuses an item that waits.
fn refuse_one(
    connection: &Connection,
    run: RunId,
    key: &str,
    reason: &[u8],
) -> Result<bool, Fault> {
    let waited = take(connection, run, key)?;
    if waited {
        key_value::keep(connection, REFUSED, &refused_key(run, key), reason)?;
    }
    Ok(waited)
}

/// What became of an item.
fn answer_to(connection: &Connection, run: RunId, key: &str) -> Result<Option<OfferAnswer>, Fault> {
    if waits(connection, run, key)? {
        return Ok(Some(OfferAnswer::Waiting));
    }
    let reason = key_value::find(connection, REFUSED, &refused_key(run, key))?;
    Ok(reason.map(OfferAnswer::Refused))
}

/// Removes an item, waiting or refused.
fn discard_one(connection: &Connection, run: RunId, key: &str) -> Result<bool, Fault> {
    let waited = take(connection, run, key)?;
    Ok(key_value::remove(connection, REFUSED, &refused_key(run, key))? || waited)
}

/// Removes everything of a run.
pub(crate) fn forget(connection: &Connection, run: RunId) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM inbox WHERE run = ?")?
        .execute([run.as_bytes()])?;
    // The character after the slash ends the keys of this run.
    connection.prepare_cached(FORGET_REFUSED)?.execute((
        REFUSED,
        refused_key(run, ""),
        format!("{run}0"),
    ))?;
    Ok(())
}

const FORGET_REFUSED: &str = "DELETE FROM note WHERE kind = ? AND key >= ? AND key < ?";

fn waits(connection: &Connection, run: RunId, key: &str) -> Result<bool, Fault> {
    const SQL: &str = "SELECT 1 FROM inbox WHERE run = ? AND key = ?";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(statement.exists((run.as_bytes(), key))?)
}

/// Removes an item that waits; `false` if none does.
fn take(connection: &Connection, run: RunId, key: &str) -> Result<bool, Fault> {
    const SQL: &str = "DELETE FROM inbox WHERE run = ? AND key = ?";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(statement.execute((run.as_bytes(), key))? == 1)
}

fn refused_key(run: RunId, key: &str) -> String {
    format!("{run}/{key}")
}

fn sum(run: RunId, key: &str, bytes: &[u8]) -> Sum {
    Sum::default().bytes(run.as_bytes()).text(key).bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn the_refusals_of_a_run_are_found_by_their_key() {
        assert_searches(FORGET_REFUSED, "PRIMARY KEY");
    }
}
