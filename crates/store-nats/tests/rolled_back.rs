//! A server that an older copy of its streams was put back to: what was applied is noticed to be
//! missing, also when other records have taken its places.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::settings_on;
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Claim, DeadLetters as _, Error, Head, Log as _, Queries as _, Wait as _,
};
use windlass_store_nats::{NatsStore, OpenError, Settings};
use windlass_test_support::nats::{OwnServer, StreamsCopy, fresh_prefix};
use windlass_test_support::postgres::{self, Proxy};

const ADVICE: &str = "windlass rebuild --from postgres";
const PATIENCE: Duration = Duration::from_secs(60);

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

/// A server whose copy has the runs 1 to 3, and whose streams went on with a second record of
/// run 1 and with the runs 4 to 6. The database has all of it.
fn with_a_copy() -> (OwnServer, Settings, StreamsCopy) {
    let mut server = OwnServer::start();
    let settings = settings_on(&server.url()).partitions(1);
    let store = NatsStore::open(&settings).unwrap();
    let heads: Vec<Head> = (1..4).map(|n| must_append(&store, started(n))).collect();
    store.catch_up_for_tests().wait().unwrap();
    drop(store);
    server.kill();
    let copy = server.copy_streams();
    server.start_again();
    let store = NatsStore::open(&settings).unwrap();
    must_append(&store, record(run_id(1), heads[0], 2, b"second"));
    for n in 4..7 {
        must_append(&store, started(n));
    }
    store.catch_up_for_tests().wait().unwrap();
    (server, settings, copy)
}

fn roll_back(server: &mut OwnServer, copy: &StreamsCopy) {
    server.kill();
    server.put_back(copy, |_| true);
    server.start_again();
}

#[track_caller]
fn refused(settings: &Settings) -> String {
    match NatsStore::open(settings) {
        Err(OpenError::Refused(error)) => error.to_string(),
        other => panic!("it must be refused, not {other:?}"),
    }
}

/// What a request says once the connection is there again.
#[track_caller]
fn advised<T: std::fmt::Debug>(mut ask: impl FnMut() -> Result<T, Error>) {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(Error::Unavailable(text)) if text.contains(ADVICE) => return,
            Err(Error::Unavailable(text)) => assert!(begun.elapsed() < PATIENCE, "{text}"),
            other => panic!("it must name the loss, not {other:?}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_older_copy_is_refused_and_restored_from_the_database() {
    let (mut server, settings, copy) = with_a_copy();
    roll_back(&mut server, &copy);
    assert!(refused(&settings).contains(ADVICE));
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    let restored = store.restore_streams().wait().unwrap();
    assert_eq!(restored.restored, 4, "{restored:?}");
    assert!(restored.quarantined.is_empty(), "{restored:?}");
    drop(store);
    let store = NatsStore::open(&settings).unwrap();
    for n in 1..7 {
        let records = store.read(run_id(n), 1, usize::MAX).wait().unwrap();
        assert_eq!(records.len(), if n == 1 { 2 } else { 1 }, "run {n}");
    }
}

/// Other records have taken the places of what was lost, and more: the length says nothing.
#[test]
fn an_older_copy_that_went_on_is_refused_and_runs_that_differ_are_quarantined() {
    let (mut server, settings, copy) = with_a_copy();
    roll_back(&mut server, &copy);
    // A process that knows nothing of what was applied.
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    let head = store.head(run_id(1)).wait().unwrap();
    assert_eq!(head.sequence, 1, "an older copy");
    must_append(&store, record(run_id(1), head, 9, b"another second"));
    for n in 10..20 {
        must_append(&store, started(n));
    }
    drop(store);
    let why = refused(&settings);
    assert!(
        why.contains(ADVICE) && why.contains("another message"),
        "{why}"
    );
    // A rebuild that does not come to its end leaves the loss to be noticed.
    drop(NatsStore::open(&settings.clone().rebuilding(true)).unwrap());
    refused(&settings);
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    let restored = store.restore_streams().wait().unwrap();
    assert_eq!(restored.restored, 3, "{restored:?}");
    assert_eq!(restored.quarantined, [run_id(1)], "{restored:?}");
    drop(store);
    let store = NatsStore::open(&settings).unwrap();
    for n in (2..7).chain(10..20) {
        let records = store.read(run_id(n), 1, usize::MAX).wait().unwrap();
        assert_eq!(records.len(), 1, "run {n}");
    }
    let letter = store.dead_letter(run_id(1)).wait().unwrap();
    assert!(letter.is_some(), "it is never merged");
}

/// A process that was there all the time notices that a stream is shorter.
#[test]
fn a_living_process_names_a_stream_that_became_shorter() {
    let (mut server, settings, copy) = with_a_copy();
    let store = NatsStore::open(&settings).unwrap();
    roll_back(&mut server, &copy);
    advised(|| store.health().wait().map(|_| ()));
    advised(|| store.catch_up_for_tests().wait());
    // The run was not damaged: the database has it, and a rebuild brings it back.
    advised(|| store.read(run_id(4), 1, usize::MAX).wait());
    assert_eq!(store.dead_letter(run_id(4)).wait().unwrap(), None);
    let answer = append_one(&store, started(10));
    assert!(
        matches!(&answer, Err(AppendError::Failed(Error::Unavailable(why))) if why.contains(ADVICE)),
        "{answer:?}"
    );
}

/// The first record that gets a place that was applied before is the last one.
#[test]
fn a_living_process_gives_no_places_away_twice() {
    let (mut server, settings, copy) = with_a_copy();
    let store = NatsStore::open(&settings).unwrap();
    roll_back(&mut server, &copy);
    let mut taken = 0;
    let begun = Instant::now();
    for n in 10.. {
        match append_one(&store, started(n)) {
            Err(AppendError::Failed(Error::Unavailable(why))) if why.contains(ADVICE) => break,
            Ok(_) => taken += 1,
            Err(AppendError::Failed(_) | AppendError::Unknown { .. }) => {
                let waited = begun.elapsed();
                assert!(waited < PATIENCE, "the connection does not come back");
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error:?}"),
        }
        assert!(taken <= 1, "a place was given away twice");
    }
    advised(|| store.health().wait().map(|_| ()));
    drop(store);
    assert!(refused(&settings).contains(ADVICE));
}

/// Runs that were acknowledged when the database was away, and whose streams were put back: their
/// claims alone name them.
#[test]
fn a_rebuild_names_the_runs_that_no_record_is_left_of() {
    let mut server = OwnServer::start();
    let database = Proxy::to(&postgres::server().address());
    let schema = postgres::server().at(database.address());
    let postgres = windlass_store_postgres::Settings::parse(&schema).unwrap();
    let settings = Settings::parse(&server.url(), postgres.pool(2)).unwrap();
    let settings = settings.prefix(&fresh_prefix()).unwrap().partitions(1);
    let store = NatsStore::open(&settings).unwrap();
    must_append(&store, started(1));
    store.catch_up_for_tests().wait().unwrap();
    drop(store);
    server.kill();
    let copy = server.copy_streams();
    server.start_again();
    let store = NatsStore::open(&settings).unwrap();
    database.refuse(true);
    database.cut();
    for n in [2, 3] {
        must_append(&store, started(n));
    }
    drop(store);
    server.kill();
    server.put_back(&copy, |name| name.contains("_LOG_"));
    server.start_again();
    database.refuse(false);
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    let restored = store.restore_streams().wait().unwrap();
    assert_eq!(restored.beyond, [run_id(2), run_id(3)]);
    assert!(restored.quarantined.is_empty(), "{restored:?}");
}
