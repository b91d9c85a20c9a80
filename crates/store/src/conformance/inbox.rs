//! The inbox: durable, first per key wins, consumed by the append that records it, refused with
//! a reason that stays until it is read.

use super::{Backend, append_one, must_append, record, row, run_id};
use crate::block_on::Wait;
use crate::{
    Append, AppendError, Head, InboxBounds, Offer, OfferAnswer, Partition, Partitions, RunRow,
    block_on,
};
use windlass_core::{RunId, RunStatus};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    the_first_per_key_wins(&open());
    many_are_offered_at_once(&open());
    items_come_oldest_first(&open());
    items_come_in_pages(&open());
    an_append_consumes_only_what_it_names(&open());
    an_append_that_consumes_what_does_not_wait_changes_nothing(&open());
    a_refused_item_keeps_its_reason_until_it_is_discarded(&open());
    an_item_can_be_discarded_unread(&open());
    runs_with_items_are_listed_by_partition_and_page(&open());
    what_was_offered_to_a_run_is_forgotten_with_it(&open());
}

/// An offer in the one partition that every backend has.
pub fn offer_of(run: RunId, key: &str, bytes: &[u8]) -> Offer {
    Offer {
        run,
        partition: Partition(0),
        key: key.into(),
        bytes: bytes.to_vec(),
    }
}

/// Offers one item; whether it was the first under its key.
pub fn offer<S: Backend>(store: &S, run: RunId, key: &str, bytes: &[u8]) -> bool {
    let offered = block_on(store.offer(vec![offer_of(run, key, bytes)])).unwrap();
    assert_eq!(offered.len(), 1, "one answer for each offer");
    offered[0]
}

fn keys<S: Backend>(store: &S, run: RunId) -> Vec<String> {
    let items = store.inbox(run).wait().unwrap();
    items.into_iter().map(|item| item.key.into()).collect()
}

fn the_first_per_key_wins<S: Backend>(store: &S) {
    assert!(offer(store, run_id(1), "a", b"first"));
    assert!(!offer(store, run_id(1), "a", b"second"));
    assert!(offer(store, run_id(2), "a", b"other"));
    let items = store.inbox(run_id(1)).wait().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].bytes, b"first");
    assert_eq!(store.inbox(run_id(2)).wait().unwrap()[0].bytes, b"other");
    assert!(store.inbox(run_id(3)).wait().unwrap().is_empty());
}

fn many_are_offered_at_once<S: Backend>(store: &S) {
    let many = vec![
        offer_of(run_id(1), "a", b"1"),
        offer_of(run_id(2), "a", b"2"),
        offer_of(run_id(1), "a", b"3"),
        offer_of(run_id(1), "b", b"4"),
    ];
    let offered = block_on(store.offer(many)).unwrap();
    assert_eq!(offered, [true, true, false, true]);
    assert_eq!(keys(store, run_id(1)), ["a", "b"]);
    let counted = |run, most| block_on(store.waiting_items(run, most)).unwrap();
    assert_eq!((counted(run_id(1), 9), counted(run_id(1), 1)), (2, 1));
    assert_eq!(counted(run_id(3), 9), 0);
    assert_eq!(store.inbox(run_id(1)).wait().unwrap()[0].bytes, b"1");
    assert!(block_on(store.offer(Vec::new())).unwrap().is_empty());
}

fn items_come_oldest_first<S: Backend>(store: &S) {
    for key in ["c", "a", "b"] {
        assert!(offer(store, run_id(1), key, key.as_bytes()));
    }
    assert_eq!(keys(store, run_id(1)), ["c", "a", "b"]);
}

fn items_come_in_pages<S: Backend>(store: &S) {
    let run = run_id(1);
    for (key, size) in [("e", 3), ("d", 900), ("c", 2), ("b", 2), ("a", 2)] {
        assert!(offer(store, run, key, &vec![b'x'; size]));
    }
    assert!(offer(store, run_id(2), "other", b"x"));
    let page = |after, items, bytes| {
        let most = InboxBounds { items, bytes };
        block_on(store.inbox_page(run, after, most)).unwrap()
    };
    let mut seen: Vec<Vec<String>> = Vec::new();
    let mut after = 0;
    loop {
        let items = page(after, 2, 4);
        let Some(last) = items.last() else { break };
        assert!(after < last.number, "places grow");
        after = last.number;
        seen.push(items.into_iter().map(|it| it.key.into()).collect());
    }
    let expected: [Vec<String>; 4] = [
        vec!["e".into()],
        vec!["d".into()],
        vec!["c".into(), "b".into()],
        vec!["a".into()],
    ];
    assert_eq!(seen, expected, "by bytes, by number, and at least one");
    assert_eq!(page(0, 9, usize::MAX).len(), 5);
    assert_eq!(keys(store, run), ["e", "d", "c", "b", "a"]);
}

fn an_append_consumes_only_what_it_names<S: Backend>(store: &S) {
    for run in [run_id(1), run_id(2)] {
        for key in ["a", "b", "c"] {
            assert!(offer(store, run, key, b"x"));
        }
    }
    let consuming = Append {
        consumed: vec!["a".into(), "c".into()],
        ..record(run_id(1), Head::NONE, 1, b"took a and c")
    };
    must_append(store, consuming);
    assert_eq!(keys(store, run_id(1)), ["b"]);
    assert_eq!(keys(store, run_id(2)).len(), 3);
    assert_eq!(store.answer(run_id(1), "a").wait().unwrap(), None);
    // The key is free again: the log, not the inbox, remembers what was consumed.
    assert!(offer(store, run_id(1), "a", b"y"));
}

