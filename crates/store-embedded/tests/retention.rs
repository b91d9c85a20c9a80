//! Forgetting runs gives their space back, and takes nothing from the others.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use common::{length, open_fast};
use rusqlite::Connection;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, Blob, Blobs as _, Catalogue as _, Error, Head, Log as _, NewDefinition, Queries as _,
    Retention as _, RunFilter, RunRow, Wait as _, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

const RUNS: u64 = 200;

fn ended(run: RunId) -> RunRow {
    RunRow {
        status: RunStatus::Succeeded,
        ended_at: Some(Millis(1)),
        ..row(run)
    }
}

fn value(n: u64, size: usize) -> Blob {
    let mut bytes = vec![n as u8; size];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

/// What a run brings: a value of its own, one that its neighbour has too, and for some a
/// large one.
fn values(n: u64) -> Vec<Blob> {
    let mut values = vec![value(n, 20_000), value(1_000 + n / 2, 10_000)];
    if n.is_multiple_of(10) {
        values.push(value(2_000 + n, 300_000));
    }
    values
}

fn start(store: &EmbeddedStore, n: u64) {
    let run = run_id(n);
    let mut head = Head::NONE;
    for step in 1..=5 {
        let append = Append {
            row: (step == 5).then(|| ended(run)),
            blobs: if step == 3 { values(n) } else { Vec::new() },
            ..record(run, head, step, &[step as u8; 2_000])
        };
        head = must_append(store, append);
    }
}

fn forget(store: &EmbeddedStore, runs: impl Iterator<Item = u64>) -> u64 {
    block_on(store.forget(runs.map(run_id).collect(), false)).unwrap()
}

#[test]
fn half_of_the_runs_go_and_the_other_half_keeps_everything() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    (0..RUNS).for_each(|n| start(&store, n));
    block_on(store.vacuum()).unwrap();
    let database = root.path().join("windlass.db");
    let full = (
        database.metadata().unwrap().len(),
        store.bytes().wait().unwrap(),
    );
    // Neighbours share a value, so one of each two goes, and some whole pairs.
    let goes = |n: u64| n % 2 == 1 || n.is_multiple_of(4);
    let gone = (0..RUNS).filter(|n| goes(*n)).count() as u64;
    assert_eq!(forget(&store, (0..RUNS).filter(|n| goes(*n))), gone);
    assert_eq!(store.check(None).unwrap(), []);
    block_on(store.vacuum()).unwrap();
    let left = (
        database.metadata().unwrap().len(),
        store.bytes().wait().unwrap(),
    );
    assert!(left.0 < full.0 / 2, "{} of {} bytes", left.0, full.0);
    // Ten large values went too; the log stays as long as it is.
    let less = (full.0 - left.0) + 10 * 300_000;
    assert!(left.1 <= full.1 - less, "{} of {} bytes", left.1, full.1);
    for n in (0..RUNS).filter(|n| !goes(*n)) {
        assert_eq!(length(&store, run_id(n)).unwrap(), 5);
        for blob in values(n) {
            let found = store.blob(&blob.digest).wait().unwrap().unwrap();
            assert!(found[..] == blob.bytes[..]);
        }
    }
    for n in (0..RUNS).filter(|n| goes(*n)) {
        assert!(store.run(run_id(n)).wait().unwrap().is_none());
        assert_eq!(store.blob(&value(n, 20_000).digest).wait().unwrap(), None);
        let shared = store
            .blob(&value(1_000 + n / 2, 10_000).digest)
            .wait()
            .unwrap();
        assert_eq!(shared.is_some(), !goes(n ^ 1), "{n}");
    }
    assert_eq!(store.check(None).unwrap(), []);
    drop(store);
    let store = open_fast(root.path());
    assert_eq!(store.check(None).unwrap(), []);
    start(&store, 1);
    assert_eq!(length(&store, run_id(1)).unwrap(), 5);
}

#[test]
fn a_large_definition_is_no_run_s_to_take_away() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let text = value(1, 400_000);
    let append = Append {
        row: Some(ended(run_id(1))),
        blobs: vec![text.clone()],
        ..record(run_id(1), Head::NONE, 1, b"a graph of its own")
    };
    must_append(&store, append);
    let definition = NewDefinition {
        tenant: None,
        workflow: "large".into(),
        display_name: None,
        digest: text.digest,
        text: text.bytes.clone(),
        signature: text.digest,
        at: Millis(1),
    };
    block_on(store.publish(definition)).unwrap();
    assert_eq!(forget(&store, [1].into_iter()), 1);
    block_on(store.vacuum()).unwrap();
    let found = store
        .definition(None, "large", None)
        .wait()
        .unwrap()
        .unwrap();
    assert!(found.text[..] == text.bytes[..]);
}

