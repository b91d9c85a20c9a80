//! Secrets, sealed: what they say is known to whoever has the key, and never to a store.

use windlass_core::Millis;

use crate::{Error, Pending, TenantFilter};

/// That there is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// Its name, which no other secret of the tenant has.
    pub name: Box<str>,
    /// When it was last set.
    pub updated_at: Millis,
    /// Why it cannot be relied on, if the stored row is damaged: then the rest is what could
    /// still be read of it, or left out. Only lists give such.
    pub damage: Option<Box<str>>,
}

/// Sealed secrets. Each belongs to a tenant, or to none: the same name in two tenants
/// names two secrets.
pub trait Secrets: Send + Sync + 'static {
    /// Keeps a secret in place of the one of that name; says whether there was none. The
    /// one before is gone. Durable on return.
    fn put_secret(
        &self,
        tenant: Option<&str>,
        name: &str,
        sealed: Vec<u8>,
        at: Millis,
    ) -> Pending<'_, Result<bool, Error>>;

    /// A secret as it was sealed.
    fn secret(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;

    /// The secrets of those tenants, by name, then by tenant, those after the given one.
    fn secrets(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>>;

    /// Forgets a secret; `false` if there is none of that name. Durable on return.
    fn remove_secret(&self, tenant: Option<&str>, name: &str) -> Pending<'_, Result<bool, Error>>;
}
