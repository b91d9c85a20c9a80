//! The body of one request: bounded in size and in time.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::code;
use crate::error::ApiError;

/// A body that breaks off past its limit, or when it does not arrive in time.
pub(crate) struct Bounded {
    inner: Body,
    limit: u64,
    left: u64,
    timeout: Duration,
    /// Begins with the first read, so that it measures the client and not the handler.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Bounded {
    pub(crate) fn new(inner: Body, limit: u64, timeout: Duration) -> Self {
        Self {
            inner,
            limit,
            left: limit,
            timeout,
            deadline: None,
        }
    }
}

/// Why a body broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    TooLarge { limit: u64 },
    TooSlow,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(formatter, "larger than {limit} bytes"),
            Self::TooSlow => formatter.write_str("not here in time"),
        }
    }
}

impl Error for Broken {}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| self.take(frame?)));
        }
        let timeout = self.timeout;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(axum::Error::new(Broken::TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Bounded {
    fn take(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, axum::Error> {
        let size = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                Ok(frame)
            }
            None => Err(axum::Error::new(Broken::TooLarge { limit: self.limit })),
        }
    }
}

/// The refusal of a body that is too large.
pub(crate) fn too_large(limit: u64) -> ApiError {
    code::BODY_TOO_LARGE.error(format!("the body is larger than {limit} bytes"))
}

/// Why a body could not be read.
pub(crate) fn failure(error: &axum::Error) -> ApiError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(Broken::TooLarge { limit }) => return too_large(*limit),
            Some(Broken::TooSlow) => {
                return code::REQUEST_TIMEOUT.error("the body did not arrive in time");
            }
            None => cause = error.source(),
        }
    }
    code::BODY_INCOMPLETE.error("the body broke off before its end")
}
