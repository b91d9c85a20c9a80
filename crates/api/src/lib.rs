//! Windlass over HTTP: an accept loop of its own, routes that are declared with their
//! scope, tokens, limits, and the document that describes them.
//!
//! It knows the engine and what can be asked of it; it must not know a backend.
//!
//! ```
//! use http::Method;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass_api::answer::{Accepted, Page};
//! use windlass_api::auth::{Auth, Principal};
//! use windlass_api::extract::{Json, Path, Query};
//! use windlass_api::route::{Access, GateOptions, Rate, RequestGate, Routes};
//! use windlass_api::{ApiError, Code, HeadLimits};
//!
//! const RUN_NOT_FOUND: Code = Code::new(404, "RUN_NOT_FOUND", "No such run");
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Filter {
//!     /// Only runs with this status.
//!     status: Option<String>,
//! }
//!
//! async fn list(
//!     principal: Principal,
//!     Query(filter): Query<Filter>,
//! ) -> Result<Json<Page<String>>, ApiError> {
//!     let items = vec![principal.subject.into(), filter.status.unwrap_or_default()];
//!     Ok(Json(Page { items, next: None }))
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Run {
//!     id: String,
//! }
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Signal {
//!     name: String,
//! }
//!
//! async fn signal(
//!     Path(run): Path<Run>,
//!     Json(signal): Json<Signal>,
//! ) -> Result<Accepted<Signal>, ApiError> {
//!     if run.id != "r1" {
//!         return Err(RUN_NOT_FOUND.error(format!("there is no run {}", run.id)));
//!     }
//!     let location = format!("/api/v1/executions/{}", run.id);
//!     Ok(Accepted { location, body: signal })
//! }
//!
//! let mut routes = Routes::<()>::new(RequestGate::new(Auth::off(), GateOptions::default()));
//! routes
//!     .add(Method::GET, "/api/v1/executions", Access::read(), &[], "Lists runs", list)
//!     .add(
//!         Method::POST,
//!         "/api/v1/executions/{id}/signal",
//!         Access::execute().rate(Rate::Token).body(64 * 1024),
//!         &[RUN_NOT_FOUND],
//!         "Sends a signal to a run",
//!         signal,
//!     );
//! let document = routes.document();
//! assert_eq!(document["paths"]["/api/v1/executions"]["get"]["x-scope"], "workflows:read");
//! let router = routes.build((), HeadLimits::default());
//! # let _: axum::Router = router;
//! ```

mod accept;
pub mod answer;
mod app;
pub mod auth;
mod beginning;
mod bodies;
mod body;
mod bounds;
pub mod code;
mod correlation;
mod cors;
mod docs;
mod error;
pub mod extract;
pub mod failures;
mod fair;
mod figure;
mod front;
#[cfg(test)]
mod fuzz;
mod handlers;
pub mod health;
mod hosts;
mod jobs;
mod layouts;
mod limit;
mod page;
pub mod route;
pub mod serve;
mod spool;
mod stream;
mod written;

pub use accept::wants_events;
pub use app::{App, AppOptions, Backup, Caller, Host};
pub use bodies::{BodyOptions, SpoolOptions};
pub use correlation::Correlation;
pub use error::{ApiError, Code, Detail, ErrorBody, ErrorObject};
pub use figure::Figure;
pub use front::HeadLimits;
pub use handlers::{engine_limits, largest_body, routes};
pub use hosts::is_host_pattern;
pub use limit::{BucketKey, Budget};
pub use spool::prepare_spool;
pub use stream::ServerSentEvent;
