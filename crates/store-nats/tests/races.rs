//! Two streams, no transaction: what must hold all the same when processes act at once, or one
//! ends between two steps.

use std::sync::Arc;
use std::thread;

use crate::common::{open, settings};
use windlass_core::Digest;
use windlass_store::conformance::inbox::{offer, offer_of};
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{
    Append, AppendError, Blob, Blobs as _, Claim, Error, Head, Inbox as _, Leases as _, Log as _,
    OfferAnswer, Partition, ProcessInfo, Queries as _, Retention as _, RunRow, Wait as _,
};
use windlass_store_nats::NatsStore;

/// An owner consumes an offer while another process refuses it: one of both happens.
#[test]
fn an_offer_is_never_both_refused_and_consumed() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    let (mut refused, mut consumed) = (0, 0);
    for n in 0..40 {
        let run = run_id(n);
        let head = must_append(&one, record(run, Head::NONE, 1, b"started"));
        assert!(offer(&other, run, "cancel", b"x"));
        let consuming = Append {
            consumed: vec!["cancel".into()],
            ..record(run, head, 2, b"cancelled")
        };
        let (first, second) = (one.clone(), other.clone());
        let append = thread::spawn(move || append_one(&first, consuming));
        let refuse = thread::spawn(move || second.refuse(run, "cancel", b"no").wait());
        let appended = append.join().unwrap();
        let was_refused = refuse.join().unwrap().unwrap();
        let records = other.head(run).wait().unwrap().sequence;
        let answer = other.answer(run, "cancel").wait().unwrap();
        match appended {
            Ok(_) => {
                consumed += 1;
                assert!(!was_refused, "run {n}: refused, and carried out");
                assert_eq!(records, 2);
                assert_eq!(one.answer(run, "cancel").wait().unwrap(), None);
            }
            Err(AppendError::Failed(_)) => {
                refused += 1;
                assert!(was_refused, "run {n}: neither refused nor carried out");
                assert_eq!(records, 1);
                assert_eq!(answer, Some(OfferAnswer::Refused(b"no".to_vec())));
            }
            Err(error) => panic!("run {n}: {error:?}"),
        }
    }
    assert_eq!(refused + consumed, 40);
}

/// A record that is on its way when the refusal begins is fenced, also if its process knows an
/// older end of the log.
#[test]
fn an_append_that_knows_an_older_end_than_a_refusal_is_looked_at_again() {
    let store = open();
    let run = run_id(1);
    let head = must_append(&store, record(run, Head::NONE, 1, b"started"));
    assert!(offer(&store, run, "a", b"x"));
    assert!(offer(&store, run, "b", b"x"));
    assert!(store.refuse(run, "a", b"no").wait().unwrap());
    // The head is the same; the last message is not.
    assert_eq!(store.head(run).wait().unwrap(), head);
    let late = Append {
        consumed: vec!["a".into()],
        ..record(run, head, 2, b"late")
    };
    assert!(matches!(
        append_one(&store, late),
        Err(AppendError::Failed(Error::NotFound(_)))
    ));
    let good = Append {
        consumed: vec!["b".into()],
        ..record(run, head, 2, b"good")
    };
    assert_eq!(must_append(&store, good).sequence, 2);
}

fn claiming(n: u64, key: &str) -> Append {
    let run = run_id(n);
    Append {
        row: Some(row(run)),
        claims: vec![Claim {
            namespace: "request",
            key: key.into(),
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE, 1, b"started")
    }
}

/// Many processes start a run for the same request: one begins.
#[test]
fn of_many_starts_for_one_request_one_begins() {
    let settings = settings();
    let stores: Vec<NatsStore> = (0..2)
        .map(|_| NatsStore::open(&settings).unwrap())
        .collect();
    for round in 0..5u64 {
        let starts = (0..8u64).map(|n| {
            let store = stores[(n % 2) as usize].clone();
            let append = claiming(round * 100 + n, &format!("r{round}"));
            thread::spawn(move || append_one(&store, append).is_ok())
        });
        let starts: Vec<_> = starts.collect();
        let won = starts
            .into_iter()
            .filter_map(|it| it.join().unwrap().then_some(()));
        assert_eq!(won.count(), 1, "round {round}");
        let begun = (0..8).filter(|n| {
            let head = stores[0].head(run_id(round * 100 + n)).wait().unwrap();
            head != Head::NONE
        });
        assert_eq!(begun.count(), 1, "round {round}");
    }
}

/// A value is swept only if no append has begun to use it: appends that refer to it and sweeps go
/// on side by side, and every record that was written finds its value.
#[test]
fn a_value_is_not_removed_while_an_append_begins_to_use_it() {
    let settings = settings().blob_grace(std::time::Duration::from_secs(3600));
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    let value = Blob {
        digest: Digest::of(&[7; 5000]),
        bytes: vec![7; 5000].into(),
    };
    let first = Append {
        row: Some(RunRow {
            status: windlass_core::RunStatus::Succeeded,
            ended_at: Some(windlass_core::Millis(1)),
            ..row(run_id(1))
        }),
        blobs: vec![value.clone()],
        ..record(run_id(1), Head::NONE, 1, b"made it")
    };
    must_append(&one, first);
    let sweeping = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (sweeper, on) = (other.clone(), Arc::clone(&sweeping));
    let sweep = thread::spawn(move || {
        assert_eq!(sweeper.forget(vec![run_id(1)], false).wait().unwrap(), 1);
        while on.load(std::sync::atomic::Ordering::Relaxed) {
            sweeper.vacuum().wait().unwrap();
        }
    });
    for n in 2..20 {
        let using = Append {
            uses: vec![value.digest],
            ..record(run_id(n), Head::NONE, 1, b"uses it")
        };
        must_append(&one, using);
        assert!(other.blob(&value.digest).wait().unwrap().is_some());
    }
    sweeping.store(false, std::sync::atomic::Ordering::Relaxed);
    sweep.join().unwrap();
    assert!(one.blob(&value.digest).wait().unwrap().is_some());
}

/// The sweep has looked at a value that no log refers to; then another process begins to use it.
#[test]
fn a_value_that_is_touched_after_the_sweep_has_looked_is_kept() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    let value = Blob {
        digest: Digest::of(&[8; 5000]),
        bytes: vec![8; 5000].into(),
    };
    one.put_blob(value.clone()).wait().unwrap();
    let (user, used) = (other.clone(), value.clone());
    let touch = move || user.put_blob(used).wait().unwrap();
    assert_eq!(one.sweep_with(touch).wait().unwrap(), 0);
    assert!(other.blob(&value.digest).wait().unwrap().is_some());
    // Without it, the value goes, and can come back.
    assert_eq!(one.sweep_with(|| {}).wait().unwrap(), 1);
    assert_eq!(other.blob(&value.digest).wait().unwrap(), None);
    one.put_blob(value.clone()).wait().unwrap();
    assert!(other.blob(&value.digest).wait().unwrap().is_some());
}

