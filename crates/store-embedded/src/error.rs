//! How SQLite's and the system's errors collapse to the contract's few kinds.
//!
//! Damage is never reported as unavailability, and a failed sync is fatal: after it, what the
//! disk holds is unknown.

use std::io;
use std::path::Path;

use rusqlite::ffi;
use windlass_core::RunId;
use windlass_store::{Damage, Error};

/// An error inside this crate, before it crosses the contract.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// Already in the contract's terms.
    Store(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// The error as the contract names it.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Store(error) => error,
            Self::Sqlite(error) => from_sqlite(&error),
        }
    }

    /// The same, naming the run that was being read.
    pub(crate) fn about(self, run: RunId) -> Error {
        match self.into_error() {
            Error::Damaged(mut damage) => {
                damage.run.get_or_insert(run);
                Error::Damaged(damage)
            }
            other => other,
        }
    }

    /// The same, naming also the record from which on it could not be read.
    pub(crate) fn at(self, run: RunId, sequence: u64) -> Self {
        Self::Store(match self.about(run) {
            Error::Damaged(mut damage) => {
                damage.sequence.get_or_insert(sequence);
                Error::Damaged(damage)
            }
            other => other,
        })
    }
}

/// Sorts a SQLite error into one of the contract's kinds.
pub(crate) fn from_sqlite(error: &rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        // A column of another type than this version ever wrote.
        return damage(format!("a stored value cannot be read: {error}"));
    };
    let text = message.clone().unwrap_or_else(|| error.to_string());
    match code.extended_code {
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            Error::Fatal(format!("a sync failed: {text}"))
        }
        extended => match extended & 0xff {
            ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => damage(text),
            ffi::SQLITE_INTERRUPT => Error::Timeout("the query took too long".into()),
            ffi::SQLITE_FULL => Error::Full("the disk is full".into()),
            _ => Error::Unavailable(text),
        },
    }
}

/// Damage in the database file, at a place that SQLite does not tell.
pub(crate) fn damage(reason: String) -> Error {
    Error::Damaged(Box::new(Damage {
        place: crate::connect::DATABASE.into(),
        run: None,
        sequence: None,
        offset: None,
        reason,
    }))
}

/// Damage in a run's log.
pub(crate) fn damaged_log(run: RunId, sequence: u64, reason: &str) -> Error {
    Error::Damaged(Box::new(Damage {
        place: crate::connect::DATABASE.into(),
        run: Some(run),
        sequence: Some(sequence),
        offset: None,
        reason: reason.into(),
    }))
}

/// Damage at a place in a file.
pub(crate) fn damaged_file(place: &str, offset: u64, reason: String) -> Error {
    Error::Damaged(Box::new(Damage {
        place: place.into(),
        run: None,
        sequence: None,
        offset: Some(offset),
        reason,
    }))
}

/// A file operation that failed, with the file's name.
pub(crate) fn from_io(path: &Path, error: &io::Error) -> Error {
    let text = format!("{}: {error}", path.display());
    if is_full(error) {
        Error::Full(text)
    } else {
        Error::Unavailable(text)
    }
}

/// Whether an operation failed for lack of space: of the disk, of the user's part of it, or of
/// what one file may hold.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
