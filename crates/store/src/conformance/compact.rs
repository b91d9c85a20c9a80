//! Packing: fewer bytes, the same records.

use super::checkpoint::grown;
use super::{Backend, append_one, must_append, record, row, run_id};
use crate::block_on::Wait;
use crate::{Append, AppendError, Compacted, Head, Record, WriterId, block_on, checksum};
use windlass_core::RunId;

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    packed_records_are_the_same(&open());
    packing_twice_is_harmless(&open());
    packing_goes_on_where_it_stopped(&open());
    any_bytes_are_packed(&open());
    reading_is_paged_over_packed_records(&open());
    the_fence_holds(&open());
    only_the_run_that_was_named_is_packed(&open());
    what_is_not_there_is_not_packed(&open());
}

fn compact<S: Backend>(store: &S, run: RunId, through: u64) -> Compacted {
    block_on(store.compact(run, through)).unwrap()
}

/// The whole log, in pages of this size.
fn paged<S: Backend>(store: &S, run: RunId, from: u64, max_bytes: usize) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let next = records.last().map_or(from, |record| record.sequence + 1);
        let page = store.read(run, next, max_bytes).wait().unwrap();
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

fn packed_records_are_the_same<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = Head::NONE;
    for n in 0..700u64 {
        let append = Append {
            writer: WriterId(n / 100),
            row: n.is_multiple_of(50).then(|| row(run)),
            ..record(run, head, n * 3, format!("record {n}").as_bytes())
        };
        head = must_append(store, append);
    }
    let before = store.read(run, 1, usize::MAX).wait().unwrap();
    for through in [0, 1, 300, 699, 700] {
        let answer = compact(store, run, through);
        assert_eq!(answer.through, through);
        let after = store.read(run, 1, usize::MAX).wait().unwrap();
        assert!(after == before, "packed through {through}");
        for from in [2, 256, 257, 300, 301, 302, 512, 513, 700] {
            let tail = store.read(run, from, usize::MAX).wait().unwrap();
            assert!(tail[..] == before[from as usize - 1..], "from {from}");
        }
        assert_eq!(store.head(run).wait().unwrap(), head);
        assert_eq!(store.run(run).wait().unwrap(), Some(row(run)));
        assert!(store.read(run, 701, 1).wait().unwrap().is_empty());
    }
    let mut previous = Head::NONE.chain;
    for record in &before {
        assert!(checksum::fits(record, &previous));
        previous = record.chain;
    }
}

fn packing_twice_is_harmless<S: Backend>(store: &S) {
    let run = run_id(1);
    grown(store, run, 10);
    let before = store.read(run, 1, usize::MAX).wait().unwrap();
    let first = compact(store, run, 8);
    assert_eq!((first.through, first.records), (8, 8));
    let bytes: usize = before[..8].iter().map(|record| record.bytes.len()).sum();
    assert_eq!(first.bytes, bytes as u64);
    assert!(first.packed_bytes > 0);
    for through in [8, 3, 0] {
        let again = compact(store, run, through);
        let expected = Compacted {
            through: 8,
            ..Compacted::default()
        };
        assert_eq!(again, expected, "through {through}");
    }
    assert_eq!(store.read(run, 1, usize::MAX).wait().unwrap(), before);
}

fn packing_goes_on_where_it_stopped<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut records = 0;
    for round in 1..=6u64 {
        grown(store, run, 10);
        let answer = compact(store, run, round * 9);
        assert_eq!((answer.through, answer.records), (round * 9, 9));
        records += answer.records;
        assert_eq!(paged(store, run, 1, 50).len() as u64, round * 10);
    }
    assert_eq!(records, 54);
}

fn any_bytes_are_packed<S: Backend>(store: &S) {
    let run = run_id(1);
    let mut head = Head::NONE;
    let sizes = [
        0,
        1,
        300_000,
        0,
        70_000,
        512 * 1024,
        4000,
        200_000,
        200_000,
        0,
    ];
    for (n, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size).map(|at: usize| (at * 31 + n) as u8).collect();
        let id = u64::MAX - n as u64;
        head = must_append(store, record(run, head, id, &bytes));
    }
    let before = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(compact(store, run, u64::MAX).through, sizes.len() as u64);
    assert!(store.read(run, 1, usize::MAX).wait().unwrap() == before);
    assert!(paged(store, run, 1, 1) == before);
}

fn reading_is_paged_over_packed_records<S: Backend>(store: &S) {
    let run = run_id(1);
    grown(store, run, 20);
    let before = store.read(run, 1, usize::MAX).wait().unwrap();
    compact(store, run, 6);
    compact(store, run, 13);
    for max_bytes in [0, 1, 60, 200, 1000, usize::MAX] {
        for from in [1, 3, 6, 7, 13, 14, 20] {
            let page = store.read(run, from, max_bytes).wait().unwrap();
            let last = page.len() - 1;
            let bytes: usize = page[..last].iter().map(|record| record.bytes.len()).sum();
            assert!(last == 0 || bytes < max_bytes, "about max_bytes");
            let all = paged(store, run, from, max_bytes);
            assert_eq!(all, before[from as usize - 1..], "{from}, {max_bytes}");
        }
    }
}

fn the_fence_holds<S: Backend>(store: &S) {
    let run = run_id(1);
    let heads = grown(store, run, 5);
    compact(store, run, 5);
    for stale in [Head::NONE, heads[3]] {
        match append_one(store, record(run, stale, 9, b"stale")) {
            Err(AppendError::Conflict(head)) => assert_eq!(head, heads[4]),
            other => panic!("a stale head must conflict, not {other:?}"),
        }
    }
    let head = must_append(store, record(run, heads[4], 9, b"on"));
    assert_eq!(head.sequence, 6);
    let records = store.read(run, 5, usize::MAX).wait().unwrap();
    assert!(checksum::fits(&records[1], &records[0].chain));
    assert_eq!(records[1].head(), head);
}

fn only_the_run_that_was_named_is_packed<S: Backend>(store: &S) {
    for n in 1..=3 {
        grown(store, run_id(n), 4);
    }
    compact(store, run_id(2), 4);
    for n in 1..=3 {
        assert_eq!(
            store.read(run_id(n), 1, usize::MAX).wait().unwrap().len(),
            4
        );
    }
    assert_eq!(compact(store, run_id(1), 4).records, 4);
    assert_eq!(compact(store, run_id(3), 3).records, 3);
    assert_eq!(store.logged_runs(None, 10).wait().unwrap().len(), 3);
    for n in 1..=3 {
        assert_eq!(paged(store, run_id(n), 1, 1).len(), 4);
    }
}

fn what_is_not_there_is_not_packed<S: Backend>(store: &S) {
    assert_eq!(compact(store, run_id(1), 10), Compacted::default());
    assert_eq!(store.head(run_id(1)).wait().unwrap(), Head::NONE);
    assert!(store.logged_runs(None, 10).wait().unwrap().is_empty());
}