#[test]
fn a_value_that_nobody_came_to_use_is_cleared_and_can_come_back() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    for blob in [value(1, 5_000), value(2, 400_000)] {
        block_on(store.put_blob(blob.clone())).unwrap();
        block_on(store.vacuum()).unwrap();
        assert_eq!(store.blob(&blob.digest).wait().unwrap(), None);
        let n = blob.bytes.len() as u64;
        let append = Append {
            row: Some(ended(run_id(n))),
            blobs: vec![blob.clone()],
            ..record(run_id(n), Head::NONE, 1, b"late")
        };
        must_append(&store, append);
        assert!(store.blob(&blob.digest).wait().unwrap().is_some());
    }
    assert_eq!(store.check(None).unwrap(), []);
}

/// Makes what was stored look like it was stored before uses were noted.
fn age(directory: &std::path::Path) {
    let connection = Connection::open(directory.join("windlass.db")).unwrap();
    connection
        .execute_batch(
            "DELETE FROM blob_use;
             INSERT INTO fact SELECT 'old_runs', max(number) FROM run;
             INSERT INTO fact SELECT 'old_values', max(number) FROM blob;",
        )
        .unwrap();
}

#[test]
fn values_from_before_uses_were_noted_stay_until_the_last_run_from_then_goes() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let shared = value(1, 5_000);
    for n in 1..=2 {
        let append = Append {
            row: Some(ended(run_id(n))),
            blobs: vec![shared.clone()],
            ..record(
                run_id(n),
                Head::NONE,
                1,
                shared.digest.to_string().as_bytes(),
            )
        };
        must_append(&store, append);
    }
    drop(store);
    age(root.path());
    let store = open_fast(root.path());
    assert!(store.uses(run_id(1), &shared.digest).wait().unwrap());
    assert!(!store.uses(run_id(1), &Digest::of(b"other")).wait().unwrap());
    // A run of today uses it too, and takes nothing with it.
    let append = Append {
        row: Some(ended(run_id(3))),
        uses: vec![shared.digest],
        ..record(run_id(3), Head::NONE, 1, b"refers")
    };
    must_append(&store, append);
    for n in [1, 3] {
        assert_eq!(forget(&store, [n].into_iter()), 1);
        block_on(store.vacuum()).unwrap();
        assert!(
            store.blob(&shared.digest).wait().unwrap().is_some(),
            "after {n}"
        );
    }
    assert_eq!(forget(&store, [2].into_iter()), 1);
    block_on(store.vacuum()).unwrap();
    assert_eq!(store.blob(&shared.digest).wait().unwrap(), None);
}

#[test]
fn an_old_file_whose_pages_cannot_be_moved_is_written_anew_once() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    drop(store);
    let database = root.path().join("windlass.db");
    let connection = Connection::open(&database).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM; PRAGMA journal_mode = WAL;")
        .unwrap();
    drop(connection);
    let store = open_fast(root.path());
    (0..50).for_each(|n| start(&store, n));
    block_on(store.vacuum()).unwrap();
    let full = database.metadata().unwrap().len();
    assert_eq!(forget(&store, 0..40), 40);
    block_on(store.vacuum()).unwrap();
    assert!(database.metadata().unwrap().len() < full / 2);
    assert_eq!(forget(&store, 40..45), 5);
    block_on(store.vacuum()).unwrap();
    assert!(database.metadata().unwrap().len() < full / 5);
    assert_eq!(store.check(None).unwrap(), []);
}

