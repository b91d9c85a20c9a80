//! Leases and work of a data directory: sessions that a crash left behind.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use windlass_store::{Error, Leases, Partition, ProcessInfo, SessionId, block_on};
use windlass_store_embedded::{EmbeddedStore, Options};

fn open(directory: &Path) -> EmbeddedStore {
    let options = Options {
        durable: false,
        ..Options::default()
    };
    EmbeddedStore::open(directory, options).unwrap().store
}

fn join(store: &EmbeddedStore, name: &str) -> SessionId {
    block_on(store.join(&ProcessInfo::named(name), 10_000))
        .unwrap()
        .session
}

#[test]
fn a_session_without_a_clean_end_is_known_to_the_next_process() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (clean, crashed) = (join(&store, "clean"), join(&store, "crashed"));
    assert!(block_on(store.leave(clean)).unwrap());
    drop(store);

    let store = open(root.path());
    let expired = block_on(store.expired()).unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(
        (expired[0].session, &*expired[0].name),
        (crashed, "crashed")
    );
    assert!(!block_on(store.renew(crashed)).unwrap(), "it is over");
    let next = join(&store, "next");
    assert!(next > crashed, "no id is given twice");
    let taken = block_on(store.take(next, &[Partition(0)])).unwrap();
    assert_eq!(taken[0].from_expired, Some(crashed));
    assert_eq!(block_on(store.expired()).unwrap().len(), 1, "next is live");
    assert!(block_on(store.forget_session(crashed)).unwrap());
    assert!(!block_on(store.forget_session(next)).unwrap(), "it is live");
    assert!(block_on(store.leave(next)).unwrap());
    drop(store);

    let store = open(root.path());
    assert!(block_on(store.expired()).unwrap().is_empty());
    let last = join(&store, "last");
    assert!(last > next);
    let taken = block_on(store.take(last, &[Partition(0)])).unwrap();
    assert_eq!(taken[0].from_expired, None);
}

#[test]
fn a_process_that_only_reads_cannot_join() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let options = Options {
        exclusive: false,
        ..Options::default()
    };
    let reader = EmbeddedStore::open(root.path(), options).unwrap().store;
    let refused = block_on(reader.join(&ProcessInfo::named("reader"), 10_000));
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    drop(store);
}
