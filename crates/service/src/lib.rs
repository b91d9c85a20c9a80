//! What can be asked of Windlass, and what it answers: for a terminal and for HTTP alike.
//!
//! A question about a run goes through [`RunQueries`], a command through [`command`], a start through
//! [`launch`]. All of it knows the engine and the storage contract, and neither a backend, nor
//! HTTP, nor the exit codes of commands: a [`Failure`] says why, and its [`FailureKind`] is mapped
//! where it is reported. How a graph is drawn is `windlass_graph`'s.

pub mod catalogue;
pub mod children;
pub mod cluster;
pub mod command;
pub mod definition;
pub mod definition_schema;
pub mod diff;
pub mod drawing;
pub mod dry_run;
pub mod export;
pub mod failure;
pub mod filter;
pub mod forking;
pub mod frozen;
pub mod launch;
pub mod layout;
pub mod listing;
pub mod members;
pub mod migration;
pub mod moment;
pub mod node_view;
pub mod overrides;
pub mod pools;
pub mod progress;
pub mod publishing;
pub mod run_item;
pub mod run_list;
mod run_queries;
pub mod schedules;
pub mod secrets;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod source;
pub mod start_body;
pub mod statistics;
pub mod statuses;
pub mod text;
pub mod verifying;
pub mod wait_state;
pub mod why;

pub use failure::{Failure, FailureKind};
pub use run_queries::RunQueries;
