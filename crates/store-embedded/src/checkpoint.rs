//! Checkpoints: one a run, small ones in a table, large ones as files.
//!
//! They derive from the log, so a checkpoint with any fault counts as missing. A large one's
//! file is there before the row that names it, under the sequence number of the last record
//! that it covers: `checkpoints/RUN/SEQUENCE`. It begins with the SHA-256 over run, head and
//! state.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};
use windlass_core::RunId;
use windlass_store::{Checkpoint, Damage, Error, Head};

use crate::codec::{self, Sum, signed};
use crate::error::Fault;
use crate::{blob, files, read};

/// The directory of large checkpoints, in the data directory.
const DIRECTORY: &str = "checkpoints";

/// Bytes of the checksum that a file begins with.
const CHECKSUM: usize = 32;

/// Whether a checkpoint is kept as a file.
pub(crate) fn is_large(checkpoint: &Checkpoint) -> bool {
    checkpoint.bytes.len() > blob::LARGEST_IN_TABLE
}

fn directory_of(directory: &Path, run: RunId) -> PathBuf {
    directory.join(DIRECTORY).join(run.to_string())
}

fn file(directory: &Path, run: RunId, head: &Head) -> PathBuf {
    directory_of(directory, run).join(head.sequence.to_string())
}

fn checksum(run: RunId, head: &Head, state: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = Sha256::new();
    hasher.update(run.as_bytes());
    hasher.update(head.sequence.to_le_bytes());
    hasher.update(head.append_id.to_le_bytes());
    hasher.update(head.chain);
    hasher.update(state);
    hasher.finalize().into()
}

/// Writes the file of a large checkpoint.
pub(crate) fn write_file(
    directory: &Path,
    run: RunId,
    checkpoint: &Checkpoint,
    durable: bool,
) -> Result<(), Error> {
    let sum = checksum(run, &checkpoint.head, &checkpoint.bytes);
    let path = file(directory, run, &checkpoint.head);
    let points = ["after-checkpoint-write", "after-checkpoint-rename"];
    let parts = [&sum[..], &checkpoint.bytes];
    files::write(directory, &path, &parts, durable, points)
}

