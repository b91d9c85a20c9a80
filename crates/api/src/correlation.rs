//! The id that ties a request to its answer, its log lines and its runs.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header, in requests and in answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-correlation-id");

/// The longest id that is taken over from a request: that of a run's correlation id.
const MAX_LENGTH: usize = windlass_core::name::TEXT_BYTES;

/// A request's correlation id; an extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correlation(Arc<str>);

impl Correlation {
    /// The id that the request gives, if it is one: printable ASCII, of bounded length; else
    /// a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers
            .get(HEADER)
            .and_then(|value| value.to_str().ok())
            .filter(|id| {
                !id.is_empty()
                    && id.len() <= MAX_LENGTH
                    && id
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() || byte == b' ')
            })
            .map_or_else(Self::fresh, |id| Self(id.into()))
    }

    /// A new id: 128 random bits.
    pub(crate) fn fresh() -> Self {
        let mut bytes = [0; 16];
        // Without randomness the id is of no use, but the request still is.
        let _ = getrandom::fill(&mut bytes);
        Self(format!("{:032x}", u128::from_be_bytes(bytes)).into())
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("printable ASCII is a header's value")
    }
}

impl<S: Sync> FromRequestParts<S> for Correlation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts
            .extensions
            .get::<Self>()
            .cloned()
            .unwrap_or_else(|| Self::of(&parts.headers)))
    }
}
