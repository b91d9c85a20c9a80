//! Streams that an operator deletes under a running store: what can come back does by itself, what
//! cannot is named until it is rebuilt, and nothing that was acknowledged is lost or done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{in_time, settings, settings_on};
use windlass_core::Digest;
use windlass_store::conformance::inbox::offer_of;
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Blob, Blobs as _, Claim, DeadLetters as _, Error, Head, Inbox as _,
    Leases as _, Log as _, Partition, ProcessInfo, Queries as _, Wait as _, WorkQueue as _,
};
use windlass_store_nats::{NatsStore, OpenError, Settings};
use windlass_test_support::nats::OwnServer;

const ADVICE: &str = "windlass rebuild --from postgres";

fn started(n: u64, request: &str) -> Append {
    let run = run_id(n);
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: request.into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, 1, b"started")
    }
}

fn value(byte: u8) -> Blob {
    let bytes = vec![byte; 5000];
    Blob {
        digest: Digest::of(&bytes),
        bytes: bytes.into(),
    }
}

/// The answer to a start, once the store takes it.
#[track_caller]
fn start(store: &NatsStore, n: u64, request: &str) -> Result<Head, AppendError> {
    in_time(|| match append_one(store, started(n, request)) {
        Err(AppendError::Failed(error)) => Err(error),
        answer => Ok(answer.map(|it| it.head)),
    })
}

fn unavailable<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Unavailable(text)) => text,
        other => panic!("it must be unavailable, not {other:?}"),
    }
}

#[test]
fn the_inbox_comes_back_and_takes_offers() {
    let store = NatsStore::open(&settings()).unwrap();
    let head = must_append(&store, started(1, "r"));
    store.delete_stream_for_tests("INBOX").wait().unwrap();
    let offers = || vec![offer_of(run_id(1), "cancel", b"x")];
    let taken = in_time(|| store.offer(offers()).wait());
    assert_eq!(taken, [true]);
    let consuming = Append {
        consumed: vec!["cancel".into()],
        ..record(run_id(1), head, 2, b"cancelled")
    };
    must_append(&store, consuming);
    assert_eq!(in_time(|| store.answer(run_id(1), "cancel").wait()), None);
}

#[test]
fn the_leases_come_back_and_every_process_joins_again() {
    let store = NatsStore::open(&settings()).unwrap();
    let join = || {
        let joined = store.join(&ProcessInfo::named("p"), 60_000).wait();
        joined.map(|it| it.session)
    };
    let before = join().unwrap();
    assert_eq!(store.take(before, &[Partition(1)]).wait().unwrap().len(), 1);
    store.delete_stream_for_tests("KV_LEASES").wait().unwrap();
    assert!(!in_time(|| store.renew(before).wait()), "it is over");
    let after = in_time(join);
    assert!(after > before, "no id is given twice");
    let taken = in_time(|| store.take(after, &[Partition(1)]).wait());
    assert_eq!(taken.len(), 1);
}