/// Removes the files of a run's checkpoints that a newer one has replaced, and those that a
/// crash left. A file that cannot be removed is tried again after the next checkpoint.
pub(crate) fn remove_older(directory: &Path, run: RunId, newest: u64, newest_is_file: bool) {
    let Ok(entries) = fs::read_dir(directory_of(directory, run)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let sequence = name.to_str().and_then(|name| name.parse::<u64>().ok());
        let kept = sequence
            .is_some_and(|sequence| sequence > newest || (sequence == newest && newest_is_file));
        if !kept {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes the files of all checkpoints of a run.
pub(crate) fn remove_all(directory: &Path, run: RunId) {
    // A file that cannot be removed is tried again when space is given back.
    let _ = fs::remove_dir_all(directory_of(directory, run));
}

/// The runs that have files of checkpoints.
pub(crate) fn runs_with_files(directory: &Path) -> Vec<RunId> {
    let Ok(entries) = fs::read_dir(directory.join(DIRECTORY)) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// Removes checkpoints that were stored after their run was forgotten.
pub(crate) fn remove_strays(connection: &Connection) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM checkpoint \
         WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.run = checkpoint.run)";
    connection.prepare_cached(SQL)?.execute([])?;
    Ok(())
}

/// Makes a checkpoint the run's newest; the file of a large one is there already. Says
/// whether the one before was a file.
pub(crate) fn put(
    connection: &Connection,
    run: RunId,
    head: &Head,
    small: Option<&[u8]>,
) -> Result<bool, Fault> {
    let before = connection
        .prepare_cached("SELECT bytes IS NULL FROM checkpoint WHERE run = ?")?
        .query_row([run.as_bytes()], |row| row.get(0))
        .optional()?;
    connection
        .prepare_cached(
            "INSERT INTO checkpoint (run, sequence, append_id, chain, sum, bytes) \
             VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET \
             sequence = excluded.sequence, append_id = excluded.append_id, \
             chain = excluded.chain, sum = excluded.sum, bytes = excluded.bytes",
        )?
        .execute(params![
            run.as_bytes(),
            signed(head.sequence),
            signed(head.append_id),
            head.chain,
            row_sum(run, head, small).value(),
            small,
        ])?;
    Ok(before.unwrap_or(false))
}

fn row_sum(run: RunId, head: &Head, small: Option<&[u8]>) -> Sum {
    let sum = Sum::default()
        .bytes(run.as_bytes())
        .number(signed(head.sequence))
        .number(signed(head.append_id))
        .bytes(&head.chain);
    match small {
        None => sum.number(0),
        Some(bytes) => sum.number(1).bytes(bytes),
    }
}

/// See `Store::checkpoint`.
pub(crate) fn read(
    connection: &Connection,
    directory: &Path,
    run: RunId,
) -> Result<Option<Checkpoint>, Fault> {
    let found = load(connection, directory, run).and_then(|checkpoint| match checkpoint {
        Some(checkpoint) if read::is_on_chain(connection, run, checkpoint.head)? => {
            Ok(Some(checkpoint))
        }
        _ => Ok(None),
    });
    match found.map_err(Fault::into_error) {
        Err(Error::Damaged(_)) => Ok(None),
        other => Ok(other?),
    }
}

/// Checks that a run's checkpoint, if there is one, is what was stored. A file that is
/// missing is no damage: a backup does not hold it.
pub(crate) fn check(connection: &Connection, directory: &Path, run: RunId) -> Result<(), Fault> {
    load(connection, directory, run).map(drop)
}

/// The checkpoint that a run's row names, wherever its head lies.
fn load(
    connection: &Connection,
    directory: &Path,
    run: RunId,
) -> Result<Option<Checkpoint>, Fault> {
    // Between reading the row and the file, a newer checkpoint may come.
    for _ in 0..3 {
        let Some((head, small)) = row(connection, run)? else {
            return Ok(None);
        };
        if let Some(bytes) = small {
            return Ok(Some(Checkpoint { head, bytes }));
        }
        match fs::read(file(directory, run, &head)) {
            Ok(bytes) => return open(run, head, bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(damaged(run, &error.to_string())),
        }
    }
    Ok(None)
}

type Row = (Head, Option<Vec<u8>>);

fn row(connection: &Connection, run: RunId) -> Result<Option<Row>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, append_id, chain, bytes, sum FROM checkpoint WHERE run = ?",
    )?;
    let found = statement.query_row([run.as_bytes()], |row| {
        let (head, small): Row = (codec::head(row, 0)?, row.get(3)?);
        let sound = row_sum(run, &head, small.as_deref()).check(row, 4).is_ok();
        Ok(sound.then_some((head, small)))
    });
    match found.optional()? {
        None => Ok(None),
        Some(None) => Err(damaged(run, "it does not match its checksum")),
        Some(found) => Ok(found),
    }
}

/// Checks a file's content, and takes the checksum off.
fn open(run: RunId, head: Head, mut bytes: Vec<u8>) -> Result<Checkpoint, Fault> {
    let fits = bytes
        .split_at_checked(CHECKSUM)
        .is_some_and(|(sum, state)| *sum == checksum(run, &head, state));
    if !fits {
        return Err(damaged(run, "its file does not match its checksum"));
    }
    bytes.drain(..CHECKSUM);
    Ok(Checkpoint { head, bytes })
}

fn damaged(run: RunId, reason: &str) -> Fault {
    let damage = Damage {
        place: "checkpoint".into(),
        run: Some(run),
        sequence: None,
        offset: None,
        reason: format!("{reason}; the log is read instead"),
    };
    Error::Damaged(Box::new(damage)).into()
}
