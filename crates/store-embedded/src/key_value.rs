//! Notes: a small table by kind and key.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_store::{Error, KeyValue, Note, Pending};

use crate::EmbeddedStore;
use crate::codec::Sum;
use crate::damaged;
use crate::error::Fault;
use crate::store::answer;

impl KeyValue for EmbeddedStore {
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.task(None, move |session| {
            keep(session.connection, &kind, &key, &bytes)
        })
    }

    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let found = self
                .readers()
                .read(|connection| find(connection, kind, key));
            found.map_err(Fault::into_error)
        })
    }

    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>> {
        // Nothing comes before the empty key.
        let (kind, after) = (kind.to_owned(), after.unwrap_or_default().to_owned());
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(LIST)?;
            let mut rows = statement.query([&kind, &after])?;
            let mut notes = Vec::new();
            while notes.len() < limit
                && let Some(row) = rows.next()?
            {
                match note_row(row) {
                    Ok(note) => notes.push(note),
                    Err(error) => drop(damaged::reason(error)?),
                }
            }
            Ok(notes)
        })
    }

    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.task(None, move |session| remove(session.connection, &kind, &key))
    }
}

const ONE: &str = "SELECT kind, key, bytes, sum FROM note WHERE kind = ? AND key = ?";

const LIST: &str = "SELECT kind, key, bytes, sum FROM note WHERE kind = ? AND key > ? ORDER BY key";

/// Keeps a note, in place of the one before.
pub(crate) fn keep(
    connection: &Connection,
    kind: &str,
    key: &str,
    bytes: &[u8],
) -> Result<(), Fault> {
    const SQL: &str = "INSERT OR REPLACE INTO note (kind, key, bytes, sum) VALUES (?, ?, ?, ?)";
    let sum = sum(kind, key, bytes).value();
    let mut statement = connection.prepare_cached(SQL)?;
    statement.execute(params![kind, key, bytes, sum])?;
    Ok(())
}

/// The note under a key.
pub(crate) fn find(
    connection: &Connection,
    kind: &str,
    key: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached(ONE)?;
    let found = statement.query_row([kind, key], note_row).optional()?;
    Ok(found.map(|(_, bytes)| bytes))
}

/// Removes a note; `false` if there is none.
pub(crate) fn remove(connection: &Connection, kind: &str, key: &str) -> Result<bool, Fault> {
    const SQL: &str = "DELETE FROM note WHERE kind = ? AND key = ?";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(statement.execute([kind, key])? == 1)
}

fn note_row(row: &Row<'_>) -> rusqlite::Result<Note> {
    let kind: Box<str> = row.get(0)?;
    let note: Note = (row.get(1)?, row.get(2)?);
    sum(&kind, &note.0, &note.1).check(row, 3)?;
    Ok(note)
}

fn sum(kind: &str, key: &str, bytes: &[u8]) -> Sum {
    Sum::default().text(kind).text(key).bytes(bytes)
}

/// Reads every note, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare("SELECT kind, key, bytes, sum FROM note")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        note_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn notes_are_found_by_their_key() {
        assert_searches(ONE, "PRIMARY KEY");
        assert_searches(LIST, "PRIMARY KEY");
    }
}
