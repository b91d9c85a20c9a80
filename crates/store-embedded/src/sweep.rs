//! Removes values that no log uses, and files that have no row.
//!
//! The writer takes a file from its name, between the transactions that could refer to it, and
//! the thread of files removes it. An append that brings the same value later finds the file
//! missing and writes it again.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use windlass_core::{Digest, RunId};
use windlass_store::Error;

use crate::error::Fault;
use crate::reader::Readers;
use crate::writer::Session;
use crate::{blob, checkpoint, codec, files, forget, read};

/// Values looked at in one step.
pub(crate) const PAGE: usize = 2048;

/// A page of the stored values, by digest: the last one that was looked at, and those that no
/// log uses.
pub(crate) fn unused(
    connection: &Connection,
    after: Option<Digest>,
) -> Result<(Option<Digest>, Vec<Digest>), Fault> {
    const SQL: &str = "SELECT digest, EXISTS \
         (SELECT 1 FROM blob_use WHERE blob_use.digest = blob.digest), number \
         FROM blob INDEXED BY sqlite_autoindex_blob_1 WHERE digest > ? ORDER BY digest LIMIT ?";
    let transaction = connection.unchecked_transaction()?;
    let oldest = forget::first_known_value(&transaction)?;
    let mut statement = transaction.prepare_cached(SQL)?;
    let after = after.map_or_else(Vec::new, |digest| digest.0.to_vec());
    let mut rows = statement.query((after, PAGE as i64))?;
    let (mut last, mut found) = (None, Vec::new());
    while let Some(row) = rows.next()? {
        let digest = codec::digest(row, 0)?;
        last = Some(digest);
        if !row.get::<_, bool>(1)? && row.get::<_, i64>(2)? >= oldest {
            found.push(digest);
        }
    }
    Ok((last, found))
}

/// Removes values that are still unused; returns those that were files.
pub(crate) fn remove(connection: &Connection, digests: &[Digest]) -> Result<Vec<Digest>, Fault> {
    let oldest = forget::first_known_value(connection)?;
    let mut files = Vec::new();
    for digest in digests {
        if forget::remove_unused(connection, digest, oldest)? == Some(true) {
            files.push(*digest);
        }
    }
    Ok(files)
}

/// Takes the files of values that have no row from their names.
pub(crate) fn move_away(session: &Session<'_>, digests: &[Digest]) -> Result<Vec<PathBuf>, Fault> {
    let mut moved = Vec::new();
    for digest in digests {
        if !blob::is_stored(session.connection, digest)? {
            let path = blob::file(session.directory, digest);
            moved.extend(files::move_away(session.directory, &path)?);
        }
    }
    Ok(moved)
}

/// The files of values that have no row, and those of checkpoints of runs that are gone;
/// the latter are removed at once.
pub(crate) fn strays(directory: &Path, readers: &Readers) -> Result<Vec<Digest>, Error> {
    let is_gone = |run: RunId| {
        let found = readers.read(|connection| read::locate(connection, run));
        found
            .map(|found| found.is_none())
            .map_err(Fault::into_error)
    };
    for run in checkpoint::runs_with_files(directory) {
        if is_gone(run)? {
            checkpoint::remove_all(directory, run);
        }
    }
    let mut found = Vec::new();
    for digest in blob::files(directory) {
        let stored = readers.read(|connection| blob::is_stored(connection, &digest));
        if !stored.map_err(Fault::into_error)? {
            found.push(digest);
        }
    }
    Ok(found)
}

/// The bytes of a directory and everything in it. Files that vanish meanwhile do not count.
pub(crate) fn bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
