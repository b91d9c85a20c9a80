//! What surrounds every request, also one to an unknown route: its correlation id, the limits
//! of its head, panics, the shape of failures, and security headers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderValue, StatusCode, header};

use crate::accept;
use crate::answer::Streaming;
use crate::code;
use crate::correlation::{self, Correlation};
use crate::error::{ApiError, RequestInfo};
use crate::hosts::Hosts;
use crate::serve::{Draining, Refused};
use crate::stream;

/// Limits of a request's head. The connection has a little more room, so that a request
/// just past them is answered in words.
#[derive(Debug, Clone)]
pub struct HeadLimits {
    /// The longest URI, in bytes.
    pub uri: usize,
    /// Names and values of all headers together, in bytes.
    pub headers: usize,
    /// The number of headers.
    pub count: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            uri: 8 * 1024,
            headers: 32 * 1024,
            count: 100,
        }
    }
}

/// What every request is checked against before routing.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) limits: HeadLimits,
    /// The server's host names, where only the name tells its own pages from others.
    pub(crate) hosts: Option<Hosts>,
    /// Whether only the owner of the process can ask.
    pub(crate) owner: bool,
}

pub(crate) async fn front(
    State(front): State<Arc<Front>>,
    mut request: Request,
    next: Next,
) -> Response {
    let correlation = Correlation::of(request.headers());
    let format = accept::error_format(request.headers());
    let path = request.uri().path().to_owned();
    let draining = request.extensions().get::<Draining>().cloned();
    request.extensions_mut().insert(correlation.clone());
    let mut response = match refusal(&front, &request) {
        Some(error) => error.into_response(),
        None => answer(request, next).await,
    };
    let asked = RequestInfo {
        correlation: correlation.as_str(),
        path: &path,
        format,
        owner: front.owner,
    };
    shape(&asked, &mut response);
    dress(&path, &correlation, &mut response);
    match draining {
        Some(draining) if response.extensions().get::<Streaming>().is_some() => {
            response.map(|body| Body::new(stream::Polite::draining(body, draining)))
        }
        _ => response,
    }
}

/// Why a request is refused by its head alone.
fn refusal(front: &Front, request: &Request) -> Option<ApiError> {
    if let Some(Refused(error)) = request.extensions().get() {
        return Some(error.clone());
    }
    if let Some(hosts) = &front.hosts
        && let Err(error) = hosts.check(request)
    {
        return Some(error);
    }
    let limits = &front.limits;
    let uri = request.uri();
    let length = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if length > limits.uri {
        return Some(code::URI_TOO_LONG.error(format!(
            "the URI has {length} bytes; the limit is {}",
            limits.uri
        )));
    }
    let headers = request.headers();
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if size > limits.headers || headers.len() > limits.count {
        return Some(code::HEADERS_TOO_LARGE.error(format!(
            "{} headers with {size} bytes; the limits are {} and {}",
            headers.len(),
            limits.count,
            limits.headers
        )));
    }
    None
}

/// A panic ends the request, not the connection, and its message does not reach the client; the
/// process's panic hook reports it.
async fn answer(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            code::INTERNAL
                .error("something broke while answering; the correlation id leads to the log")
                .into_response()
        })
}

/// Gives a failure its shape, also one that a library made.
fn shape(asked: &RequestInfo<'_>, response: &mut Response) {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        error.write(asked, response);
        return;
    }
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    if failed && response.extensions().get::<Shaped>().is_none() {
        foreign(status).write(asked, response);
    }
}

/// Marks a failed answer whose body is meant to be as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaped;

fn foreign(status: StatusCode) -> ApiError {
    let known = code::ALL.iter().find(|code| code.status == status.as_u16());
    match known {
        Some(code) if status.is_client_error() => ApiError::from(*code),
        _ if status.is_client_error() => {
            ApiError::with(status, "REQUEST_INVALID", "the request cannot be answered")
        }
        _ => code::INTERNAL.error("something broke while answering"),
    }
}

fn dress(path: &str, correlation: &Correlation, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(correlation::HEADER, correlation.header());
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'",
        ));
    headers
        .entry(header::REFERRER_POLICY)
        .or_insert(HeaderValue::from_static("no-referrer"));
    if path.starts_with("/api/") || path.starts_with("/health/") {
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
    }
}
