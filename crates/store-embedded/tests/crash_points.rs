//! Killed at chosen places while it packs a log, stores checkpoints or brings an older
//! directory to the present schema, the store loses nothing and goes on. Needs the feature
//! `crash-points`.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use common::{extend, length, open, open_fast, some_run};
use rusqlite::Connection;
use windlass_core::{Digest, Millis, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, Blob, Blobs as _, Checkpoint, Head, Log as _, Queries as _, Record, Retention as _,
    Wait as _, block_on,
};
use windlass_store_embedded::EmbeddedStore;

/// Checkpoints come often in children.
const CHECKPOINT_BYTES: &str = "200000";

/// Runs a test of this file as a child that is killed at a place.
fn killed(test: &str, directory: &Path, place: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("WINDLASS_TEST_CRASH", directory)
        .env("WINDLASS_CRASH_AT", place)
        .env("WINDLASS_CHECKPOINT_BYTES", CHECKPOINT_BYTES)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{place}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn child() -> Option<std::path::PathBuf> {
    std::env::var_os("WINDLASS_TEST_CRASH").map(Into::into)
}

fn state(head: Head, size: usize) -> Checkpoint {
    Checkpoint {
        head,
        bytes: vec![head.sequence as u8; size],
    }
}

fn all(directory: &Path) -> Vec<Record> {
    open(directory)
        .read(some_run(), 1, usize::MAX)
        .wait()
        .unwrap()
}

#[test]
fn packing_is_whole_or_not_at_every_step() {
    if let Some(directory) = child() {
        let store = open(&directory);
        block_on(store.compact(some_run(), 1000)).unwrap();
        return;
    }
    let places = [
        "before-compaction",
        "in-compaction",
        "before-commit",
        "after-commit",
    ];
    for place in places {
        for step in [1, 2, 4] {
            let root = tempfile::tempdir().unwrap();
            extend(&open_fast(root.path()), some_run(), 1100);
            let before = all(root.path());
            let place = format!("{place}:{step}");
            killed("packing_is_whole_or_not_at_every_step", root.path(), &place);
            assert!(all(root.path()) == before, "{place}");
            let store = open(root.path());
            assert_eq!(store.check(None).unwrap(), [], "{place}");
            // The rest is packed, and the run goes on.
            let packed = block_on(store.compact(some_run(), 1000)).unwrap();
            let done = step - u64::from(!place.starts_with("after-commit"));
            assert_eq!(packed.records, 1000 - (done * 256).min(1000), "{place}");
            assert_eq!(packed.through, 1000);
            extend(&store, some_run(), 1);
            assert_eq!(length(&store, some_run()).unwrap(), 1101);
            assert_eq!(store.check(None).unwrap(), [], "{place}");
        }
    }
}

#[test]
fn a_checkpoint_is_the_old_one_or_the_new_one() {
    const SIZES: [usize; 4] = [300_000, 400_000, 20, 500_000];
    if let Some(directory) = child() {
        let store = open(&directory);
        for size in SIZES {
            let head = extend(&store, some_run(), 1);
            block_on(store.put_checkpoint(some_run(), state(head, size))).unwrap();
        }
        return;
    }
    let test = "a_checkpoint_is_the_old_one_or_the_new_one";
    let mut places: Vec<String> = (1..=8).map(|n| format!("before-commit:{n}")).collect();
    places.extend((1..=8).map(|n| format!("after-commit:{n}")));
    for point in ["after-checkpoint-write", "after-checkpoint-rename"] {
        places.extend((1..=3).map(|n| format!("{point}:{n}")));
    }
    for place in places {
        let root = tempfile::tempdir().unwrap();
        killed(test, root.path(), &place);
        let store = open(root.path());
        let records = store.read(some_run(), 1, usize::MAX).wait().unwrap();
        let state_of = |n: usize| state(records[n - 1].head(), SIZES[n - 1]);
        match store.checkpoint(some_run()).wait().unwrap() {
            None => assert!(records.len() <= 1, "{place}: {}", records.len()),
            Some(found) => {
                // Of the last record or of the one before it: nothing was replaced early.
                let n = found.head.sequence as usize;
                assert!(n + 1 >= records.len(), "{place}: {n}");
                assert!(found == state_of(n), "{place}");
            }
        }
        assert_eq!(store.check(None).unwrap(), [], "{place}");
        // The next one replaces it, and clears away what the crash left.
        let head = extend(&store, some_run(), 1);
        block_on(store.put_checkpoint(some_run(), state(head, 600_000))).unwrap();
        assert!(store.checkpoint(some_run()).wait().unwrap() == Some(state(head, 600_000)));
        drop(store);
        let files = root.path().join("checkpoints").join(some_run().to_string());
        assert_eq!(std::fs::read_dir(files).unwrap().count(), 1, "{place}");
    }
}

/// A run that has ended, with a value of each kind, one of them shared with every other.
fn start_ended(store: &EmbeddedStore, n: u64) {
    let mut ended = row(run_id(n));
    ended.status = RunStatus::Succeeded;
    ended.ended_at = Some(Millis(1));
    let append = Append {
        row: Some(ended),
        blobs: vec![value(0, 300_000), value(n, 6_000), value(n, 300_000)],
        ..record(run_id(n), Head::NONE, 1, b"with values")
    };
    let head = must_append(store, append);
    block_on(store.put_checkpoint(run_id(n), state(head, 300_000))).unwrap();
}

fn value(n: u64, size: usize) -> Blob {
    let bytes = vec![n as u8; size];
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

fn files_in(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => files_in(&path),
            _ => 1,
        })
        .sum()
}

