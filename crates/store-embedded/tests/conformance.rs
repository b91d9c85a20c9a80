//! The embedded store passes the suite that every backend passes.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

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

windlass_store::conformance_tests!(EmbeddedStore, check);
