//! What handlers take: parts of the path, the query, headers, bodies. Each fails with an
//! [`ApiError`] and describes itself for the OpenAPI document.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, RawQuery, Request, State};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body::Body as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use windlass_engine::CommandError;
use windlass_service::launch::{REQUEST_ID_BYTES, is_request_id};

use crate::auth::Principal;
use crate::beginning::Beginning;
use crate::bodies;
use crate::code;
use crate::correlation::Correlation;
use crate::error::{ApiError, Detail};
use crate::route::{Input, Operation};

/// The named parts of the path, as the fields of a struct.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(code::PATH_INVALID.error(rejection.body_text())),
        }
    }
}

impl<T: JsonSchema> Input for Path<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.parameters::<T>("path");
        operation.implies(code::PATH_INVALID);
    }
}

/// The query, as the fields of a struct; a field that is a list takes a repeated parameter.
/// Give the struct `#[serde(deny_unknown_fields)]`, so that a misspelt filter is refused
/// and not ignored.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        // The deserializer would treat such a parameter as absent.
        if let Some((name, _)) = pairs.clone().find(|(_, value)| value.is_empty()) {
            let message = "it has no value";
            return Err(code::QUERY_INVALID
                .error(format!("the query parameter {name}: {message}"))
                .detail(Detail::new(format!("/{name}"), message)));
        }
        let deserializer = serde_html_form::Deserializer::new(pairs);
        serde_path_to_error::deserialize(deserializer)
            .map(Self)
            .map_err(|error| {
                let pointer = pointer(error.path());
                let message = error.into_inner().to_string();
                code::QUERY_INVALID
                    .error(match pointer.strip_prefix('/') {
                        Some(name) => format!("the query parameter {name}: {message}"),
                        None => format!("the query: {message}"),
                    })
                    .detail(Detail::new(pointer, message))
            })
    }
}

impl<T: JsonSchema> Input for Query<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.parameters::<T>("query");
        operation.implies(code::QUERY_INVALID);
    }
}

/// A JSON body; as an answer, a JSON body with status 200.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        is_plain(request.headers())?;
        if !media(request.headers()).is_some_and(is_json) {
            return Err(unsupported(request.headers(), "application/json"));
        }
        object(&bodies::read(request).await?).map(Self)
    }
}

/// A JSON body of a route that takes the first part of one that is too large
/// ([`crate::route::Access::beginning`]).
pub(crate) enum Report<T> {
    /// The body.
    Whole(T),
    /// What the first part of a body says that is larger than allowed.
    Beginning(Beginning),
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Report<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        is_plain(request.headers())?;
        if !media(request.headers()).is_some_and(is_json) {
            return Err(unsupported(request.headers(), "application/json"));
        }
        match bodies::read_report(request).await? {
            bodies::Report::Whole(bytes) => object(&bytes).map(Self::Whole),
            bodies::Report::Beginning(bytes) => Ok(Self::Beginning(Beginning::read(&bytes))),
        }
    }
}

impl<T: JsonSchema> Input for Report<T> {
    fn describe(operation: &mut Operation<'_>) {
        Json::<T>::describe(operation);
    }
}

/// Reads an object. A struct could be read from a list of its fields as well, which no
/// schema here allows.
fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        let message = "the body is a list, not an object";
        return Err(code::BODY_INVALID
            .error(message)
            .detail(Detail::new("", message)));
    }
    decode(bytes)
}

impl<T: JsonSchema> Input for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.body::<T>(&["application/json"], true);
        operation.implies(code::BODY_MALFORMED);
        operation.implies(code::BODY_INVALID);
    }
}

/// A JSON body that may be left out.
impl<S: Send + Sync, T: DeserializeOwned> OptionalFromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Option<Self>, ApiError> {
        if request.body().is_end_stream() {
            return Ok(None);
        }
        is_plain(request.headers())?;
        let media = media(request.headers());
        let refused = unsupported(request.headers(), "application/json");
        if media.is_some_and(|media| !is_json(media)) {
            return Err(refused);
        }
        let untyped = media.is_none();
        // Whether a body without a length is empty is known when it has been read.
        let bytes = bodies::read(request).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if untyped {
            return Err(refused);
        }
        object(&bytes).map(|value| Some(Self(value)))
    }
}

