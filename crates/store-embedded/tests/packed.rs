//! Packed logs and checkpoints: backed up, opened again, and damage in them is found.

// The helpers of a test stop it like the test itself.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{extend, length, open, open_fast, some_run};
use rusqlite::Connection;
use windlass_core::RunId;
use windlass_store::conformance::{must_append, record, run_id};
use windlass_store::{Checkpoint, Error, Head, Log as _, Record, Wait as _, block_on};
use windlass_store_embedded::{EmbeddedStore, restore};

fn compact(store: &EmbeddedStore, run: RunId, through: u64) -> u64 {
    block_on(store.compact(run, through)).unwrap().records
}

fn whole(store: &EmbeddedStore, run: RunId) -> Vec<Record> {
    store.read(run, 1, usize::MAX).wait().unwrap()
}

/// Extends a run in large batches.
fn extend_fast(store: &EmbeddedStore, run: RunId, count: u64) {
    let mut head = store.head(run).wait().unwrap();
    for begin in (0..count).step_by(500) {
        let mut batch = Vec::new();
        for n in begin..(begin + 500).min(count) {
            let append = record(run, head, n, format!("record {n} of {run}").as_bytes());
            head = windlass_store::checksum::next_head(&append);
            batch.push(append);
        }
        for answer in block_on(store.append(batch)) {
            answer.unwrap();
        }
    }
}

fn count(directory: &Path, sql: &str) -> i64 {
    let database = Connection::open(directory.join("windlass.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn packed_records_replace_their_rows() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    extend_fast(&store, some_run(), 2000);
    extend(&store, run_id(2), 3);
    let before = whole(&store, some_run());
    let answer = block_on(store.compact(some_run(), 1900)).unwrap();
    assert_eq!((answer.through, answer.records), (1900, 1900));
    assert!(answer.packed_bytes < answer.bytes / 2, "{answer:?}");
    assert_eq!(count(root.path(), "SELECT count(*) FROM record"), 103);
    assert_eq!(count(root.path(), "SELECT count(*) FROM segment"), 8);
    assert!(whole(&store, some_run()) == before);
    assert_eq!(store.check(None).unwrap(), []);
    drop(store);
    let store = open_fast(root.path());
    assert!(whole(&store, some_run()) == before);
    extend(&store, some_run(), 5);
    assert_eq!(compact(&store, some_run(), u64::MAX), 105);
    assert_eq!(length(&store, some_run()).unwrap(), 2005);
    assert_eq!(store.check(None).unwrap(), []);
}

#[test]
fn others_go_on_while_a_log_is_packed() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    extend_fast(&store, some_run(), 20_000);
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, done) = (store.clone(), Arc::clone(&done));
        thread::spawn(move || {
            let mut rounds = 0u64;
            while !done.load(Ordering::Relaxed) || rounds == 0 {
                extend(&store, run_id(2), 1);
                extend(&store, some_run(), 1);
                let records = store.read(some_run(), 19_000, 10).wait().unwrap();
                assert_eq!(records[0].sequence, 19_000);
                rounds += 1;
            }
            rounds
        })
    };
    assert_eq!(compact(&store, some_run(), 20_000), 20_000);
    done.store(true, Ordering::Relaxed);
    let rounds = writer.join().unwrap();
    assert_eq!(length(&store, some_run()).unwrap(), 20_000 + rounds);
    assert_eq!(length(&store, run_id(2)).unwrap(), rounds);
    assert_eq!(store.check(None).unwrap(), []);
}

#[test]
fn dropping_the_store_stops_packing_between_segments() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    extend_fast(&store, some_run(), 20_000);
    // No caller waits for the answer.
    drop(store.compact(some_run(), 20_000));
    drop(store);
    let store = open_fast(root.path());
    assert_eq!(length(&store, some_run()).unwrap(), 20_000);
    assert_eq!(store.check(None).unwrap(), []);
    compact(&store, some_run(), 20_000);
    assert_eq!(count(root.path(), "SELECT count(*) FROM record"), 0);
}

