//! Exit codes, and the failures that lead to them: how each kind of failure of the service ends the
//! program, and how a failure is printed. What can fail and why is the service's.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};
use windlass_core::RunStatus;
use windlass_core::printable::{self, one_line};
use windlass_engine::{CommandError, LoadError, StartError};
use windlass_service::failure::Parts;
use windlass_service::{FailureKind, failure};

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
    /// Timed out waiting; the run continues.
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
    /// The worse of two, where a command acted on many runs.
    pub(crate) fn worse(self, other: Self) -> Self {
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

impl From<FailureKind> for Exit {
    /// The exit code of a failure of this kind.
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage
            | FailureKind::TimeInvalid
            | FailureKind::StatusUnknown
            | FailureKind::LabelInvalid
            | FailureKind::CursorInvalid
            | FailureKind::SecretKeyInvalid => Self::Usage,
            FailureKind::SignalInvalid
            | FailureKind::ResultInvalid
            | FailureKind::ImportInvalid
            | FailureKind::TriggerInvalid
            | FailureKind::TriggerNotJson
            | FailureKind::TriggerTooLarge
            | FailureKind::NestingLimit
            | FailureKind::SchemaInvalid
            | FailureKind::SchemaLimit
            | FailureKind::VarsLimit
            | FailureKind::NameInvalid
            | FailureKind::ConcurrencyKeyInvalid
            | FailureKind::VariableUnknown
            | FailureKind::DefinitionInvalid
            | FailureKind::GraphVersion
            | FailureKind::GraphTooLarge
            | FailureKind::SignatureMismatch
            | FailureKind::SecretInvalid
            | FailureKind::SecretTooLarge
            | FailureKind::HookInvalid
            | FailureKind::PoolInvalid
            | FailureKind::PoolUnknown
            | FailureKind::SimulatedNodeUnknown
            | FailureKind::SimulatedSignalUnknown
            | FailureKind::ScheduleInvalid => Self::Invalid,
            FailureKind::StoreNotFound
            | FailureKind::RunNotFound
            | FailureKind::NodeNotFound
            | FailureKind::LetterNotFound
            | FailureKind::WorkflowNotFound
            | FailureKind::VersionNotFound
            | FailureKind::SecretNotFound
            | FailureKind::SecretKeyMissing
            | FailureKind::HookNotFound
            | FailureKind::PoolNotFound
            | FailureKind::ScheduleNotFound => Self::NotFound,
            FailureKind::RunAmbiguous
            | FailureKind::NodeAmbiguous
            | FailureKind::RunEnded
            | FailureKind::DeadLetter
            | FailureKind::ReattemptRefused
            | FailureKind::SkipRefused
            | FailureKind::CompensationSkipRefused
            | FailureKind::Compensated
            | FailureKind::SignalUnknown
            | FailureKind::Incompatible
            | FailureKind::Conflict
            | FailureKind::RequestIdReused
            | FailureKind::IdempotencyKeyReused
            | FailureKind::WorkflowDisabled
            | FailureKind::TooManyHooks
            | FailureKind::PoolInUse
            | FailureKind::TooManySchedules => Self::Conflict,
            FailureKind::ChecksBusy | FailureKind::OwnerUnavailable => Self::TimedOut,
            FailureKind::StoreUnavailable
            | FailureKind::StoreFull
            | FailureKind::StoreDamaged
            | FailureKind::StoreFailed
            | FailureKind::StoreTooNew
            | FailureKind::StoreTimeout
            | FailureKind::LoadFailed
            | FailureKind::OutputFailed
            | FailureKind::EngineStopped
            | FailureKind::DefinitionUnreadable
            | FailureKind::SecretKeyUnusable => Self::Storage,
        }
    }
}

/// Why a command did not do what it was asked: a code, a sentence, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// SCREAMING_SNAKE_CASE.
    pub(crate) code: Cow<'static, str>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// What is wrong with each part; mostly empty.
    pub(crate) parts: Box<Parts>,
}

