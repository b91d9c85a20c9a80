//! Definitions: versions count up, the same digest twice is one version.

use crate::block_on::Wait;
use windlass_core::{Digest, Millis};

use super::Backend;
use crate::{NewDefinition, Published, TenantFilter, WorkflowRow, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    versions_count_up(&open());
    workflows_are_listed_by_id(&open());
    workflows_are_enabled_and_disabled(&open());
    tenants_have_catalogues_of_their_own(&open());
}

fn definition(workflow: &str, text: &str, at: i64) -> NewDefinition {
    NewDefinition {
        tenant: None,
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
    assert!(store.definition(None, "w", None).wait().unwrap().is_none());
    assert_eq!(publish(store, "w", "a", 1), answer(1, true));
    assert_eq!(publish(store, "w", "a", 2), answer(1, false));
    assert_eq!(publish(store, "w", "b", 3), answer(2, true));
    assert_eq!(publish(store, "v", "b", 4), answer(1, true));
    assert_eq!(
        publish(store, "w", "a", 5),
        answer(3, true),
        "only the newest counts"
    );

    let newest = store.definition(None, "w", None).wait().unwrap().unwrap();
    assert_eq!((newest.version, newest.at), (3, Millis(5)));
    assert_eq!(newest.text, b"a");
    let second = store
        .definition(None, "w", Some(2))
        .wait()
        .unwrap()
        .unwrap();
    assert_eq!(&*second.workflow, "w");
    assert_eq!(second.text, b"b");
    assert_eq!(second.digest, Digest::of(b"b"));
    assert_eq!(second.signature, Digest::of(b"signature"));
    assert_eq!(second.at, Millis(3));
    for missing in [Some(0), Some(4)] {
        assert!(
            store
                .definition(None, "w", missing)
                .wait()
                .unwrap()
                .is_none()
        );
    }
    let versions = store.versions(None, "w").wait().unwrap();
    let numbers: Vec<u32> = versions.iter().map(|row| row.version).collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert!(versions.iter().all(|row| row.text.is_empty()));
    assert!(store.versions(None, "none").wait().unwrap().is_empty());
    let _: &dyn Backend = store;
}

fn workflows_are_listed_by_id<S: Backend>(store: &S) {
    assert!(
        store
            .workflows(&TenantFilter::Any)
            .wait()
            .unwrap()
            .is_empty()
    );
    for id in ["b", "c", "a"] {
        publish(store, id, "one", 1);
    }
    publish(store, "b", "two", 9);
    let rows = store.workflows(&TenantFilter::Any).wait().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| &*row.workflow).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(rows[1].version, 2);
    assert_eq!(rows[1].updated_at, Millis(9));
    assert_eq!(rows[1].display_name.as_deref(), Some("The b"));
    assert!(rows[1].enabled);
}

fn workflows_are_enabled_and_disabled<S: Backend>(store: &S) {
    assert!(!block_on(store.set_enabled(None, "w", false)).unwrap());
    publish(store, "w", "one", 1);
    assert!(block_on(store.set_enabled(None, "w", false)).unwrap());
    assert!(!store.workflows(&TenantFilter::Any).wait().unwrap()[0].enabled);
    publish(store, "w", "two", 2);
    assert!(
        !store.workflows(&TenantFilter::Any).wait().unwrap()[0].enabled,
        "a new version does not enable"
    );
    assert!(block_on(store.set_enabled(None, "w", true)).unwrap());
    assert!(store.workflows(&TenantFilter::Any).wait().unwrap()[0].enabled);
}

fn tenants_have_catalogues_of_their_own<S: Backend>(store: &S) {
    let publish = |tenant: Option<&str>, workflow: &str, text: &str| {
        let new = NewDefinition {
            tenant: tenant.map(Into::into),
            ..definition(workflow, text, 1)
        };
        block_on(store.publish(new)).unwrap()
    };
    let first = Published {
        version: 1,
        created: true,
    };
    assert_eq!(publish(None, "w", "ours"), first);
    assert_eq!(
        publish(Some("acme"), "w", "ours"),
        first,
        "a workflow of its own"
    );
    assert_eq!(publish(Some("acme"), "w", "theirs").version, 2);
    assert_eq!(publish(Some("beta"), "v", "more"), first);

    let text = |tenant, workflow, version| {
        let row = store.definition(tenant, workflow, version).wait().unwrap();
        row.map(|row| (row.tenant, row.version, row.text))
    };
    let acme = || Some("acme".into());
    assert_eq!(text(None, "w", None), Some((None, 1, b"ours".to_vec())));
    assert_eq!(text(None, "w", Some(2)), None);
    assert_eq!(
        text(Some("acme"), "w", None),
        Some((acme(), 2, b"theirs".to_vec()))
    );
    assert_eq!(
        text(Some("acme"), "w", Some(1)),
        Some((acme(), 1, b"ours".to_vec()))
    );
    assert_eq!(
        text(Some("beta"), "w", None),
        None,
        "a workflow without a tenant is not theirs"
    );
    assert_eq!(text(None, "v", None), None);
    let versions = store.versions(Some("acme"), "w").wait().unwrap();
    assert_eq!(versions.len(), 2);
    assert!(versions.iter().all(|row| row.tenant == acme()));
    assert!(store.versions(Some("beta"), "w").wait().unwrap().is_empty());

    assert!(!block_on(store.set_enabled(Some("beta"), "w", false)).unwrap());
    assert!(block_on(store.set_enabled(Some("acme"), "w", false)).unwrap());
    let name =
        |row: &WorkflowRow| format!("{}/{}", row.tenant.as_deref().unwrap_or("-"), row.workflow);
    let list = |filter: &TenantFilter| -> Vec<String> {
        store
            .workflows(filter)
            .wait()
            .unwrap()
            .iter()
            .map(name)
            .collect()
    };
    assert_eq!(list(&TenantFilter::Any), ["beta/v", "-/w", "acme/w"]);
    assert_eq!(list(&TenantFilter::Only(None)), ["-/w"]);
    assert_eq!(list(&TenantFilter::Only(acme())), ["acme/w"]);
    assert!(list(&TenantFilter::Only(Some("nobody".into()))).is_empty());
    let workflow = |tenant, id| store.workflow(tenant, id).wait().unwrap();
    assert!(
        workflow(None, "w").unwrap().enabled,
        "only theirs is disabled"
    );
    let theirs = workflow(Some("acme"), "w").unwrap();
    assert_eq!((theirs.enabled, theirs.version), (false, 2));
    assert_eq!(theirs.tenant, acme());
    assert!(workflow(Some("beta"), "w").is_none());
    assert!(workflow(None, "v").is_none());
}