#[test]
fn a_reader_does_not_pack() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let head = extend(&store, some_run(), 5);
    let reader = open_fast(root.path());
    let refused = block_on(reader.compact(some_run(), 5));
    assert!(matches!(refused, Err(Error::Unavailable(_))));
    let refused = block_on(reader.put_checkpoint(some_run(), state(head, 10)));
    assert!(matches!(refused, Err(Error::Unavailable(_))));
    compact(&store, some_run(), 5);
    assert_eq!(length(&reader, some_run()).unwrap(), 5);
}

#[test]
fn a_segment_is_unpacked_once_while_it_is_read_on() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    extend(&store, some_run(), 20);
    let before = whole(&store, some_run());
    compact(&store, some_run(), 20);
    let mut records = store.read(some_run(), 1, 1).wait().unwrap();
    // Reading the segment again would notice this.
    let database = Connection::open(root.path().join("windlass.db")).unwrap();
    let change = "UPDATE segment SET bytes = zeroblob(100)";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    while let Some(last) = records.last()
        && last.sequence < 20
    {
        let next = last.sequence + 1;
        records.extend(store.read(some_run(), next, 1).wait().unwrap());
    }
    assert!(records == before);
    assert!(store.read(some_run(), 2, 1).wait().is_err());
    assert_eq!(store.check(None).unwrap().len(), 1, "a check looks");
}

#[test]
fn damage_is_found_before_it_is_packed() {
    let root = tempfile::tempdir().unwrap();
    extend(&open_fast(root.path()), some_run(), 600);
    let database = Connection::open(root.path().join("windlass.db")).unwrap();
    let change = "UPDATE record SET bytes = 'other' WHERE id & 0xffffffff = 300";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    drop(database);
    let store = open_fast(root.path());
    let Err(Error::Damaged(damage)) = block_on(store.compact(some_run(), 600)) else {
        panic!("a changed record must be found");
    };
    assert_eq!((damage.run, damage.sequence), (Some(some_run()), Some(300)));
    // The sound records before it are packed, the rest is as it was.
    assert_eq!(count(root.path(), "SELECT count(*) FROM record"), 344);
    assert_eq!(store.check(None).unwrap(), [*damage]);
}

fn state(head: Head, size: usize) -> Checkpoint {
    let bytes = (0..size).map(|at| (at * 7 + at / 256) as u8).collect();
    Checkpoint { head, bytes }
}

/// The files of a run's checkpoints.
fn checkpoint_files(directory: &Path, run: RunId) -> Vec<String> {
    let directory = directory.join("checkpoints").join(run.to_string());
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_replaced_checkpoint_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let run = some_run();
    let store = open(root.path());
    let mut last = None;
    for size in [300_000, 10, 400_000, 500_000] {
        let head = extend(&store, run, 3);
        block_on(store.put_checkpoint(run, state(head, size))).unwrap();
        last = Some(state(head, size));
    }
    let litter = root.path().join("checkpoints").join(run.to_string());
    fs::write(litter.join(".123.4"), b"what a crash left").unwrap();
    let head = extend(&store, run, 1);
    assert!(store.checkpoint(run).wait().unwrap() == last);
    block_on(store.put_checkpoint(run, state(head, 600_000))).unwrap();
    drop(store);
    assert_eq!(checkpoint_files(root.path(), run), ["13"]);
    let store = open(root.path());
    assert!(store.checkpoint(run).wait().unwrap() == Some(state(head, 600_000)));
    block_on(store.put_checkpoint(run, state(head, 6))).unwrap();
    drop(store);
    assert!(checkpoint_files(root.path(), run).is_empty());
    assert_eq!(
        open(root.path()).checkpoint(run).wait().unwrap(),
        Some(state(head, 6))
    );
}