impl Failure {
    /// A failure without a hint.
    pub(crate) fn new(
        exit: Exit,
        code: impl Into<Cow<'static, str>>,
        message: impl fmt::Display,
    ) -> Self {
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
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Says what is wrong with each part.
    #[must_use]
    pub(crate) fn details(mut self, details: Vec<Value>) -> Self {
        self.parts.details = details;
        self
    }

    /// Writes the failure to stderr: for programs as one line of JSON, else for people.
    pub(crate) fn print(&self, json: bool) {
        let text = if json {
            self.to_json().to_string()
        } else {
            self.to_text()
        };
        // If stderr cannot be written, the exit code still says it.
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

impl From<failure::Failure> for Failure {
    fn from(failure: failure::Failure) -> Self {
        Self {
            exit: failure.kind.into(),
            code: failure.kind.code().into(),
            message: failure.message,
            hint: failure.hint,
            parts: failure.parts,
        }
    }
}

/// Converts errors for which the service has a failure kind.
macro_rules! through_service {
    ($($error:ty),* $(,)?) => {
        $(
            impl From<$error> for Failure {
                fn from(error: $error) -> Self {
                    failure::Failure::from(error).into()
                }
            }
        )*
    };
}

through_service!(
    windlass_store::Error,
    LoadError,
    windlass_engine::view::Error,
    StartError,
    windlass_engine::fork::ForkError,
    CommandError,
    windlass_engine::ScheduleError,
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit codes are part of the interface: this is the whole table, written out.
    #[test]
    fn every_kind_has_its_exit() {
        let expected = [
            (
                2,
                "USAGE TIME_INVALID STATUS_UNKNOWN LABEL_INVALID CURSOR_INVALID \
                 SECRET_KEY_UNUSABLE",
            ),
            (
                3,
                "SIGNAL_INVALID RESULT_INVALID IMPORT_INVALID TRIGGER_INVALID \
                 TRIGGER_NOT_JSON TRIGGER_TOO_LARGE NESTING_LIMIT SCHEMA_INVALID \
                 SCHEMA_LIMIT VARS_LIMIT NAME_INVALID CONCURRENCY_KEY_INVALID \
                 VARIABLE_UNKNOWN DEFINITION_INVALID GRAPH_VERSION GRAPH_TOO_LARGE \
                 SIGNATURE_MISMATCH SECRET_INVALID SECRET_TOO_LARGE HOOK_INVALID \
                 SCHEDULE_INVALID POOL_INVALID POOL_UNKNOWN UNKNOWN_NODE UNKNOWN_SIGNAL",
            ),
            (
                4,
                "NOT_FOUND RUN_NOT_FOUND NODE_NOT_FOUND LETTER_NOT_FOUND \
                 WORKFLOW_NOT_FOUND VERSION_NOT_FOUND SECRET_NOT_FOUND \
                 SECRET_KEY_MISSING HOOK_NOT_FOUND SCHEDULE_NOT_FOUND POOL_NOT_FOUND",
            ),
            (
                6,
                "RUN_AMBIGUOUS NODE_AMBIGUOUS RUN_ENDED DEAD_LETTER REATTEMPT_REFUSED SKIP_REFUSED \
                 COMPENSATION_SKIP_REFUSED COMPENSATED \
                 SIGNAL_UNKNOWN INCOMPATIBLE CONFLICT REQUEST_ID_REUSED IDEMPOTENCY_KEY_REUSED \
                 WORKFLOW_DISABLED TOO_MANY_HOOKS TOO_MANY_SCHEDULES POOL_IN_USE",
            ),
            (7, "CHECKS_BUSY OWNER_UNAVAILABLE"),
            (
                74,
                "STORE_UNAVAILABLE STORE_FULL STORE_DAMAGED STORE_FAILED \
                 STORE_TOO_NEW STORE_TIMEOUT LOAD_FAILED OUTPUT_FAILED \
                 ENGINE_STOPPED DEFINITION_UNREADABLE SECRET_KEY_UNUSABLE",
            ),
        ];
        let expected: Vec<(String, u8)> = expected
            .iter()
            .flat_map(|(exit, codes)| {
                let codes = codes.split_whitespace();
                codes.map(move |code| (code.to_owned(), *exit))
            })
            .collect();
        let mut actual: Vec<(String, u8)> = FailureKind::ALL
            .iter()
            .map(|&kind| (kind.code().to_owned(), Exit::from(kind) as u8))
            .collect();
        actual.sort();
        let mut expected = expected;
        expected.sort();
        assert_eq!(actual, expected);
    }

    #[test]
    fn a_failure_of_the_service_keeps_its_code_its_words_and_its_places() {
        let failure = failure::Failure::new(FailureKind::TriggerInvalid, "it does not fit")
            .hint("see the schema")
            .details(vec![json!({ "pointer": "/a", "message": "no" })]);
        let failure = Failure::from(failure);
        assert_eq!(failure.exit, Exit::Invalid);
        let json = failure.to_json();
        assert_eq!(json["error"]["code"], "TRIGGER_INVALID");
        assert_eq!(json["error"]["hint"], "see the schema");
        assert_eq!(json["error"]["details"][0]["pointer"], "/a");
        let text = "error[TRIGGER_INVALID]: it does not fit\n  hint: see the schema";
        assert_eq!(failure.to_text(), text);
    }
}
