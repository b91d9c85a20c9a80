//! Hooks: kept whole, found by their token, each tenant's its own.

use crate::block_on::Wait;
use windlass_core::{Digest, Millis};

use super::Backend;
use crate::{Hook, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_hook_is_found_by_its_token(&open());
    hooks_are_listed_by_id(&open());
    a_tenant_has_so_many_and_no_more(&open());
}

fn hook(id: &str, tenant: Option<&str>) -> Hook {
    let token = format!("{id}/{tenant:?}");
    Hook {
        id: id.into(),
        tenant: tenant.map(Into::into),
        workflow: "sample".into(),
        token: Digest::of(token.as_bytes()),
        secret: "quo\"te é".into(),
        created_at: Millis(-5),
        damage: None,
    }
}

fn a_hook_is_found_by_its_token<S: Backend>(store: &S) {
    let first = hook("a", Some("acme"));
    assert_eq!(store.hook_of(&first.token).wait().unwrap(), None);
    assert!(block_on(store.put_hook(first.clone(), 9)).unwrap());
    assert_eq!(
        store.hook_of(&first.token).wait().unwrap(),
        Some(first.clone())
    );
    let other = Hook {
        token: Digest::of(b"another"),
        secret: "s".into(),
        workflow: "other".into(),
        ..first.clone()
    };
    assert!(block_on(store.put_hook(other.clone(), 9)).unwrap());
    assert_eq!(
        store.hook_of(&first.token).wait().unwrap(),
        None,
        "it was replaced"
    );
    assert_eq!(
        store.hook_of(&other.token).wait().unwrap(),
        Some(other.clone())
    );
    assert!(!block_on(store.remove_hook(None, "a")).unwrap());
    assert!(!block_on(store.remove_hook(Some("beta"), "a")).unwrap());
    assert!(block_on(store.remove_hook(Some("acme"), "a")).unwrap());
    assert_eq!(store.hook_of(&other.token).wait().unwrap(), None);
}

fn hooks_are_listed_by_id<S: Backend>(store: &S) {
    for (id, tenant) in [
        ("c", None),
        ("a", Some("beta")),
        ("a", None),
        ("b", Some("beta")),
    ] {
        assert!(block_on(store.put_hook(hook(id, tenant), 9)).unwrap());
    }
    let list = |tenant: &TenantFilter, after: Option<(&str, Option<&str>)>| {
        let found = store.hooks(tenant, after, 9).wait().unwrap();
        let name = |it: Hook| format!("{}@{}", it.id, it.tenant.unwrap_or_default());
        found.into_iter().map(name).collect::<Vec<_>>()
    };
    let any = TenantFilter::Any;
    assert_eq!(list(&any, None), ["a@", "a@beta", "b@beta", "c@"]);
    assert_eq!(list(&any, Some(("a", None))), ["a@beta", "b@beta", "c@"]);
    let beta = TenantFilter::Only(Some("beta".into()));
    assert_eq!(list(&beta, None), ["a@beta", "b@beta"]);
    assert_eq!(list(&beta, Some(("a", Some("beta")))), ["b@beta"]);
    assert_eq!(list(&TenantFilter::Only(None), None), ["a@", "c@"]);
    assert_eq!(store.hooks(&any, None, 2).wait().unwrap().len(), 2);
}

fn a_tenant_has_so_many_and_no_more<S: Backend>(store: &S) {
    let put = |id: &str, tenant| block_on(store.put_hook(hook(id, tenant), 1)).unwrap();
    assert!(put("a", None));
    assert!(!put("b", None));
    assert!(put("a", None), "replacing needs no room");
    assert!(put("b", Some("acme")));
}
