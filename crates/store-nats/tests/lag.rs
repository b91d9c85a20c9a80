//! How far the database is behind the logs, whichever process published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::settings;
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{Append, Head, Queries as _, Wait as _};
use windlass_store_nats::NatsStore;
use windlass_test_support::cluster::World;

fn started(n: u64) -> Append {
    let run = run_id(n);
    Append {
        row: Some(row(run)),
        ..record(run, Head::NONE, 1, b"started")
    }
}

/// Records of a process that ended before the database had them.
fn left_behind(store: &NatsStore, runs: std::ops::Range<u64>) {
    for n in runs {
        store.publish_without_rows(started(n)).wait().unwrap();
    }
}

#[test]
fn records_of_all_processes_count_until_the_database_has_them() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    left_behind(&one, 0..5);
    assert_eq!(other.behind().wait().unwrap(), 5);
    assert!(other.behind_log_ms().wait().unwrap() > 0);
    let facts = other.health().wait().unwrap().facts;
    assert!(facts.contains(&("projection_lag".to_owned(), "5".to_owned())));
    other.catch_up_for_tests().wait().unwrap();
    for store in [&one, &other] {
        assert_eq!(store.behind().wait().unwrap(), 0);
        assert_eq!(store.behind_log_ms().wait().unwrap(), 0);
    }
    left_behind(&one, 5..8);
    let third = NatsStore::open(&settings).unwrap();
    assert_eq!(third.found_behind(), 3, "what was missing before it looked");
    assert_eq!(third.behind().wait().unwrap(), 0);
}

/// A process writes its watermarks once a second, and once more when nothing comes any more.
#[test]
fn what_a_process_applied_last_counts_no_longer_for_the_others() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    for n in 0..3 {
        must_append(&one, started(n));
        one.settled_for_tests().wait().unwrap();
    }
    let begun = Instant::now();
    while other.behind().wait().unwrap() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it counts for ever"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn the_lag_of_a_cluster_includes_the_way_from_the_log_to_the_database() {
    let store = NatsStore::connect(&settings()).await.unwrap();
    let world = World::new(Arc::new(store.clone()));
    let front = world.front().await;
    assert_eq!(front.cluster().await.unwrap().projector_lag_ms, 0);
    store.publish_without_rows(started(1)).await.unwrap();
    assert!(front.cluster().await.unwrap().projector_lag_ms > 0);
    store.catch_up_for_tests().await.unwrap();
    assert_eq!(front.cluster().await.unwrap().projector_lag_ms, 0);
}
