//! The inbox: durable, first per key wins, consumed by the append that records it.

use super::{Backend, must_append, record, run_id};
use crate::block_on::Wait;
use crate::{Append, Head, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    the_first_per_key_wins(&open());
    items_come_oldest_first(&open());
    an_append_consumes_only_what_it_names(&open());
}

fn the_first_per_key_wins<S: Backend>(store: &S) {
    assert!(block_on(store.offer(run_id(1), "a", b"first")).unwrap());
    assert!(!block_on(store.offer(run_id(1), "a", b"second")).unwrap());
    assert!(block_on(store.offer(run_id(2), "a", b"other")).unwrap());
    let items = store.inbox(run_id(1)).wait().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].bytes, b"first");
    assert_eq!(store.inbox(run_id(2)).wait().unwrap()[0].bytes, b"other");
    assert!(store.inbox(run_id(3)).wait().unwrap().is_empty());
}

fn items_come_oldest_first<S: Backend>(store: &S) {
    for key in ["c", "a", "b"] {
        block_on(store.offer(run_id(1), key, key.as_bytes())).unwrap();
    }
    let items = store.inbox(run_id(1)).wait().unwrap();
    let keys: Vec<&str> = items.iter().map(|item| &*item.key).collect();
    assert_eq!(keys, ["c", "a", "b"]);
}

fn an_append_consumes_only_what_it_names<S: Backend>(store: &S) {
    for run in [run_id(1), run_id(2)] {
        for key in ["a", "b", "c"] {
            block_on(store.offer(run, key, b"x")).unwrap();
        }
    }
    let consuming = Append {
        consumed: vec!["a".into(), "c".into(), "unknown".into()],
        ..record(run_id(1), Head::NONE, 1, b"took a and c")
    };
    must_append(store, consuming);
    let items = store.inbox(run_id(1)).wait().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(&*items[0].key, "b");
    assert_eq!(store.inbox(run_id(2)).wait().unwrap().len(), 3);
}
