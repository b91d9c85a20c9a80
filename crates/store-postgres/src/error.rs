//! How PostgreSQL's errors collapse to the contract's few kinds, and which of them leave it open
//! whether a statement was committed.

use std::fmt;

use tokio_postgres::error::SqlState;
use windlass_core::RunId;
use windlass_store::{Damage, Error};

/// An error inside this crate, before it crosses the contract.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the driver or the server.
    Postgres(tokio_postgres::Error),
    /// Already in the contract's terms.
    Store(Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
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
            Self::Postgres(error) => from_postgres(&error),
        }
    }

    /// Whether the same statement may succeed if it is sent again: it lost a race against
    /// another one, and nothing of it was kept.
    pub(crate) fn is_race(&self) -> bool {
        matches!(self, Self::Postgres(error) if fate(error) == Fate::Raced)
    }

    /// Whether something in the statement is the reason, and nothing of it was kept.
    pub(crate) fn is_culprit(&self) -> bool {
        matches!(self, Self::Postgres(error) if fate(error) == Fate::Culprit)
    }
}

/// What a failed statement leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another statement was faster; nothing was written, and it can be sent again.
    Raced,
    /// Nothing was written, because of the state of the server.
    Refused,
    /// Nothing was written, because of something in the statement.
    Culprit,
    /// The connection is gone, and whether it was committed is unknown.
    Lost,
}

/// What is known after an error.
pub(crate) fn fate(error: &tokio_postgres::Error) -> Fate {
    let Some(code) = error.code() else {
        return Fate::Lost;
    };
    match code.code() {
        // A unique key or a referenced value appeared or went while the statement ran.
        "23505" | "23503" | "40001" | "40P01" => Fate::Raced,
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => Fate::Lost,
        "57014" | "25006" => Fate::Refused,
        code if code.starts_with("08") => Fate::Lost,
        code if code.starts_with("53") || code.starts_with("58") => Fate::Refused,
        _ => Fate::Culprit,
    }
}

/// Sorts an error into one of the contract's kinds.
pub(crate) fn from_postgres(error: &tokio_postgres::Error) -> Error {
    let Some(refusal) = error.as_db_error() else {
        return Error::Unavailable(format!("the database cannot be reached: {}", told(error)));
    };
    let text = refusal.message();
    match *refusal.code() {
        SqlState::DISK_FULL => Error::Full(format!("the database's disk is full: {text}")),
        SqlState::QUERY_CANCELED => Error::Timeout(format!("the database gave up: {text}")),
        SqlState::LOCK_NOT_AVAILABLE => {
            Error::Timeout(format!("another program keeps a row locked: {text}"))
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => damage(text.into()),
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::Unavailable(format!(
            "the database only reads ({text}); it is a replica, or `default_transaction_read_only` \
             is set: connect to the primary"
        )),
        SqlState::INSUFFICIENT_PRIVILEGE => Error::Unavailable(format!(
            "the database user lacks a right ({text}); docs/postgres.md lists the grants"
        )),
        _ => Error::Unavailable(format!(
            "the database refused: {text} (SQLSTATE {})",
            refusal.code().code()
        )),
    }
}

/// The driver's error with its cause, which its own text leaves out.
pub(crate) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Damage at a place that is not a run's log.
pub(crate) fn damage(reason: String) -> Error {
    Error::Damaged(Box::new(Damage {
        place: "the database".into(),
        run: None,
        sequence: None,
        offset: None,
        reason,
    }))
}

/// Damage in a run's log.
pub(crate) fn damaged_log(run: RunId, sequence: u64, reason: &str) -> Error {
    Error::Damaged(Box::new(Damage {
        place: "table record".into(),
        run: Some(run),
        sequence: Some(sequence),
        offset: None,
        reason: reason.into(),
    }))
}

/// Why a store could not be opened.
#[derive(Clone, Debug)]
pub enum OpenError {
    /// The database cannot be reached now. Waiting may help.
    Away(Error),
    /// The database, or what it holds, is not one to work with. Waiting does not help.
    Refused(Error),
}

impl OpenError {
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(Error::Unavailable(text.into()))
    }

    /// The error in the contract's terms.
    pub fn into_error(self) -> Error {
        match self {
            Self::Away(error) | Self::Refused(error) => error,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(error) | Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
