//! The integration tests of this crate, built as one binary: a binary per file would each
//! link the whole engine again. The tidy check refuses a test file that is not listed here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test has nothing better to do than to stop"
)]

mod acknowledged;
mod behind;
mod common;
mod conformance;
mod deleted;
mod failover;
mod faults;
mod idle;
mod lag;
mod limits;
mod login;
mod objects;
mod outside;
mod races;
mod recovery;
mod replicas;
mod rolled_back;
mod semantics;
