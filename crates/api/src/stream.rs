//! Server-sent events: how one is written, and how a stream of them ends when the server
//! drains or the reader's token does.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Frame;
use serde::Serialize;

use crate::auth::{Auth, Credential};
use crate::serve::Draining;

/// One event, written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSentEvent {
    text: String,
}

impl ServerSentEvent {
    /// An event with JSON as its data. Line breaks in `kind` and `id` would begin another
    /// field, and are left out.
    #[must_use]
    pub fn json(kind: &str, id: Option<&str>, data: &impl Serialize) -> Self {
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        Self::written(kind, id, &data)
    }

    /// An event with data that is JSON in one line already.
    #[must_use]
    pub fn written(kind: &str, id: Option<&str>, data: &str) -> Self {
        let mut text = String::with_capacity(data.len() + 64);
        field(&mut text, "event", kind);
        if let Some(id) = id {
            field(&mut text, "id", id);
        }
        field(&mut text, "data", data);
        text.push('\n');
        Self { text }
    }

    /// A line that readers ignore, so that neither side takes the connection for dead.
    #[must_use]
    pub fn heartbeat() -> Self {
        Self {
            text: ": \n\n".to_owned(),
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.text.into()
    }
}

fn field(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str(": ");
    text.extend(value.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')));
    text.push('\n');
}

/// The body of a stream, which ends with an event when something else does: of kind `draining`
/// when the server stops, `expired` when the token is no longer valid.
pub(crate) struct Polite {
    body: Option<Body>,
    ending: BoxFuture<'static, ()>,
    farewell: &'static str,
}

impl Polite {
    pub(crate) fn draining(body: Body, draining: Draining) -> Self {
        Self {
            body: Some(body),
            ending: Box::pin(async move { draining.begun().await }),
            farewell: "draining",
        }
    }

    pub(crate) fn expiring(body: Body, auth: Auth, credential: Credential) -> Self {
        Self {
            body: Some(body),
            ending: Box::pin(async move { auth.ended(credential).await }),
            farewell: "expired",
        }
    }
}

impl http_body::Body for Polite {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_none() {
            return Poll::Ready(None);
        }
        // A reader that reconnects with `Last-ServerSentEvent-ID` misses nothing; one that is always
        // behind must not hold the server up.
        if self.ending.as_mut().poll(context).is_pending() {
            let body = self.body.as_mut().expect("it was there just now");
            return Pin::new(body).poll_frame(context);
        }
        self.body = None;
        let farewell = ServerSentEvent::written(self.farewell, None, "{}").into_bytes();
        Poll::Ready(Some(Ok(Frame::data(farewell))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_line_a_field() {
        let event = ServerSentEvent::json("NodeSucceeded\ndata: x", Some("17"), &"two\nlines");
        assert_eq!(
            event.text,
            "event: NodeSucceededdata: x\nid: 17\ndata: \"two\\nlines\"\n\n"
        );
    }
}
