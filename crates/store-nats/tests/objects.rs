//! Objects that a crash leaves behind, and how other programs find values.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{open, settings};
use windlass_core::Digest;
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{Append, Blob, Blobs as _, HOLD, Head, Retention as _, Role, Wait as _};
use windlass_store_nats::NatsStore;
use windlass_test_support::cluster::World;

fn value(byte: u8) -> Blob {
    let bytes = vec![byte; 5000];
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

/// A process stored an object and ended before its row in the index, or before the record that
/// needs it.
#[test]
fn objects_that_nothing_leads_to_are_removed_after_their_time() {
    let store = NatsStore::open(&settings().blob_grace(HOLD)).unwrap();
    store.orphan_object_for_tests(value(1)).wait().unwrap();
    // Its row is there, and a record uses it.
    let using = Append {
        row: Some(row(run_id(1))),
        blobs: vec![value(2)],
        ..record(run_id(1), Head::NONE, 1, b"uses it")
    };
    must_append(&store, using);
    assert_eq!(store.objects_for_tests().wait().unwrap(), (2, 2));
    let almost = HOLD - Duration::from_secs(60);
    for later in [Duration::ZERO, almost] {
        assert_eq!(store.sweep_objects_later(later).wait().unwrap(), 0);
    }
    assert_eq!(store.sweep_objects_later(HOLD).wait().unwrap(), 1);
    assert_eq!(store.objects_for_tests().wait().unwrap(), (1, 1));
    let kept = store.blob(&value(2).digest).wait().unwrap();
    assert_eq!(kept.as_deref(), Some(&value(2).bytes[..]));
    // The value of the orphan can be stored as any other.
    store.put_blob(value(1)).wait().unwrap();
    assert!(store.blob(&value(1).digest).wait().unwrap().is_some());
}

/// A value that was removed leaves a note, which does not stay for ever either.
#[test]
fn the_notes_of_removed_objects_are_removed_after_their_time() {
    let store = open();
    store.put_blob(value(1)).wait().unwrap();
    // No log refers to it, and here it need not be old.
    store.vacuum().wait().unwrap();
    assert_eq!(store.blob(&value(1).digest).wait().unwrap(), None);
    assert_eq!(store.objects_for_tests().wait().unwrap(), (0, 1));
    assert_eq!(store.sweep_objects_later(HOLD).wait().unwrap(), 0);
    assert_eq!(store.objects_for_tests().wait().unwrap(), (0, 0));
}

/// No run is ever forgotten, and no operator asks: an engine removes them all the same.
#[tokio::test]
async fn engines_without_retention_remove_what_nothing_leads_to() {
    let settings = settings().blob_grace(HOLD);
    let store = NatsStore::connect(&settings).await.unwrap();
    store.orphan_object_for_tests(value(1)).await.unwrap();
    store.put_blob(value(2)).await.unwrap();
    store.age_objects_for_tests(HOLD);
    assert_eq!(store.objects_for_tests().await.unwrap(), (2, 2));
    let world = World::new(Arc::new(store.clone()));
    let process = world.join_with(&Role::ALL, |mut options| {
        options.sweep_every = Duration::from_millis(100);
        options
    });
    let process = process.await;
    let swept = async {
        while store.objects_for_tests().await.unwrap() != (1, 1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let swept = tokio::time::timeout(Duration::from_secs(60), swept).await;
    swept.expect("the orphan is removed");
    let kept = store.blob(&value(2).digest).await.unwrap();
    assert!(kept.is_some(), "its row leads to it, and it is new");
    world.stop(process).await;
}
