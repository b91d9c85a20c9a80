//! Limits of JetStream that are reached: what needs space is refused as such, nothing that was
//! acknowledged is lost, and work goes on when the limit is raised.

use crate::common::settings;
use windlass_store::conformance::inbox::offer_of;
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Error, Head, Inbox as _, Log as _, Queries as _, Wait as _,
};
use windlass_store_nats::NatsStore;

#[test]
fn a_full_stream_of_logs_refuses_records_and_takes_them_when_its_limit_is_raised() {
    let store = NatsStore::open(&settings().partitions(1)).unwrap();
    let run = run_id(1);
    let first = Append {
        row: Some(row(run)),
        ..record(run, Head::NONE, 1, b"started")
    };
    let mut head = must_append(&store, first);
    store.limit_stream_for_tests("LOG_0", 4_000).wait().unwrap();
    let refused = loop {
        assert!(head.sequence < 100, "the limit is never reached");
        match append_one(&store, record(run, head, head.sequence + 1, b"more")) {
            Ok(appended) => head = appended.head,
            Err(error) => break error,
        }
    };
    let AppendError::Failed(Error::Full(text)) = refused else {
        panic!("it is full, not {refused:?}");
    };
    assert!(text.contains("maximum bytes exceeded"), "{text}");
    // It can be read, and the store is not ill.
    let records = store.read(run, 1, usize::MAX).wait().unwrap();
    assert_eq!(records.len() as u64, head.sequence);
    store.health().wait().unwrap();
    let started = record(run_id(2), Head::NONE, 1, &[b'x'; 2_000]);
    let other = append_one(&store, started.clone());
    let full = matches!(other, Err(AppendError::Failed(Error::Full(_))));
    assert!(full, "{other:?}");
    assert_eq!(store.head(run_id(2)).wait().unwrap(), Head::NONE);
    store.limit_stream_for_tests("LOG_0", -1).wait().unwrap();
    let next = must_append(&store, record(run, head, 77, b"more"));
    assert_eq!(next.sequence, head.sequence + 1);
    must_append(&store, started);
}

#[test]
fn a_full_inbox_refuses_offers_and_takes_them_when_its_limit_is_raised() {
    let store = NatsStore::open(&settings()).unwrap();
    must_append(&store, record(run_id(1), Head::NONE, 1, b"started"));
    store.limit_stream_for_tests("INBOX", 300).wait().unwrap();
    let offers = || vec![offer_of(run_id(1), "large", &[7; 1_000])];
    let refused = store.offer(offers()).wait();
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    store.limit_stream_for_tests("INBOX", -1).wait().unwrap();
    assert_eq!(store.offer(offers()).wait().unwrap(), [true]);
}

#[test]
fn a_stream_that_drops_old_messages_is_refused() {
    let settings = settings();
    let store = NatsStore::open(&settings).unwrap();
    let age = std::time::Duration::from_secs(3_600);
    store.age_stream_for_tests("LOG_0", age).wait().unwrap();
    drop(store);
    let error = NatsStore::open(&settings).unwrap_err().to_string();
    assert!(error.contains("changed by another program"), "{error}");
}
