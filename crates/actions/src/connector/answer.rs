//! An answer of a service, and the errors made of it: method, address, status and the
//! beginning of the body, so that a reader sees what the service said.

use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_engine::{ActionError, Context};

/// How much of an answer's body an error carries.
const EXCERPT_CHARACTERS: usize = 2000;

/// What a service answered, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) method: String,
    /// The address without its query, which may hold secrets.
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) body: Vec<u8>,
    /// The beginning of the body, without the secrets of the attempt.
    pub(crate) excerpt: String,
}

/// Why an exchange is no success.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason<'a> {
    pub(crate) code: &'a str,
    /// What is wrong and what to do, after the words "Slack: ".
    pub(crate) message: &'a str,
    pub(crate) retriable: bool,
}

impl<'a> Reason<'a> {
    /// Another attempt would fail as well.
    pub(crate) const fn permanent(code: &'a str, message: &'a str) -> Self {
        Self {
            code,
            message,
            retriable: false,
        }
    }

    /// Another attempt might succeed.
    pub(crate) const fn passing(code: &'a str, message: &'a str) -> Self {
        Self {
            code,
            message,
            retriable: true,
        }
    }
}

impl Answer {
    /// Whether the status is one of success.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the status says that the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 423 | 425 | 429)
            || ((500..600).contains(&self.status) && self.status != 501)
    }

    /// The body as JSON, or `None` if it is something else.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// An error that names the request and the answer.
    pub(crate) fn error(&self, service: &str, reason: Reason<'_>) -> ActionError {
        let message = format!(
            "{service}: {} ({} {} answered with status {})",
            reason.message, self.method, self.url, self.status
        );
        let mut error = ActionError::failed(reason.code, message);
        error.retriable = reason.retriable;
        let error = error.with_details(&json!({
            "method": self.method,
            "url": self.url,
            "status": self.status,
            "body": self.excerpt,
        }));
        match self.retry_after_ms {
            Some(milliseconds) if reason.retriable => error.retry_after_ms(milliseconds),
            _ => error,
        }
    }

    /// The beginning of a body. Secrets are taken out before it is cut, so that no half of one
    /// remains.
    pub(crate) fn excerpt(context: &Context, body: &[u8]) -> String {
        let text = context.redact(&String::from_utf8_lossy(body));
        text.chars().take(EXCERPT_CHARACTERS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_asked_and_when_to_ask_again() {
        let answer = Answer {
            method: "POST".to_owned(),
            url: "https://service.example/api".to_owned(),
            status: 429,
            retry_after_ms: Some(7000),
            body: b"slow down".to_vec(),
            excerpt: "slow down".to_owned(),
        };
        let error = answer.error("Service", Reason::passing("SERVICE_BUSY", "too many"));
        assert_eq!((error.retriable, error.retry_after_ms), (true, Some(7000)));
        assert!(error.message.contains("POST https://service.example/api"));
        let details = error.details.expect("details");
        assert!(details.get().contains("slow down"), "{details}");
        let error = answer.error("Service", Reason::permanent("SERVICE_NO", "never"));
        assert_eq!((error.retriable, error.retry_after_ms), (false, None));
    }
}
