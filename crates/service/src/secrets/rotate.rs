//! A new key for everything that is sealed. The new one is put in front of the old one first,
//! then each secret is sealed anew, then the old one is dropped: wherever that breaks off,
//! everything can be opened, and the next try goes on.

use windlass_engine::Backend;
use windlass_store::{SecretRow, TenantFilter};

use super::key::Ring;
use super::{SecretKeys, hook, probe, seal};
use crate::failure::{Failure, FailureKind};

/// How many secrets are listed together.
const PAGE: usize = 200;

/// What was sealed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// How many secrets.
    pub secrets: usize,
    /// How many secrets of hooks.
    pub hooks: usize,
}

/// Seals everything with a new key, and forgets the old one.
///
/// # Errors
/// There is no key, it was given and not in a file, or something cannot be opened: then the old
/// key is kept for it.
pub async fn rotate(store: &dyn Backend, keys: &SecretKeys) -> Result<Rotated, Failure> {
    let ring = keys.begin_change()?;
    let mut rotated = Rotated::default();
    let mut lost = Vec::new();
    for row in all(store).await? {
        match reseal(store, keys, &ring, &row).await? {
            Some(anew) => rotated.secrets += usize::from(anew),
            None => lost.push(format!("the secret '{}'", row.name)),
        }
    }
    let (hooks, lost_hooks) = hook::reseal(store, keys, &ring).await?;
    rotated.hooks = hooks;
    lost.extend(lost_hooks);
    if !lost.is_empty() {
        let message = format!(
            "the old key is kept, since this cannot be opened: {}",
            lost.join(", ")
        );
        return Err(Failure::new(FailureKind::SecretKeyUnusable, message)
            .hint("set or remove what is named, and rotate again"));
    }
    probe::reseal(store, &ring).await?;
    keys.end_change(&ring)?;
    Ok(rotated)
}

/// Whether a secret was sealed anew; nothing, if it cannot be opened.
async fn reseal(
    store: &dyn Backend,
    keys: &SecretKeys,
    ring: &Ring,
    row: &SecretRow,
) -> Result<Option<bool>, Failure> {
    // Only this secret must not change between the read and the write.
    let _changing = keys.changing().await;
    let (tenant, name) = (row.tenant.as_deref(), &*row.name);
    let sealed = match store.secret(tenant, name).await {
        Ok(Some(sealed)) => sealed,
        // It was removed meanwhile.
        Ok(None) => return Ok((row.damage.is_none()).then_some(false)),
        Err(windlass_store::Error::Damaged(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if seal::is_new(ring, tenant, name, &sealed) {
        return Ok(Some(false));
    }
    let Ok(value) = seal::open(ring, tenant, name, &sealed) else {
        return Ok(None);
    };
    let anew = seal::seal(ring, tenant, name, &value)?;
    store.put_secret(tenant, name, anew, row.updated_at).await?;
    Ok(Some(true))
}

pub(super) async fn all(store: &dyn Backend) -> Result<Vec<SecretRow>, Failure> {
    let mut rows: Vec<SecretRow> = Vec::new();
    loop {
        let last = rows.last();
        let after = last.map(|last| (&*last.name, last.tenant.as_deref()));
        let page = store.secrets(&TenantFilter::Any, after, PAGE).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}
