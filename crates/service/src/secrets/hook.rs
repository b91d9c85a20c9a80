//! The signing secrets of hooks: sealed like other secrets, since the store must not know them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use windlass_core::{Digest, Millis};
use windlass_engine::Backend;
use windlass_store::{Hook, TenantFilter};

use super::key::Ring;
use super::{SecretKeys, keys_to_seal, seal};
use crate::failure::{Failure, FailureKind};

/// How many hooks a tenant may have.
pub const HOOKS: usize = 1000;

/// What a sealed one begins with; one that does not is from before they were sealed.
const SEALED: &str = "sealed:";

/// How many are read together.
const PAGE: usize = 200;

/// A hook that was made, with its signing secret, which is shown only now.
#[derive(Clone)]
pub struct MadeHook {
    /// The hook, as it is kept.
    pub hook: Hook,
    /// What its address ends with.
    pub token: String,
    /// What requests are signed with.
    pub secret: String,
}

/// The name under which the secret of a hook is sealed; no other secret can have such a name.
fn place(id: &str) -> String {
    format!("hook/{id}")
}

/// Makes a hook, in place of the one of that id. Durable on return.
///
/// # Errors
/// It cannot be used, there are too many, or there is no key to seal its secret with.
pub async fn make_hook(
    store: &dyn Backend,
    keys: &SecretKeys,
    tenant: Option<Box<str>>,
    (id, workflow): (&str, &str),
    at: Millis,
) -> Result<MadeHook, Failure> {
    if !is_id(id) || !is_id(workflow) {
        let message = "ids have from 1 to 128 letters, digits, '-' and '_'";
        return Err(Failure::new(FailureKind::HookInvalid, message));
    }
    let (token, secret) = (random()?, random()?);
    let _changing = keys.changing().await;
    let ring = keys_to_seal(store, keys).await?;
    let hook = Hook {
        id: id.into(),
        workflow: workflow.into(),
        token: Digest::of(token.as_bytes()),
        secret: sealed(&ring, tenant.as_deref(), id, &secret)?,
        tenant,
        created_at: at,
        damage: None,
    };
    if !store.put_hook(hook.clone(), HOOKS).await? {
        let message = format!("there are {HOOKS} hooks already");
        return Err(Failure::new(FailureKind::TooManyHooks, message)
            .hint("remove those that are not needed"));
    }
    Ok(MadeHook {
        hook,
        token,
        secret,
    })
}

/// Removes a hook. Durable on return.
///
/// # Errors
/// There is none of that id.
pub async fn remove_hook(
    store: &dyn Backend,
    keys: &SecretKeys,
    tenant: Option<&str>,
    id: &str,
) -> Result<(), Failure> {
    let _changing = keys.changing().await;
    match store.remove_hook(tenant, id).await? {
        true => Ok(()),
        false => Err(unknown_hook()),
    }
}

/// There is no such hook.
pub fn unknown_hook() -> Failure {
    Failure::new(FailureKind::HookNotFound, "there is no such hook")
        .hint("`windlass hooks` lists them")
}

/// What requests to a hook are signed with.
///
/// # Errors
/// The key that sealed it is missing, or it is damaged.
pub fn open_hook(keys: &SecretKeys, hook: &Hook) -> Result<String, Failure> {
    let Some(text) = hook.secret.strip_prefix(SEALED) else {
        return Ok(hook.secret.to_string());
    };
    let unusable = |why: &dyn std::fmt::Display| {
        let message = format!("the secret of the hook '{}' cannot be read: {why}", hook.id);
        Failure::new(FailureKind::SecretKeyUnusable, message)
    };
    let ring = keys.existing()?.ok_or_else(|| keys.missing())?;
    let bytes = STANDARD.decode(text).map_err(|error| unusable(&error))?;
    let opened = seal::open(&ring, hook.tenant.as_deref(), &place(&hook.id), &bytes);
    opened.map_err(|why| unusable(&why))
}

/// Seals what was stored before secrets of hooks were sealed; says how many there were.
///
/// # Errors
/// The store failed, or there is no key.
pub async fn seal_hooks(store: &dyn Backend, keys: &SecretKeys) -> Result<usize, Failure> {
    let _changing = keys.changing().await;
    let mut count = 0;
    for hook in all(store).await? {
        if hook.damage.is_none() && !hook.secret.starts_with(SEALED) {
            let ring = keys_to_seal(store, keys).await?;
            put(store, &ring, &hook, &hook.secret).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// Seals the secrets of all hooks anew; gives how many, and those that cannot be opened.
pub(super) async fn reseal(
    store: &dyn Backend,
    keys: &SecretKeys,
    ring: &Ring,
) -> Result<(usize, Vec<String>), Failure> {
    let (mut count, mut lost) = (0, Vec::new());
    for hook in all(store).await? {
        // Only this hook must not change between the read and the write.
        let _changing = keys.changing().await;
        let found = store.hook_of(&hook.token).await.ok().flatten();
        if hook.damage.is_none() && found.is_none() {
            continue;
        }
        match found.as_ref().map(|hook| (hook, open_hook(keys, hook))) {
            Some((hook, Ok(secret))) => {
                if !is_new(ring, hook) {
                    put(store, ring, hook, &secret).await?;
                    count += 1;
                }
            }
            _ => lost.push(format!("the hook '{}'", hook.id)),
        }
    }
    Ok((count, lost))
}

fn is_new(ring: &Ring, hook: &Hook) -> bool {
    let text = hook.secret.strip_prefix(SEALED);
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    let tenant = hook.tenant.as_deref();
    bytes.is_some_and(|bytes| seal::is_new(ring, tenant, &place(&hook.id), &bytes))
}

async fn put(store: &dyn Backend, ring: &Ring, hook: &Hook, secret: &str) -> Result<(), Failure> {
    let hook = Hook {
        secret: sealed(ring, hook.tenant.as_deref(), &hook.id, secret)?,
        ..hook.clone()
    };
    store.put_hook(hook, usize::MAX).await?;
    Ok(())
}

fn sealed(ring: &Ring, tenant: Option<&str>, id: &str, secret: &str) -> Result<Box<str>, Failure> {
    let bytes = seal::seal(ring, tenant, &place(id), secret)?;
    Ok(format!("{SEALED}{}", STANDARD.encode(bytes)).into())
}

/// Whether the secret of any hook is sealed.
pub(super) async fn any_sealed(store: &dyn Backend) -> Result<bool, Failure> {
    let is_sealed = |hook: &Hook| hook.damage.is_some() || hook.secret.starts_with(SEALED);
    Ok(all(store).await?.iter().any(is_sealed))
}

async fn all(store: &dyn Backend) -> Result<Vec<Hook>, Failure> {
    let mut hooks: Vec<Hook> = Vec::new();
    loop {
        let last = hooks.last();
        let after = last.map(|last| (&*last.id, last.tenant.as_deref()));
        let page = store.hooks(&TenantFilter::Any, after, PAGE).await?;
        if page.is_empty() {
            return Ok(hooks);
        }
        hooks.extend(page);
    }
}

fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    !id.is_empty() && id.len() <= 128 && id.bytes().all(plain)
}

/// Thirty-two random bytes as text.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = format!("there is no randomness: {error}");
        Failure::new(FailureKind::SecretKeyUnusable, message)
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
