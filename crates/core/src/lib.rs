//! What a run means: definitions, plans, routing, and the pure state machine of a run.
//!
//! Nothing here is asynchronous, reads a clock, draws a random number, stores
//! anything or speaks HTTP: time, identifiers and randomness are arguments.

pub mod definition;
pub mod event;
pub mod id;
pub mod plan;
pub mod routing;
pub mod run;
pub mod status;
mod time;
pub mod value;

pub use id::{Digest, Millis, RunId};
pub use status::{NodeStatus, RunStatus};
