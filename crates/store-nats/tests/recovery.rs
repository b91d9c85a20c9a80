//! Servers that stop, lose everything or come back shorter: what is noticed, and what is restored.

use std::time::Duration;

use crate::common::{in_time, settings_on};
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Claim, DeadLetters as _, Error, Head, Log as _, Queries as _, Wait as _,
    WorkItem, WorkKey, WorkQueue as _,
};
use windlass_store_nats::{NatsStore, OpenError};
use windlass_test_support::nats::{OwnCluster, OwnServer};

fn started(n: u64) -> Append {
    let run = run_id(n);
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: format!("r{n}").into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, 1, b"started")
    }
}

fn item(n: u64) -> WorkItem {
    WorkItem {
        key: WorkKey {
            run: run_id(n),
            instance: 1,
            attempt: 1,
        },
        tenant: None,
        action: "act".into(),
        requires: Vec::new(),
        priority: 5,
        payload: b"p".to_vec(),
    }
}

/// A killed server keeps what it acknowledged; the store connects again by itself, and the work
/// queue, which was in memory, is made again.
#[test]
fn what_was_acknowledged_survives_a_killed_server_and_the_store_goes_on() {
    let mut server = OwnServer::start();
    let settings = settings_on(&server.url()).answer_time(Duration::from_secs(2));
    let store = NatsStore::open(&settings).unwrap();
    let head = must_append(&store, started(1));
    store.push(vec![item(1)]).wait().unwrap();
    server.kill();
    let away = append_one(&store, record(run_id(1), head, 2, b"2"));
    let unclear = matches!(
        away,
        Err(AppendError::Unknown { .. } | AppendError::Failed(Error::Unavailable(_)))
    );
    assert!(unclear, "{away:?}");
    server.start_again();
    // The publish that waited for the connection may have been sent since.
    let head = in_time(|| store.head(run_id(1)).wait());
    assert!(head.sequence >= 1);
    let next = loop {
        let head = in_time(|| store.head(run_id(1)).wait());
        match append_one(&store, record(run_id(1), head, 9, b"more")) {
            Ok(appended) => break appended.head,
            Err(
                AppendError::Failed(_) | AppendError::Conflict(_) | AppendError::Unknown { .. },
            ) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    let records = in_time(|| store.read(run_id(1), 1, usize::MAX).wait());
    assert_eq!(records.len() as u64, next.sequence);
    assert!(in_time(|| store.known(&[item(1).key]).wait()).is_empty());
    in_time(|| store.push(vec![item(1)]).wait());
    assert_eq!(in_time(|| store.known(&[item(1).key]).wait()).len(), 1);
}

/// A server that lost everything is refused, restored from the database, and works on.
#[test]
fn lost_streams_are_refused_and_restored_from_the_database() {
    let mut server = OwnServer::start();
    let settings = settings_on(&server.url());
    let store = NatsStore::open(&settings).unwrap();
    let mut heads = Vec::new();
    for n in 0..6 {
        let head = must_append(&store, started(n));
        heads.push(must_append(&store, record(run_id(n), head, 2, b"second")));
    }
    // A look at the list waits for the database.
    assert_eq!(store.logged_runs(None, 10).wait().unwrap().len(), 6);
    store.catch_up_for_tests().wait().unwrap();
    drop(store);
    server.kill();
    server.lose_everything();
    server.start_again();
    let refused = NatsStore::open(&settings).unwrap_err();
    assert!(matches!(refused, OpenError::Refused(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("rebuild --from postgres"),
        "{refused}"
    );
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    let restored = store.restore_streams().wait().unwrap();
    assert_eq!(restored.restored, 6);
    assert!(restored.quarantined.is_empty(), "{restored:?}");
    drop(store);
    let store = NatsStore::open(&settings).unwrap();
    for (n, head) in (0..).zip(heads) {
        assert_eq!(store.head(run_id(n)).wait().unwrap(), head);
        must_append(&store, record(run_id(n), head, 3, b"third"));
        assert_eq!(
            store.read(run_id(n), 1, usize::MAX).wait().unwrap().len(),
            3
        );
    }
}

/// A log that the database knows otherwise is quarantined: the run has a dead letter, and reading
/// it names the damage.
#[test]
fn a_log_that_went_on_differently_is_quarantined() {
    let server = OwnServer::start();
    let settings = settings_on(&server.url());
    let store = NatsStore::open(&settings).unwrap();
    let head = must_append(&store, started(1));
    must_append(
        &store,
        record(run_id(1), head, 2, b"as the database has it"),
    );
    assert_eq!(
        store.read(run_id(1), 1, usize::MAX).wait().unwrap().len(),
        2
    );
    store.lose_log_for_tests(run_id(1)).wait().unwrap();
    // Nothing is left of the log, although the database has it.
    let damaged = store.read(run_id(1), 1, usize::MAX).wait().unwrap_err();
    assert!(matches!(damaged, Error::Damaged(_)), "{damaged:?}");
    // It begins anew, and differs.
    let other = append_one(
        &store,
        record(run_id(1), Head::NONE, 7, b"another beginning"),
    );
    other.unwrap();
    store.settled_for_tests().wait().unwrap();
    let letter = store.dead_letter(run_id(1)).wait().unwrap();
    let reason = letter.expect("a letter").reason;
    assert!(reason.contains("differently"), "{reason}");
    assert!(store.read(run_id(1), 1, usize::MAX).wait().is_err());
}

/// Three servers, three replicas: one is killed, the others go on, and it comes back.
#[test]
fn three_replicas_go_on_without_one() {
    let mut cluster = OwnCluster::start();
    let settings = settings_on(&cluster.urls()).replicas(3).partitions(2);
    let begun = std::time::Instant::now();
    let store = loop {
        match NatsStore::open(&settings) {
            Ok(store) => break store,
            // The servers choose a leader first.
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(300), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let mut head = must_append(&store, started(1));
    let mut written = 1;
    cluster.nodes[0].kill();
    let begun = std::time::Instant::now();
    while written < 10 {
        match append_one(&store, record(run_id(1), head, 10 + written, b"x")) {
            Ok(appended) => head = appended.head,
            Err(AppendError::Conflict(found)) => head = found,
            Err(AppendError::Unknown { .. } | AppendError::Failed(_)) => {
                assert!(
                    begun.elapsed() < Duration::from_secs(300),
                    "it does not go on"
                );
                std::thread::sleep(Duration::from_millis(100));
                if let Ok(found) = store.head(run_id(1)).wait() {
                    head = found;
                }
            }
            Err(error) => panic!("{error:?}"),
        }
        written = head.sequence;
    }
    cluster.nodes[0].start_again();
    let records = store.read(run_id(1), 1, usize::MAX).wait().unwrap();
    assert_eq!(records.len() as u64, head.sequence);
}

/// Appends until it is known that the record is there, once: as the engine does.
fn append_surely(store: &NatsStore, append: Append) -> Head {
    let expected = windlass_store::checksum::next_head(&append);
    let (run, before) = (append.run, append.head);
    let mut open = Some(append);
    loop {
        let again = open.take().expect("it is given back until it is there");
        match append_one(store, again.clone()) {
            Ok(appended) => {
                assert_eq!(appended.head, expected);
                return expected;
            }
            // A publish that was in process became durable meanwhile.
            Err(AppendError::Conflict(found)) => {
                assert_eq!(found, expected, "no other process writes to the run");
                return expected;
            }
            Err(AppendError::Unknown { .. } | AppendError::Failed(Error::Unavailable(_))) => {}
            Err(error) => panic!("{error:?}"),
        }
        match store.head(run).wait() {
            Ok(found) if found == expected => return expected,
            Ok(found) => assert_eq!(found, before, "no other process writes to the run"),
            Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
        open = Some(again);
    }
}

/// The leaders of the logs move under load: the server answers with errors of its own, among them
/// 10164 (another publish is in process), and none of them loses or doubles a record.
#[test]
fn leaders_that_move_under_load_lose_and_double_nothing() {
    const RUNS: u64 = 6;
    let cluster = OwnCluster::start();
    let settings = settings_on(&cluster.urls()).replicas(3).partitions(2);
    let settings = settings.answer_time(Duration::from_secs(2));
    let begun = std::time::Instant::now();
    let store = loop {
        match NatsStore::open(&settings) {
            Ok(store) => break store,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(300), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers = (0..RUNS).map(|n| {
        let (store, over) = (store.clone(), std::sync::Arc::clone(&over));
        std::thread::spawn(move || {
            let mut head = append_surely(&store, started(n));
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let next = record(run_id(n), head, head.sequence + 1, b"more");
                head = append_surely(&store, next);
            }
            head
        })
    });
    let writers: Vec<_> = writers.collect();
    let given = std::env::var("WINDLASS_FAULTS").ok();
    let wanted: u64 = given.map_or(6, |text| text.parse().unwrap());
    let mut moves = 0;
    while moves < wanted {
        std::thread::sleep(Duration::from_millis(300));
        // One that is just being chosen cannot step down.
        moves += store.move_leaders_for_tests().wait().unwrap_or(0);
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    let heads: Vec<Head> = writers.into_iter().map(|it| it.join().unwrap()).collect();
    let mut total = 0;
    for (n, head) in (0..).zip(heads) {
        let records = loop {
            match store.read(run_id(n), 1, usize::MAX).wait() {
                Ok(records) => break records,
                Err(Error::Unavailable(_)) => std::thread::sleep(Duration::from_millis(50)),
                Err(error) => panic!("{error:?}"),
            }
        };
        assert_eq!(records.len() as u64, head.sequence);
        assert_eq!(records.last().map(windlass_store::Record::head), Some(head));
        total += head.sequence;
    }
    println!("{total} records while leaders moved {moves} times");
    println!("figure nats-leader-moved {moves}");
}

/// A run that has ended leaves one message in its stream, which still is its fence, and reads give
/// every record.
#[test]
fn a_run_that_has_ended_leaves_its_last_message() {
    let server = OwnServer::start();
    let store = NatsStore::open(&settings_on(&server.url())).unwrap();
    let mut head = must_append(&store, started(1));
    for n in 2..6 {
        head = must_append(&store, record(run_id(1), head, n, b"x"));
    }
    let end = Append {
        row: Some(windlass_store::RunRow {
            status: windlass_core::RunStatus::Succeeded,
            ended_at: Some(windlass_core::Millis(1)),
            ..row(run_id(1))
        }),
        ..record(run_id(1), head, 6, b"end")
    };
    let ended = must_append(&store, end);
    let messages = || {
        let facts = store.health().wait().unwrap().facts;
        let found = facts.into_iter().find(|(name, _)| name == "log_messages");
        found.unwrap().1
    };
    while messages() != "1" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store.head(run_id(1)).wait().unwrap(), ended);
    assert_eq!(
        store.read(run_id(1), 1, usize::MAX).wait().unwrap().len(),
        6
    );
    let stale = append_one(&store, record(run_id(1), head, 7, b"late"));
    assert!(matches!(stale, Err(AppendError::Conflict(found)) if found == ended));
    must_append(&store, record(run_id(1), ended, 7, b"goes on"));
}
