//! What a run means: definitions, plans, routing, and the pure state machine of a run.
//!
//! Nothing here is asynchronous, reads a clock, draws a random number, stores
//! anything or speaks HTTP: time, identifiers and randomness are arguments.

pub mod definition;
pub mod id;
pub mod status;

pub use id::{Digest, Millis, RunId};
pub use status::{NodeStatus, RunStatus};
