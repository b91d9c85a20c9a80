//! Sealed secrets in memory.

use std::future::ready;

use windlass_core::Millis;

use super::answer;
use crate::{Error, MemoryStore, Pending, SecretRow, Secrets, TenantFilter};

/// Name and tenant: the order of lists.
pub(super) type SecretKey = (Box<str>, Option<Box<str>>);

/// A secret as it is kept.
#[derive(Debug)]
pub(super) struct Sealed {
    bytes: Vec<u8>,
    at: Millis,
}

fn key(tenant: Option<&str>, name: &str) -> SecretKey {
    (name.into(), tenant.map(Into::into))
}

impl Secrets for MemoryStore {
    fn put_secret(
        &self,
        tenant: Option<&str>,
        name: &str,
        sealed: Vec<u8>,
        at: Millis,
    ) -> Pending<'_, Result<bool, Error>> {
        let sealed = Sealed { bytes: sealed, at };
        let before = self.state().secrets.insert(key(tenant, name), sealed);
        Box::pin(ready(Ok(before.is_none())))
    }

    fn secret(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            let state = self.state();
            let sealed = state.secrets.get(&key(tenant, name));
            Ok(sealed.map(|sealed| sealed.bytes.clone()))
        })
    }

    fn secrets(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>> {
        answer(|| {
            let after = after.map(|(name, tenant)| key(tenant, name));
            let state = self.state();
            let all = state.secrets.iter();
            let rest = all.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            let meant = rest.filter(|((_, owner), _)| tenant.matches(owner.as_deref()));
            let rows = meant.map(|((name, owner), sealed)| SecretRow {
                tenant: owner.clone(),
                name: name.clone(),
                updated_at: sealed.at,
                damage: None,
            });
            Ok(rows.take(limit).collect())
        })
    }

    fn remove_secret(&self, tenant: Option<&str>, name: &str) -> Pending<'_, Result<bool, Error>> {
        let removed = self.state().secrets.remove(&key(tenant, name));
        Box::pin(ready(Ok(removed.is_some())))
    }
}
