//! Why a query was not answered or a command not carried out: a kind, a sentence, what to do
//! about it, and what is wrong with each part. The callers map a kind to an exit code or to an
//! HTTP status: this file knows of neither.

use std::fmt;

use serde_json::{Value, json};
use windlass_core::RunStatus;
use windlass_core::plan::AmbiguousName;
use windlass_core::run::Refusal;
use windlass_engine::fork::ForkError;
use windlass_engine::{CommandError, LoadError, PayloadError, StartError, Unavailable};
use windlass_store::Error;

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident $code:literal),* $(,)?) => {
        /// What went wrong. Its code is part of the interface; two kinds may share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FailureKind {
            $($(#[$meta])* $name,)*
        }

        impl FailureKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code, in capitals with underscores.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

kinds! {
    // The store.
    /// The store has no such thing.
    StoreNotFound "NOT_FOUND",
    /// The store cannot be used now.
    StoreUnavailable "STORE_UNAVAILABLE",
    /// There is no space left to write to.
    StoreFull "STORE_FULL",
    /// Something stored is damaged.
    StoreDamaged "STORE_DAMAGED",
    /// The store can do nothing more.
    StoreFailed "STORE_FAILED",
    /// A newer program wrote it.
    StoreTooNew "STORE_TOO_NEW",
    /// The store took too long.
    StoreTimeout "STORE_TIMEOUT",

    // Runs, and looking at them.
    /// There is no such run.
    RunNotFound "RUN_NOT_FOUND",
    /// Several runs are meant.
    RunAmbiguous "RUN_AMBIGUOUS",
    /// The run has ended.
    RunEnded "RUN_ENDED",
    /// The run has no such node.
    NodeNotFound "NODE_NOT_FOUND",
    /// Several nodes have the name.
    NodeAmbiguous "NODE_AMBIGUOUS",
    /// The run is among the dead letters.
    DeadLetter "DEAD_LETTER",
    /// The run is not among the dead letters.
    LetterNotFound "LETTER_NOT_FOUND",
    /// The task that read the run broke off.
    LoadFailed "LOAD_FAILED",
    /// The answer cannot be written.
    OutputFailed "OUTPUT_FAILED",
    /// The engine is stopping.
    EngineStopped "ENGINE_STOPPED",

    // Acting on runs.
    /// The nodes cannot be tried again.
    ReattemptRefused "REATTEMPT_REFUSED",
    /// The node cannot be skipped.
    SkipRefused "SKIP_REFUSED",
    /// The node's compensation cannot be skipped.
    CompensationSkipRefused "COMPENSATION_SKIP_REFUSED",
    /// The run was compensated.
    Compensated "COMPENSATED",
    /// No node waits for a signal of that name.
    SignalUnknown "SIGNAL_UNKNOWN",
    /// The signal does not fit its schema.
    SignalInvalid "SIGNAL_INVALID",
    /// The result does not fit.
    ResultInvalid "RESULT_INVALID",
    /// The graph does not fit the run.
    Incompatible "INCOMPATIBLE",
    /// The state of the run does not allow it.
    Conflict "CONFLICT",
    /// The graph cannot be imported.
    ImportInvalid "IMPORT_INVALID",
    /// The idempotency key was used for another command on the run.
    IdempotencyKeyReused "IDEMPOTENCY_KEY_REUSED",
    /// No process that owns the run has taken the command in time; it stays offered.
    OwnerUnavailable "OWNER_UNAVAILABLE",

    // Starting runs.
    /// The request id was used with another trigger.
    RequestIdReused "REQUEST_ID_REUSED",
    /// The trigger does not fit its schema.
    TriggerInvalid "TRIGGER_INVALID",
    /// The trigger is not JSON.
    TriggerNotJson "TRIGGER_NOT_JSON",
    /// The trigger is too large.
    TriggerTooLarge "TRIGGER_TOO_LARGE",
    /// The value is nested too deep.
    NestingLimit "NESTING_LIMIT",
    /// The schema is not one.
    SchemaInvalid "SCHEMA_INVALID",
    /// The schema, or checking by it, is too large.
    SchemaLimit "SCHEMA_LIMIT",
    /// Too many values are being checked.
    ChecksBusy "CHECKS_BUSY",
    /// The variables are too large together.
    VarsLimit "VARS_LIMIT",
    /// A name does not match its pattern.
    NameInvalid "NAME_INVALID",
    /// The concurrency key cannot be computed.
    ConcurrencyKeyInvalid "CONCURRENCY_KEY_INVALID",
    /// The definition declares no such variable.
    VariableUnknown "VARIABLE_UNKNOWN",
    /// The workflow is disabled.
    WorkflowDisabled "WORKFLOW_DISABLED",

    // The catalogue.
    /// There is no such workflow.
    WorkflowNotFound "WORKFLOW_NOT_FOUND",
    /// The workflow has no such version.
    VersionNotFound "VERSION_NOT_FOUND",
    /// The definition is invalid.
    DefinitionInvalid "DEFINITION_INVALID",
    /// A stored definition cannot be read.
    DefinitionUnreadable "DEFINITION_UNREADABLE",
    /// The exported graph is of another version.
    GraphVersion "GRAPH_VERSION",
    /// The graph is too large to draw.
    GraphTooLarge "GRAPH_TOO_LARGE",
    /// The graph was changed after it was signed.
    SignatureMismatch "SIGNATURE_MISMATCH",

    // Secrets and hooks.
    /// The secret's name or value is not valid.
    SecretInvalid "SECRET_INVALID",
    /// The secret's value is too large.
    SecretTooLarge "SECRET_TOO_LARGE",
    /// There is no such secret.
    SecretNotFound "SECRET_NOT_FOUND",
    /// There is no key yet that seals secrets.
    SecretKeyMissing "SECRET_KEY_MISSING",
    /// The key that was given is not one.
    SecretKeyInvalid "SECRET_KEY_UNUSABLE",
    /// The key cannot be read, or does not open what is sealed.
    SecretKeyUnusable "SECRET_KEY_UNUSABLE",
    /// The hook's name or secret is not valid.
    HookInvalid "HOOK_INVALID",
    /// There is no such hook.
    HookNotFound "HOOK_NOT_FOUND",
    /// There are as many hooks as there may be.
    TooManyHooks "TOO_MANY_HOOKS",

    // Schedules.
    /// The schedule cannot be used.
    ScheduleInvalid "SCHEDULE_INVALID",
    /// There is no such schedule.
    ScheduleNotFound "SCHEDULE_NOT_FOUND",
    /// There are as many schedules as there may be.
    TooManySchedules "TOO_MANY_SCHEDULES",

    // Pools.
    /// The pool's name or size is not valid.
    PoolInvalid "POOL_INVALID",
    /// There is no such pool.
    PoolNotFound "POOL_NOT_FOUND",
    /// Attempts or workflows use the pool.
    PoolInUse "POOL_IN_USE",
    /// A node names a pool that does not exist, or that is too small.
    PoolUnknown "POOL_UNKNOWN",

    // Simulations.
    /// The simulated definition has no such node.
    SimulatedNodeUnknown "UNKNOWN_NODE",
    /// No node of the simulated definition waits for the signal.
    SimulatedSignalUnknown "UNKNOWN_SIGNAL",

    // What is asked for.
    /// The request makes no sense.
    Usage "USAGE",
    /// The time cannot be read.
    TimeInvalid "TIME_INVALID",
    /// There is no such status.
    StatusUnknown "STATUS_UNKNOWN",
    /// The label cannot be read.
    LabelInvalid "LABEL_INVALID",
    /// The cursor cannot be read.
    CursorInvalid "CURSOR_INVALID",
}

impl FailureKind {
    /// Whether the present state does not allow the command, perhaps because it is done
    /// already.
    pub const fn is_conflict(self) -> bool {
        matches!(
            self,
            Self::RunAmbiguous
                | Self::NodeAmbiguous
                | Self::RunEnded
                | Self::DeadLetter
                | Self::ReattemptRefused
                | Self::SkipRefused
                | Self::CompensationSkipRefused
                | Self::Compensated
                | Self::SignalUnknown
                | Self::Incompatible
                | Self::Conflict
                | Self::RequestIdReused
                | Self::IdempotencyKeyReused
                | Self::WorkflowDisabled
                | Self::TooManyHooks
                | Self::TooManySchedules
                | Self::PoolInUse
        )
    }
}

/// Why the service did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The same as a sentence that names what it is about.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What is wrong with each part; mostly empty.
    pub parts: Box<Parts>,
}

/// Everything that is wrong, part by part.
#[derive(Debug, Default)]
pub struct Parts {
    /// For programs: a pointer, a message, and what else is known of each.
    pub details: Vec<Value>,
    /// The same as text for people, with excerpts of what was given.
    pub shown: String,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
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

    /// The code of its kind.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

/// What to do about a write-ahead log that is missing, cut or damaged.
pub const LOST_LOG: &str = "put the missing file back, or keep a copy of the data directory and \
    restore a backup with `windlass restore FILE`; without one, `windlass doctor --accept-loss` \
    opens the directory with what is left";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NotFound(_) => FailureKind::StoreNotFound,
            Error::Unavailable(_) => FailureKind::StoreUnavailable,
            Error::Full(_) => FailureKind::StoreFull,
            Error::Damaged(_) => FailureKind::StoreDamaged,
            Error::Fatal(_) => FailureKind::StoreFailed,
            Error::TooNew(_) => FailureKind::StoreTooNew,
            Error::Timeout(_) => FailureKind::StoreTimeout,
        };
        let hint = match &error {
            Error::Full(_) => Some("free space where the store keeps its data, or raise its limit"),
            Error::Damaged(damage) if damage.place.ends_with("-wal") => Some(LOST_LOG),
            _ => None,
        };
        Self {
            hint: hint.map(str::to_owned),
            ..Self::new(kind, error)
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::NotFound(_) => Self::new(FailureKind::RunNotFound, error),
            LoadError::Definition(_) => Self::new(FailureKind::DefinitionUnreadable, error),
            LoadError::Unavailable(Unavailable::Elsewhere) => {
                Self::new(FailureKind::StoreUnavailable, error)
            }
            LoadError::Unavailable(_) => Self::new(FailureKind::DeadLetter, error),
        }
    }
}

