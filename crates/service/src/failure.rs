//! Exit codes, and the failures that lead to them.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};
use windlass_core::RunStatus;
use windlass_core::printable::{self, one_line};
use windlass_engine::fork::ForkError;
use windlass_engine::{CommandError, LoadError, PayloadError, StartError};
use windlass_store::Error;

/// How the program ends. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
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

impl Exit {
    /// Every way to end.
    const ALL: [Self; 12] = [
        Self::Done,
        Self::RunFailed,
        Self::Usage,
        Self::Invalid,
        Self::NotFound,
        Self::NotAllowed,
        Self::Conflict,
        Self::TimedOut,
        Self::RunCancelled,
        Self::Unreachable,
        Self::Storage,
        Self::Interrupted,
    ];

    /// The exit with this number, as another process names it.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| *exit as u8 == code)
    }

    /// The worse of two, where a command acted on many runs.
    pub fn worse(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::RunCancelled => 1,
            Self::RunFailed => 2,
            Self::TimedOut => 3,
            Self::Usage | Self::Invalid | Self::NotFound | Self::NotAllowed => 4,
            Self::Conflict => 5,
            Self::Unreachable => 6,
            Self::Storage => 7,
            Self::Interrupted => 8,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
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
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// SCREAMING_SNAKE_CASE.
    pub code: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What is wrong with each part, which is rarely known.
    pub parts: Box<Parts>,
}

/// Everything that is wrong, part by part.
#[derive(Debug, Default)]
pub struct Parts {
    /// For programs: a pointer, a message, and what else is known of each.
    pub details: Vec<Value>,
    /// The same for people, printed before the message.
    pub shown: String,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl fmt::Display) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.to_string(),
            hint: None,
            parts: Box::default(),
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Says what is wrong with each part.
    #[must_use]
    pub fn details(mut self, details: Vec<Value>) -> Self {
        self.parts.details = details;
        self
    }

    /// Writes the failure to stderr: for programs as one line of JSON, else for people.
    pub fn print(&self, json: bool) {
        let text = if json {
            self.to_json().to_string()
        } else {
            self.to_text()
        };
        // Nobody reads it if it cannot be written.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    fn to_json(&self) -> Value {
        json!({ "error": {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.parts.details,
        } })
    }

    /// The places that the details name, a line each.
    fn places(&self) -> String {
        let part = |detail: &Value, key| detail[key].as_str().map(str::to_owned);
        let line = |detail: &Value| {
            let pointer = part(detail, "pointer")?;
            let pointer = if pointer.is_empty() { "/" } else { &pointer };
            let message = part(detail, "message")?;
            Some(format!(
                "\n  at {}: {}",
                one_line(pointer),
                one_line(&message)
            ))
        };
        self.parts.details.iter().filter_map(line).collect()
    }

    fn to_text(&self) -> String {
        // A message may quote what came from outside: it must not look like another line.
        let shown = printable::lines(&self.parts.shown);
        let code = one_line(&self.code);
        let places = self.places();
        let message = match self.message.split_once('\n') {
            // The message repeats its places, each on a line of its own.
            Some((head, _)) if !places.is_empty() => head,
            _ => &self.message,
        };
        let mut text = format!("{shown}error[{code}]: {}", one_line(message));
        if message.len() < self.message.len() {
            text.push_str(&places);
        }
        if let Some(hint) = &self.hint {
            text.push_str("\n  hint: ");
            text.push_str(&one_line(hint));
        }
        text
    }
}

/// What to do about a write-ahead log that is missing, cut or damaged.
pub const LOST_LOG: &str = "put the missing file back, or keep a copy of the data directory and \
    restore a backup with `windlass restore FILE`; without one, `windlass doctor --accept-loss` \
    opens the directory with what is left";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (exit, code) = match &error {
            Error::NotFound(_) => (Exit::NotFound, "NOT_FOUND"),
            Error::Unavailable(_) => (Exit::Storage, "STORE_UNAVAILABLE"),
            Error::Full(_) => (Exit::Storage, "STORE_FULL"),
            Error::Damaged(_) => (Exit::Storage, "STORE_DAMAGED"),
            Error::Fatal(_) => (Exit::Storage, "STORE_FAILED"),
            Error::TooNew(_) => (Exit::Storage, "STORE_TOO_NEW"),
            Error::Timeout(_) => (Exit::Storage, "STORE_TIMEOUT"),
        };
        let hint = match &error {
            Error::Full(_) => Some("free space on the disk of the data directory"),
            Error::Damaged(damage) if damage.place.ends_with("-wal") => Some(LOST_LOG),
            _ => None,
        };
        Self {
            hint: hint.map(str::to_owned),
            ..Self::new(exit, code, error)
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::NotFound(_) => Self::new(Exit::NotFound, "RUN_NOT_FOUND", error),
            LoadError::Definition(_) => Self::new(Exit::Storage, "DEFINITION_UNREADABLE", error),
            LoadError::Unavailable(_) => Self::new(Exit::Conflict, "DEAD_LETTER", error),
        }
    }
}

