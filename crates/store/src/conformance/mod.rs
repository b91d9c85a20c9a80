//! What every backend must do: each rule of the contract's documentation is a check here.
//!
//! A check takes a factory of empty stores and panics, naming the rule, when a store
//! breaks it. A backend makes a test of each part by [`conformance_tests!`](crate::conformance_tests).
//! The suite sees nothing but the traits; what only one backend promises is tested in that backend.

// A broken rule must stop the test with its place, which is what these are for.
#![allow(clippy::unwrap_used)]

pub mod admission;
pub mod append;
pub mod audit;
pub mod blob;
pub mod catalogue;
pub mod checkpoint;
pub mod claim;
pub mod compact;
pub mod dead;
mod every_test;
pub mod hook;
pub mod inbox;
pub mod key_value;
pub mod leases;
pub mod places;
pub mod pools;
pub mod query;
pub mod retention;
pub mod schedule;
pub mod secrets;
pub mod settle;
pub mod sleep;
pub mod wakes;
pub mod work;

use windlass_core::{Millis, RunId, RunStatus};

use crate::{Append, AppendError, Appended, Backend, Head, Log, RunRow, WriterId, block_on};

/// The `n`-th run of a test; runs sort by their number.
pub fn run_id(n: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    RunId::new(Millis(1_700_000_000_000 + n as i64), random)
}

/// An append with nothing but a record.
pub fn record(run: RunId, head: Head, append_id: u64, bytes: &[u8]) -> Append {
    Append::of_record(run, head, (WriterId(7), append_id), bytes.to_vec())
}

/// A row of a running run of the workflow `sample`.
pub fn row(run: RunId) -> RunRow {
    let request = format!("request-{run}");
    RunRow {
        status: RunStatus::Running,
        ..RunRow::queued(run, "sample", &request, Millis(1_700_000_000_000))
    }
}

/// Appends one record.
pub fn append_one(store: &impl Log, append: Append) -> Result<Appended, AppendError> {
    let mut answers = block_on(store.append(vec![append]));
    assert_eq!(answers.len(), 1, "one answer for each append");
    answers.remove(0)
}

/// Appends one record that must be accepted, and returns the new head.
pub fn must_append(store: &impl Log, append: Append) -> Head {
    append_one(store, append).unwrap().head
}

/// Makes a run whose only record carries this row.
fn must_start(store: &impl Log, row: RunRow) -> Head {
    let mut first = record(row.run, Head::NONE, 1, b"started");
    first.row = Some(row);
    must_append(store, first)
}