#[test]
fn a_damaged_checkpoint_is_none_and_is_named() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(root.path());
    let heads: Vec<Head> = (1..=2).map(|n| extend(&store, run_id(n), 4)).collect();
    block_on(store.put_checkpoint(run_id(1), state(heads[0], 300_000))).unwrap();
    block_on(store.put_checkpoint(run_id(2), state(heads[1], 5000))).unwrap();
    assert_eq!(store.check(None).unwrap(), []);
    let name = root.path().join("checkpoints").join(run_id(1).to_string());
    let file = name.join("4");
    let bytes = fs::read(&file).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        assert_eq!(store.checkpoint(run_id(1)).wait().unwrap(), None);
        let damage = store.check(None).unwrap();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].place, "checkpoint");
        assert_eq!(damage[0].run, Some(run_id(1)));
    };
    for at in [0, 31, 32, 1000, bytes.len() - 1] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        damaged(&flipped);
    }
    for cut in [0, 10, 32, bytes.len() - 1] {
        damaged(&bytes[..cut]);
    }
    // The log is whole, so nothing is lost, and the next one is as good as ever.
    assert_eq!(length(&store, run_id(1)).unwrap(), 4);
    fs::remove_file(&file).unwrap();
    assert_eq!(store.checkpoint(run_id(1)).wait().unwrap(), None);
    assert_eq!(store.check(None).unwrap(), [], "a missing one is none");
    block_on(store.put_checkpoint(run_id(1), state(heads[0], 300_000))).unwrap();
    assert!(store.checkpoint(run_id(1)).wait().unwrap().is_some());

    let database = Connection::open(root.path().join("windlass.db")).unwrap();
    for change in [
        "sequence = 3",
        "append_id = 9",
        "bytes = 'x'",
        "sum = sum + 1",
    ] {
        let before = store.checkpoint(run_id(2)).wait().unwrap();
        assert!(before.is_some(), "{change}");
        let change = format!("UPDATE checkpoint SET {change} WHERE bytes IS NOT NULL");
        assert_eq!(database.execute(&change, []).unwrap(), 1);
        assert_eq!(
            store.checkpoint(run_id(2)).wait().unwrap(),
            None,
            "{change}"
        );
        assert_eq!(store.check(Some(run_id(2))).unwrap().len(), 1, "{change}");
        block_on(store.put_checkpoint(run_id(2), state(heads[1], 5000))).unwrap();
    }
}

#[test]
fn packed_logs_and_checkpoints_are_backed_up() {
    let root = tempfile::tempdir().unwrap();
    let store = open_fast(&root.path().join("data"));
    let mut states = Vec::new();
    for (n, size) in [(1, 100), (2, 300_000)] {
        let head = extend(&store, run_id(n), 300);
        compact(&store, run_id(n), 290);
        states.push(state(head, size));
        block_on(store.put_checkpoint(run_id(n), state(head, size))).unwrap();
    }
    let file = root.path().join("backup");
    store.backup(&file, &mut |_, _| {}).unwrap();
    restore(&file, &root.path().join("restored")).unwrap();
    let restored = open_fast(&root.path().join("restored"));
    assert_eq!(restored.check(None).unwrap(), []);
    for n in [1, 2] {
        assert!(whole(&restored, run_id(n)) == whole(&store, run_id(n)));
    }
    assert_eq!(
        restored.checkpoint(run_id(1)).wait().unwrap().as_ref(),
        Some(&states[0])
    );
    // A large one is not in the backup: the log is read instead.
    assert_eq!(restored.checkpoint(run_id(2)).wait().unwrap(), None);
    let head = extend(&restored, run_id(2), 1);
    assert_eq!(compact(&restored, run_id(2), head.sequence), 11);
    assert_eq!(length(&restored, run_id(2)).unwrap(), 301);
}

/// Three segments of a run, as they lie in the database file alone.
fn settled(directory: &Path) -> Vec<u8> {
    let store = open_fast(&directory.join("data"));
    for n in 1..=2 {
        for through in [40, 80, 120] {
            extend(&store, run_id(n), 40);
            compact(&store, run_id(n), through);
        }
        let head = extend(&store, run_id(n), 3);
        block_on(store.put_checkpoint(run_id(n), state(head, 3000))).unwrap();
    }
    must_append(&store, record(run_id(3), Head::NONE, 1, b"another"));
    let file = directory.join("whole");
    store.backup(&file, &mut |_, _| {}).unwrap();
    drop(store);
    restore(&file, &directory.join("settled")).unwrap();
    fs::read(directory.join("settled/windlass.db")).unwrap()
}

