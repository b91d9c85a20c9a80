//! What a server refuses, as the same failures that commands have without one.

use std::error::Error as _;
use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// Codes of arguments that make no sense: the command line's mistake, as without a server.
const USAGE: [&str; 6] = [
    "USAGE",
    "CURSOR_INVALID",
    "STATUS_UNKNOWN",
    "TIME_INVALID",
    "LABEL_INVALID",
    "BACKUP_UNSUPPORTED",
];

#[derive(Deserialize)]
struct Body {
    error: Object,
}

#[derive(Deserialize)]
struct Object {
    code: String,
    message: String,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    details: Vec<Value>,
}

/// The server cannot be reached, or stopped talking.
pub(super) fn unreachable(address: &str, error: &reqwest::Error) -> Failure {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = source.source();
    }
    let why = match (error.is_timeout(), parts.last()) {
        (true, _) => "it did not answer in time".to_owned(),
        (false, Some(last)) => last.clone(),
        (false, None) => error.to_string(),
    };
    let message = format!("cannot reach the server at {address}: {why}");
    Failure::new(Exit::Unreachable, "SERVER_UNREACHABLE", message)
        .hint("check the address and that the server runs; leave --server out for a data directory")
}

/// What answers there does not speak as a server of this version does.
pub(super) fn foreign(address: &str, what: impl std::fmt::Display) -> Failure {
    let message = format!("what answers at {address} is not a Windlass server: {what}");
    Failure::new(Exit::Unreachable, "SERVER_ANSWER_INVALID", message)
        .hint("check the address, and that client and server are of the same version")
}

/// The server refused.
pub(super) fn refused(
    address: &str,
    status: StatusCode,
    wait: Option<Duration>,
    body: &[u8],
) -> Failure {
    let Ok(Body { error }) = serde_json::from_slice::<Body>(body) else {
        return foreign(address, format!("it answers with {status}"));
    };
    let exit = exit(status, &error.code);
    let mut failure = Failure::new(exit, error.code, error.message).details(error.details);
    failure.hint = error.hint.or_else(|| match status {
        StatusCode::UNAUTHORIZED => Some("give a valid token with --token".to_owned()),
        StatusCode::FORBIDDEN => Some("give a token with that scope with --token".to_owned()),
        _ => None,
    });
    if let Some(wait) = wait {
        failure.hint = Some(format!("try again in {} s", wait.as_secs()));
    }
    failure
}

/// The exit that a refusal has without a server.
fn exit(status: StatusCode, code: &str) -> Exit {
    match status.as_u16() {
        _ if USAGE.contains(&code) => Exit::Usage,
        401 | 403 | 429 => Exit::NotAllowed,
        404 => Exit::NotFound,
        409 => Exit::Conflict,
        400..500 => Exit::Invalid,
        _ => Exit::Storage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(status: u16, code: &str) -> (Exit, String, Option<String>) {
        let body = format!(r#"{{"error":{{"code":"{code}","message":"m","details":[]}}}}"#);
        let status = StatusCode::from_u16(status).expect("a status");
        let failure = refused("http://a", status, None, body.as_bytes());
        (failure.exit, failure.code.into_owned(), failure.hint)
    }

    #[test]
    fn refusals_have_the_exits_of_commands() {
        for (status, code, expected) in [
            (401, "UNAUTHENTICATED", Exit::NotAllowed),
            (403, "FORBIDDEN", Exit::NotAllowed),
            (404, "RUN_NOT_FOUND", Exit::NotFound),
            (409, "RUN_ENDED", Exit::Conflict),
            (422, "TRIGGER_INVALID", Exit::Invalid),
            (413, "BODY_TOO_LARGE", Exit::Invalid),
            (400, "USAGE", Exit::Usage),
            (400, "BODY_INVALID", Exit::Invalid),
            (429, "RATE_LIMITED", Exit::NotAllowed),
            (503, "STORE_TIMEOUT", Exit::Storage),
        ] {
            let (exit, said, _) = exit_of(status, code);
            assert_eq!((exit, said.as_str()), (expected, code), "{status}");
        }
    }

    #[test]
    fn the_wait_is_named() {
        let body = br#"{"error":{"code":"RATE_LIMITED","message":"m"}}"#;
        let wait = Some(Duration::from_secs(7));
        let failure = refused("http://a", StatusCode::TOO_MANY_REQUESTS, wait, body);
        assert_eq!(failure.hint.as_deref(), Some("try again in 7 s"));
    }

    #[test]
    fn something_else_that_answers_is_named() {
        let failure = refused("http://a", StatusCode::BAD_GATEWAY, None, b"<html>");
        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(failure.code, "SERVER_ANSWER_INVALID");
        assert!(failure.message.contains("502"), "{}", failure.message);
    }
}
