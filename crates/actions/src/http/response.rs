//! Reading an answer: bounded, parsed if it is JSON, and judged by its status.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::StreamExt as _;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::{Value, json};
use windlass_engine::{ActionError, Reply};

use super::{Output, client};

/// The largest body that is read: a node's output may not be larger anyway.
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// How much of a failed answer's body the error carries.
const ERROR_BODY_CHARACTERS: usize = 2000;

/// Reads an answer.
pub(super) async fn read(
    response: Response,
    expected: &[u16],
) -> Result<Reply<Output>, ActionError> {
    let status = response.status().as_u16();
    let retry_after = retry_after_ms(response.headers());
    let url = response.url().to_string();
    let headers = headers(&response);
    let is_json = headers
        .get(CONTENT_TYPE.as_str())
        .is_some_and(|kind| kind.contains("json"));
    let bytes = body(response, MAX_BODY_BYTES).await?;
    let body = parse(&bytes, is_json);
    let is_success = if expected.is_empty() {
        (200..400).contains(&status)
    } else {
        expected.contains(&status)
    };
    if is_success {
        let meta = json!({ "bytes": bytes.len() });
        return Ok(Reply::new(Output {
            status,
            headers,
            body,
            url,
        })
        .with_meta(&meta));
    }
    Err(failed(status, retry_after, &bytes))
}

fn failed(status: u16, retry_after: Option<u64>, body: &[u8]) -> ActionError {
    let code = format!("HTTP_{status}");
    let message = format!("the other side answered with status {status}");
    let excerpt: String = String::from_utf8_lossy(body)
        .chars()
        .take(ERROR_BODY_CHARACTERS)
        .collect();
    let is_server_fault = (500..600).contains(&status) && status != 501;
    let passing = is_server_fault || matches!(status, 408 | 425 | 429);
    let error = if passing {
        ActionError::retriable(&code, message)
    } else {
        ActionError::failed(&code, message)
    };
    let error = error.with_details(&json!({ "status": status, "body": excerpt }));
    match retry_after {
        Some(milliseconds) if passing => error.retry_after_ms(milliseconds),
        _ => error,
    }
}

/// Reads a body up to so many bytes.
pub(crate) async fn body(response: Response, limit: usize) -> Result<Vec<u8>, ActionError> {
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| client::explain(&error))?;
        if bytes.len() + chunk.len() > limit {
            let message = format!("the answer has more than {limit} bytes");
            return Err(ActionError::failed("OUTPUT_LIMIT", message));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn parse(bytes: &[u8], is_json: bool) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let parsed = if is_json {
        serde_json::from_slice(bytes).ok()
    } else {
        None
    };
    parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn headers(response: &Response) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        headers
            .entry(name.as_str().to_owned())
            .and_modify(|known| *known = format!("{known}, {value}"))
            .or_insert_with(|| value.into_owned());
    }
    headers
}

/// How long `Retry-After` says to wait: seconds, or until a date (RFC 9110, section 10.2.3).
pub(crate) fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}
