//! What an idle owner asks: whether there may be anything to do in its partitions.

use crate::common;

use std::collections::BTreeSet;

use windlass_core::{Millis, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Admission as _, Head, Inbox as _, Offer, Partition, Partitions, RunRow, block_on,
};
use windlass_store_postgres::PostgresStore;

fn has_work(store: &PostgresStore, partition: u32) -> bool {
    let only = Partitions::Only(BTreeSet::from([Partition(partition)]));
    block_on(store.has_work(&only)).unwrap()
}

/// A run in a partition of its own, with its first record.
fn add(store: &PostgresStore, partition: u32, change: impl FnOnce(RunRow) -> RunRow) {
    let run = run_id(partition.into());
    let mut append = record(run, Head::NONE, 1, b"first");
    let first = RunRow {
        partition: Partition(partition),
        ..row(run)
    };
    append.row = Some(change(first));
    must_append(store, append);
}

#[test]
fn an_owner_is_told_whether_its_partitions_have_anything() {
    let store = common::open();
    add(&store, 1, |row| RunRow {
        status: RunStatus::Pending,
        ..row
    });
    add(&store, 2, |row| RunRow {
        status: RunStatus::Running,
        ..row
    });
    let asleep = |row: RunRow, wake_at| RunRow {
        status: RunStatus::Running,
        asleep: true,
        wake_at,
        ..row
    };
    add(&store, 3, |row| asleep(row, Some(Millis(5))));
    add(&store, 4, |row| asleep(row, None));
    let far = Millis(4_000_000_000_000);
    add(&store, 5, |row| asleep(row, Some(far)));
    add(&store, 6, |row| RunRow {
        status: RunStatus::Succeeded,
        ended_at: Some(Millis(5)),
        ..row
    });
    let offer = Offer {
        run: run_id(7),
        partition: Partition(7),
        key: "command/a".into(),
        bytes: Vec::new(),
    };
    block_on(store.offer(vec![offer])).unwrap();
    let busy: Vec<u32> = (0..9).filter(|it| has_work(&store, *it)).collect();
    assert_eq!(busy, [1, 2, 3, 7], "waits, runs, is due, was offered");
    assert!(block_on(store.has_work(&Partitions::All)).unwrap());
}