#[test]
fn a_large_value_that_comes_and_goes_at_the_same_time_is_never_half_there() {
    const ROUNDS: u64 = 60;
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let shared = value(1, 300_000);
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (store, shared) = (&store, &shared);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let run = run_id(writer * 1_000 + round);
                    let append = Append {
                        row: Some(ended(run)),
                        blobs: vec![shared.clone()],
                        ..record(run, Head::NONE, 1, b"with it")
                    };
                    must_append(store, append);
                    let found = store.blob(&shared.digest).wait().unwrap();
                    assert!(found.is_some(), "its run is not forgotten yet");
                    assert_eq!(block_on(store.forget(vec![run], false)).unwrap(), 1);
                    if round % 16 == writer {
                        block_on(store.vacuum()).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(store.check(None).unwrap(), []);
    block_on(store.vacuum()).unwrap();
    assert_eq!(store.blob(&shared.digest).wait().unwrap(), None);
    drop(store);
    let folder = format!("blobs/{}", &shared.digest.to_string()[..2]);
    let left = std::fs::read_dir(root.path().join(folder)).unwrap().count();
    assert_eq!(left, 0, "its file went with it");
}

#[test]
fn a_backup_holds_what_is_forgotten_while_it_is_made() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    (0..20).for_each(|n| start(&store, n));
    let file = root.path().join("backup");
    let mut forgotten = false;
    let mut progress = |_: u64, _: u64| {
        if !std::mem::replace(&mut forgotten, true) {
            assert_eq!(forget(&store, 0..20), 20);
            block_on(store.vacuum()).unwrap();
        }
    };
    store.backup(&file, &mut progress).unwrap();
    assert!(forgotten);
    let restored = root.path().join("restored");
    windlass_store_embedded::restore(&file, &restored).unwrap();
    let copy = open_fast(&restored);
    assert_eq!(copy.check(None).unwrap(), []);
    for blob in values(10) {
        assert!(copy.blob(&blob.digest).wait().unwrap().is_some());
    }
    assert!(store.run(run_id(10)).wait().unwrap().is_none());
    block_on(store.vacuum()).unwrap();
    assert_eq!(store.check(None).unwrap(), []);
}

#[test]
fn a_list_that_takes_too_long_is_given_up_and_the_next_is_answered() {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        durable: false,
        query_timeout: std::time::Duration::ZERO,
        ..Options::default()
    };
    let store = EmbeddedStore::open(root.path(), options).unwrap().store;
    // Two labels that are on many runs each, mixed, and on none together.
    let starts = (0..3_000u64).map(|n| {
        let mut row = row(run_id(n));
        row.labels = [(["even", "odd"][n as usize % 2].into(), "yes".into())].into();
        Append {
            row: Some(row),
            ..record(run_id(n), Head::NONE, 1, b"started")
        }
    });
    for answer in block_on(store.append(starts.collect())) {
        answer.unwrap();
    }
    let both = RunFilter {
        labels: ["even", "odd"].map(|key| (key.into(), "yes".into())).into(),
        ..RunFilter::default()
    };
    let one = RunFilter {
        limit: 1,
        ..RunFilter::default()
    };
    for _ in 0..3 {
        let error = store.runs(&both).wait().unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error}");
        assert_eq!(store.runs(&one).wait().unwrap().rows.len(), 1);
    }
}

#[test]
fn who_only_reads_forgets_nothing() {
    let root = tempfile::tempdir().unwrap();
    let writer = open_fast(root.path());
    start(&writer, 1);
    let reader = open_fast(root.path());
    let refused = block_on(reader.forget(vec![run_id(1)], false));
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(reader.run(run_id(1)).wait().unwrap().is_some());
}

#[test]
fn what_a_dead_process_held_goes_when_the_next_one_opens_the_store() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let (small, large, used) = (value(1, 5_000), value(2, 400_000), value(3, 400_000));
    for blob in [&small, &large, &used] {
        block_on(store.hold_blob(blob.clone())).unwrap();
    }
    let append = Append {
        row: Some(ended(run_id(1))),
        uses: vec![used.digest],
        ..record(run_id(1), Head::NONE, 1, b"uses one")
    };
    must_append(&store, append);
    block_on(store.vacuum()).unwrap();
    let there =
        |store: &EmbeddedStore, blob: &Blob| store.blob(&blob.digest).wait().unwrap().is_some();
    assert!(
        there(&store, &small) && there(&store, &large),
        "they are held"
    );
    drop(store);
    let store = open_fast(root.path());
    assert!(!there(&store, &small) && !there(&store, &large));
    assert!(there(&store, &used));
    // Neither rows nor files are left of them.
    drop(store);
    let files: u64 = walk(&root.path().join("blobs"));
    assert_eq!(files, 400_000);
    let store = open_fast(root.path());
    assert_eq!(block_on(store.forget(vec![run_id(1)], false)).unwrap(), 1);
    assert!(!there(&store, &used), "no hold outlives its process");
}

/// The bytes of all files below a folder.
fn walk(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata().unwrap() {
        folder if folder.is_dir() => walk(&entry.path()),
        file => file.len(),
    });
    sizes.sum()
}
