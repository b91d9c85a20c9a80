//! Windlass over HTTP: an accept loop of its own, routes that are declared with their
//! scope, tokens, limits, and the document that describes them.
//!
//! It knows the engine and what can be asked of it; it must not know a backend.

mod accept;
pub mod answer;
mod app;
pub mod auth;
mod body;
pub mod code;
mod correlation;
mod cors;
mod docs;
mod error;
pub mod extract;
pub mod failures;
mod front;
mod handlers;
pub mod health;
mod jobs;
mod limit;
pub mod route;
pub mod serve;
mod stream;

pub use accept::wants_events;
pub use app::{App, AppOptions, Backup, Caller};
pub use correlation::Correlation;
pub use error::{ApiError, Code, Detail, ErrorBody, ErrorObject};
pub use front::HeadLimits;
pub use handlers::{engine_limits, routes};
pub use limit::{Budget, Key};
pub use stream::Event;
