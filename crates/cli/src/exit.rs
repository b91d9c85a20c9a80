//! Exit codes, and the failures that lead to them.

use std::fmt;
use std::process::ExitCode;

use windlass_core::RunStatus;
use windlass_engine::{CommandError, LoadError, StartError};
use windlass_store::Error;

/// How the program ends. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done and, where a run was waited for, Succeeded.
    Done = 0,
    /// The run Failed.
    RunFailed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The definition or input is invalid.
    Invalid = 3,
    /// There is no such thing.
    NotFound = 4,
    /// Not allowed.
    NotAllowed = 5,
    /// The state of things does not allow it.
    Conflict = 6,
    /// Timed out waiting; the run goes on.
    TimedOut = 7,
    /// The run was Cancelled.
    RunCancelled = 8,
    /// The server cannot be reached.
    Unreachable = 9,
    /// Storage failed.
    Storage = 74,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<RunStatus> for Exit {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Failed => Self::RunFailed,
            RunStatus::Cancelled => Self::RunCancelled,
            RunStatus::Paused => Self::TimedOut,
            RunStatus::Succeeded | RunStatus::Pending | RunStatus::Running => Self::Done,
        }
    }
}

/// Why a command did not do what it was asked: a code, a sentence, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// SCREAMING_SNAKE_CASE.
    pub(crate) code: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl fmt::Display) -> Self {
        Self {
            exit,
            code,
            message: message.to_string(),
            hint: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Writes the failure for people. An empty message was printed already.
    pub(crate) fn print(&self) {
        if !self.message.is_empty() {
            eprintln!("error[{}]: {}", self.code, self.message);
        }
        if let Some(hint) = &self.hint {
            eprintln!("  hint: {hint}");
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (exit, code) = match &error {
            Error::NotFound(_) => (Exit::NotFound, "NOT_FOUND"),
            Error::Unavailable(_) => (Exit::Storage, "STORE_UNAVAILABLE"),
            Error::Damaged(_) => (Exit::Storage, "STORE_DAMAGED"),
            Error::Fatal(_) => (Exit::Storage, "STORE_FAILED"),
            Error::TooNew(_) => (Exit::Storage, "STORE_TOO_NEW"),
        };
        Self::new(exit, code, error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::NotFound(_) => Self::new(Exit::NotFound, "RUN_NOT_FOUND", error),
            LoadError::Definition(_) => Self::new(Exit::Storage, "DEFINITION_UNREADABLE", error),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let (exit, code) = match error {
            StartError::Store(error) => return error.into(),
            StartError::RequestIdReused { .. } => (Exit::Conflict, "REQUEST_ID_REUSED"),
            StartError::TriggerInvalid(_) => (Exit::Invalid, "TRIGGER_INVALID"),
            StartError::TriggerNotJson(_) => (Exit::Invalid, "TRIGGER_NOT_JSON"),
            StartError::TriggerTooLarge(_) => (Exit::Invalid, "TRIGGER_TOO_LARGE"),
            StartError::SchemaInvalid(_) => (Exit::Invalid, "SCHEMA_INVALID"),
            StartError::Stopped => (Exit::Storage, "ENGINE_STOPPED"),
        };
        Self::new(exit, code, error)
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Load(error) => error.into(),
            CommandError::UnknownNode(_) => Self::new(Exit::NotFound, "NODE_NOT_FOUND", error),
            CommandError::Stopped => Self::new(Exit::Storage, "ENGINE_STOPPED", error),
            CommandError::Refused { ref refusal, .. } => {
                use windlass_core::run::Refusal;
                let code = match refusal {
                    Refusal::InTheWay(_) | Refusal::NotFailed(_) | Refusal::NothingToReattempt => {
                        "REATTEMPT_REFUSED"
                    }
                    Refusal::RunEnded => "RUN_ENDED",
                    Refusal::NotNow(_) | Refusal::NotOpen => "CONFLICT",
                };
                Self::new(Exit::Conflict, code, error)
            }
        }
    }
}
