//! What every backend must do: each rule of the contract's documentation is a check here.
//!
//! A check takes a factory of empty stores and panics, naming the rule, when a store
//! breaks it. A backend calls [`all`], or the checks one by one. The suite sees nothing
//! but the traits; what only one backend promises is tested in that backend.

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
pub mod sleep;
pub mod wakes;
pub mod work;

use std::collections::BTreeMap;

use windlass_core::{Millis, RunId, RunStatus};

use crate::{
    Append, AppendError, Appended, Backend, Head, Log, Partition, RunRow, WriterId, block_on,
};

/// Runs every check.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    append::all(open);
    inbox::all(open);
    claim::all(open);
    blob::all(open);
    catalogue::all(open);
    query::all(open);
    checkpoint::all(open);
    compact::all(open);
    sleep::all(open);
    admission::all(open);
    dead::all(open);
    audit::all(open);
    secrets::all(open);
    retention::all(open);
    schedule::all(open);
    hook::all(open);
    key_value::all(open);
    places::all(open);
    pools::all(open);
}

/// The `n`-th run of a test; runs sort by their number.
pub fn run_id(n: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    RunId::new(Millis(1_700_000_000_000 + n as i64), random)
}

/// An append with nothing but a record.
pub fn record(run: RunId, head: Head, append_id: u64, bytes: &[u8]) -> Append {
    Append {
        run,
        head,
        writer: WriterId(7),
        append_id,
        record: bytes.to_vec(),
        row: None,
        claims: Vec::new(),
        resources: Vec::new(),
        blobs: Vec::new(),
        uses: Vec::new(),
        consumed: Vec::new(),
        releases: Vec::new(),
        slots: Vec::new(),
    }
}

/// A row of a running run of the workflow `sample`.
pub fn row(run: RunId) -> RunRow {
    RunRow {
        run,
        tenant: None,
        workflow: "sample".into(),
        version: 1,
        request_id: format!("request-{run}").into(),
        status: RunStatus::Running,
        priority: 5,
        labels: BTreeMap::new(),
        created_at: Millis(1_700_000_000_000),
        started_at: None,
        ended_at: None,
        wake_at: None,
        asleep: false,
        error_code: None,
        error_message: None,
        cause_codes: Vec::new(),
        parent: None,
        origin: None,
        gate: None,
        limit: 0,
        dead: false,
        partition: Partition(0),
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