/// A run is forgotten, or it goes on: never both.
#[test]
fn a_run_that_goes_on_while_it_is_forgotten_keeps_its_records_or_refuses_them() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    for n in 0..20 {
        let run = run_id(n);
        let ended = Append {
            row: Some(RunRow {
                status: windlass_core::RunStatus::Failed,
                ended_at: Some(windlass_core::Millis(1)),
                ..row(run)
            }),
            ..record(run, Head::NONE, 1, b"failed")
        };
        let head = must_append(&one, ended);
        let again = Append {
            row: Some(row(run)),
            ..record(run, head, 2, b"goes on")
        };
        let (first, second) = (one.clone(), other.clone());
        let append = thread::spawn(move || append_one(&first, again));
        let forget = thread::spawn(move || second.forget(vec![run], false).wait());
        let appended = append.join().unwrap();
        let forgotten = forget.join().unwrap().unwrap();
        let head = other.head(run).wait().unwrap();
        match appended {
            Ok(_) => {
                assert_eq!((forgotten, head.sequence), (0, 2), "run {n}");
                assert_eq!(other.read(run, 1, usize::MAX).wait().unwrap().len(), 2);
            }
            Err(_) => {
                assert_eq!((forgotten, head), (1, Head::NONE), "run {n}");
                assert_eq!(other.run(run).wait().unwrap(), None);
            }
        }
    }
}

/// What one process publishes and another one's rows do not show yet is found by id.
#[test]
fn a_read_by_id_is_at_the_end_of_the_log() {
    let settings = settings();
    let (one, other) = (
        NatsStore::open(&settings).unwrap(),
        NatsStore::open(&settings).unwrap(),
    );
    let mut head = Head::NONE;
    for n in 1..30u64 {
        let writer = if n % 2 == 0 { &one } else { &other };
        let reader = if n % 2 == 0 { &other } else { &one };
        head = must_append(writer, record(run_id(1), head, n, b"x"));
        let records = reader.read(run_id(1), 1, usize::MAX).wait().unwrap();
        assert_eq!(records.len() as u64, n);
    }
}

/// A process published and ended before the database followed: who takes the partition finds it.
#[test]
fn a_new_owner_finds_what_a_dead_process_published() {
    let settings = settings();
    let writer = NatsStore::open(&settings).unwrap();
    let owner = NatsStore::open(&settings).unwrap();
    // The writer's database is away, its stream is not: rows stay behind.
    for n in 0..8 {
        let first = Append {
            row: Some(row(run_id(n))),
            ..record(run_id(n), Head::NONE, 1, b"started")
        };
        writer.publish_without_rows(first).wait().unwrap();
    }
    let session = owner.join(&ProcessInfo::named("owner"), 60_000).wait();
    let session = session.unwrap().session;
    let all: Vec<Partition> = (0..4).map(Partition).collect();
    assert_eq!(owner.take(session, &all).wait().unwrap().len(), 4);
    let listed = owner.runs(&windlass_store::RunFilter::default());
    assert_eq!(listed.wait().unwrap().rows.len(), 8);
}

#[test]
fn offers_to_many_runs_are_answered_in_order() {
    let store = open();
    let offers = (0..20).map(|n| offer_of(run_id(n % 5), &format!("{}", n % 10), b"x"));
    let answers = store.offer(offers.collect()).wait().unwrap();
    let expected: Vec<bool> = (0..20).map(|n| n < 10).collect();
    assert_eq!(answers, expected);
}
