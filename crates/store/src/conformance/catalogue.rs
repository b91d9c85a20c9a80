//! Definitions: versions count up, the same digest twice is one version.

use windlass_core::{Digest, Millis};

use super::Backend;
use crate::{NewDefinition, Published, Store, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    versions_count_up(&open());
    workflows_are_listed_by_id(&open());
    workflows_are_enabled_and_disabled(&open());
}

fn definition(workflow: &str, text: &str, at: i64) -> NewDefinition {
    NewDefinition {
        workflow: workflow.into(),
        display_name: Some(format!("The {workflow}").into()),
        digest: Digest::of(text.as_bytes()),
        text: text.as_bytes().into(),
        signature: Digest::of(b"signature"),
        at: Millis(at),
    }
}

fn publish<S: Backend>(store: &S, workflow: &str, text: &str, at: i64) -> Published {
    block_on(store.publish(definition(workflow, text, at))).unwrap()
}

fn versions_count_up<S: Backend>(store: &S) {
    let answer = |version, created| Published { version, created };
    assert!(store.definition("w", None).unwrap().is_none());
    assert_eq!(publish(store, "w", "a", 1), answer(1, true));
    assert_eq!(publish(store, "w", "a", 2), answer(1, false));
    assert_eq!(publish(store, "w", "b", 3), answer(2, true));
    assert_eq!(publish(store, "v", "b", 4), answer(1, true));
    assert_eq!(
        publish(store, "w", "a", 5),
        answer(3, true),
        "only the newest counts"
    );

    let newest = store.definition("w", None).unwrap().unwrap();
    assert_eq!((newest.version, newest.at), (3, Millis(5)));
    assert_eq!(newest.text, b"a");
    let second = store.definition("w", Some(2)).unwrap().unwrap();
    assert_eq!(&*second.workflow, "w");
    assert_eq!(second.text, b"b");
    assert_eq!(second.digest, Digest::of(b"b"));
    assert_eq!(second.signature, Digest::of(b"signature"));
    assert_eq!(second.at, Millis(3));
    for missing in [Some(0), Some(4)] {
        assert!(store.definition("w", missing).unwrap().is_none());
    }
    let versions = store.versions("w").unwrap();
    let numbers: Vec<u32> = versions.iter().map(|row| row.version).collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert!(versions.iter().all(|row| row.text.is_empty()));
    assert!(store.versions("none").unwrap().is_empty());
    let _: &dyn Store = store;
}

fn workflows_are_listed_by_id<S: Backend>(store: &S) {
    assert!(store.workflows().unwrap().is_empty());
    for id in ["b", "c", "a"] {
        publish(store, id, "one", 1);
    }
    publish(store, "b", "two", 9);
    let rows = store.workflows().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| &*row.workflow).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(rows[1].version, 2);
    assert_eq!(rows[1].updated_at, Millis(9));
    assert_eq!(rows[1].display_name.as_deref(), Some("The b"));
    assert!(rows[1].enabled);
}

fn workflows_are_enabled_and_disabled<S: Backend>(store: &S) {
    assert!(!block_on(store.set_enabled("w", false)).unwrap());
    publish(store, "w", "one", 1);
    assert!(block_on(store.set_enabled("w", false)).unwrap());
    assert!(!store.workflows().unwrap()[0].enabled);
    publish(store, "w", "two", 2);
    assert!(
        !store.workflows().unwrap()[0].enabled,
        "a new version does not enable"
    );
    assert!(block_on(store.set_enabled("w", true)).unwrap());
    assert!(store.workflows().unwrap()[0].enabled);
}
