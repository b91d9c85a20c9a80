//! The codes of what can be asked, each with its status, and what a failure of the service
//! becomes over HTTP.

use http::StatusCode;
use serde_json::Value;
use windlass_service::{Exit, Failure};

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
    WORKFLOW_NOT_FOUND 404 "There is no such workflow",
    VERSION_NOT_FOUND 404 "The workflow has no such version",
    VALUE_NOT_FOUND 404 "The run refers to no such value",
    JOB_NOT_FOUND 404 "There is no such job",
    LETTER_NOT_FOUND 404 "The run is not among the dead letters",
    SECRET_NOT_FOUND 404 "There is no such secret",
    HOOK_NOT_FOUND 404 "There is no such hook",
    HOOK_SIGNATURE_INVALID 401 "The request is not signed as the hook wants it",
    SCHEDULE_NOT_FOUND 404 "There is no such schedule",
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
    USAGE 400 "The request makes no sense",
    CURSOR_INVALID 400 "The cursor is not one of ours",
    TIME_INVALID 400 "The time cannot be read",
    STATUS_UNKNOWN 400 "There is no such status",
    LABEL_INVALID 400 "The label cannot be read",
    TENANT_MISMATCH 403 "The tenant is not the token's",
    REQUEST_ID_REUSED 409 "The request id was used with another trigger",
    WORKFLOW_DISABLED 409 "The workflow is disabled",
    RUN_ENDED 409 "The run has ended",
    REATTEMPT_REFUSED 409 "The nodes cannot be tried again",
    COMPENSATED 409 "The run was undone",
    SIGNAL_UNKNOWN 409 "Nobody waits for a signal of that name",
    INCOMPATIBLE 409 "The graph does not fit the run",
    CONFLICT 409 "The run's state does not allow it",
    TOO_MANY_HOOKS 409 "There are as many hooks as there may be",
    TOO_MANY_SCHEDULES 409 "There are as many schedules as there may be",
    TOO_MANY_JOBS 429 "Too many jobs are under way",
    STORE_TIMEOUT 503 "The store took too long to answer",
    STORE_UNAVAILABLE 503 "The store cannot be used now",
    STORE_FULL 503 "The store has no space left to write to",
    CHECKS_BUSY 503 "Too many values are being checked",
    ENGINE_STOPPED 503 "The server is stopping",
    BACKUP_UNSUPPORTED 501 "This server cannot make a backup",
}

/// What acting on a run may fail with.
pub const ACTING: &[Code] = &[
    RUN_NOT_FOUND,
    NODE_NOT_FOUND,
    RUN_ENDED,
    REATTEMPT_REFUSED,
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
    IMPORT_INVALID,
    ENGINE_STOPPED,
    STORE_UNAVAILABLE,
    STORE_TIMEOUT,
];

/// What looking at a run may fail with.
pub const LOOKING: &[Code] = &[
    RUN_NOT_FOUND,
    NODE_NOT_FOUND,
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

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let details: Vec<Detail> = failure.parts.details.into_iter().map(detail).collect();
        if let Some(code) = ALL.iter().find(|code| code.code == failure.code) {
            let mut error = code.error(failure.message).details(details);
            if let Some(hint) = failure.hint {
                error = error.hint(hint);
            }
            return error;
        }
        let status = match failure.exit {
            Exit::Usage => StatusCode::BAD_REQUEST,
            Exit::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Exit::NotFound => StatusCode::NOT_FOUND,
            Exit::NotAllowed => StatusCode::FORBIDDEN,
            Exit::Conflict => StatusCode::CONFLICT,
            // What is wrong with the store is for the log, not for whoever asks.
            _ => {
                let cause = format!("{}: {}", failure.code, failure.message);
                return code::INTERNAL
                    .error("something broke; the correlation id leads to the log")
                    .because(cause);
            }
        };
        Self::with(status, failure.code, failure.message).details(details)
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
