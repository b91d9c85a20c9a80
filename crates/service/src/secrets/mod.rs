//! Secrets that are kept with the runs: encrypted here with a key that is kept elsewhere, so
//! that the store, a backup and a reader of either hold only ciphertext.

mod hook;
mod key;
mod probe;
mod rotate;
mod seal;
mod source;

use std::sync::Arc;

use windlass_core::Millis;
use windlass_engine::Backend;
use windlass_store::{SecretRow, TenantFilter};

pub use hook::{HOOKS, MadeHook, make_hook, open_hook, remove_hook, seal_hooks, unknown_hook};
pub use key::SecretKeys;
pub use probe::check_shared_key;
pub use rotate::{Rotated, rotate};
pub use source::StoredSecrets;

use crate::failure::{Failure, FailureKind};
use key::Ring;

/// The longest name, in letters.
pub const NAME_LIMIT: usize = 128;

/// The largest value, in bytes.
pub const VALUE_LIMIT_BYTES: usize = 64 * 1024;

/// Keeps a secret in place of the one of that name; says whether there was none. Durable on
/// return.
///
/// # Errors
/// The name or the value is invalid, or there is no key to seal it with.
pub async fn set(
    store: &dyn Backend,
    keys: &SecretKeys,
    tenant: Option<&str>,
    name: &str,
    value: &str,
    at: Millis,
) -> Result<bool, Failure> {
    check_name(name)?;
    check_value(value)?;
    let _changing = keys.changing().await;
    let ring = keys_to_seal(store, keys).await?;
    let sealed = seal::seal(&ring, tenant, name, value)?;
    Ok(store.put_secret(tenant, name, sealed, at).await?)
}

/// The keys to seal with, which are made if nothing was ever sealed.
async fn keys_to_seal(store: &dyn Backend, keys: &SecretKeys) -> Result<Arc<Ring>, Failure> {
    match keys.existing()? {
        Some(ring) => Ok(ring),
        // The stored secrets were sealed with a key that is missing; a new key in its place
        // would make that harder to see.
        None if !store.secrets(&TenantFilter::Any, None, 1).await?.is_empty()
            || hook::any_sealed(store).await? =>
        {
            Err(keys.missing())
        }
        None => keys.make(),
    }
}

/// Forgets a secret. Durable on return.
///
/// # Errors
/// There is none of that name.
pub async fn remove(
    store: &dyn Backend,
    keys: &SecretKeys,
    tenant: Option<&str>,
    name: &str,
) -> Result<(), Failure> {
    check_name(name)?;
    let _changing = keys.changing().await;
    match store.remove_secret(tenant, name).await? {
        true => Ok(()),
        false => {
            let message = format!("there is no secret '{name}'");
            Err(Failure::new(FailureKind::SecretNotFound, message))
        }
    }
}

/// A secret in a list, which has nothing of its value.
pub fn item(row: &SecretRow) -> serde_json::Value {
    let mut item = serde_json::json!({
        "name": row.name,
        "tenantId": row.tenant,
        "updatedAt": row.updated_at.to_string(),
    });
    crate::listing::tell_damage(&mut item, row.damage.as_deref());
    item
}

/// Refuses an invalid name of a secret.
///
/// # Errors
/// The name is invalid.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(letter) {
        return Ok(());
    }
    // The message does not repeat the name: the user may have typed the value in its place.
    let message =
        format!("a secret's name is 1 to {NAME_LIMIT} letters, digits, underscores and hyphens");
    Err(Failure::new(FailureKind::SecretInvalid, message))
}

fn check_value(value: &str) -> Result<(), Failure> {
    if value.is_empty() {
        let message = "the secret's value is empty";
        return Err(Failure::new(FailureKind::SecretInvalid, message));
    }
    if value.len() > VALUE_LIMIT_BYTES {
        return Err(too_large());
    }
    Ok(())
}

/// What is wrong with a value past the limit.
pub fn too_large() -> Failure {
    let message = format!("a secret's value is at most {VALUE_LIMIT_BYTES} bytes");
    Failure::new(FailureKind::SecretTooLarge, message)
}

#[cfg(test)]
mod tests;
