//! Three servers, of which one is behind: it hangs while the others take rows, and goes on. What it
//! delivers is no measure of what there is.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{opened, settings_on};
use windlass_store::conformance::inbox::offer;
use windlass_store::conformance::{record, row, run_id};
use windlass_store::{Append, Error, Head, Inbox as _, Log as _, OfferAnswer, Wait as _};
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::OwnCluster;
use windlass_test_support::postgres;

const READERS: usize = 6;
const RUNS: u64 = 150;

/// A store of the installation with a database of its own, which no other brings up to date.
fn reader(settings: &Settings) -> NatsStore {
    let database = postgres::server().fresh();
    let database = windlass_store_postgres::Settings::parse(&database).unwrap();
    opened(&settings.clone().with_postgres(database.pool(2)))
}

fn in_time<T>(mut ask: impl FnMut() -> Result<T, Error>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(90), "{error}"),
        }
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_a_server_that_is_behind_delivers_is_not_taken_for_everything() {
    let cluster = OwnCluster::start();
    let settings = settings_on(&cluster.nodes[0].url());
    let settings = settings.replicas(3).partitions(1);
    let writer = opened(&settings);
    let readers: Vec<NatsStore> = (0..READERS).map(|_| reader(&settings)).collect();
    for stream in ["LOG_0", "INBOX"] {
        in_time(|| writer.lead_for_tests(stream, "node0").wait());
    }
    for round in 0..2 {
        let runs = round * RUNS + 1..=(round + 1) * RUNS;
        cluster.nodes[2].pause();
        for n in runs.clone() {
            let started = Append {
                row: Some(row(run_id(n))),
                ..record(run_id(n), Head::NONE, 1, &[7; 100_000])
            };
            writer.publish_without_rows(started).wait().unwrap();
            assert!(offer(&writer, run_id(n), "key", &[7; 20_000]));
        }
        cluster.nodes[2].resume();
        let checks = readers.iter().cloned().map(|reader| {
            let runs = runs.clone();
            thread::spawn(move || {
                in_time(|| reader.copies_caught_up_for_tests().wait());
                for n in runs.clone() {
                    let answer = reader.answer(run_id(n), "key").wait().unwrap();
                    assert_eq!(answer, Some(OfferAnswer::Waiting), "run {n} in the copy");
                }
                in_time(|| reader.catch_up_for_tests().wait());
                for n in runs {
                    let stored = reader.postgres().head(run_id(n)).wait().unwrap();
                    assert_eq!(stored.sequence, 1, "run {n} in the database");
                }
            })
        });
        let checks: Vec<_> = checks.collect();
        for check in checks {
            check.join().unwrap();
        }
    }
}
