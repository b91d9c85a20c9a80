//! Recorded histories (`core/tests/histories`): how their files are read, written and completed,
//! and how their logs are folded.

pub mod file;
pub mod record;
pub mod replay;
pub mod state;