/// A request that was taken before is not taken again, by this process or another that never
/// noticed the loss.
#[test]
fn the_claims_come_back_with_what_they_held() {
    let settings = settings();
    let (store, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    for n in 0..20 {
        must_append(&store, started(n, &format!("r{n}")));
    }
    // The database has not heard of this one when the claims are lost.
    store
        .publish_without_rows(started(50, "late"))
        .wait()
        .unwrap();
    store.delete_stream_for_tests("KV_CLAIMS").wait().unwrap();
    for n in 0..20 {
        let asked = if n % 2 == 0 { &store } else { &other };
        match start(asked, 100 + n, &format!("r{n}")) {
            Err(AppendError::Held { value, .. }) => {
                assert_eq!(value, run_id(n).to_string().into_bytes());
            }
            answer => panic!("request {n} was taken before: {answer:?}"),
        }
    }
    let late = start(&other, 150, "late");
    assert!(matches!(late, Err(AppendError::Held { .. })), "{late:?}");
    start(&other, 200, "new").unwrap();
}

/// A process made the claim in the bucket that is deleted then, and publishes the record after that.
#[test]
fn a_claim_of_the_deleted_bucket_whose_record_follows_is_in_the_new_one() {
    let store = NatsStore::open(&settings()).unwrap();
    store.claim_for_tests(started(1, "r")).wait().unwrap();
    store.delete_stream_for_tests("KV_CLAIMS").wait().unwrap();
    // The keeper hears of it, and makes the stream.
    let other = append_one(&store, started(9, "other"));
    assert!(matches!(other, Err(AppendError::Failed(_))), "{other:?}");
    in_time(|| store.stream_limit_for_tests("KV_CLAIMS").wait());
    store.publish_without_rows(started(1, "r")).wait().unwrap();
    match start(&store, 2, "r") {
        Err(AppendError::Held { value, .. }) => {
            assert_eq!(value, run_id(1).to_string().into_bytes());
        }
        answer => panic!("the request was taken before: {answer:?}"),
    }
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
}

#[test]
fn the_index_of_values_comes_back_from_the_objects() {
    let store = NatsStore::open(&settings()).unwrap();
    for byte in 0..10 {
        store.put_blob(value(byte)).wait().unwrap();
    }
    store
        .delete_stream_for_tests("KV_BLOB_INDEX")
        .wait()
        .unwrap();
    for byte in 0..10 {
        let found = in_time(|| store.blob(&value(byte).digest).wait());
        assert_eq!(found.as_deref(), Some(&value(byte).bytes[..]));
    }
    in_time(|| store.put_blob(value(99)).wait());
    assert_eq!(store.objects_for_tests().wait().unwrap().0, 11);
}

#[test]
fn the_work_queue_comes_back_empty() {
    let store = NatsStore::open(&settings()).unwrap();
    assert!(store.queue_depth(10).wait().unwrap().is_empty());
    store.delete_stream_for_tests("WORK").wait().unwrap();
    assert!(in_time(|| store.queue_depth(10).wait()).is_empty());
}

/// What is restored with all processes stopped.
fn rebuilt(settings: &Settings) -> windlass_store_nats::Restored {
    let store = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    store.restore_streams().wait().unwrap()
}

/// Runs whose records the database has would seem to have none in a stream that was made again.
#[test]
fn a_stream_of_logs_is_not_made_again_but_named_until_it_is_rebuilt() {
    let server = OwnServer::start();
    let settings = settings_on(&server.url());
    let store = NatsStore::open(&settings).unwrap();
    let heads: Vec<Head> = (0..8)
        .map(|n| must_append(&store, started(n, &format!("r{n}"))))
        .collect();
    store.catch_up_for_tests().wait().unwrap();
    // Run 0 to 7 are spread over the streams; this one has some of them.
    let lost: Vec<u64> = (0..8)
        .filter(|n| u32::from(run_id(*n).as_bytes()[15]) % 4 == 0)
        .collect();
    assert!(!lost.is_empty() && lost.len() < 8, "{lost:?}");
    store.delete_stream_for_tests("LOG_0").wait().unwrap();
    for n in 0..8u64 {
        let head = heads[n as usize];
        let next = append_one(&store, record(run_id(n), head, 2, b"next"));
        if lost.contains(&n) {
            let Err(AppendError::Failed(Error::Unavailable(_))) = next else {
                panic!("nothing is lost, and nothing acknowledged: {next:?}");
            };
            let text = unavailable(store.read(run_id(n), 1, usize::MAX).wait());
            assert!(text.contains("LOG_0") && text.contains(ADVICE), "{text}");
        } else {
            next.unwrap();
        }
    }
    let text = unavailable(store.health().wait());
    assert!(text.contains("LOG_0") && text.contains(ADVICE), "{text}");
    // A process that starts does not make it either.
    for _ in 0..2 {
        match NatsStore::open(&settings) {
            Err(OpenError::Refused(error)) => {
                let text = error.to_string();
                // Had the first of them made it, the second would find it made again.
                assert!(text.contains("LOG_0 was deleted"), "{text}");
                assert!(text.contains(ADVICE), "{text}");
            }
            other => panic!("it must be refused: {other:?}"),
        }
    }
    for n in &lost {
        assert_eq!(store.dead_letter(run_id(*n)).wait().unwrap(), None);
    }
    drop(store);
    assert_eq!(rebuilt(&settings).restored, lost.len() as u64);
    let store = NatsStore::open(&settings).unwrap();
    for n in lost {
        let head = heads[n as usize];
        assert_eq!(store.head(run_id(n)).wait().unwrap(), head);
        must_append(&store, record(run_id(n), head, 2, b"next"));
    }
}

/// A stream that another program made again is not taken for the one that was there.
#[test]
fn a_stream_of_logs_that_was_made_again_is_no_end_of_its_runs() {
    let server = OwnServer::start();
    let settings = settings_on(&server.url()).partitions(1);
    let store = NatsStore::open(&settings).unwrap();
    let head = must_append(&store, started(1, "r"));
    store.catch_up_for_tests().wait().unwrap();
    store.delete_stream_for_tests("LOG_0").wait().unwrap();
    // A rebuild that does not wait for the servers to stop, and is itself interrupted.
    drop(NatsStore::open(&settings.clone().rebuilding(true)).unwrap());
    let next = append_one(&store, record(run_id(1), head, 2, b"next"));
    let Err(AppendError::Failed(Error::Unavailable(text))) = next else {
        panic!("it is not taken for a run without records: {next:?}");
    };
    assert!(
        text.contains("made again") && text.contains(ADVICE),
        "{text}"
    );
    unavailable(store.read(run_id(1), 1, usize::MAX).wait());
    assert_eq!(store.dead_letter(run_id(1)).wait().unwrap(), None);
}

/// Values are nowhere else: the store that held them is named, and made again by a rebuild alone,
/// which names what is lost.
#[test]
fn the_object_store_is_not_made_again_but_named_until_it_is_rebuilt() {
    let server = OwnServer::start();
    let settings = settings_on(&server.url());
    let store = NatsStore::open(&settings).unwrap();
    let using = Append {
        blobs: vec![value(1)],
        ..started(1, "r")
    };
    let head = must_append(&store, using);
    store.put_blob(value(2)).wait().unwrap();
    store.catch_up_for_tests().wait().unwrap();
    store.delete_stream_for_tests("OBJ_BLOBS").wait().unwrap();
    for text in [
        unavailable(store.blob(&value(1).digest).wait()),
        unavailable(store.put_blob(value(3)).wait()),
        unavailable(store.health().wait()),
        NatsStore::open(&settings).unwrap_err().to_string(),
    ] {
        assert!(text.contains("BLOBS") && text.contains(ADVICE), "{text}");
    }
    // What needs no value goes on.
    must_append(&store, record(run_id(1), head, 2, b"next"));
    drop(store);
    let restored = rebuilt(&settings);
    assert_eq!(restored.values, [value(1).digest]);
    let store = NatsStore::open(&settings).unwrap();
    assert_eq!(store.blob(&value(1).digest).wait().unwrap(), None);
    store.put_blob(value(1)).wait().unwrap();
    assert!(store.blob(&value(1).digest).wait().unwrap().is_some());
}

/// After everything was lost and rebuilt, a request that was taken before is still taken.
#[test]
fn a_rebuild_brings_the_claims_back() {
    let mut server = OwnServer::start();
    let settings = settings_on(&server.url());
    let store = NatsStore::open(&settings).unwrap();
    must_append(&store, started(1, "r"));
    store.catch_up_for_tests().wait().unwrap();
    drop(store);
    server.kill();
    server.lose_everything();
    server.start_again();
    assert_eq!(rebuilt(&settings).restored, 1);
    let store = NatsStore::open(&settings).unwrap();
    let again = append_one(&store, started(2, "r"));
    assert!(matches!(again, Err(AppendError::Held { .. })), "{again:?}");
}

/// A rebuild makes streams again that a process which serves holds for the old ones: it is refused
/// until the last has stopped, and names who has not.
#[test]
fn a_rebuild_is_refused_while_a_process_serves() {
    let settings = settings();
    let store = NatsStore::open(&settings).unwrap();
    must_append(&store, started(1, "r"));
    let rebuilding = settings.clone().rebuilding(true);
    let joined = store.join(&ProcessInfo::named("server-a"), 60_000).wait();
    let session = joined.unwrap().session;
    let serving = Arc::new(AtomicBool::new(true));
    let (serves, server) = (Arc::clone(&serving), store.clone());
    let renewing = thread::spawn(move || {
        while serves.load(Ordering::Relaxed) {
            assert!(server.renew(session).wait().unwrap());
            thread::sleep(Duration::from_millis(50));
        }
    });
    let Err(OpenError::Refused(Error::Unavailable(text))) = NatsStore::open(&rebuilding) else {
        panic!("a process serves");
    };
    assert!(
        text.contains("server-a") && text.contains("stop all servers") && text.contains(ADVICE),
        "{text}"
    );
    serving.store(false, Ordering::Relaxed);
    renewing.join().unwrap();
    assert!(store.leave(session).wait().unwrap());
    let rebuilt = NatsStore::open(&rebuilding).unwrap();
    rebuilt.restore_streams().wait().unwrap();
}

/// A process that was killed renews nothing: a rebuild waits until its session is over.
#[test]
fn a_rebuild_waits_for_the_session_of_a_killed_process() {
    let settings = settings();
    let store = NatsStore::open(&settings).unwrap();
    must_append(&store, started(1, "r"));
    let killed = store.join(&ProcessInfo::named("killed"), 1_000).wait();
    killed.unwrap();
    let rebuilt = NatsStore::open(&settings.clone().rebuilding(true)).unwrap();
    rebuilt.restore_streams().wait().unwrap();
}