fn an_append_that_consumes_what_does_not_wait_changes_nothing<S: Backend>(store: &S) {
    let run = run_id(1);
    assert!(offer(store, run, "refused", b"x"));
    assert!(offer(store, run, "waits", b"x"));
    assert!(block_on(store.refuse(run, "refused", b"no")).unwrap());
    let started = must_append(store, record(run, Head::NONE, 1, b"started"));
    for key in ["unknown", "refused"] {
        let consuming = Append {
            consumed: vec!["waits".into(), key.into()],
            ..record(run, started, 2, b"late")
        };
        let refused = append_one(store, consuming);
        assert!(
            matches!(refused, Err(AppendError::Failed(_))),
            "{refused:?}"
        );
        assert_eq!(store.head(run).wait().unwrap(), started);
        assert_eq!(keys(store, run), ["waits"]);
    }
    // The fence is looked at first.
    let late = Append {
        consumed: vec!["unknown".into()],
        ..record(run, Head::NONE, 2, b"late")
    };
    let fenced = append_one(store, late);
    assert!(
        matches!(fenced, Err(AppendError::Conflict(_))),
        "{fenced:?}"
    );
}

fn a_refused_item_keeps_its_reason_until_it_is_discarded<S: Backend>(store: &S) {
    let run = run_id(1);
    assert!(!block_on(store.refuse(run, "a", b"no")).unwrap());
    assert_eq!(store.answer(run, "a").wait().unwrap(), None);
    assert!(offer(store, run, "a", b"x"));
    assert_eq!(
        store.answer(run, "a").wait().unwrap(),
        Some(OfferAnswer::Waiting)
    );
    assert!(block_on(store.refuse(run, "a", b"no")).unwrap());
    assert!(!block_on(store.refuse(run, "a", b"again")).unwrap());
    assert!(keys(store, run).is_empty());
    let offered = store.offered(&Partitions::All, None, 10).wait().unwrap();
    assert!(offered.is_empty(), "a refused item does not wait");
    let refused = Some(OfferAnswer::Refused(b"no".to_vec()));
    assert_eq!(store.answer(run, "a").wait().unwrap(), refused);
    assert!(!offer(store, run, "a", b"y"), "its answer is not read yet");
    assert_eq!(store.answer(run_id(2), "a").wait().unwrap(), None);
    assert!(block_on(store.discard(run, "a")).unwrap());
    assert!(!block_on(store.discard(run, "a")).unwrap());
    assert_eq!(store.answer(run, "a").wait().unwrap(), None);
    assert!(offer(store, run, "a", b"z"));
}

fn an_item_can_be_discarded_unread<S: Backend>(store: &S) {
    let run = run_id(1);
    assert!(offer(store, run, "a", b"x"));
    assert!(offer(store, run, "b", b"x"));
    assert!(block_on(store.discard(run, "a")).unwrap());
    assert_eq!(keys(store, run), ["b"]);
    assert!(!block_on(store.discard(run_id(2), "b")).unwrap());
}

fn runs_with_items_are_listed_by_partition_and_page<S: Backend>(store: &S) {
    for n in [3, 1, 2] {
        assert!(offer(store, run_id(n), "a", b"x"));
        assert!(offer(store, run_id(n), "b", b"x"));
    }
    let only = |partition| Partitions::Only([Partition(partition)].into());
    let list = |partitions: &Partitions, after, limit| {
        store.offered(partitions, after, limit).wait().unwrap()
    };
    let all = [run_id(1), run_id(2), run_id(3)];
    assert_eq!(list(&Partitions::All, None, 10), all);
    assert_eq!(list(&only(0), None, 10), all);
    assert_eq!(list(&only(0), Some(run_id(1)), 1), [run_id(2)]);
    assert!(list(&only(0), Some(run_id(3)), 10).is_empty());
    assert!(list(&only(1), None, 10).is_empty());
    assert!(list(&Partitions::Only([].into()), None, 10).is_empty());
    assert!(block_on(store.discard(run_id(2), "a")).unwrap());
    assert!(block_on(store.refuse(run_id(2), "b", b"no")).unwrap());
    assert_eq!(list(&only(0), None, 10), [run_id(1), run_id(3)]);
}

fn what_was_offered_to_a_run_is_forgotten_with_it<S: Backend>(store: &S) {
    let run = run_id(1);
    let ended = RunRow {
        status: RunStatus::Succeeded,
        ended_at: Some(windlass_core::Millis(5)),
        ..row(run)
    };
    super::must_start(store, ended);
    for (key, bytes) in [("waits", b"x"), ("refused", b"y")] {
        assert!(offer(store, run, key, bytes));
    }
    assert!(block_on(store.refuse(run, "refused", b"no")).unwrap());
    assert_eq!(block_on(store.forget(vec![run], false)).unwrap(), 1);
    for key in ["waits", "refused"] {
        assert_eq!(store.answer(run, key).wait().unwrap(), None, "{key}");
    }
    let offered = store.offered(&Partitions::All, None, 10).wait().unwrap();
    assert!(offered.is_empty());
}