impl<T: JsonSchema> Input for Option<Json<T>> {
    fn describe(operation: &mut Operation<'_>) {
        operation.body::<T>(&["application/json"], false);
        operation.implies(code::BODY_MALFORMED);
        operation.implies(code::BODY_INVALID);
    }
}

/// A document that the handler parses by itself, of the schema of `T`: JSON or YAML.
#[derive(Debug, Clone)]
pub struct RawDocument<T> {
    /// The text, as it was sent.
    pub bytes: Bytes,
    /// Whether it is YAML by its content type.
    pub yaml: bool,
    schema: PhantomData<fn() -> T>,
}

const DOCUMENTS: &[&str] = &["application/json", "application/yaml"];

impl<S: Send + Sync, T> FromRequest<S> for RawDocument<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let headers = request.headers();
        is_plain(headers)?;
        let yaml = media(headers).is_some_and(is_yaml);
        if !yaml && !media(headers).is_some_and(is_json) {
            return Err(unsupported(headers, "application/json or application/yaml"));
        }
        Ok(Self {
            bytes: bodies::read(request).await?,
            yaml,
            schema: PhantomData,
        })
    }
}

impl<T: JsonSchema> Input for RawDocument<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.body::<T>(DOCUMENTS, true);
    }
}

/// The header `Idempotency-Key`, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let key = text(&parts.headers, "idempotency-key")?;
        // Also where the body has a request id, and the key is not used.
        if key.as_ref().is_some_and(|key| !is_request_id(key)) {
            let message = CommandError::KeyInvalid.to_string();
            return Err(code::HEADER_INVALID.error(message));
        }
        Ok(Self(key))
    }
}

impl Input for IdempotencyKey {
    fn describe(operation: &mut Operation<'_>) {
        operation.header(
            "Idempotency-Key",
            "Taken as the request id where the body gives none",
            Some(REQUEST_ID_BYTES),
        );
    }
}

/// The header `Last-Event-ID`, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastEventId(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        text(&parts.headers, "last-event-id").map(Self)
    }
}

impl Input for LastEventId {
    fn describe(operation: &mut Operation<'_>) {
        operation.header("Last-Event-ID", "Continue after this event", None);
    }
}

/// Where the request comes from: the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub Option<SocketAddr>);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(parts
            .extensions
            .get::<Self>()
            .copied()
            .unwrap_or(Self(None)))
    }
}

/// When the answer to a request must be there; a handler that waits for something answers
/// before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerBy(pub(crate) Instant);

/// What a handler needs to answer once it has waited, at most.
const ANSWERING: Duration = Duration::from_secs(2);

impl AnswerBy {
    /// How long a handler may wait and still answer in time.
    pub(crate) fn longest_wait(self) -> Duration {
        let left = self.0.saturating_duration_since(Instant::now());
        left.saturating_sub(ANSWERING.min(left / 4))
    }
}

impl<S: Sync> FromRequestParts<S> for AnswerBy {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let found = parts.extensions.get::<Self>().copied();
        Ok(found.unwrap_or_else(|| Self(Instant::now() + ANSWERING)))
    }
}

/// The address of this machine that the connection came in on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local(pub(crate) Option<SocketAddr>);

