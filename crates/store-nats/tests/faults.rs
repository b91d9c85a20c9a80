//! What a network does between a process and NATS: acknowledgements that are lost, connections
//! that are cut, writers that race.

use std::thread;
use std::time::Duration;

use crate::common::{settings, settings_on};
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Claim, Error, Head, Log as _, Queries as _, RunFilter, Wait as _, checksum,
};
use windlass_store_nats::{NatsStore, Settings};
use windlass_test_support::nats::{fresh_prefix, server};
use windlass_test_support::postgres::{self, Proxy};

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
    let store = NatsStore::open(&settings.answer_time(Duration::from_secs(3))).unwrap();
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
    println!("figure nats-answers-lost {faults}");
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

/// A bucket of claims that was deleted is filled with what was published by some time after it.
#[test]
fn a_record_whose_claims_took_too_long_is_not_published() {
    let address = server().url().trim_start_matches("nats://");
    let proxy = Proxy::to(address);
    let settings = settings_on(&format!("nats://{}", proxy.address()));
    let store = NatsStore::open(&settings.answer_time(Duration::from_secs(15))).unwrap();
    let run = run_id(1);
    let claiming = Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: "r".into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, 1, b"started")
    };
    proxy.stall(true);
    let (appending, append) = (store.clone(), claiming.clone());
    let late = thread::spawn(move || append_one(&appending, append));
    thread::sleep(Duration::from_secs(6));
    proxy.stall(false);
    let late = late.join().unwrap();
    let Err(AppendError::Failed(Error::Unavailable(text))) = late else {
        panic!("it took too long: {late:?}");
    };
    assert!(text.contains("too long"), "{text}");
    must_append(&store, claiming);
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

/// A connection that is cut while a stream is read to its end: reading ends, with an error or with
/// everything, and never with a part.
#[test]
fn a_stream_that_is_read_through_a_connection_that_is_cut_is_read_to_its_end() {
    const RUNS: u64 = 600;
    let address = server().url().trim_start_matches("nats://");
    let proxy = Proxy::to(address);
    let (database, prefix) = (postgres::server().fresh(), fresh_prefix());
    let open = |url: &str| {
        let database = windlass_store_postgres::Settings::parse(&database).unwrap();
        let settings = Settings::parse(url, database.pool(2)).unwrap();
        NatsStore::open(&settings.prefix(&prefix).unwrap().partitions(1)).unwrap()
    };
    let reader = open(&format!("nats://{}", proxy.address()));
    let writer = open(server().url());
    for n in 0..RUNS {
        let first = Append {
            row: Some(row(run_id(n))),
            ..record(run_id(n), Head::NONE, 1, &[7; 300])
        };
        writer.publish_without_rows(first).wait().unwrap();
    }
    proxy.close_after(150_000);
    let (done, answer) = std::sync::mpsc::channel();
    let reading = reader.clone();
    thread::spawn(move || done.send(reading.catch_up_for_tests().wait()));
    let answer = answer.recv_timeout(Duration::from_secs(300));
    let answer = answer.expect("reading ends");
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    while reader.catch_up_for_tests().wait().is_err() {
        thread::sleep(Duration::from_millis(50));
    }
    for n in 0..RUNS {
        let found = reader.postgres().head(run_id(n)).wait().unwrap();
        assert_eq!(found.sequence, 1, "run {n}");
    }
}

/// What is noted with a record may be longer than a header of the server may be.
#[test]
fn a_record_with_many_resources_and_values_is_stored_and_read() {
    let settings = settings();
    let store = NatsStore::open(&settings).unwrap();
    let run = run_id(1);
    let head = must_append(
        &store,
        Append {
            row: Some(row(run)),
            ..record(run, Head::NONE, 1, b"started")
        },
    );
    let resource = |n: u32| windlass_store::ResourceRow {
        tenant: None,
        system: "tracker".into(),
        kind: "issue".into(),
        id: format!("ISSUE-{n}").into(),
        url: Some(format!("https://example.com/issues/{n}").into()),
        run,
        node: "node".into(),
    };
    let many = Append {
        resources: (0..2_000).map(resource).collect(),
        ..record(run, head, 2, b"with resources")
    };
    must_append(&store, many.clone());
    drop(store);
    let store = NatsStore::open(&settings).unwrap();
    let found = store.head(run).wait().unwrap();
    assert_eq!(found, checksum::next_head(&many));
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(records.last().unwrap().bytes, b"with resources");
}
