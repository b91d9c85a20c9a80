//! A backup of a live store is one consistent file, and restoring it gives the same store.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{extend, length, open_fast};
use windlass_core::Digest;
use windlass_store::conformance::run_id;
use windlass_store::{Blob, Blobs as _, Checkpoint, Error, Log as _, Queries, Wait as _, block_on};
use windlass_store_embedded::restore;

fn large(n: u8) -> Blob {
    let bytes = vec![n; 300_000];
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

#[test]
fn a_backup_while_writing_is_consistent() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    for n in 0..200 {
        extend(&store, run_id(n), 5);
    }
    for n in 0..3 {
        block_on(store.put_blob(large(n))).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            let mut n = 1000;
            while !stop.load(Ordering::Relaxed) {
                extend(&store, run_id(n), 2);
                extend(&store, run_id(n % 200), 1);
                n += 1;
            }
        })
    };
    let file = root.path().join("backup");
    let mut reports = Vec::new();
    store
        .backup(&file, &mut |done, total| reports.push((done, total)))
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(reports.last().unwrap().0, reports.last().unwrap().1);
    assert!(reports.is_sorted());

    restore(&file, &root.path().join("restored")).unwrap();
    let restored = open_fast(&root.path().join("restored"));
    assert_eq!(restored.check(None).unwrap(), []);
    for n in 0..200 {
        assert!(length(&restored, run_id(n)).unwrap() >= 5);
    }
    for n in 0..3 {
        let value = restored.blob(&large(n).digest).wait().unwrap();
        assert_eq!(value.as_deref(), Some(&large(n).bytes[..]));
    }
    extend(&restored, run_id(1), 1);
    let before = store.logged_runs(None, usize::MAX).wait().unwrap();
    let after = restored.logged_runs(None, usize::MAX).wait().unwrap();
    assert!(after.iter().all(|run| before.contains(run)));
}

#[test]
fn nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    let file = root.path().join("backup");
    fs::write(&file, b"mine").unwrap();
    let refused = store.backup(&file, &mut |_, _| {});
    assert!(matches!(refused, Err(Error::Unavailable(_))));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let good = root.path().join("good");
    store.backup(&good, &mut |_, _| {}).unwrap();
    let refused = restore(&good, &root.path().join("data"));
    assert!(matches!(refused, Err(Error::Unavailable(text)) if text.contains("not empty")));
    fs::create_dir(root.path().join("empty")).unwrap();
    restore(&good, &root.path().join("empty")).unwrap();
    let names: Vec<_> = fs::read_dir(root.path()).unwrap().collect();
    assert_eq!(names.len(), 4, "nothing is left behind: {names:?}");
}

#[test]
fn a_cut_or_changed_backup_is_refused_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    extend(&store, run_id(1), 3);
    block_on(store.put_blob(large(1))).unwrap();
    let file = root.path().join("backup");
    store.backup(&file, &mut |_, _| {}).unwrap();
    let bytes = fs::read(&file).unwrap();
    let target = root.path().join("restored");
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let error = restore(&file, &target).unwrap_err();
        assert!(!target.exists());
        error.to_string()
    };
    for cut in [0, 10, 17, 30, 5000, bytes.len() - 33, bytes.len() - 1] {
        let text = refused(&bytes[..cut]);
        assert!(text.contains("cut off"), "{cut}: {text}");
    }
    for at in (0..bytes.len()).step_by(bytes.len() / 60) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        refused(&changed);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refused(&longer);
    assert!(refused(b"PK\x03\x04 this is another kind of file").contains("not a backup"));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    fs::write(&file, &bytes).unwrap();
    restore(&file, &target).unwrap();
}

/// A large checkpoint is a file that a backup does not hold: it derives from the log, which
/// is read instead.
#[test]
fn a_restored_run_has_its_log_and_does_without_a_large_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    let checkpoint = |n: u64, size: usize| {
        let head = extend(&store, run_id(n), 5);
        let bytes = vec![7; size];
        let checkpoint = Checkpoint { head, bytes };
        block_on(store.put_checkpoint(run_id(n), checkpoint.clone())).unwrap();
        assert_eq!(
            store.checkpoint(run_id(n)).wait().unwrap(),
            Some(checkpoint.clone())
        );
        checkpoint
    };
    let small = checkpoint(1, 1_000);
    checkpoint(2, 600_000);
    let file = root.path().join("backup");
    store.backup(&file, &mut |_, _| {}).unwrap();
    restore(&file, &root.path().join("restored")).unwrap();
    let restored = open_fast(&root.path().join("restored"));
    assert_eq!(restored.check(None).unwrap(), []);
    assert_eq!(restored.checkpoint(run_id(1)).wait().unwrap(), Some(small));
    assert_eq!(restored.checkpoint(run_id(2)).wait().unwrap(), None);
    assert_eq!(length(&restored, run_id(2)).unwrap(), 5);
    // It goes on, and its next checkpoint is one again.
    let head = extend(&restored, run_id(2), 1);
    let bytes = vec![8; 600_000];
    let next = Checkpoint { head, bytes };
    block_on(restored.put_checkpoint(run_id(2), next.clone())).unwrap();
    assert_eq!(restored.checkpoint(run_id(2)).wait().unwrap(), Some(next));
}
