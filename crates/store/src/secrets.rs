//! Secrets, sealed: a process that has the key can read them; a store never can.

use windlass_core::Millis;

use crate::{Error, Pending, TenantFilter};

/// A secret without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// Its name, unique within the tenant.
    pub name: Box<str>,
    /// When it was last set.
    pub updated_at: Millis,
    /// Why the entry cannot be relied on, if the stored row is damaged: then the other fields
    /// hold what could still be read, or are empty. Only lists return such entries.
    pub damage: Option<Box<str>>,
}

/// Sealed secrets. Each belongs to a tenant, or to none: the same name in two tenants
/// names two secrets.
pub trait Secrets: Send + Sync + 'static {
    /// Stores a secret in place of the one of that name; returns whether there was none. The
    /// old value is gone. Durable on return.
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
