//! What is asked of a server.

use std::time::Duration;

use reqwest::Method;
use url::Url;

/// How long an answer may take, from the request to its last byte.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Vec<u8>>,
    pub(super) accept: &'static str,
    /// How long the request may take; without it the caller watches the time.
    pub(super) time: Option<Duration>,
    pub(super) last_event: Option<u64>,
}

impl Question {
    pub(super) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            body: None,
            accept: "application/json",
            time: Some(ANSWER_TIME),
            last_event: None,
        }
    }

    pub(super) fn post(url: Url, body: Vec<u8>) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            ..Self::get(url)
        }
    }
}