#[test]
fn forgetting_is_whole_or_not() {
    if let Some(directory) = child() {
        let store = open(&directory);
        block_on(store.forget(vec![run_id(1), run_id(2)], false)).unwrap();
        block_on(store.vacuum()).unwrap();
        return;
    }
    let mut places = vec!["before-clearing:1".to_owned()];
    for place in ["in-forget", "before-commit", "after-commit"] {
        places.extend((1..=2).map(|n| format!("{place}:{n}")));
    }
    for place in places {
        let root = tempfile::tempdir().unwrap();
        let store = open_fast(root.path());
        (1..=3).for_each(|n| start_ended(&store, n));
        drop(store);
        killed("forgetting_is_whole_or_not", root.path(), &place);
        let store = open(root.path());
        assert_eq!(store.check(None).unwrap(), [], "{place}");
        let there = |n: u64| {
            let row = store.run(run_id(n)).wait().unwrap().is_some();
            let log = store.read(run_id(n), 1, usize::MAX).wait().unwrap().len() == 1;
            let values = [value(n, 6_000), value(n, 300_000)];
            let values = values.map(|value| store.blob(&value.digest).wait().unwrap().is_some());
            assert_eq!([row; 3], [log, values[0], values[1]], "{place}: {n}");
            row
        };
        assert_eq!(there(1), there(2), "{place}: they go together");
        assert!(there(3), "{place}");
        assert!(
            store
                .blob(&value(0, 300_000).digest)
                .wait()
                .unwrap()
                .is_some()
        );
        // What is left of it is done, and the files of what is gone are gone.
        block_on(store.forget(vec![run_id(1), run_id(2)], false)).unwrap();
        block_on(store.vacuum()).unwrap();
        drop(store);
        assert_eq!(files_in(&root.path().join("blobs")), 2, "{place}");
        assert_eq!(files_in(&root.path().join("checkpoints")), 1, "{place}");
        let store = open(root.path());
        assert_eq!(store.check(None).unwrap(), [], "{place}");
    }
}

/// Killed anywhere around a commit, its mark and a checkpoint, a directory opens by itself with
/// all that was acknowledged; without its log, or with a part of it, it does not, unless nothing
/// is missing.
#[test]
fn a_kill_at_any_mark_leaves_a_log_whose_loss_is_noticed() {
    if let Some(directory) = child() {
        let store = open(&directory);
        for _ in 0..100 {
            println!("ack {}", extend(&store, some_run(), 1).sequence);
        }
        return;
    }
    let test = "a_kill_at_any_mark_leaves_a_log_whose_loss_is_noticed";
    let mut places = Vec::new();
    for point in ["before-mark", "after-mark", "after-commit", "before-commit"] {
        places.extend([1, 2, 7, 12, 30, 60].map(|n| format!("{point}:{n}")));
    }
    for point in ["after-checkpoint", "after-checkpoint-mark", "in-checkpoint"] {
        places.extend([1, 2].map(|n| format!("{point}:{n}")));
    }
    let (mut noticed, mut harmless) = (0, 0);
    for place in places {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("data");
        let said = killed(test, &directory, &place);
        let acks = said.lines().filter_map(|line| line.split("ack ").nth(1));
        let acknowledged: u64 = acks.filter_map(|n| n.parse().ok()).max().unwrap_or(0);
        let log = std::fs::read(directory.join("windlass.db-wal")).unwrap_or_default();
        for left in [
            None,
            Some(0),
            Some(32),
            Some(log.len() / 2),
            Some(log.len()),
        ] {
            let left = left.map(|left| left.min(log.len()));
            let copy = root.path().join("copy");
            let _ = std::fs::remove_dir_all(&copy);
            common::copy_directory(&directory, &copy);
            let _ = std::fs::copy(directory.join("windlass.tail"), copy.join("windlass.tail"));
            match left {
                Some(left) => std::fs::write(copy.join("windlass.db-wal"), &log[..left]).unwrap(),
                None => drop(std::fs::remove_file(copy.join("windlass.db-wal"))),
            }
            match common::try_open(&copy) {
                Ok(store) => {
                    let there = length(&store, some_run()).unwrap();
                    assert!(there >= acknowledged, "{place}, {left:?}: {there}");
                    assert_eq!(store.check(None).unwrap(), [], "{place}, {left:?}");
                    harmless += 1;
                }
                Err(windlass_store::Error::Damaged(_)) => {
                    assert_ne!(left, Some(log.len()), "{place}: a whole log opens");
                    noticed += 1;
                }
                Err(other) => panic!("{place}: {other}"),
            }
        }
    }
    assert!(noticed > 60 && harmless > 30, "{noticed} and {harmless}");
}

#[test]
fn a_migration_is_whole_or_not() {
    if let Some(directory) = child() {
        open(&directory);
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let database = root.path().join("windlass.db");
    let version = || -> i64 {
        let connection = Connection::open(&database).unwrap();
        let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0));
        version.unwrap()
    };
    let connection = Connection::open(&database).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; BEGIN; {}
             PRAGMA application_id = {}; PRAGMA user_version = 1; COMMIT;",
            include_str!("common/schema-1.sql"),
            0x576e_646c
        ))
        .unwrap();
    drop(connection);
    killed("a_migration_is_whole_or_not", root.path(), "in-migration");
    assert_eq!(version(), 1);
    let store = open(root.path());
    assert_eq!(version(), 8);
    extend(&store, run_id(1), 3);
    assert_eq!(store.check(None).unwrap(), []);
}
