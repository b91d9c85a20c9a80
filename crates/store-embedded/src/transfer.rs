//! Moving everything into or out of a data directory; the mark of one that is not complete is a
//! file, and opening the directory looks for it.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::params;
use windlass_store::{Error, Pending, StoredClaim, Transfer};

use crate::EmbeddedStore;
use crate::claim;

fn mark(directory: &Path) -> PathBuf {
    directory.join("migration.json")
}

/// Refuses a directory that a migration has not completed.
pub(crate) fn refuse_incomplete(directory: &Path) -> Result<(), Error> {
    match mark(directory).exists() {
        false => Ok(()),
        true => Err(Error::Unavailable(format!(
            "{} holds a migration that is not complete; run the same `windlass migrate` again, \
             or delete the directory to give it up",
            directory.display()
        ))),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("{}: {error}", path.display()))
}

/// Makes what happened to the entries of a directory durable.
fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

impl Transfer for EmbeddedStore {
    fn partitions(&self) -> u32 {
        1
    }

    fn claims(
        &self,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<StoredClaim>, Error>> {
        const SQL: &str = "SELECT namespace, key, value FROM claim \
             WHERE (namespace, key) > (?, ?) ORDER BY namespace, key LIMIT ?";
        let (namespace, key) = after.unwrap_or_default();
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(SQL)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![namespace, key, limit], |row| {
                Ok(StoredClaim {
                    namespace: row.get(0)?,
                    key: row.get(1)?,
                    value: row.get(2)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn put_claims(&self, claims: Vec<StoredClaim>) -> Pending<'_, Result<(), Error>> {
        self.task(None, move |session| {
            for claim in &claims {
                claim::put(
                    session.connection,
                    &claim.namespace,
                    &claim.key,
                    &claim.value,
                )?;
            }
            Ok(())
        })
    }

    fn note_kinds(&self) -> Pending<'_, Result<Vec<Box<str>>, Error>> {
        self.list(move |connection, _| {
            let mut statement =
                connection.prepare_cached("SELECT DISTINCT kind FROM note ORDER BY kind")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn migration(&self) -> Pending<'_, Result<Option<String>, Error>> {
        let path = mark(self.directory());
        let read = match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        };
        Box::pin(std::future::ready(read))
    }

    fn begin_migration(&self, text: &str) -> Pending<'_, Result<(), Error>> {
        let path = mark(self.directory());
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            sync(self.directory())
        });
        Box::pin(std::future::ready(
            written.map_err(|error| failed(&path, &error)),
        ))
    }

    fn end_migration(&self) -> Pending<'_, Result<(), Error>> {
        let path = mark(self.directory());
        let removed = fs::remove_file(&path).and_then(|()| sync(self.directory()));
        Box::pin(std::future::ready(
            removed.map_err(|error| failed(&path, &error)),
        ))
    }
}
