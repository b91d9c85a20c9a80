//! Which pages of other origins may ask; none unless configured.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::correlation;

/// The layer that lets these origins ask; none where there are none.
pub(crate) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let allowed: Vec<HeaderValue> = origins
        .iter()
        .filter_map(|origin| origin.parse().ok())
        .collect();
    if allowed.is_empty() {
        return None;
    }
    let all = origins.iter().any(|origin| origin == "*");
    let origin = if all {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(allowed)
    };
    Some(
        CorsLayer::new()
            .allow_origin(origin)
            .allow_methods([Method::GET, Method::POST, Method::DELETE, Method::PUT])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                correlation::HEADER,
                HeaderName::from_static("idempotency-key"),
                HeaderName::from_static("last-event-id"),
            ])
            .expose_headers([
                correlation::HEADER,
                header::LOCATION,
                header::RETRY_AFTER,
                HeaderName::from_static("x-ratelimit-limit"),
                HeaderName::from_static("x-ratelimit-remaining"),
            ])
            .max_age(Duration::from_secs(600)),
    )
}
