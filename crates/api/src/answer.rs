//! What handlers answer with. Each answer describes its status, type and schema.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::code;
use crate::extract::Json;
use crate::route::{Operation, Output};
use crate::stream::ServerSentEvent;

/// Marks an answer without a foreseeable end; it ends when the server drains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streaming;

/// One page of a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Page<T> {
    /// The page's elements.
    pub items: Vec<T>,
    /// The cursor of the page after it, if there is one.
    pub next: Option<String>,
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

impl<T: Serialize + JsonSchema> Output for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200, "application/json", "Done");
    }
}

/// JSON that is written already, or while it is read, of the schema of `T`.
#[derive(Debug)]
pub struct RawJson<T> {
    body: Body,
    schema: PhantomData<fn() -> T>,
}

impl<T> RawJson<T> {
    /// An answer of this body, which must be JSON.
    pub fn new(body: impl Into<Body>) -> Self {
        Self {
            body: body.into(),
            schema: PhantomData,
        }
    }
}

impl<T> IntoResponse for RawJson<T> {
    fn into_response(self) -> Response {
        typed(StatusCode::OK, "application/json", self.body)
    }
}

impl<T: JsonSchema> Output for RawJson<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200, "application/json", "Done");
    }
}

/// What tells a version of an answer from the others: the value of `ETag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// The tag of an answer that follows from these parts.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(format!(
            "\"{}\"",
            URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
        ))
    }

    /// Whether the client has this version (RFC 9110, section 13.1.2).
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::IF_NONE_MATCH).into_iter();
        let known = values.filter_map(|value| value.to_str().ok());
        let mut known = known.flat_map(|value| value.split(',')).map(str::trim);
        known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == self.0)
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("Base64 in quotes is a header's value")
    }
}

/// JSON with a tag, which a client may keep and ask about: status 304 if it has not changed.
#[derive(Debug)]
pub struct Tagged<T> {
    tag: Tag,
    body: Option<Body>,
    schema: PhantomData<fn() -> T>,
}

impl<T> Tagged<T> {
    /// An answer of this body, which must be JSON.
    pub fn new(tag: Tag, body: impl Into<Body>) -> Self {
        Self {
            tag,
            body: Some(body.into()),
            schema: PhantomData,
        }
    }

    /// The client has it.
    pub fn unchanged(tag: Tag) -> Self {
        Self {
            tag,
            body: None,
            schema: PhantomData,
        }
    }
}

impl<T> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Some(body) => typed(StatusCode::OK, "application/json", body),
            None => StatusCode::NOT_MODIFIED.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.tag.header());
        let cache = HeaderValue::from_static("private, no-cache");
        headers.insert(header::CACHE_CONTROL, cache);
        response
    }
}

impl<T: JsonSchema> Output for Tagged<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200, "application/json", "Done");
        operation.empty(304, "It is the one that `If-None-Match` names");
    }
}

/// Something was made: status 201, with its address.
#[derive(Debug, Clone)]
pub struct Created<T> {
    /// The address of what was made.
    pub location: String,
    /// What was made.
    pub body: T,
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        located(json(StatusCode::CREATED, &self.body), &self.location)
    }
}

impl<T: Serialize + JsonSchema> Output for Created<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(201, "application/json", "Made");
    }
}

/// Something was taken in and will be done: status 202, with the address to watch.
#[derive(Debug, Clone)]
pub struct Accepted<T> {
    /// Where to see how it goes.
    pub location: String,
    /// What was taken in.
    pub body: T,
}

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        located(json(StatusCode::ACCEPTED, &self.body), &self.location)
    }
}

impl<T: Serialize + JsonSchema> Output for Accepted<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(202, "application/json", "Taken in");
    }
}

/// Done, with nothing to say: status 204.
#[derive(Debug, Clone, Copy)]
pub struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Output for NoContent {
    fn describe(operation: &mut Operation<'_>) {
        operation.empty(204, "Done");
    }
}

/// Text of a type: metrics, a page, a drawing.
#[derive(Debug, Clone)]
pub struct TextAnswer {
    /// The value of `Content-Type`.
    pub media: &'static str,
    /// The text.
    pub text: String,
}

