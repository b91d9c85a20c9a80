//! How a request fails: a status, a code, a message, and the places that are wrong.
//!
//! A failure is made anywhere, and written in one place: `front` knows the request's
//! correlation id and whether the client wants `application/problem+json`. Until then it
//! travels as an extension of an empty response.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::accept;

/// A code with the status that it always comes with, as routes declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The HTTP status.
    pub status: u16,
    /// The code, in capitals with underscores.
    pub code: &'static str,
    /// What it means, in a few words.
    pub title: &'static str,
}

impl Code {
    /// Declares a code.
    #[must_use]
    pub const fn new(status: u16, code: &'static str, title: &'static str) -> Self {
        Self {
            status,
            code,
            title,
        }
    }

    /// A failure with this code.
    pub fn error(self, message: impl Into<String>) -> ApiError {
        ApiError::new(self, message)
    }
}

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// A JSON pointer into the body, or `/name` for a parameter; empty for the whole.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
    /// More of it, where there is more: a code, a line, a column.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Detail {
    /// What is wrong at a place.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            message: message.into(),
            more: Map::new(),
        }
    }
}

/// Why a request failed.
#[derive(Debug, Clone)]
pub struct ApiError(Box<Failure>);

/// Boxed, so that results with it stay small.
#[derive(Debug, Clone)]
struct Failure {
    status: StatusCode,
    code: Cow<'static, str>,
    title: Cow<'static, str>,
    message: String,
    hint: Option<String>,
    details: Vec<Detail>,
    headers: HeaderMap,
    /// What happened, for the log and for the owner of the process.
    cause: Option<Cause>,
}

/// What a failure does not show to a client over a network.
#[derive(Debug, Clone)]
struct Cause {
    code: Option<Cow<'static, str>>,
    message: String,
    hint: Option<String>,
}

impl ApiError {
    /// A failure with a declared code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut error = Self::with(status, code.code, message);
        error.0.title = Cow::Borrowed(code.title);
        error
    }

    /// A failure with a code that is known elsewhere.
    pub fn with(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Failure {
            status,
            code: code.into(),
            title: Cow::Borrowed(status.canonical_reason().unwrap_or("Error")),
            message: message.into(),
            hint: None,
            details: Vec::new(),
            headers: HeaderMap::new(),
            cause: None,
        }))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds a place that is wrong.
    #[must_use]
    pub fn detail(mut self, detail: Detail) -> Self {
        self.0.details.push(detail);
        self
    }

    /// Adds places that are wrong.
    #[must_use]
    pub fn details(mut self, details: impl IntoIterator<Item = Detail>) -> Self {
        self.0.details.extend(details);
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// Adds what happened, for the log and for the owner of the process.
    #[must_use]
    pub(crate) fn because(mut self, message: String) -> Self {
        self.0.cause = Some(Cause {
            code: None,
            message,
            hint: None,
        });
        self
    }

    /// The same for a failure of the service, which has a code and may have a hint.
    #[must_use]
    pub(crate) fn because_of(mut self, failure: windlass_service::Failure) -> Self {
        self.0.cause = Some(Cause {
            code: Some(failure.kind.code().into()),
            message: failure.message,
            hint: failure.hint,
        });
        self
    }

    /// The same under another code.
    #[must_use]
    pub(crate) fn renamed(mut self, code: Code) -> Self {
        let renamed = Self::new(code, "");
        self.0.status = renamed.0.status;
        self.0.code = renamed.0.code;
        self.0.title = renamed.0.title;
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<(StatusCode, &'static str, String)> for ApiError {
    fn from((status, code, message): (StatusCode, &'static str, String)) -> Self {
        Self::with(status, code, message)
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> Self {
        Self::new(code, code.title)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.headers_mut().extend(self.0.headers.clone());
        if self.0.status == StatusCode::SERVICE_UNAVAILABLE {
            // What is not there now may be there soon, and clients need not guess when to ask.
            let again = response.headers_mut().entry(header::RETRY_AFTER);
            again.or_insert(HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The body of every failed request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// The failure.
    pub error: ErrorObject,
}

/// The members of a failure.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorObject {
    /// A code that does not change, for programs.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// What to do about it, where something can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The request's correlation id, as in the header `X-Correlation-Id`.
    pub correlation_id: String,
    /// When it failed, in UTC.
    pub timestamp: String,
    /// What is wrong in the request, place by place.
    pub details: Vec<Detail>,
}

/// What the writer of a failure knows of the request.
pub(crate) struct RequestInfo<'a> {
    pub(crate) correlation: &'a str,
    pub(crate) path: &'a str,
    pub(crate) format: accept::ErrorFormat,
    /// Whether the owner of the process asks, who may know what broke.
    pub(crate) owner: bool,
}

impl ApiError {
    /// Logs what broke, if something did.
    pub(crate) fn log(&self, correlation: &str) {
        if let Some(cause) = &self.0.cause {
            let code = cause.code.as_deref().unwrap_or("INTERNAL");
            tracing::error!(
                correlationId = correlation,
                "a request broke: {code}: {}",
                cause.message
            );
        }
    }

    /// Writes the failure into the response that carried it.
    pub(crate) fn write(self, asked: &RequestInfo<'_>, response: &mut Response) {
        self.log(asked.correlation);
        let mut failure = *self.0;
        if let Some(cause) = failure.cause.take()
            && asked.owner
        {
            failure.message = cause.message;
            failure.hint = cause.hint.or(failure.hint);
            failure.code = cause.code.unwrap_or(failure.code);
        }
        let object = ErrorObject {
            code: failure.code.into_owned(),
            message: failure.message,
            hint: failure.hint,
            correlation_id: asked.correlation.to_owned(),
            timestamp: now(),
            details: failure.details,
        };
        let (media, body) = match asked.format {
            accept::ErrorFormat::Plain => (
                "application/json",
                serde_json::to_vec(&ErrorBody { error: object }),
            ),
            accept::ErrorFormat::Problem => (
                "application/problem+json",
                serde_json::to_vec(&problem(object, &failure.title, failure.status, asked.path)),
            ),
        };
        let body = body.expect("texts and maps with text keys are always JSON");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        headers.remove(header::CONTENT_LENGTH);
        *response.body_mut() = body.into();
    }
}

/// The object as RFC 9457 has it, section 3.1, with ours as extension members.
fn problem(object: ErrorObject, title: &str, status: StatusCode, path: &str) -> Value {
    let mut problem = json!({
        "type": format!("/api/docs#{}", object.code),
        "title": title,
        "status": status.as_u16(),
        "detail": object.message,
        "instance": path,
        "code": object.code,
        "correlationId": object.correlation_id,
        "timestamp": object.timestamp,
        "details": object.details,
    });
    if let (Some(hint), Value::Object(members)) = (object.hint, &mut problem) {
        members.insert("hint".to_owned(), Value::String(hint));
    }
    problem
}

/// The present moment, as all of Windlass writes moments.
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}
