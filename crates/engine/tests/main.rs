//! The integration tests of this crate, built as one binary: a binary per file would each
//! link the whole engine again. The tidy check refuses a test file that is not listed here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test has nothing better to do than to stop"
)]

mod acting;
mod append_faults;
mod cluster;
mod cluster_begin;
mod cluster_commands;
mod cluster_gate_lines;
mod cluster_letters;
mod cluster_limits;
mod cluster_work;
mod crash_isolation;
mod evaluating;
mod feeding;
mod forged_log;
mod forgetting;
mod fork_compensated;
mod fuzz;
mod histories;
mod keeping;
mod looking;
mod looking_structured;
mod pools;
mod purging;
mod queue_reason;
mod remote_work;
mod schedules;
mod serve_world;
mod serving;
mod waiting;
mod watchers;
