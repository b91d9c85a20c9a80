//! The audit log: every entry is kept, in order, under a number of its own.

use crate::block_on::Wait;
use windlass_core::Millis;

use super::Backend;
use crate::{AuditEntry, TenantFilter, block_on};

/// Runs every check of this file.
pub fn all<S: Backend>(open: &dyn Fn() -> S) {
    an_entry_keeps_every_field(&open());
    entries_are_listed_newest_first(&open());
}

fn entry(at: i64, tenant: Option<&str>) -> AuditEntry {
    AuditEntry {
        at: Millis(at),
        tenant: tenant.map(Into::into),
        by: "token deploy".into(),
        from: "192.0.2.1".into(),
        what: "executions.cancel".into(),
        target: "run".into(),
        detail: r#"{"reason":"a \"test\""}"#.into(),
        damage: None,
    }
}

fn an_entry_keeps_every_field<S: Backend>(store: &S) {
    assert!(
        store
            .audit(&TenantFilter::Any, None, 10)
            .wait()
            .unwrap()
            .is_empty()
    );
    block_on(store.note(Vec::new())).unwrap();
    let bare = AuditEntry {
        by: "".into(),
        from: "".into(),
        what: "".into(),
        target: "".into(),
        detail: "".into(),
        ..entry(-1, None)
    };
    let full = entry(i64::MAX, Some("acme"));
    block_on(store.note(vec![bare.clone(), full.clone()])).unwrap();
    let found = store.audit(&TenantFilter::Any, None, 10).wait().unwrap();
    let entries: Vec<_> = found.iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(entries, [full, bare], "the last one noted comes first");
    assert!(found[0].0 > found[1].0);
}

fn entries_are_listed_newest_first<S: Backend>(store: &S) {
    let tenants = [None, Some("acme"), Some("beta")];
    for n in 0..30 {
        // The times do not decide.
        block_on(store.note(vec![entry(100 - n, tenants[n as usize % 3])])).unwrap();
    }
    let all = store.audit(&TenantFilter::Any, None, 100).wait().unwrap();
    let times: Vec<i64> = all.iter().map(|(_, entry)| entry.at.0).collect();
    assert_eq!(times, (71..=100).collect::<Vec<i64>>());
    for tenant in tenants {
        let only = TenantFilter::Only(tenant.map(Into::into));
        let mut before = None;
        let mut seen = Vec::new();
        loop {
            let page = store.audit(&only, before, 4).wait().unwrap();
            assert!(page.len() <= 4);
            let Some(last) = page.last() else { break };
            before = Some(last.0);
            seen.extend(page);
        }
        // A tenant's numbers count its own entries: a gap would tell of another's.
        let entries = all.iter().map(|(_, entry)| entry.clone());
        let entries = entries.filter(|entry| entry.tenant.as_deref() == tenant);
        let expected: Vec<_> = (1..=10).rev().zip(entries).collect();
        assert_eq!(seen, expected);
    }
    let nobody = TenantFilter::Only(Some("nobody".into()));
    assert!(store.audit(&nobody, None, 10).wait().unwrap().is_empty());
    let first = store
        .audit(&TenantFilter::Any, Some(all[29].0), 10)
        .wait()
        .unwrap();
    assert!(first.is_empty());
    let bounded = store
        .audit(&TenantFilter::Any, Some(u64::MAX), 2)
        .wait()
        .unwrap();
    assert_eq!(bounded, all[..2]);
}
