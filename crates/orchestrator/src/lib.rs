//! The shard: many runs, their inputs, appends, effects and deadlines.
//!
//! Synchronous and pure: time and randomness are arguments, the store's answers are
//! inputs, and nothing here knows a clock, a thread or a backend. The engine drives
//! it with tokio, the simulator with a seeded loop.

pub mod codec;
mod deadline;
mod evaluation;
mod gate;
mod row;
mod shard;
pub mod supervisor;

pub use evaluation::{Evaluated, Evaluation, Pass};
pub use row::{gate_name, queued_row, resource_rows, row, sleep};
pub use shard::{
    AcquireMode, Begin, ChildCommand, CommandId, Effect, FailedAttempt, HandOut, Labels, Options,
    Shard, ShardInput, Start, may_answer,
};
