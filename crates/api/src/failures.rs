//! The codes of what can be asked, each with its status, and what a failure of the service
//! becomes over HTTP.

use http::StatusCode;
use serde_json::Value;
use windlass_service::{Failure, FailureKind};

use crate::code;
use crate::error::{ApiError, Code, Detail};

macro_rules! codes {
    ($($name:ident $status:literal $title:literal),* $(,)?) => {
        $(
            #[doc = $title]
            pub const $name: Code = Code::new($status, stringify!($name), $title);
        )*

        /// All of them, for the documentation.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    RUN_NOT_FOUND 404 "There is no such run",
    NODE_NOT_FOUND 404 "The run has no such node",
    NODE_AMBIGUOUS 409 "Several nodes of the run have this name",
    WORKFLOW_NOT_FOUND 404 "There is no such workflow",
    VERSION_NOT_FOUND 404 "The workflow has no such version",
    VALUE_NOT_FOUND 404 "The run refers to no such value",
    BLOB_NOT_FOUND 404 "No node of the run stored such a blob",
    JOB_NOT_FOUND 404 "There is no such job",
    LETTER_NOT_FOUND 404 "The run is not among the dead letters",
    SECRET_NOT_FOUND 404 "There is no such secret",
    HOOK_NOT_FOUND 404 "There is no such hook",
    HOOK_SIGNATURE_INVALID 401 "The request is not signed as the hook wants it",
    SCHEDULE_NOT_FOUND 404 "There is no such schedule",
    POOL_NOT_FOUND 404 "There is no such pool",
    TASK_NOT_FOUND 404 "There is no such task",
    NOT_FOUND 404 "There is no such thing",
    SECRET_INVALID 422 "The secret's name or value is none",
    SECRET_TOO_LARGE 413 "The secret's value is too large",
    SECRET_KEY_MISSING 404 "There is no key yet that seals secrets",
    SECRET_KEY_UNUSABLE 503 "The key that seals secrets cannot be used",
    DEFINITION_INVALID 422 "The definition is invalid",
    GRAPH_VERSION 422 "The graph is of another version",
    SIGNATURE_MISMATCH 422 "The graph was changed after it was signed",
    IMPORT_INVALID 422 "The graph cannot be imported",
    ID_MISMATCH 422 "The definition is that of another workflow",
    TRIGGER_INVALID 422 "The trigger does not fit its schema",
    TRIGGER_NOT_JSON 422 "The trigger is not JSON",
    TRIGGER_TOO_LARGE 413 "The trigger is too large",
    NESTING_LIMIT 422 "The value is nested too deep",
    PAYLOAD_TOO_LARGE 413 "The value is too large",
    VARIABLE_UNKNOWN 422 "The definition declares no such variable",
    NAME_INVALID 422 "A name cannot be one",
    VARS_LIMIT 422 "The variables are too large together",
    SCHEMA_LIMIT 422 "Checking against the schema takes too much work",
    CONCURRENCY_KEY_INVALID 422 "The concurrency key has no usable value",
    SIGNAL_INVALID 422 "The signal's payload does not fit",
    RESULT_INVALID 422 "The result is not a value",
    SCHEMA_INVALID 422 "The definition's schema is not usable",
    GRAPH_TOO_LARGE 422 "The graph is too large for this format",
    HOOK_INVALID 422 "The hook cannot be used",
    SCHEDULE_INVALID 422 "The schedule cannot be used",
    POOL_INVALID 422 "The pool's name or size cannot be used",
    UNKNOWN_NODE 422 "The simulated definition has no such node",
    UNKNOWN_SIGNAL 422 "No node of the simulated definition waits for the signal",
    POOL_UNKNOWN 422 "A node names a pool that does not exist, or that is too small",
    USAGE 400 "The request makes no sense",
    CURSOR_INVALID 400 "The cursor is not one of ours",
    TIME_INVALID 400 "The time cannot be read",
    STATUS_UNKNOWN 400 "There is no such status",
    LABEL_INVALID 400 "The label cannot be read",
    PROTOCOL_UNSUPPORTED 400 "The server does not speak this version of the workers' protocol",
    ACTION_RESERVED 403 "The action type is one of the server's own",
    TENANT_MISMATCH 403 "The tenant is not the token's",
    REQUEST_ID_REUSED 409 "The request id was used with another trigger",
    IDEMPOTENCY_KEY_REUSED 409 "The idempotency key was used for another command on the run",
    WORKFLOW_DISABLED 409 "The workflow is disabled",
    RUN_ENDED 409 "The run has ended",
    REATTEMPT_REFUSED 409 "The nodes cannot be tried again",
    SKIP_REFUSED 409 "The node cannot be skipped",
    COMPENSATION_SKIP_REFUSED 409 "The compensation cannot be skipped",
    COMPENSATED 409 "The run was undone",
    SIGNAL_UNKNOWN 409 "No node waits for a signal of that name",
    INCOMPATIBLE 409 "The graph does not fit the run",
    CONFLICT 409 "The run's state does not allow it",
    LEASE_LOST 409 "Another worker has the task",
    TASK_ENDED 409 "The attempt ended otherwise",
    TOO_MANY_ACTIONS 409 "There are as many declared action types as there may be",
    TOO_MANY_POLLERS 503 "As many workers wait for work as may",
    TOO_MANY_HOOKS 409 "There are as many hooks as there may be",
    TOO_MANY_SCHEDULES 409 "There are as many schedules as there may be",
    POOL_IN_USE 409 "Attempts or workflows use the pool",
    TOO_MANY_JOBS 429 "Too many jobs are under way",
    STORE_TIMEOUT 503 "The store took too long to answer",
    STORE_UNAVAILABLE 503 "The store cannot be used now",
    STORE_FULL 503 "The store has no space left to write to",
    CHECKS_BUSY 503 "Too many values are being checked",
    OWNER_UNAVAILABLE 503 "No process that owns the run took the command in time",
    ENGINE_STOPPED 503 "The server is stopping",
    BACKUP_UNSUPPORTED 501 "This server cannot make a backup",
}

/// What acting on a run may fail with.
pub const ACTING: &[Code] = &[
    RUN_NOT_FOUND,
    NODE_NOT_FOUND,
    NODE_AMBIGUOUS,
    RUN_ENDED,
    REATTEMPT_REFUSED,
    SKIP_REFUSED,
    COMPENSATION_SKIP_REFUSED,
    COMPENSATED,
    SIGNAL_UNKNOWN,
    SIGNAL_INVALID,
    NAME_INVALID,
    SCHEMA_LIMIT,
    CHECKS_BUSY,
    RESULT_INVALID,
    PAYLOAD_TOO_LARGE,
    INCOMPATIBLE,
    CONFLICT,
    IDEMPOTENCY_KEY_REUSED,
    IMPORT_INVALID,
    OWNER_UNAVAILABLE,
    ENGINE_STOPPED,
    STORE_UNAVAILABLE,
    STORE_TIMEOUT,
];

/// What looking at a run may fail with.
pub const LOOKING: &[Code] = &[
    RUN_NOT_FOUND,
    NODE_NOT_FOUND,
    NODE_AMBIGUOUS,
    STORE_UNAVAILABLE,
    STORE_TIMEOUT,
];

/// What starting a run may fail with.
pub const STARTING: &[Code] = &[
    WORKFLOW_NOT_FOUND,
    VERSION_NOT_FOUND,
    WORKFLOW_DISABLED,
    REQUEST_ID_REUSED,
    TRIGGER_INVALID,
    TRIGGER_NOT_JSON,
    TRIGGER_TOO_LARGE,
    NESTING_LIMIT,
    SCHEMA_INVALID,
    SCHEMA_LIMIT,
    CHECKS_BUSY,
    VARS_LIMIT,
    NAME_INVALID,
    CONCURRENCY_KEY_INVALID,
    VARIABLE_UNKNOWN,
    TENANT_MISMATCH,
    LABEL_INVALID,
    ENGINE_STOPPED,
    STORE_UNAVAILABLE,
    STORE_TIMEOUT,
];

/// What a definition in the body may fail with.
pub const DEFINING: &[Code] = &[
    DEFINITION_INVALID,
    POOL_UNKNOWN,
    GRAPH_VERSION,
    SIGNATURE_MISMATCH,
    ID_MISMATCH,
    STORE_UNAVAILABLE,
    STORE_TIMEOUT,
];

/// The codes of several lists together.
pub(crate) fn together(lists: &[&[Code]]) -> Vec<Code> {
    let mut codes = Vec::new();
    for code in lists.iter().copied().flatten() {
        if !codes.contains(code) {
            codes.push(*code);
        }
    }
    codes
}

/// How a kind of failure is answered.
enum FailureForm {
    /// With a declared code.
    Coded(Code),
    /// With a status alone: no route declares the kind's code.
    Plain(StatusCode),
    /// Not at all: the failure is internal, and only the log shows it.
    Broken,
}

/// How each kind of failure of the service is answered over HTTP.
fn told(kind: FailureKind) -> FailureForm {
    use FailureForm::{Broken, Coded, Plain};
    match kind {
        FailureKind::StoreNotFound => Coded(NOT_FOUND),
        FailureKind::StoreUnavailable => Coded(STORE_UNAVAILABLE),
        FailureKind::StoreFull => Coded(STORE_FULL),
        FailureKind::StoreTimeout => Coded(STORE_TIMEOUT),
        FailureKind::StoreDamaged
        | FailureKind::StoreFailed
        | FailureKind::StoreTooNew
        | FailureKind::LoadFailed
        | FailureKind::OutputFailed
        | FailureKind::DefinitionUnreadable => Broken,
        FailureKind::RunNotFound => Coded(RUN_NOT_FOUND),
        FailureKind::RunAmbiguous | FailureKind::DeadLetter => Plain(StatusCode::CONFLICT),
        FailureKind::RunEnded => Coded(RUN_ENDED),
        FailureKind::NodeNotFound => Coded(NODE_NOT_FOUND),
        FailureKind::NodeAmbiguous => Coded(NODE_AMBIGUOUS),
        FailureKind::LetterNotFound => Coded(LETTER_NOT_FOUND),
        FailureKind::EngineStopped => Coded(ENGINE_STOPPED),
        FailureKind::OwnerUnavailable => Coded(OWNER_UNAVAILABLE),
        FailureKind::ReattemptRefused => Coded(REATTEMPT_REFUSED),
        FailureKind::SkipRefused => Coded(SKIP_REFUSED),
        FailureKind::CompensationSkipRefused => Coded(COMPENSATION_SKIP_REFUSED),
        FailureKind::IdempotencyKeyReused => Coded(IDEMPOTENCY_KEY_REUSED),
        FailureKind::Compensated => Coded(COMPENSATED),
        FailureKind::SignalUnknown => Coded(SIGNAL_UNKNOWN),
        FailureKind::SignalInvalid => Coded(SIGNAL_INVALID),
        FailureKind::ResultInvalid => Coded(RESULT_INVALID),
        FailureKind::Incompatible => Coded(INCOMPATIBLE),
        FailureKind::Conflict => Coded(CONFLICT),
        FailureKind::ImportInvalid => Coded(IMPORT_INVALID),
        FailureKind::RequestIdReused => Coded(REQUEST_ID_REUSED),
        FailureKind::TriggerInvalid => Coded(TRIGGER_INVALID),
        FailureKind::TriggerNotJson => Coded(TRIGGER_NOT_JSON),
        FailureKind::TriggerTooLarge => Coded(TRIGGER_TOO_LARGE),
        FailureKind::NestingLimit => Coded(NESTING_LIMIT),
        FailureKind::SchemaInvalid => Coded(SCHEMA_INVALID),
        FailureKind::SchemaLimit => Coded(SCHEMA_LIMIT),
        FailureKind::ChecksBusy => Coded(CHECKS_BUSY),
        FailureKind::VarsLimit => Coded(VARS_LIMIT),
        FailureKind::NameInvalid => Coded(NAME_INVALID),
        FailureKind::ConcurrencyKeyInvalid => Coded(CONCURRENCY_KEY_INVALID),
        FailureKind::VariableUnknown => Coded(VARIABLE_UNKNOWN),
        FailureKind::WorkflowDisabled => Coded(WORKFLOW_DISABLED),
        FailureKind::WorkflowNotFound => Coded(WORKFLOW_NOT_FOUND),
        FailureKind::VersionNotFound => Coded(VERSION_NOT_FOUND),
        FailureKind::DefinitionInvalid => Coded(DEFINITION_INVALID),
        FailureKind::GraphVersion => Coded(GRAPH_VERSION),
        FailureKind::GraphTooLarge => Coded(GRAPH_TOO_LARGE),
        FailureKind::SignatureMismatch => Coded(SIGNATURE_MISMATCH),
        FailureKind::SecretInvalid => Coded(SECRET_INVALID),
        FailureKind::SecretTooLarge => Coded(SECRET_TOO_LARGE),
        FailureKind::SecretNotFound => Coded(SECRET_NOT_FOUND),
        FailureKind::SecretKeyMissing => Coded(SECRET_KEY_MISSING),
        FailureKind::SecretKeyInvalid | FailureKind::SecretKeyUnusable => {
            Coded(SECRET_KEY_UNUSABLE)
        }
        FailureKind::HookInvalid => Coded(HOOK_INVALID),
        FailureKind::HookNotFound => Coded(HOOK_NOT_FOUND),
        FailureKind::TooManyHooks => Coded(TOO_MANY_HOOKS),
        FailureKind::PoolInvalid => Coded(POOL_INVALID),
        FailureKind::PoolNotFound => Coded(POOL_NOT_FOUND),
        FailureKind::PoolInUse => Coded(POOL_IN_USE),
        FailureKind::PoolUnknown => Coded(POOL_UNKNOWN),
        FailureKind::ScheduleInvalid => Coded(SCHEDULE_INVALID),
        FailureKind::ScheduleNotFound => Coded(SCHEDULE_NOT_FOUND),
        FailureKind::TooManySchedules => Coded(TOO_MANY_SCHEDULES),
        FailureKind::SimulatedNodeUnknown => Coded(UNKNOWN_NODE),
        FailureKind::SimulatedSignalUnknown => Coded(UNKNOWN_SIGNAL),
        FailureKind::Usage => Coded(USAGE),
        FailureKind::TimeInvalid => Coded(TIME_INVALID),
        FailureKind::StatusUnknown => Coded(STATUS_UNKNOWN),
        FailureKind::LabelInvalid => Coded(LABEL_INVALID),
        FailureKind::CursorInvalid => Coded(CURSOR_INVALID),
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let mut failure = failure;
        let details = std::mem::take(&mut failure.parts.details);
        let details: Vec<Detail> = details.into_iter().map(detail).collect();
        let hinted = |error: Self, hint: Option<String>| match hint {
            Some(hint) => error.hint(hint),
            None => error,
        };
        match told(failure.kind) {
            FailureForm::Coded(code) => {
                hinted(code.error(failure.message).details(details), failure.hint)
            }
            FailureForm::Plain(status) => {
                let error = Self::with(status, failure.kind.code(), failure.message);
                hinted(error.details(details), failure.hint)
            }
            FailureForm::Broken => code::INTERNAL
                .error("something broke; the correlation id leads to the log")
                .because_of(failure),
        }
    }
}

fn detail(value: Value) -> Detail {
    let mut members = match value {
        Value::Object(members) => members,
        other => return Detail::new("", other.to_string()),
    };
    let mut take = |key: &str| match members.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (pointer, message) = (take("pointer"), take("message"));
    Detail {
        pointer,
        message,
        more: members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statuses are part of the interface: this is the whole table, written out.
    #[test]
    fn every_kind_has_its_status_and_keeps_its_code() {
        let expected = [
            (
                400,
                "USAGE TIME_INVALID STATUS_UNKNOWN LABEL_INVALID CURSOR_INVALID",
            ),
            (
                404,
                "NOT_FOUND RUN_NOT_FOUND NODE_NOT_FOUND LETTER_NOT_FOUND \
                 WORKFLOW_NOT_FOUND VERSION_NOT_FOUND SECRET_NOT_FOUND \
                 SECRET_KEY_MISSING HOOK_NOT_FOUND SCHEDULE_NOT_FOUND POOL_NOT_FOUND",
            ),
            (
                409,
                "RUN_AMBIGUOUS NODE_AMBIGUOUS DEAD_LETTER RUN_ENDED REATTEMPT_REFUSED SKIP_REFUSED \
                 COMPENSATION_SKIP_REFUSED COMPENSATED \
                 SIGNAL_UNKNOWN INCOMPATIBLE CONFLICT REQUEST_ID_REUSED IDEMPOTENCY_KEY_REUSED \
                 WORKFLOW_DISABLED TOO_MANY_HOOKS TOO_MANY_SCHEDULES POOL_IN_USE",
            ),
            (413, "TRIGGER_TOO_LARGE SECRET_TOO_LARGE"),
            (
                422,
                "SIGNAL_INVALID RESULT_INVALID IMPORT_INVALID TRIGGER_INVALID \
                 TRIGGER_NOT_JSON NESTING_LIMIT SCHEMA_INVALID SCHEMA_LIMIT \
                 VARS_LIMIT NAME_INVALID CONCURRENCY_KEY_INVALID VARIABLE_UNKNOWN \
                 DEFINITION_INVALID GRAPH_VERSION GRAPH_TOO_LARGE \
                 SIGNATURE_MISMATCH SECRET_INVALID HOOK_INVALID SCHEDULE_INVALID \
                 POOL_INVALID POOL_UNKNOWN UNKNOWN_NODE UNKNOWN_SIGNAL",
            ),
            (
                500,
                "STORE_DAMAGED STORE_FAILED STORE_TOO_NEW LOAD_FAILED OUTPUT_FAILED \
                 DEFINITION_UNREADABLE",
            ),
            (
                503,
                "STORE_UNAVAILABLE STORE_FULL STORE_TIMEOUT ENGINE_STOPPED OWNER_UNAVAILABLE \
                 CHECKS_BUSY SECRET_KEY_UNUSABLE SECRET_KEY_UNUSABLE",
            ),
        ];
        let expected = expected.iter().flat_map(|(status, codes)| {
            let codes = codes.split_whitespace();
            codes.map(move |code| (code.to_owned(), *status))
        });
        let mut expected: Vec<(String, u16)> = expected.collect();
        let actual = FailureKind::ALL.iter().map(|&kind| {
            let status = match told(kind) {
                FailureForm::Coded(code) => {
                    assert_eq!(code.code, kind.code());
                    code.status
                }
                FailureForm::Plain(status) => status.as_u16(),
                FailureForm::Broken => code::INTERNAL.status,
            };
            (kind.code().to_owned(), status)
        });
        let mut actual: Vec<(String, u16)> = actual.collect();
        actual.sort();
        expected.sort();
        assert_eq!(actual, expected);
    }
}
