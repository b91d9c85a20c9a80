//! Whether a process has the sealing key of its cluster. No process of a cluster makes a key, so
//! the first one that has a key leaves a sealed value in the store, and every other one must be
//! able to open it: with another key it would seal secrets that the rest cannot read.

use windlass_engine::Backend;

use super::key::Ring;
use super::{SecretKeys, rotate, seal};
use crate::failure::{Failure, FailureKind};

/// Where the sealed value stands among the notes.
const KIND: &str = "sealing-probe";
const KEY: &str = "1";

/// What it is bound to: no secret has such a name.
const NAME: &str = "sealing probe";
const VALUE: &str = "windlass";

/// Checks the key of a process that shares its store with others. One that never reads secrets
/// needs none.
///
/// # Errors
/// Its key is another than that of the cluster, or it needs the key and has none.
pub async fn check_shared_key(
    store: &dyn Backend,
    keys: &SecretKeys,
    reads_secrets: bool,
) -> Result<(), Failure> {
    let stored = store.note_at(KIND, KEY).await?;
    let Some(ring) = keys.existing()? else {
        return match stored {
            Some(_) if reads_secrets => Err(missing(keys)),
            _ => Ok(()),
        };
    };
    if stored.is_none() {
        opens_secrets(store, &ring).await?;
        put(store, &ring).await?;
    }
    // Read again: another process may have been the first.
    match store.note_at(KIND, KEY).await? {
        Some(sealed) if seal::open(&ring, None, NAME, &sealed).is_err() => Err(wrong()),
        _ => Ok(()),
    }
}

/// Seals the value with the newest key, if there is one: after that the old keys are not given to
/// any process.
pub(super) async fn reseal(store: &dyn Backend, ring: &Ring) -> Result<(), Failure> {
    match store.note_at(KIND, KEY).await? {
        Some(sealed) if !seal::is_new(ring, None, NAME, &sealed) => put(store, ring).await,
        _ => Ok(()),
    }
}

async fn put(store: &dyn Backend, ring: &Ring) -> Result<(), Failure> {
    let sealed = seal::seal(ring, None, NAME, VALUE)?;
    Ok(store.keep_note(KIND, KEY, sealed).await?)
}

/// What was sealed before there was such a value must open too.
async fn opens_secrets(store: &dyn Backend, ring: &Ring) -> Result<(), Failure> {
    let rows = rotate::all(store).await?;
    let Some(row) = rows.iter().find(|row| row.damage.is_none()) else {
        return Ok(());
    };
    let (tenant, name) = (row.tenant.as_deref(), &*row.name);
    match store.secret(tenant, name).await? {
        Some(sealed) if seal::open(ring, tenant, name, &sealed).is_err() => Err(wrong()),
        _ => Ok(()),
    }
}

fn wrong() -> Failure {
    let message = "the sealing key of this process is not the one of its cluster: what other \
                   processes have sealed cannot be opened with it";
    Failure::new(FailureKind::SecretKeyUnusable, message).hint(
        "give it the key of the other processes in WINDLASS_SEALING_KEY or `sealing_key_file`; \
         docs/postgres.md says what to do if that key is lost",
    )
}

fn missing(keys: &SecretKeys) -> Failure {
    let message = format!(
        "this cluster seals secrets, and this process has no key: {keys:?} is missing; API and \
         worker processes need it"
    );
    Failure::new(FailureKind::SecretKeyUnusable, message).hint(
        "give it the key of the other processes in WINDLASS_SEALING_KEY or `sealing_key_file`",
    )
}