impl TextAnswer {
    /// Plain text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            media: "text/plain; charset=utf-8",
            text: text.into(),
        }
    }
}

impl IntoResponse for TextAnswer {
    fn into_response(self) -> Response {
        typed(StatusCode::OK, self.media, self.text)
    }
}

impl Output for TextAnswer {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<String>(200, "text/plain", "Text");
    }
}

/// A drawing, as text or as an image.
#[derive(Debug, Clone)]
pub struct Drawing(pub TextAnswer);

impl IntoResponse for Drawing {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Output for Drawing {
    fn describe(operation: &mut Operation<'_>) {
        TextAnswer::describe(operation);
        operation.answer::<String>(200, "image/svg+xml", "Text");
    }
}

/// Events as they happen, as `text/event-stream`; `T` is the schema of their data.
pub struct EventStream<T> {
    body: Body,
    schema: PhantomData<fn() -> T>,
}

impl<T> EventStream<T> {
    /// An answer of these events. It ends with the stream, or when the server drains.
    pub fn new(events: impl Stream<Item = ServerSentEvent> + Send + 'static) -> Self {
        let frames = events.map(|event| Ok::<_, Infallible>(event.into_bytes()));
        Self {
            body: Body::from_stream(frames),
            schema: PhantomData,
        }
    }
}

impl<T> std::fmt::Debug for EventStream<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EventStream")
            .finish_non_exhaustive()
    }
}

impl<T> IntoResponse for EventStream<T> {
    fn into_response(self) -> Response {
        let mut response = typed(StatusCode::OK, "text/event-stream", self.body);
        // Proxies that gather answers would hold events back.
        response
            .headers_mut()
            .insert("x-accel-buffering", HeaderValue::from_static("no"));
        response.extensions_mut().insert(Streaming);
        response
    }
}

impl<T: JsonSchema> Output for EventStream<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200, "text/event-stream", "Events as they happen");
    }
}

/// Bytes to download, sent while they are read. A browser saves them and shows none of them.
pub struct Download {
    body: Body,
    length: u64,
}

impl Download {
    /// An answer of so many bytes.
    pub(crate) fn new(body: Body, length: u64) -> Self {
        Self { body, length }
    }

    /// Opens a file in a folder of its own, which is removed when all was sent or the client
    /// has gone.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) async fn open(
        folder: tempfile::TempDir,
        file: &std::path::Path,
    ) -> std::io::Result<Self> {
        use tokio::io::AsyncReadExt as _;

        let opened = tokio::fs::File::open(file).await?;
        let length = opened.metadata().await?.len();
        let parts =
            futures_util::stream::try_unfold((opened, folder), |(mut file, folder)| async {
                let mut part = bytes::BytesMut::with_capacity(256 * 1024);
                let read = file.read_buf(&mut part).await?;
                Ok::<_, std::io::Error>((read > 0).then(|| (part.freeze(), (file, folder))))
            });
        Ok(Self {
            body: Body::from_stream(parts),
            length,
        })
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Download({} bytes)", self.length)
    }
}

impl IntoResponse for Download {
    fn into_response(self) -> Response {
        let mut response = typed(StatusCode::OK, "application/octet-stream", self.body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, self.length.into());
        let attachment = HeaderValue::from_static("attachment");
        headers.insert(header::CONTENT_DISPOSITION, attachment);
        response
    }
}

impl Output for Download {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<String>(200, "application/octet-stream", "The bytes");
    }
}

/// One of two answers, for routes whose answer depends on the request.
#[derive(Debug, Clone, Copy)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::Left(answer) => answer.into_response(),
            Self::Right(answer) => answer.into_response(),
        }
    }
}

impl<A: Output, B: Output> Output for Either<A, B> {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        B::describe(operation);
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => typed(status, "application/json", bytes),
        Err(_) => code::INTERNAL
            .error("the answer cannot be written as JSON")
            .into_response(),
    }
}

fn typed(status: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// An address that is no header's value is left out; the body names it too.
fn located(mut response: Response, location: &str) -> Response {
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
