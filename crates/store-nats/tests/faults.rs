//! What a network does between a process and NATS: acknowledgements that are lost, connections
//! that are cut, writers that race.

use std::thread;
use std::time::Duration;

use crate::common::{settings, settings_on};
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Error, Head, Log as _, Queries as _, RunFilter, Wait as _, checksum,
};
use windlass_store_nats::NatsStore;
use windlass_test_support::nats::server;
use windlass_test_support::postgres::Proxy;

/// The log's end, once the connection is there again.
fn head(store: &NatsStore) -> Head {
    loop {
        match store.head(run_id(1)).wait() {
            Ok(head) => return head,
            Err(Error::Unavailable(_)) => thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_publish_whose_acknowledgement_is_lost_is_neither_doubled_nor_dropped() {
    let address = server().url().trim_start_matches("nats://");
    let proxy = Proxy::to(address);
    let settings = settings_on(&format!("nats://{}", proxy.address()));
    let store = NatsStore::open(&settings.answer_time(Duration::from_millis(700))).unwrap();
    let run = run_id(1);
    let mut known = must_append(&store, record(run, Head::NONE, 1, b"first"));
    let given = std::env::var("WINDLASS_FAULTS").ok();
    let faults: u64 = given.map_or(12, |text| text.parse().unwrap());
    let mut written = 0;
    for n in 2..2 + faults {
        let append = record(run, known, n, b"next");
        let expected = checksum::next_head(&append);
        proxy.drop_answers(true);
        let answer = append_one(&store, append);
        proxy.drop_answers(false);
        let Err(AppendError::Unknown {
            append: Some(back), ..
        }) = answer
        else {
            panic!("without an acknowledgement the outcome is unknown, not {answer:?}");
        };
        let mut back = Some(back);
        // The publish may still be on its way when the end is read; the same append settles it.
        loop {
            let found = head(&store);
            assert!(
                found == expected || found == known,
                "nothing else was written"
            );
            if found == expected {
                written += 1;
                break;
            }
            let again = back.take().expect("it is given back until it is written");
            match append_one(&store, *again) {
                Ok(made) => {
                    assert_eq!(made.head, expected);
                    break;
                }
                Err(AppendError::Conflict(found)) => {
                    assert_eq!(found, expected, "the head is the one that the record makes");
                    written += 1;
                    break;
                }
                Err(AppendError::Unknown { append, .. }) => back = append,
                Err(error) => panic!("it is written once: {error:?}"),
            }
        }
        known = expected;
    }
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(records.len() as u64, 1 + faults);
    assert!(written > 0, "some were stored without an acknowledgement");
}

/// Two processes append to the same runs as fast as they can: no gap, no fork, and the database
/// has every record.
#[test]
fn racing_writers_leave_no_gap() {
    const RUNS: u64 = 4;
    let settings = settings();
    let stores: Vec<NatsStore> = (0..3)
        .map(|_| NatsStore::open(&settings).unwrap())
        .collect();
    for n in 0..RUNS {
        let first = Append {
            row: Some(row(run_id(n))),
            ..record(run_id(n), Head::NONE, 1, b"started")
        };
        must_append(&stores[0], first);
    }
    let writers = stores
        .iter()
        .take(2)
        .cloned()
        .zip(1u64..)
        .map(|(store, writer)| {
            thread::spawn(move || {
                let mut won = 0;
                for n in 0..60u64 {
                    let run = run_id(n % RUNS);
                    let head = store.head(run).wait().unwrap();
                    let append = record(run, head, writer * 1000 + n, b"x");
                    match append_one(&store, append) {
                        Ok(_) => won += 1,
                        Err(AppendError::Conflict(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                won
            })
        });
    let writers: Vec<_> = writers.collect();
    let won: u64 = writers.into_iter().map(|it| it.join().unwrap()).sum();
    let records = (0..RUNS).map(|n| {
        let records = stores[2].read(run_id(n), 1, usize::MAX).wait().unwrap();
        records.len() as u64
    });
    assert_eq!(records.sum::<u64>(), RUNS + won);
    let listed = stores[2].runs(&RunFilter::default()).wait().unwrap();
    assert_eq!(listed.rows.len() as u64, RUNS);
}

/// More replicas than servers are refused, with what to change.
#[test]
fn what_cannot_be_worked_with_is_refused() {
    let settings = settings();
    NatsStore::open(&settings).unwrap();
    let other = settings.clone().replicas(3);
    let refused = NatsStore::open(&other).unwrap_err().to_string();
    assert!(refused.contains("nats_replicas"), "{refused}");
}
