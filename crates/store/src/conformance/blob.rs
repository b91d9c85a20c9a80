//! Values: kept under their digest, of any size, storing twice is harmless.

use crate::block_on::Wait;
use windlass_core::Digest;

use super::{Backend, must_append, record, run_id};
use crate::{Append, Blob, Head, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    values_come_back(&open());
    storing_twice_is_harmless(&open());
    values_come_with_their_append(&open());
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
