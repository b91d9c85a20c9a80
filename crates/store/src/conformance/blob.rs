//! Values: kept under their digest, of any size, storing twice is harmless.

use crate::block_on::Wait;
use windlass_core::{Digest, Millis, RunStatus};

use super::{Backend, must_append, record, row, run_id};
use crate::{Append, Blob, Head, RunRow, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    values_come_back(&open());
    storing_twice_is_harmless(&open());
    values_come_with_their_append(&open());
    held_values_wait_for_their_append(&open());
    held_values_do_not_count_for_retention(&open());
}

fn blob(size: usize) -> Blob {
    let bytes: Vec<u8> = (0..size).map(|at| (at ^ (at >> 8)) as u8).collect();
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

const SIZES: [usize; 7] = [0, 1, 5000, 256 * 1024, 256 * 1024 + 1, 300_000, 1 << 20];

fn values_come_back<S: Backend>(store: &S) {
    for size in SIZES {
        let blob = blob(size);
        assert_eq!(store.blob(&blob.digest).wait().unwrap(), None);
        block_on(store.put_blob(blob.clone())).unwrap();
        let back = store.blob(&blob.digest).wait().unwrap().unwrap();
        assert!(back[..] == blob.bytes[..], "{size} bytes come back");
    }
}

fn storing_twice_is_harmless<S: Backend>(store: &S) {
    for size in [10, 300_000] {
        for _ in 0..2 {
            block_on(store.put_blob(blob(size))).unwrap();
        }
        assert!(store.blob(&blob(size).digest).wait().unwrap().is_some());
    }
}

fn values_come_with_their_append<S: Backend>(store: &S) {
    block_on(store.put_blob(blob(1))).unwrap();
    let laden = Append {
        blobs: SIZES.into_iter().map(blob).collect(),
        ..record(run_id(1), Head::NONE, 1, b"with values")
    };
    must_append(store, laden);
    for size in SIZES {
        assert!(store.blob(&blob(size).digest).wait().unwrap().is_some());
    }
}

/// An append may refer to a held value without bringing it, and neither giving space back nor
/// forgetting another run that uses it removes it before.
fn held_values_wait_for_their_append<S: Backend>(store: &S) {
    for size in SIZES {
        block_on(store.hold_blob(blob(size))).unwrap();
    }
    let first = Append {
        uses: SIZES.into_iter().map(|size| blob(size).digest).collect(),
        row: Some(RunRow {
            status: RunStatus::Succeeded,
            ended_at: Some(Millis(1)),
            ..row(run_id(1))
        }),
        ..record(run_id(1), Head::NONE, 1, b"names values")
    };
    must_append(store, first);
    // Another run is about to use the same values while the first is forgotten.
    for size in SIZES {
        block_on(store.hold_blob(blob(size))).unwrap();
    }
    assert_eq!(
        block_on(store.forget(vec![run_id(1)], false)).unwrap(),
        1,
        "the run has ended"
    );
    block_on(store.vacuum()).unwrap();
    let second = Append {
        uses: SIZES.into_iter().map(|size| blob(size).digest).collect(),
        ..record(run_id(2), Head::NONE, 1, b"names the same values")
    };
    must_append(store, second);
    for size in SIZES {
        let back = store.blob(&blob(size).digest).wait().unwrap();
        assert_eq!(back.as_deref(), Some(&*blob(size).bytes), "{size} bytes");
        assert!(store.uses(run_id(2), &blob(size).digest).wait().unwrap());
    }
}

/// Retention by bytes forgets runs until few enough are left: it must not go on because of bytes
/// that no run has.
fn held_values_do_not_count_for_retention<S: Backend>(store: &S) {
    let before = block_on(store.bytes()).unwrap();
    let held = blob(8 << 20);
    block_on(store.hold_blob(held.clone())).unwrap();
    let while_held = block_on(store.bytes()).unwrap();
    assert!(
        while_held < before + (4 << 20),
        "{before}, then {while_held}"
    );
    let used = Append {
        uses: vec![held.digest],
        ..record(run_id(1), Head::NONE, 1, b"names it")
    };
    must_append(store, used);
    assert!(block_on(store.bytes()).unwrap() > while_held + (64 << 10));
}