impl From<windlass_engine::view::Error> for Failure {
    fn from(error: windlass_engine::view::Error) -> Self {
        match error {
            windlass_engine::view::Error::Load(error) => error.into(),
            windlass_engine::view::Error::Write(_) => Self::new(FailureKind::OutputFailed, error),
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
        let kind = match error {
            StartError::Store(error) => return error.into(),
            StartError::RequestIdReused { .. } | StartError::RequestRefused { .. } => {
                FailureKind::RequestIdReused
            }
            StartError::TriggerInvalid(_) | StartError::TriggerRepeatsKey(_) => {
                FailureKind::TriggerInvalid
            }
            StartError::TriggerNotJson(_) => FailureKind::TriggerNotJson,
            StartError::TriggerTooLarge(_) => FailureKind::TriggerTooLarge,
            StartError::TriggerTooDeep(_) => FailureKind::NestingLimit,
            StartError::SchemaInvalid(_) => FailureKind::SchemaInvalid,
            StartError::NameInvalid { .. } => FailureKind::NameInvalid,
            StartError::VarsLimit(_) => FailureKind::VarsLimit,
            StartError::SchemaLimit(_) => FailureKind::SchemaLimit,
            StartError::Busy => FailureKind::ChecksBusy,
            StartError::ConcurrencyKey(_) => FailureKind::ConcurrencyKeyInvalid,
            StartError::UnknownVariable(_) => FailureKind::VariableUnknown,
            StartError::UnknownWorkflow { .. } => FailureKind::WorkflowNotFound,
            StartError::Disabled { .. } => FailureKind::WorkflowDisabled,
            StartError::Definition(_) => FailureKind::DefinitionUnreadable,
            StartError::Stopped => FailureKind::EngineStopped,
        };
        Self::new(kind, error).details(details)
    }
}

/// The details of problems that have places.
fn places(problems: &[(String, String)]) -> Vec<Value> {
    let place =
        |(pointer, message): &(String, String)| json!({ "pointer": pointer, "message": message });
    problems.iter().map(place).collect()
}

impl From<AmbiguousName> for Failure {
    fn from(error: AmbiguousName) -> Self {
        Self::new(FailureKind::NodeAmbiguous, error)
    }
}

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Load(error) => error.into(),
            ForkError::UnknownNode(_) => {
                Self::new(FailureKind::NodeNotFound, error).hint("`windlass show RUN` lists them")
            }
            ForkError::AmbiguousNode(name) => name.into(),
            ForkError::NoNode => Self::new(FailureKind::Usage, error),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::SignalInvalid(PayloadError::SchemaLimit(_)) => {
                Self::new(FailureKind::SchemaLimit, error)
            }
            CommandError::SignalInvalid(PayloadError::Busy)
            | CommandError::ResultInvalid(PayloadError::Busy) => {
                Self::new(FailureKind::ChecksBusy, error)
            }
            CommandError::SignalInvalid(ref problem) => {
                let details = places(&problem.places());
                Self::new(FailureKind::SignalInvalid, error).details(details)
            }
            CommandError::SignalName | CommandError::KeyInvalid => {
                Self::new(FailureKind::NameInvalid, error)
            }
            CommandError::ResultInvalid(ref problem) => {
                let details = places(&problem.places());
                Self::new(FailureKind::ResultInvalid, error).details(details)
            }
            CommandError::Load(error) => error.into(),
            CommandError::UnknownNode(_) => Self::new(FailureKind::NodeNotFound, error),
            CommandError::AmbiguousNode(name) => name.into(),
            CommandError::ParentEnded { parent, status, .. } => {
                let hint = match status {
                    RunStatus::Succeeded => format!(
                        "start a new run from the parent: windlass fork {parent} --from NODE"
                    ),
                    _ => format!(
                        "try the parent again, which starts the child anew: windlass reattempt \
                         {parent}; or start a new run: windlass fork {parent} --from NODE"
                    ),
                };
                Self::new(FailureKind::ReattemptRefused, error).hint(hint)
            }
            CommandError::NotAwaited { parent, .. } => {
                let hint = format!(
                    "try the parent's node again, which starts the child anew: windlass reattempt \
                     {parent} NODE"
                );
                Self::new(FailureKind::ReattemptRefused, error).hint(hint)
            }
            CommandError::Stopped => Self::new(FailureKind::EngineStopped, error),
            CommandError::OwnerUnavailable { .. } | CommandError::LetterWaits => {
                Self::new(FailureKind::OwnerUnavailable, error)
            }
            CommandError::Refused { ref refusal, .. } => {
                let kind = match refusal {
                    Refusal::InTheWay(_) | Refusal::NotFailed(_) | Refusal::NothingToReattempt => {
                        FailureKind::ReattemptRefused
                    }
                    Refusal::Compensated => FailureKind::Compensated,
                    Refusal::UnknownSignal(_) => FailureKind::SignalUnknown,
                    Refusal::Incompatible(_) => FailureKind::Incompatible,
                    Refusal::RunEnded => FailureKind::RunEnded,
                    Refusal::KeyReused(_) => FailureKind::IdempotencyKeyReused,
                    Refusal::NotNow(_) | Refusal::NotOpen => FailureKind::Conflict,
                };
                let hint = matches!(refusal, Refusal::Compensated)
                    .then(|| "a new run can: windlass fork RUN --from NODE".to_owned());
                Self {
                    hint,
                    ..Self::new(kind, error)
                }
            }
        }
    }
}
