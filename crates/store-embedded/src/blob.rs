//! Values under their digest: small ones in a table, large ones as synced files.
//!
//! A large value's file is durable before the row that names it, so a row without a file
//! is damage, and a file without a row is litter that a crash left.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use windlass_core::Digest;
use windlass_store::{Append, Blob, Damage, Error, STORED_FORM, check_stored_form};

use crate::error::{Fault, from_io};
use crate::files;
use crate::writer::Session;

/// The directory of large values, in the data directory.
pub(crate) const DIRECTORY: &str = "blobs";

/// Values longer than this are files: a 10 MiB output must not stall every commit.
pub(crate) const LARGEST_IN_TABLE: usize = 256 << 10;

/// Whether a value is kept as a file.
pub(crate) fn is_large(blob: &Blob) -> bool {
    blob.bytes.len() > LARGEST_IN_TABLE
}

/// Inserts the rows of values; the files of large ones are there already.
pub(crate) fn insert(session: &Session<'_>, blobs: &[Blob]) -> Result<(), Fault> {
    const SQL: &str =
        "INSERT OR IGNORE INTO blob (digest, length, bytes, envelope) VALUES (?, ?, ?, ?)";
    for blob in blobs {
        let bytes = (!is_large(blob)).then_some(&*blob.bytes);
        let length = blob.bytes.len() as i64;
        let new = session.connection.prepare_cached(SQL)?.execute((
            &blob.digest.0,
            length,
            bytes,
            STORED_FORM,
        ))?;
        // While no log used it, its file may have been removed after it was written.
        if new == 1 && bytes.is_none() && !file(session.directory, &blob.digest).exists() {
            write_file(session.directory, blob, session.durable)?;
        }
    }
    Ok(())
}

/// The catalogue's number in `blob_use`, which no run has.
pub(crate) const CATALOGUE: i64 = 0;

/// The number in `blob_use` of what attempts under way hold; no run has it. See `held.rs`.
pub(crate) const HELD: i64 = -1;

/// Notes that a run, by its number, uses values.
pub(crate) fn note_uses<'a>(
    connection: &Connection,
    number: i64,
    digests: impl Iterator<Item = &'a Digest>,
) -> Result<(), Fault> {
    for digest in digests {
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob_use (run, digest) VALUES (?, ?)")?
            .execute((number, &digest.0))?;
    }
    Ok(())
}

/// Whether a value is stored.
pub(crate) fn is_stored(connection: &Connection, digest: &Digest) -> Result<bool, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM blob WHERE digest = ?)")?;
    Ok(statement.query_row([&digest.0], |row| row.get(0))?)
}

/// The first value that an append refers to and that is neither stored nor comes with it.
pub(crate) fn missing(connection: &Connection, append: &Append) -> Result<Option<Digest>, Fault> {
    for digest in &append.uses {
        let comes_with_it = append.blobs.iter().any(|blob| blob.digest == *digest);
        if !comes_with_it && !is_stored(connection, digest)? {
            return Ok(Some(*digest));
        }
    }
    Ok(None)
}

/// Reads a value and checks it against its digest.
pub(crate) fn read(
    connection: &Connection,
    directory: &Path,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, Fault> {
    // Between reading the row and the file, the last run that uses the value may be forgotten,
    // and another may bring the value again.
    for _ in 0..3 {
        let Some(small) = row(connection, digest)? else {
            return Ok(None);
        };
        let found = match small {
            None => read_file(directory, digest)?,
            small => small,
        };
        if let Some(bytes) = found {
            return Ok(Some(checked(digest, bytes)?));
        }
    }
    Err(damaged(digest, "its file is missing").into())
}

/// The bytes of a value, if they are those of its digest.
pub(crate) fn checked(digest: &Digest, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    match Digest::of(&bytes) == *digest {
        true => Ok(bytes),
        false => Err(damaged(digest, "the bytes do not match the digest")),
    }
}

/// The bytes in a value's row; none in it for a large one.
pub(crate) fn row(
    connection: &Connection,
    digest: &Digest,
) -> Result<Option<Option<Vec<u8>>>, Fault> {
    const SQL: &str = "SELECT bytes, envelope FROM blob WHERE digest = ?";
    let mut statement = connection.prepare_cached(SQL)?;
    let found = statement.query_row([&digest.0], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((bytes, envelope)) = found.optional()? else {
        return Ok(None);
    };
    check_stored_form(envelope, || format!("value {digest}"))?;
    Ok(Some(bytes))
}

/// The bytes of a large value, unchecked, if its file is there.
pub(crate) fn read_file(directory: &Path, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
    let path = file(directory, digest);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(from_io(&path, &error)),
    }
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

/// The digests of all large values that are files.
pub(crate) fn files(directory: &Path) -> Vec<Digest> {
    let mut found = Vec::new();
    let folders = fs::read_dir(directory.join(DIRECTORY));
    for folder in folders.into_iter().flatten().flatten() {
        let first = folder.file_name();
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let rest = file.file_name();
            let names = first.to_str().zip(rest.to_str());
            let name = names.map(|(first, rest)| format!("{first}{rest}"));
            // A file that is being written has another name.
            found.extend(name.and_then(|name| name.parse::<Digest>().ok()));
        }
    }
    found
}

/// Writes a large value so that after a crash it is there whole, or not at all.
pub(crate) fn write_file(directory: &Path, blob: &Blob, durable: bool) -> Result<(), Error> {
    let path = file(directory, &blob.digest);
    let points = ["after-blob-write", "after-blob-rename"];
    files::write(directory, &path, &[&blob.bytes], durable, points)
}
