//! Values under their digest: small ones in a table, large ones as synced files.
//!
//! A large value's file is durable before the row that names it, so a row without a file
//! is damage, and a file without a row is litter that a crash left.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OptionalExtension};
use windlass_core::Digest;
use windlass_store::{Blob, Damage, Error, crash};

use crate::error::{Fault, from_io};

/// The directory of large values, in the data directory.
pub(crate) const DIRECTORY: &str = "blobs";

/// Where files are written before they get their names: one place, so that what a kill left
/// is found without looking through all values.
const UNFINISHED: &str = "new";

/// Values longer than this are files: a 10 MiB output must not stall every commit.
pub(crate) const LARGEST_IN_TABLE: usize = 256 << 10;

/// Whether a value is kept as a file.
pub(crate) fn is_large(blob: &Blob) -> bool {
    blob.bytes.len() > LARGEST_IN_TABLE
}

/// Inserts the rows of values; the files of large ones are there already.
pub(crate) fn insert(connection: &Connection, blobs: &[Blob]) -> Result<(), Fault> {
    for blob in blobs {
        let bytes = (!is_large(blob)).then_some(&*blob.bytes);
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob (digest, length, bytes) VALUES (?, ?, ?)")?
            .execute((&blob.digest.0, blob.bytes.len() as i64, bytes))?;
    }
    Ok(())
}

/// Reads a value and checks it against its digest.
pub(crate) fn read(
    connection: &Connection,
    directory: &Path,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blob WHERE digest = ?")?;
    let found: Option<Option<Vec<u8>>> = statement
        .query_row([&digest.0], |row| row.get(0))
        .optional()?;
    let bytes = match found {
        None => return Ok(None),
        Some(Some(bytes)) => bytes,
        Some(None) => {
            let path = file(directory, digest);
            fs::read(&path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => damaged(digest, "its file is missing"),
                _ => from_io(&path, &error),
            })?
        }
    };
    if Digest::of(&bytes) != *digest {
        return Err(damaged(digest, "the bytes do not match the digest").into());
    }
    Ok(Some(bytes))
}

/// Damage of a value.
pub(crate) fn damaged(digest: &Digest, reason: &str) -> Error {
    Error::Damaged(Box::new(Damage {
        place: format!("value {digest}"),
        run: None,
        sequence: None,
        offset: None,
        reason: reason.into(),
    }))
}

/// Where a large value is kept: `blobs/ab/cdef…`.
pub(crate) fn file(directory: &Path, digest: &Digest) -> PathBuf {
    let name = digest.to_string();
    directory.join(DIRECTORY).join(&name[..2]).join(&name[2..])
}

/// Writes a large value so that after a crash it is there whole, or not at all.
pub(crate) fn write_file(directory: &Path, blob: &Blob, durable: bool) -> Result<(), Error> {
    let path = file(directory, &blob.digest);
    let Some(parent) = path.parent() else {
        return Err(Error::Unavailable("a value has no directory".into()));
    };
    if !parent.is_dir() {
        fs::create_dir_all(parent).map_err(|error| from_io(parent, &error))?;
        if durable {
            sync_directory(directory)?;
            sync_directory(&directory.join(DIRECTORY))?;
        }
    }
    let temporary = unfinished(directory)?;
    let written = write_synced(&temporary, &blob.bytes, durable)
        .inspect(|()| crash::point("after-blob-write"))
        .and_then(|()| fs::rename(&temporary, &path).map_err(|error| from_io(&path, &error)));
    crash::point("after-blob-rename");
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    if durable {
        sync_directory(parent)
    } else {
        Ok(())
    }
}

/// A place for a file that is not whole yet.
fn unfinished(directory: &Path) -> Result<PathBuf, Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = directory.join(DIRECTORY).join(UNFINISHED);
    if !folder.is_dir() {
        fs::create_dir_all(&folder).map_err(|error| from_io(&folder, &error))?;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("{}.{count}", std::process::id())))
}

/// Removes the files that a kill left unfinished. Only the holder of the lock may: another's
/// are being written. What cannot be removed is in nobody's way, and tried again next time.
pub(crate) fn remove_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory.join(DIRECTORY).join(UNFINISHED)) else {
        return;
    };
    for entry in entries.flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

fn write_synced(path: &Path, bytes: &[u8], durable: bool) -> Result<(), Error> {
    let mut file = File::create(path).map_err(|error| from_io(path, &error))?;
    file.write_all(bytes)
        .map_err(|error| from_io(path, &error))?;
    if durable {
        file.sync_all().map_err(|error| sync_failed(path, &error))?;
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = File::open(path).map_err(|error| from_io(path, &error))?;
    directory
        .sync_all()
        .map_err(|error| sync_failed(path, &error))
}

pub(crate) fn sync_failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Fatal(format!("a sync of {} failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(bytes: &[u8]) -> Blob {
        Blob {
            digest: Digest::of(bytes),
            bytes: bytes.into(),
        }
    }

    #[test]
    fn what_a_kill_left_unfinished_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        let whole = blob(b"whole");
        write_file(root.path(), &whole, false).expect("it is written");
        // As a kill between the writing and the renaming leaves it.
        let place = unfinished(root.path()).expect("a place");
        write_synced(&place, b"ha", false).expect("half of it is written");
        remove_unfinished(root.path());
        assert!(!place.exists());
        let kept = fs::read(file(root.path(), &whole.digest)).expect("it is there");
        assert_eq!(kept, b"whole");
        write_file(root.path(), &blob(b"next"), false).expect("it is written");
    }
}