fn with_database(bytes: &[u8]) -> (tempfile::TempDir, Result<EmbeddedStore, Error>) {
    let copy = tempfile::tempdir().unwrap();
    fs::write(copy.path().join("windlass.db"), bytes).unwrap();
    let store = common::try_open(copy.path());
    (copy, store)
}

#[test]
fn a_changed_segment_names_its_run_and_first_record_and_spares_the_others() {
    let root = tempfile::tempdir().unwrap();
    settled(root.path());
    let directory = root.path().join("settled");
    let changes = [
        "bytes = bytes || x'00'",
        "bytes = substr(bytes, 1, 60)",
        "previous = zeroblob(16)",
        "chain = zeroblob(16)",
        "append_id = append_id + 1",
        "length = length + 1",
        "length = -1",
        "first = first - 1",
        "first = first + 1",
        "sum = sum + 1",
        "bytes = 7",
    ];
    let second = "(SELECT id FROM segment WHERE id & 0xffffffff = 80 ORDER BY id LIMIT 1)";
    for change in changes {
        let copy = tempfile::tempdir().unwrap();
        common::copy_directory(&directory, copy.path());
        let database = Connection::open(copy.path().join("windlass.db")).unwrap();
        let sql = format!("UPDATE segment SET {change} WHERE id = {second}");
        assert_eq!(database.execute(&sql, []).unwrap(), 1);
        drop(database);
        let store = open_fast(copy.path());
        let run = run_id(1);
        for from in [1, 41, 60, 80] {
            let Err(Error::Damaged(damage)) = store.read(run, from, usize::MAX).wait() else {
                panic!("{change}: read from {from}");
            };
            let place = (damage.run, damage.sequence);
            assert_eq!(place, (Some(run), Some(41)), "{change} from {from}");
        }
        assert_eq!(store.read(run, 1, 1).wait().unwrap().len(), 1, "{change}");
        let found = store.check(None).unwrap();
        assert!(found.iter().any(|damage| damage.sequence == Some(41)));
        assert_eq!(store.check(Some(run_id(2))).unwrap(), [], "{change}");
        assert_eq!(length(&store, run_id(2)).unwrap(), 123);
        extend(&store, run_id(2), 1);
    }
    // A segment that is missing altogether.
    let database = Connection::open(directory.join("windlass.db")).unwrap();
    let sql = format!("DELETE FROM segment WHERE id = {second}");
    assert_eq!(database.execute(&sql, []).unwrap(), 1);
    drop(database);
    let store = open_fast(&directory);
    for from in [1, 41, 50, 81] {
        let Err(Error::Damaged(damage)) = store.read(run_id(1), from, usize::MAX).wait() else {
            panic!("missing: read from {from}");
        };
        let missing = if from == 1 {
            41
        } else if from == 81 {
            80
        } else {
            from
        };
        let at = damage.sequence.unwrap();
        assert!(at == missing || at + 1 == missing, "{at} from {from}");
    }
}

#[test]
fn a_flipped_bit_is_found_or_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let database = settled(root.path());
    let content = |store: &EmbeddedStore| {
        let runs = (1..=3).map(run_id);
        runs.map(|run| (whole(store, run), store.checkpoint(run).wait().unwrap()))
            .collect::<Vec<_>>()
    };
    let (_copy, store) = with_database(&database);
    let expected = content(&store.unwrap());
    let mut noticed = 0;
    for at in (0..database.len()).step_by(database.len() / 600) {
        let mut flipped = database.clone();
        flipped[at] ^= 1 << (at % 8);
        let (_copy, store) = with_database(&flipped);
        let found = match &store {
            Err(Error::Damaged(_) | Error::TooNew(_)) => true,
            Err(other) => panic!("{other}"),
            Ok(store) => !store.check(None).unwrap().is_empty(),
        };
        noticed += u32::from(found);
        if !found {
            assert!(content(&store.unwrap()) == expected, "byte {at}");
        }
    }
    assert!(noticed > 20, "{noticed}");
}