impl From<windlass_engine::view::Error> for Failure {
    fn from(error: windlass_engine::view::Error) -> Self {
        match error {
            windlass_engine::view::Error::Load(error) => error.into(),
            windlass_engine::view::Error::Write(_) => {
                Self::new(Exit::Storage, "OUTPUT_FAILED", error)
            }
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let details = match &error {
            StartError::TriggerInvalid(problems) => places(problems),
            StartError::TriggerRepeatsKey(repeated) => {
                vec![json!({ "pointer": repeated.pointer, "message": error.to_string() })]
            }
            _ => Vec::new(),
        };
        let (exit, code) = match error {
            StartError::Store(error) => return error.into(),
            StartError::RequestIdReused { .. } => (Exit::Conflict, "REQUEST_ID_REUSED"),
            StartError::TriggerInvalid(_) | StartError::TriggerRepeatsKey(_) => {
                (Exit::Invalid, "TRIGGER_INVALID")
            }
            StartError::TriggerNotJson(_) => (Exit::Invalid, "TRIGGER_NOT_JSON"),
            StartError::TriggerTooLarge(_) => (Exit::Invalid, "TRIGGER_TOO_LARGE"),
            StartError::TriggerTooDeep(_) => (Exit::Invalid, "NESTING_LIMIT"),
            StartError::SchemaInvalid(_) => (Exit::Invalid, "SCHEMA_INVALID"),
            StartError::NameInvalid { .. } => (Exit::Invalid, "NAME_INVALID"),
            StartError::VarsLimit(_) => (Exit::Invalid, "VARS_LIMIT"),
            StartError::SchemaLimit(_) => (Exit::Invalid, "SCHEMA_LIMIT"),
            StartError::Busy => (Exit::TimedOut, "CHECKS_BUSY"),
            StartError::ConcurrencyKey(_) => (Exit::Invalid, "CONCURRENCY_KEY_INVALID"),
            StartError::UnknownVariable(_) => (Exit::Invalid, "VARIABLE_UNKNOWN"),
            StartError::UnknownWorkflow { .. } => (Exit::NotFound, "WORKFLOW_NOT_FOUND"),
            StartError::Disabled { .. } => (Exit::Conflict, "WORKFLOW_DISABLED"),
            StartError::Definition(_) => (Exit::Storage, "DEFINITION_UNREADABLE"),
            StartError::Stopped => (Exit::Storage, "ENGINE_STOPPED"),
        };
        Self::new(exit, code, error).details(details)
    }
}

/// The details of problems that have places.
fn places(problems: &[(String, String)]) -> Vec<Value> {
    let place =
        |(pointer, message): &(String, String)| json!({ "pointer": pointer, "message": message });
    problems.iter().map(place).collect()
}

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Load(error) => error.into(),
            ForkError::UnknownNode(_) => Self::new(Exit::NotFound, "NODE_NOT_FOUND", error),
            ForkError::NoNode => Self::new(Exit::Usage, "USAGE", error),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::SignalInvalid(PayloadError::SchemaLimit(_)) => {
                Self::new(Exit::Invalid, "SCHEMA_LIMIT", error)
            }
            CommandError::SignalInvalid(PayloadError::Busy)
            | CommandError::ResultInvalid(PayloadError::Busy) => {
                Self::new(Exit::TimedOut, "CHECKS_BUSY", error)
            }
            CommandError::SignalInvalid(ref problem) => {
                let details = places(&problem.places());
                Self::new(Exit::Invalid, "SIGNAL_INVALID", error).details(details)
            }
            CommandError::SignalName => Self::new(Exit::Invalid, "NAME_INVALID", error),
            CommandError::ResultInvalid(ref problem) => {
                let details = places(&problem.places());
                Self::new(Exit::Invalid, "RESULT_INVALID", error).details(details)
            }
            CommandError::Load(error) => error.into(),
            CommandError::UnknownNode(_) => Self::new(Exit::NotFound, "NODE_NOT_FOUND", error),
            CommandError::Stopped => Self::new(Exit::Storage, "ENGINE_STOPPED", error),
            CommandError::Refused { ref refusal, .. } => {
                use windlass_core::run::Refusal;
                let code = match refusal {
                    Refusal::InTheWay(_) | Refusal::NotFailed(_) | Refusal::NothingToReattempt => {
                        "REATTEMPT_REFUSED"
                    }
                    Refusal::Compensated => "COMPENSATED",
                    Refusal::UnknownSignal(_) => "SIGNAL_UNKNOWN",
                    Refusal::Incompatible(_) => "INCOMPATIBLE",
                    Refusal::RunEnded => "RUN_ENDED",
                    Refusal::NotNow(_) | Refusal::NotOpen => "CONFLICT",
                };
                Self::new(Exit::Conflict, code, error)
            }
        }
    }
}
