//! Notes: kept whole, replaced, forgotten, and each kind apart.

use super::Backend;
use crate::block_on::Wait;
use crate::{Note, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_note_is_kept_replaced_and_forgotten(&open());
    notes_of_a_kind_come_by_key(&open());
}

fn keep<S: Backend>(store: &S, kind: &str, key: &str, bytes: &[u8]) {
    block_on(store.keep_note(kind, key, bytes.to_vec())).unwrap();
}

fn a_note_is_kept_replaced_and_forgotten<S: Backend>(store: &S) {
    assert_eq!(store.note_at("job", "a").wait().unwrap(), None);
    assert!(!block_on(store.forget_note("job", "a")).unwrap());
    let large: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    keep(store, "job", "a", &large);
    assert_eq!(store.note_at("job", "a").wait().unwrap(), Some(large));
    keep(store, "job", "a", b"");
    assert_eq!(store.note_at("job", "a").wait().unwrap(), Some(Vec::new()));
    assert_eq!(store.note_at("trial", "a").wait().unwrap(), None);
    assert!(block_on(store.forget_note("job", "a")).unwrap());
    assert_eq!(store.note_at("job", "a").wait().unwrap(), None);
}

fn notes_of_a_kind_come_by_key<S: Backend>(store: &S) {
    for (kind, key) in [("b", "2"), ("a", "9"), ("b", "1"), ("b", "3"), ("c", "1")] {
        keep(store, kind, key, format!("{kind}{key}").as_bytes());
    }
    let keys = |after: Option<&str>, limit: usize| {
        let notes: Vec<Note> = store.notes("b", after, limit).wait().unwrap();
        for (key, bytes) in &notes {
            assert_eq!(*bytes, format!("b{key}").into_bytes());
        }
        notes.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(None, 9), ["1".into(), "2".into(), "3".into()]);
    assert_eq!(keys(None, 2), ["1".into(), "2".into()]);
    assert_eq!(keys(Some("1"), 9), ["2".into(), "3".into()]);
    assert!(keys(Some("3"), 9).is_empty());
    assert!(store.notes("d", None, 9).wait().unwrap().is_empty());
}
