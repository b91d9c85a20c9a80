//! Windlass over HTTP: an accept loop of its own, routes that are declared with their
//! scope, tokens, limits, and the document that describes them.
//!
//! It knows the engine and what can be asked of it; it must not know a backend.

mod accept;
pub mod answer;
pub mod auth;
mod body;
pub mod code;
mod correlation;
mod cors;
mod docs;
mod error;
pub mod extract;
mod front;
pub mod health;
mod limit;
pub mod route;
pub mod serve;
mod stream;

pub use accept::wants_events;
pub use correlation::Correlation;
pub use error::{ApiError, Code, Detail, ErrorBody, ErrorObject};
pub use front::HeadLimits;
pub use limit::{Budget, Key};
pub use stream::Event;
