//! Sealed secrets: each is kept byte for byte, and tenants are kept apart.

use crate::block_on::Wait;
use windlass_core::Millis;

use super::Backend;
use crate::{SecretRow, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    a_secret_is_kept_replaced_and_forgotten(&open());
    tenants_do_not_meet(&open());
}

fn put<S: Backend>(store: &S, tenant: Option<&str>, name: &str, sealed: &[u8], at: i64) -> bool {
    block_on(store.put_secret(tenant, name, sealed.to_vec(), Millis(at))).unwrap()
}

fn row(tenant: Option<&str>, name: &str, at: i64) -> SecretRow {
    SecretRow {
        tenant: tenant.map(Into::into),
        name: name.into(),
        updated_at: Millis(at),
        damage: None,
    }
}

fn a_secret_is_kept_replaced_and_forgotten<S: Backend>(store: &S) {
    assert_eq!(store.secret(None, "KEY").wait().unwrap(), None);
    assert!(
        store
            .secrets(&TenantFilter::Any, None, 99)
            .wait()
            .unwrap()
            .is_empty()
    );
    assert!(!block_on(store.remove_secret(None, "KEY")).unwrap());
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert!(put(store, None, "KEY", &bytes, 7), "it is new");
    assert_eq!(store.secret(None, "KEY").wait().unwrap(), Some(bytes));
    assert!(!put(store, None, "KEY", b"", 8), "there was one");
    assert_eq!(store.secret(None, "KEY").wait().unwrap(), Some(Vec::new()));
    let listed = store.secrets(&TenantFilter::Any, None, 99).wait().unwrap();
    assert_eq!(listed, [row(None, "KEY", 8)]);
    assert_eq!(
        store.secret(None, "key").wait().unwrap(),
        None,
        "letters count"
    );
    assert!(block_on(store.remove_secret(None, "KEY")).unwrap());
    assert_eq!(store.secret(None, "KEY").wait().unwrap(), None);
    assert!(!block_on(store.remove_secret(None, "KEY")).unwrap());
    assert!(
        store
            .secrets(&TenantFilter::Any, None, 99)
            .wait()
            .unwrap()
            .is_empty()
    );
}

fn tenants_do_not_meet<S: Backend>(store: &S) {
    let tenants = [None, Some("acme"), Some("beta")];
    for (at, tenant) in (1..).zip(tenants) {
        let sealed = format!("{tenant:?}");
        assert!(put(store, tenant, "KEY", sealed.as_bytes(), at));
    }
    assert!(put(store, Some("acme"), "AAA", b"a", 9));
    for (at, tenant) in (1..).zip(tenants) {
        let sealed = store.secret(tenant, "KEY").wait().unwrap();
        assert_eq!(sealed, Some(format!("{tenant:?}").into_bytes()));
        let only = TenantFilter::Only(tenant.map(Into::into));
        let mut expected = vec![row(tenant, "KEY", at)];
        if tenant == Some("acme") {
            expected.insert(0, row(tenant, "AAA", 9));
        }
        assert_eq!(store.secrets(&only, None, 99).wait().unwrap(), expected);
    }
    assert_eq!(store.secret(None, "AAA").wait().unwrap(), None);
    assert_eq!(store.secret(Some("nobody"), "KEY").wait().unwrap(), None);
    assert!(!block_on(store.remove_secret(Some("nobody"), "KEY")).unwrap());
    let all = [
        row(Some("acme"), "AAA", 9),
        row(None, "KEY", 1),
        row(Some("acme"), "KEY", 2),
        row(Some("beta"), "KEY", 3),
    ];
    assert_eq!(
        store.secrets(&TenantFilter::Any, None, 99).wait().unwrap(),
        all
    );
    assert!(block_on(store.remove_secret(Some("acme"), "KEY")).unwrap());
    assert_eq!(store.secret(Some("acme"), "KEY").wait().unwrap(), None);
    assert!(store.secret(None, "KEY").wait().unwrap().is_some());
    assert!(store.secret(Some("beta"), "KEY").wait().unwrap().is_some());
}
