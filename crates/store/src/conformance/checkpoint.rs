//! Checkpoints: replaced whole, answered only while they lie on the run's chain.

use super::{Backend, must_append, record, run_id};
use crate::block_on::Wait;
use crate::{Checkpoint, Envelope, EnvelopeKind, Head, block_on};
use windlass_core::RunId;

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_checkpoint_comes_back(&open());
    the_newest_stands_for_the_one_before(&open());
    one_that_is_ahead_is_not_seen(&open());
    one_of_another_chain_is_not_seen(&open());
    it_changes_nothing_else(&open());
    it_outlives_compaction(&open());
}

/// A log of that many records; the head after each.
pub(super) fn grown(store: &impl Backend, run: RunId, count: u64) -> Vec<Head> {
    let mut heads = vec![store.head(run).wait().unwrap()];
    for _ in 0..count {
        let head = heads[heads.len() - 1];
        let text = format!("record {} of {run}", head.sequence + 1);
        let append = record(run, head, 100 + head.sequence, text.as_bytes());
        heads.push(must_append(store, append));
    }
    heads.remove(0);
    heads
}

fn state(head: Head, size: usize) -> Checkpoint {
    let body: Vec<u8> = (0..size).map(|at| (at ^ (at >> 8)) as u8).collect();
    Checkpoint {
        head,
        bytes: Envelope::encode(EnvelopeKind::Checkpoint, 1, &body),
    }
}

fn put<S: Backend>(store: &S, run: RunId, checkpoint: &Checkpoint) {
    block_on(store.put_checkpoint(run, checkpoint.clone())).unwrap();
}

fn a_checkpoint_comes_back<S: Backend>(store: &S) {
    assert_eq!(store.checkpoint(run_id(1)).wait().unwrap(), None);
    let sizes = [
        0,
        1,
        5000,
        (256 << 10) - 8,
        (256 << 10) - 7,
        1 << 20,
        5 << 20,
    ];
    for (size, n) in sizes.into_iter().zip(1..) {
        let heads = grown(store, run_id(n), 3);
        assert_eq!(store.checkpoint(run_id(n)).wait().unwrap(), None);
        let checkpoint = state(heads[1], size);
        put(store, run_id(n), &checkpoint);
        let back = store.checkpoint(run_id(n)).wait().unwrap();
        assert!(back == Some(checkpoint), "{size} bytes come back");
    }
}

fn the_newest_stands_for_the_one_before<S: Backend>(store: &S) {
    let run = run_id(1);
    let heads = grown(store, run, 6);
    grown(store, run_id(2), 1);
    let sizes = [10, 300_000, 400_000, 20, 300_000, 30];
    for (head, size) in heads.iter().zip(sizes) {
        let checkpoint = state(*head, size);
        for _ in 0..2 {
            put(store, run, &checkpoint);
            let back = store.checkpoint(run).wait().unwrap();
            assert!(back == Some(checkpoint.clone()), "after {size} bytes");
        }
        assert_eq!(store.checkpoint(run_id(2)).wait().unwrap(), None);
    }
    // Also one that covers less.
    let shorter = state(heads[0], 300_000);
    put(store, run, &shorter);
    assert!(store.checkpoint(run).wait().unwrap() == Some(shorter));
}

fn one_that_is_ahead_is_not_seen<S: Backend>(store: &S) {
    let run = run_id(1);
    let next = record(run, Head::NONE, 1, b"first");
    let ahead = state(crate::checksum::next_head(&next), 100);
    put(store, run, &ahead);
    assert_eq!(
        store.checkpoint(run).wait().unwrap(),
        None,
        "there is no log yet"
    );
    must_append(store, next);
    assert_eq!(store.checkpoint(run).wait().unwrap(), Some(ahead));
    put(store, run, &state(Head::NONE, 10));
    assert_eq!(
        store.checkpoint(run).wait().unwrap(),
        None,
        "it covers nothing"
    );
}

fn one_of_another_chain_is_not_seen<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = grown(store, run, 2)[0];
    let elsewhere = grown(store, run_id(2), 2)[0];
    let mut chain = head.chain;
    chain[3] ^= 1;
    let wrong = [
        elsewhere,
        Head { chain, ..head },
        Head {
            sequence: 2,
            ..head
        },
        Head {
            append_id: 9,
            ..head
        },
        Head {
            sequence: u64::MAX,
            ..head
        },
    ];
    for size in [10, 300_000] {
        for head in wrong {
            put(store, run, &state(head, size));
            assert_eq!(store.checkpoint(run).wait().unwrap(), None, "{head:?}");
            block_on(store.compact(run, 2)).unwrap();
        }
        put(store, run, &state(head, size));
        assert!(store.checkpoint(run).wait().unwrap().is_some());
    }
}

fn it_changes_nothing_else<S: Backend>(store: &S) {
    let run = run_id(1);
    let head = grown(store, run, 3)[2];
    let before = store.read(run, 1, usize::MAX).wait().unwrap();
    put(store, run, &state(head, 300_000));
    assert_eq!(store.head(run).wait().unwrap(), head);
    assert_eq!(store.read(run, 1, usize::MAX).wait().unwrap(), before);
    assert_eq!(store.run(run).wait().unwrap(), None);
    must_append(store, record(run, head, 9, b"on"));
    assert!(store.checkpoint(run).wait().unwrap().is_some());
    assert_eq!(store.logged_runs(None, 10).wait().unwrap(), [run]);
}

fn it_outlives_compaction<S: Backend>(store: &S) {
    let run = run_id(1);
    let heads = grown(store, run, 20);
    for at in [0, 7, 9, 10, 19] {
        let checkpoint = state(heads[at], 50);
        put(store, run, &checkpoint);
        for through in [10, 20] {
            block_on(store.compact(run, through)).unwrap();
            let back = store.checkpoint(run).wait().unwrap();
            assert_eq!(back.as_ref(), Some(&checkpoint), "{at} and {through}");
        }
    }
}
