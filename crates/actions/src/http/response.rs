//! Reading an answer: bounded, decompressed, parsed if it is JSON, and judged by its status.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use futures_util::StreamExt as _;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use windlass_core::value::StoredFile;
use windlass_engine::{ActionError, Context};

use super::parameters::{Parameters, ResponseType};
use super::{Output, blob, client, decode, shown};

/// How much of a failed answer's body the error carries in its details, and in its message.
pub(super) const ERROR_BODY_CHARACTERS: usize = 2000;
const MESSAGE_BODY_CHARACTERS: usize = 200;

/// How much of a failed answer's body is read.
const ERROR_BODY_BYTES: usize = 16 * 1024;

/// An answer that was read.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
    pub(super) url: String,
    /// How many bytes the body has.
    pub(super) bytes: u64,
    /// Where the body is, if it was stored.
    pub(super) file: Option<StoredFile>,
}

impl Page {
    pub(super) fn output(self, pages: Option<usize>) -> Output {
        Output {
            status: self.status,
            headers: self.headers,
            body: self.file.is_none().then_some(self.body),
            blob: self.file.as_ref().map(blob::Reference::of),
            url: without_user(self.url),
            pages,
        }
    }
}

/// An address without the name and password that it may hold.
fn without_user(url: String) -> String {
    match reqwest::Url::parse(&url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            let _ = parsed.set_password(None);
            let _ = parsed.set_username("");
            parsed.into()
        }
        _ => url,
    }
}

/// How many bytes an attempt may read: a node's output may not be larger anyway.
pub(super) fn limit(parameters: &Parameters) -> usize {
    let most = windlass_engine::limits().values.output_bytes;
    let asked = parameters
        .max_bytes
        .map(|asked| usize::try_from(asked).unwrap_or(most));
    asked.map_or(most, |asked| asked.min(most))
}

/// Reads an answer.
pub(super) async fn read(
    response: Response,
    method: &Method,
    (context, parameters): (&Context, &Parameters),
) -> Result<Page, ActionError> {
    let status = response.status().as_u16();
    let expected = &parameters.expect_status;
    let is_success = if expected.is_empty() {
        (200..400).contains(&status)
    } else {
        expected.contains(&status)
    };
    if !is_success {
        let retriable = match &parameters.retry_status {
            Some(statuses) => statuses.contains(&status),
            None => is_passing(status),
        };
        let retry_after = retry_after_ms(response.headers());
        let error = failed(context, method, response).await;
        return Err(retry(error, retriable, retry_after));
    }
    let url = response.url().to_string();
    let headers = headers(&response);
    let header = |name: &str| headers.get(name).map_or("", String::as_str);
    let encodings = header(CONTENT_ENCODING.as_str()).to_owned();
    let content_type = header(CONTENT_TYPE.as_str()).to_owned();
    let page = Page {
        status,
        headers,
        body: Value::Null,
        url,
        bytes: 0,
        file: None,
    };
    if parameters.response_type == ResponseType::Blob {
        let kind = Some(content_type.as_str()).filter(|kind| !kind.is_empty());
        let limit = parameters.max_bytes;
        let file = blob::store(context, response, (&encodings, kind), limit).await?;
        return Ok(Page {
            bytes: file.size,
            file: Some(file),
            ..page
        });
    }
    let limit = limit(parameters);
    let bytes = body(response, limit).await?;
    let bytes = decode::decode(&encodings, bytes, limit)?;
    let is_json = content_type.contains("json");
    let kind = parameters.response_type;
    Ok(Page {
        body: parse(context, &bytes, is_json, kind)?,
        bytes: bytes.len() as u64,
        ..page
    })
}

/// Whether a status says that the same request may succeed later.
pub(super) fn is_passing(status: u16) -> bool {
    let is_server_fault = (500..600).contains(&status) && status != 501;
    is_server_fault || matches!(status, 408 | 425 | 429)
}

fn retry(mut error: ActionError, retriable: bool, retry_after: Option<u64>) -> ActionError {
    error.retriable = retriable;
    error.retry_after_ms = retry_after.filter(|_| retriable);
    error
}

/// What a status means that was not expected: `GET https://host/path → 404: the body`.
async fn failed(context: &Context, method: &Method, response: Response) -> ActionError {
    let status = response.status().as_u16();
    let url = shown(response.url().as_str());
    let encodings = response.headers().get(CONTENT_ENCODING);
    let encodings = encodings
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let encodings = encodings.to_owned();
    // The status is what counts: a body that is cut off, or compressed in an unknown way, is
    // shown as far as it can be read.
    let bytes = beginning(response, ERROR_BODY_BYTES).await;
    let bytes = decode::decode(&encodings, bytes, ERROR_BODY_BYTES).unwrap_or_default();
    let body = excerpt(context, &bytes, ERROR_BODY_CHARACTERS);
    let short: String = body.chars().take(MESSAGE_BODY_CHARACTERS).collect();
    let message = match short.trim() {
        "" => format!("{method} {url} → {status}"),
        short => format!("{method} {url} → {status}: {short}"),
    };
    ActionError::failed(&format!("HTTP_{status}"), message).with_details(&json!({
        "method": method.as_str(),
        "url": url,
        "status": status,
        "body": body,
    }))
}

/// The beginning of a body. Secrets are taken out before it is cut, so that no half of one
/// remains.
pub(super) fn excerpt(context: &Context, body: &[u8], characters: usize) -> String {
    let text = context.redact(&String::from_utf8_lossy(body));
    text.chars().take(characters).collect()
}

/// The first bytes of a body; fewer if it cannot be read on.
async fn beginning(response: Response, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(Ok(chunk)) = stream.next().await {
        let room = most - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if bytes.len() == most {
            break;
        }
    }
    bytes
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

fn parse(
    context: &Context,
    bytes: &[u8],
    is_json: bool,
    kind: ResponseType,
) -> Result<Value, ActionError> {
    let text = || Value::String(String::from_utf8_lossy(bytes).into_owned());
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    match kind {
        ResponseType::Auto if is_json => {
            Ok(serde_json::from_slice(bytes).unwrap_or_else(|_| text()))
        }
        ResponseType::Auto | ResponseType::Text | ResponseType::Blob => Ok(text()),
        ResponseType::Json => serde_json::from_slice(bytes).map_err(|error| {
            let message = format!("the answer is not JSON: {error}");
            let error = ActionError::retriable("HTTP_ANSWER_INVALID", message);
            let body = excerpt(context, bytes, ERROR_BODY_CHARACTERS);
            error.with_details(&json!({ "body": body }))
        }),
        ResponseType::Base64 => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            Ok(Value::String(encoded))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use std::time::Duration;

    fn wait(text: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).expect("a header"));
        retry_after_ms(&headers)
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        assert_eq!(wait("7"), Some(7000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        let later = SystemTime::now() + Duration::from_secs(7200);
        let later = wait(&httpdate::fmt_http_date(later)).expect("a wait");
        assert!((3_600_000..=7_200_000).contains(&later), "{later}");
        assert_eq!(wait("soon"), None);
        assert_eq!(retry_after_ms(&HeaderMap::new()), None);
    }

    #[test]
    fn only_what_can_be_retried_says_when() {
        let failed = || ActionError::failed("HTTP_FAILED", "");
        assert_eq!(retry(failed(), true, Some(7)).retry_after_ms, Some(7));
        assert_eq!(retry(failed(), false, Some(7)).retry_after_ms, None);
    }
}