/// Inputs that the client does not give by parameters of their own.
macro_rules! unseen {
    ($($input:ty),*) => {$(
        impl Input for $input {
            fn describe(_: &mut Operation<'_>) {}
        }
    )*};
}

unseen!(Peer, Correlation, Principal, HeaderMap, RawQuery, AnswerBy);

impl<T> Input for State<T> {
    fn describe(_: &mut Operation<'_>) {}
}

fn text(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(value) if !value.is_empty() => Ok(Some(value.to_owned())),
        _ => Err(code::HEADER_INVALID.error(format!("the header {name} is not visible ASCII"))),
    }
}

/// The body's type, without its parameters.
fn media(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// Compressed bodies are refused: a small one could unpack to any size.
fn is_plain(headers: &HeaderMap) -> Result<(), ApiError> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let packed = codings
        .map(|value| value.to_str().unwrap_or("?"))
        .find(|coding| !coding.trim().eq_ignore_ascii_case("identity"));
    match packed {
        None => Ok(()),
        Some(coding) => Err(code::MEDIA_TYPE_UNSUPPORTED
            .error(format!("the body has the Content-Encoding {coding:?}"))
            .hint("send it as it is, without Content-Encoding")),
    }
}

fn is_json(media: &str) -> bool {
    let media = media.to_ascii_lowercase();
    media == "application/json" || media.starts_with("application/") && media.ends_with("+json")
}

fn is_yaml(media: &str) -> bool {
    ["application/yaml", "application/x-yaml", "text/yaml"]
        .iter()
        .any(|yaml| media.eq_ignore_ascii_case(yaml))
}

fn unsupported(headers: &HeaderMap, expected: &str) -> ApiError {
    let message = match media(headers) {
        Some(media) => format!("the body is {media:?}, not {expected}"),
        None => "the request does not say what its body is".to_owned(),
    };
    code::MEDIA_TYPE_UNSUPPORTED
        .error(message)
        .hint(format!("send the header Content-Type: {expected}"))
}

/// Reads JSON, and says where it is wrong.
///
/// # Errors
///
/// `BODY_MALFORMED` with line and column where it is not JSON; `BODY_INVALID` with a pointer
/// where it does not fit.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = pointer(error.path());
        invalid(&pointer, &error.into_inner())
    })?;
    deserializer.end().map_err(|error| invalid("", &error))?;
    Ok(value)
}

fn invalid(pointer: &str, error: &serde_json::Error) -> ApiError {
    if error.is_data() {
        let message = worded(&error.to_string());
        return code::BODY_INVALID
            .error(format!("the body does not fit: {message}"))
            .detail(Detail::new(pointer, message));
    }
    let mut detail = Detail::new("", error.to_string());
    detail.more.insert("line".into(), error.line().into());
    detail.more.insert("column".into(), error.column().into());
    code::BODY_MALFORMED
        .error(format!("the body is not JSON: {error}"))
        .detail(detail)
}

/// The message with the types of JSON in place of those of the program.
fn worded(message: &str) -> String {
    let mut words = Vec::new();
    let mut parts = message.split(' ');
    while let Some(word) = parts.next() {
        words.push(match word.trim_end_matches(',') {
            "struct" => {
                parts.next();
                "an object"
            }
            "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
            "f32" | "f64" => "a number",
            _ => word,
        });
    }
    words.join(" ")
}

/// RFC 6901, section 3.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        let part = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Enum { variant } => variant.clone(),
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&part);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[serde(rename = "items")]
        _items: Vec<u8>,
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let error = decode::<Sample>(b"{\"items\": [1, 300]}").unwrap_err();
        assert_eq!(error.code(), "BODY_INVALID");
        assert!(format!("{error:?}").contains("/items/1"), "{error:?}");
        let error = decode::<Sample>(b"{\"items\": [\"1\"]}").unwrap_err();
        assert!(
            error.message().contains("expected a whole number at"),
            "{error:?}"
        );
        let error = decode::<Sample>(b"null").unwrap_err();
        assert!(
            error.message().contains("expected an object at"),
            "{error:?}"
        );
        let error = decode::<Sample>(b"{\n  \"items\": [1,]}").unwrap_err();
        assert_eq!(error.code(), "BODY_MALFORMED");
        assert!(error.message().contains("line 2 column"), "{error:?}");
        let error = decode::<Sample>(b"{\"items\": []} x").unwrap_err();
        assert_eq!(error.code(), "BODY_MALFORMED");
        let deep = "[".repeat(100_000);
        let error = decode::<serde_json::Value>(deep.as_bytes()).unwrap_err();
        assert_eq!(error.code(), "BODY_MALFORMED");
    }
}
