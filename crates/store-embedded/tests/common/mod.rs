//! What the tests of this crate share. Each test binary uses a part of it.
#![allow(dead_code)]

use std::path::Path;

use windlass_core::RunId;
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{Append, Error, Head, Log as _, Wait as _};
use windlass_store_embedded::{EmbeddedStore, Options};

pub(crate) fn open(directory: &Path) -> EmbeddedStore {
    try_open(directory).unwrap()
}

pub(crate) fn try_open(directory: &Path) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(directory, Options::default()).map(|opened| opened.store)
}

/// Opens without syncing, for tests that are not about crashes.
pub(crate) fn open_fast(directory: &Path) -> EmbeddedStore {
    let options = Options {
        durable: false,
        ..Options::default()
    };
    EmbeddedStore::open(directory, options).unwrap().store
}

/// Extends a run by records with rows, one commit each.
pub(crate) fn extend(store: &EmbeddedStore, run: RunId, count: u64) -> Head {
    let mut head = store.head(run).wait().unwrap();
    for _ in 0..count {
        let n = head.sequence + 1;
        let append = Append {
            row: Some(row(run)),
            ..record(run, head, n, format!("record {n} of {run}").as_bytes())
        };
        head = must_append(store, append);
    }
    head
}

/// Reads a whole log, which verifies it.
pub(crate) fn length(store: &EmbeddedStore, run: RunId) -> Result<u64, Error> {
    let mut from = 1;
    loop {
        let page = store.read(run, from, 1 << 16).wait()?;
        match page.last() {
            None => return Ok(from - 1),
            Some(last) => from = last.sequence + 1,
        }
    }
}

pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["windlass.db", "windlass.db-wal"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// The same with the mark of how far the log was whole when it was closed.
pub(crate) fn copy_closed(from: &Path, to: &Path) {
    copy_directory(from, to);
    std::fs::copy(from.join("windlass.tail"), to.join("windlass.tail")).unwrap();
}

pub(crate) fn some_run() -> RunId {
    run_id(1)
}
