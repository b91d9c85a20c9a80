//! What the tests of several crates share. A dev-dependency alone: nothing that ships
//! knows it.
//!
//! Without a feature: [`harness`] drives the state machine of a run, [`fixture`] reads and plays
//! the text fixtures of `core/tests/fixtures`, and [`report`] is what can be seen of a run. Each
//! feature adds what needs more crates, so that a test builds no more than it uses;
//! CONTRIBUTING.md lists them.
//!
//! Use it from a crate's `tests` folder: a unit test sees another copy of the types of its own
//! crate.

#![allow(
    missing_docs,
    reason = "helpers of tests are documented where their names do not say it"
)]

#[cfg(feature = "engine")]
pub mod catalogue;
#[cfg(feature = "engine")]
pub mod cluster;
#[cfg(feature = "collector")]
pub mod collector;
pub mod fixture;
#[cfg(feature = "fuzz")]
pub mod fuzz_rounds;
pub mod harness;
#[cfg(feature = "histories")]
pub mod histories;
#[cfg(feature = "engine")]
pub mod in_memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "promtool")]
pub mod promtool;
pub mod report;
#[cfg(feature = "services")]
pub mod services;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod shared_server;
