//! Where runs take secrets from: the secrets stored for their tenant; for runs without a tenant
//! then another source.

use std::sync::Arc;

use windlass_engine::{Backend, SecretError, SecretSource};
use windlass_store::{Error, Pending, Wait as _};

use super::key::SecretKeys;
use super::seal;

/// Stored secrets first. Others come from a second source, e.g. the variables of the process,
/// but only for runs without a tenant: those variables are the operator's.
pub struct StoredSecrets {
    store: Arc<dyn Backend>,
    keys: Arc<SecretKeys>,
    rest: Arc<dyn SecretSource>,
}

impl StoredSecrets {
    /// The secrets of a store, opened with these keys.
    pub fn new(
        store: Arc<dyn Backend>,
        keys: Arc<SecretKeys>,
        rest: Arc<dyn SecretSource>,
    ) -> Self {
        Self { store, keys, rest }
    }

    fn open(&self, tenant: Option<&str>, name: &str, sealed: &[u8]) -> Result<String, SecretError> {
        let unreadable = |why: &dyn std::fmt::Display| SecretError {
            message: format!("the secret '{name}' cannot be read: {why}").into(),
            retriable: false,
        };
        let key = self.keys.existing();
        let key = key.map_err(|failure| unreadable(&failure.message))?;
        let key = key.ok_or_else(|| unreadable(&format!("{:?} is missing", self.keys)))?;
        seal::open(&key, tenant, name, sealed).map_err(|why| unreadable(&why))
    }
}

impl SecretSource for StoredSecrets {
    fn secret(&self, name: &str) -> Option<String> {
        self.secret_of(None, name).wait().ok().flatten()
    }

    fn secret_of(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<String>, SecretError>> {
        let (tenant, name) = (tenant.map(str::to_owned), name.to_owned());
        Box::pin(async move {
            let tenant = tenant.as_deref();
            let stored = self.store.secret(tenant, &name).await;
            let stored = stored.map_err(|error| SecretError {
                message: format!("the secret '{name}' cannot be read: {error}").into(),
                retriable: !matches!(error, Error::Damaged(_) | Error::TooNew(_)),
            })?;
            match stored {
                Some(sealed) => self.open(tenant, &name, &sealed).map(Some),
                None if tenant.is_none() => self.rest.secret_of(None, &name).await,
                None => Ok(None),
            }
        })
    }
}
