//! The embedded store passes the suite that every backend passes.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

use windlass_store::{Backend, conformance};
use windlass_store_embedded::{EmbeddedStore, Options};

/// A factory of stores in directories that outlive them.
fn check(rules: fn(&dyn Fn() -> EmbeddedStore)) {
    let root = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    rules(&|| {
        count.set(count.get() + 1);
        let directory = root.path().join(count.get().to_string());
        let options = Options {
            durable: false,
            ..Options::default()
        };
        EmbeddedStore::open(&directory, options).unwrap().store
    });
}

#[test]
fn append() {
    check(|open| conformance::append::all(open));
}

#[test]
fn inbox() {
    check(|open| conformance::inbox::all(open));
}

#[test]
fn pools() {
    check(|open| conformance::pools::all(open));
}

#[test]
fn places() {
    check(|open| conformance::places::all(open));
}

#[test]
fn claim() {
    check(|open| conformance::claim::all(open));
}

#[test]
fn blob() {
    check(|open| conformance::blob::all(open));
}

#[test]
fn catalogue() {
    check(|open| conformance::catalogue::all(open));
}

#[test]
fn query() {
    check(|open| conformance::query::all(open));
}

#[test]
fn checkpoint() {
    check(|open| conformance::checkpoint::all(open));
}

#[test]
fn compact() {
    check(|open| conformance::compact::all(open));
}

#[test]
fn sleep() {
    check(|open| conformance::sleep::all(open));
}

#[test]
fn admission() {
    check(|open| conformance::admission::all(open));
}

#[test]
fn dead() {
    check(|open| conformance::dead::all(open));
}

#[test]
fn audit() {
    check(|open| conformance::audit::all(open));
}

#[test]
fn secrets() {
    check(|open| conformance::secrets::all(open));
}

#[test]
fn retention() {
    check(|open| conformance::retention::all(open));
}

#[test]
fn the_store_is_a_backend() {
    fn backend<S: Backend>() {}
    backend::<EmbeddedStore>();
}

#[test]
fn schedule() {
    check(|open| conformance::schedule::all(open));
}

#[test]
fn hook() {
    check(|open| conformance::hook::all(open));
}

#[test]
fn notes() {
    check(|open| conformance::key_value::all(open));
}
