//! Limits of JetStream that are reached: what needs space is refused as such, nothing that was
//! acknowledged is lost, and work goes on when the limit is raised.

use crate::common::{opened, settings, settings_on};
use windlass_store::conformance::inbox::{offer, offer_of};
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Error, Head, Inbox as _, LeaseAnswer, LeaseTerm, LeasedItem, Leases as _,
    Log as _, OfferAnswer, Partition, ProcessInfo, Pull, Queries as _, TenantFilter, Wait as _,
    WorkItem, WorkKey, WorkQueue as _,
};
use windlass_store_nats::NatsStore;
use windlass_test_support::nats::OwnCluster;

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

/// In a cluster, a stream at its limit takes no row, not even in place of a larger one: items and
/// offers leave it when they are done all the same.
#[test]
fn what_is_done_leaves_streams_that_take_no_row() {
    let cluster = OwnCluster::start();
    let settings = settings_on(&cluster.urls()).replicas(3).partitions(4);
    let (store, other) = (opened(&settings), opened(&settings));
    an_item_is_completed(&store, &other);
    an_offer_is_carried_out_once(&store, &other);
}

/// Other processes do not take offers for waiting ones when they ask for them, or when they become
/// the owner.
fn an_offer_is_carried_out_once(store: &NatsStore, other: &NatsStore) {
    let run = run_id(1);
    let mut head = must_append(store, record(run, Head::NONE, 1, b"started"));
    for key in ["told", "asked", "taken"] {
        assert!(offer(other, run, key, &[7; 1_000]));
    }
    other.copies_caught_up_for_tests().wait().unwrap();
    let answer = |key| other.answer(run, key).wait().unwrap();
    let mut consume = |n: u64, key: &str| {
        let consuming = Append {
            consumed: vec![key.into()],
            ..record(run, head, n, b"consumes")
        };
        head = must_append(store, consuming);
        store.settled_for_tests().wait().unwrap();
        head
    };
    // There is room again when the offer is removed.
    store.limit_stream_for_tests("INBOX", 3_500).wait().unwrap();
    consume(2, "told");
    other.copies_caught_up_for_tests().wait().unwrap();
    assert_eq!(answer("told"), None);
    store.limit_stream_for_tests("INBOX", 1).wait().unwrap();
    consume(3, "asked");
    let head = consume(4, "taken");
    assert!(!other.refuse(run, "asked", b"no").wait().unwrap());
    assert_eq!(answer("asked"), None);
    assert_eq!(
        answer("taken"),
        Some(OfferAnswer::Waiting),
        "nothing told it"
    );
    let session = other.join(&ProcessInfo::named("owner"), 60_000).wait();
    let session = session.unwrap().session;
    let all: Vec<Partition> = (0..4).map(Partition).collect();
    assert_eq!(other.take(session, &all).wait().unwrap().len(), 4);
    assert_eq!(answer("taken"), None);
    let again = Append {
        consumed: vec!["taken".into()],
        ..record(run, head, 5, b"again")
    };
    let again = append_one(other, again);
    let refused = matches!(again, Err(AppendError::Failed(Error::NotFound(_))));
    assert!(refused, "{again:?}");
}

/// Every process has a copy of the inbox. What an operator sets stays; no limit is of an earlier
/// version.
#[test]
fn the_inbox_has_a_limit_and_gets_one_in_an_installation_without() {
    let settings = settings();
    let limit = || {
        let store = NatsStore::open(&settings).unwrap();
        store.stream_limit_for_tests("INBOX").wait().unwrap()
    };
    let first = limit();
    assert!(first > 0, "{first}");
    for (set, expected) in [(-1, first), (1 << 20, 1 << 20)] {
        let store = NatsStore::open(&settings).unwrap();
        store.limit_stream_for_tests("INBOX", set).wait().unwrap();
        drop(store);
        assert_eq!(limit(), expected);
    }
}

/// Long payloads are in no process's memory, and come with what is read.
#[test]
fn a_long_offer_and_a_long_refusal_are_read_as_they_were_written() {
    let settings = settings();
    let (store, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    let run = run_id(1);
    let head = must_append(&store, record(run, Head::NONE, 1, b"started"));
    let (long, reason) = (vec![7; 200_000], vec![8; 100_000]);
    let offers = ["long", "short", "refused"].map(|key| match key {
        "long" => offer_of(run, key, &long),
        _ => offer_of(run, key, b"short"),
    });
    assert_eq!(other.offer(offers.into()).wait().unwrap(), [true; 3]);
    assert!(other.refuse(run, "refused", &reason).wait().unwrap());
    for store in [&store, &other] {
        store.copies_caught_up_for_tests().wait().unwrap();
        let items = store.inbox(run).wait().unwrap();
        let sizes: Vec<_> = items.iter().map(|it| (&*it.key, it.bytes.len())).collect();
        assert_eq!(sizes, [("long", long.len()), ("short", 5)]);
        assert_eq!(items[0].bytes, long);
        let answer = store.answer(run, "refused").wait().unwrap();
        assert_eq!(answer, Some(OfferAnswer::Refused(reason.clone())));
    }
    let consuming = Append {
        consumed: vec!["long".into()],
        ..record(run, head, 2, b"done")
    };
    must_append(&store, consuming);
    store.settled_for_tests().wait().unwrap();
    other.copies_caught_up_for_tests().wait().unwrap();
    assert_eq!(other.inbox(run).wait().unwrap().len(), 1);
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

fn item(n: u64, payload: usize) -> WorkItem {
    WorkItem {
        key: WorkKey {
            run: run_id(n),
            instance: 3,
            attempt: 1,
        },
        tenant: None,
        action: "act".into(),
        requires: Vec::new(),
        priority: 5,
        payload: vec![b'x'; payload],
    }
}

fn pull(store: &NatsStore, slots: usize) -> Vec<LeasedItem> {
    let pulled = store.pull(Pull {
        worker: "worker".into(),
        tenant: TenantFilter::Only(None),
        actions: vec!["act".into()],
        labels: Vec::new(),
        slots,
        max_bytes: usize::MAX,
        term: LeaseTerm::Millis(600_000),
        holding: None,
    });
    pulled.wait().unwrap()
}

#[track_caller]
fn complete(store: &NatsStore, item: &LeasedItem) {
    let held = store.complete(None, item.item.key, item.lease).wait();
    assert_eq!(held.unwrap(), LeaseAnswer::Held { stop: false });
}

/// Hand-outs and completions write rows, too: pushes stop while there is room for them.
#[test]
fn a_work_queue_that_takes_no_more_is_worked_on_and_takes_items_again() {
    let store = NatsStore::open(&settings()).unwrap();
    let (mut count, mut payload) = (0, 900_000);
    while payload > 0 {
        match store.push(vec![item(count, payload)]).wait() {
            Ok(()) => count += 1,
            Err(Error::Full(_)) => payload /= 2,
            Err(error) => panic!("{error:?}"),
        }
        assert!(count < 1_000, "it is never full");
    }
    let refused = store.push(vec![item(count, 100)]).wait();
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    let leased = pull(&store, 1_000);
    assert_eq!(leased.len() as u64, count);
    for item in &leased {
        let renewed = store.renew_item(None, item.item.key, item.lease).wait();
        assert_eq!(renewed.unwrap(), LeaseAnswer::Held { stop: false });
    }
    for item in &leased[1..] {
        complete(&store, item);
    }
    let back = store.return_item(None, leased[0].item.key, leased[0].lease);
    assert_eq!(back.wait().unwrap(), LeaseAnswer::Held { stop: false });
    store.push(vec![item(count, 900_000)]).wait().unwrap();
    assert_eq!(pull(&store, 10).len(), 2);
}

/// A process that has not heard of it pulls what comes after the item.
fn an_item_is_completed(store: &NatsStore, other: &NatsStore) {
    store.push(vec![item(1, 1_000)]).wait().unwrap();
    let leased = pull(store, 1);
    other.copies_caught_up_for_tests().wait().unwrap();
    assert_eq!(other.queue_depth(9).wait().unwrap()[0].leased, 1);
    store.limit_stream_for_tests("WORK", 1).wait().unwrap();
    let refused = store.push(vec![item(2, 1_000)]).wait();
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    complete(store, &leased[0]);
    assert!(
        store
            .known(&[leased[0].item.key])
            .wait()
            .unwrap()
            .is_empty()
    );
    store.limit_stream_for_tests("WORK", -1).wait().unwrap();
    store.push(vec![item(2, 1_000)]).wait().unwrap();
    other.copies_caught_up_for_tests().wait().unwrap();
    assert_eq!(pull(other, 1)[0].item.key, item(2, 0).key);
    other.withdraw(&[leased[0].item.key]).wait().unwrap();
    assert!(
        other
            .known(&[leased[0].item.key])
            .wait()
            .unwrap()
            .is_empty()
    );
}
