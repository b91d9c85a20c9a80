//! Sealing: XChaCha20-Poly1305 with a random nonce. The secret's tenant and name are
//! authenticated with it, so that one sealed value cannot be put in another's place.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::key::{Ring, SealingKey};
use crate::failure::{Failure, FailureKind};

/// The first byte of what is sealed so: the version, the nonce, then the rest.
const VERSION: u8 = 1;

const NONCE_BYTES: usize = 24;

/// Why something that was sealed cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A version that this program does not know, or nothing of the kind.
    Unknown,
    /// Another key sealed it, or it was changed.
    Forged,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it is damaged, or a newer version sealed it",
            Self::Forged => "it was sealed with another key, or is damaged",
        })
    }
}

pub(super) fn seal(
    ring: &Ring,
    tenant: Option<&str>,
    name: &str,
    value: &str,
) -> Result<Vec<u8>, Failure> {
    let failed = |what: &dyn std::fmt::Display| {
        let message = format!("the secret cannot be sealed: {what}");
        Failure::new(FailureKind::SecretKeyUnusable, message)
    };
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| failed(&error))?;
    let aad = place(tenant, name);
    let payload = Payload {
        msg: value.as_bytes(),
        aad: &aad,
    };
    let cipher = XChaCha20Poly1305::new(&ring.first.0.into());
    let closed = cipher.encrypt(&XNonce::from(nonce), payload);
    let closed = closed.map_err(|error| failed(&error))?;
    let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + closed.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&closed);
    Ok(sealed)
}

/// Whether the key that seals now has sealed it.
pub(super) fn is_new(ring: &Ring, tenant: Option<&str>, name: &str, sealed: &[u8]) -> bool {
    open_with(&ring.first, tenant, name, sealed).is_ok()
}

pub(super) fn open(
    ring: &Ring,
    tenant: Option<&str>,
    name: &str,
    sealed: &[u8],
) -> Result<String, Unreadable> {
    let mut opened = open_with(&ring.first, tenant, name, sealed);
    for key in &ring.old {
        if opened == Err(Unreadable::Forged) {
            opened = open_with(key, tenant, name, sealed);
        }
    }
    opened
}

fn open_with(
    key: &SealingKey,
    tenant: Option<&str>,
    name: &str,
    sealed: &[u8],
) -> Result<String, Unreadable> {
    let rest = match sealed.split_first() {
        Some((&VERSION, rest)) => rest,
        _ => return Err(Unreadable::Unknown),
    };
    let (nonce, closed) = rest
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or(Unreadable::Unknown)?;
    let aad = place(tenant, name);
    let payload = Payload {
        msg: closed,
        aad: &aad,
    };
    let cipher = XChaCha20Poly1305::new(&key.0.into());
    let opened = cipher.decrypt(&XNonce::from(*nonce), payload);
    let opened = opened.map_err(|_| Unreadable::Forged)?;
    String::from_utf8(opened).map_err(|_| Unreadable::Unknown)
}

/// What a secret is bound to, in an unambiguous form.
fn place(tenant: Option<&str>, name: &str) -> Vec<u8> {
    let mut place = b"windlass secret".to_vec();
    place.push(VERSION);
    match tenant {
        None => place.push(0),
        Some(tenant) => {
            place.push(1);
            place.extend_from_slice(&(tenant.len() as u64).to_le_bytes());
            place.extend_from_slice(tenant.as_bytes());
        }
    }
    place.extend_from_slice(name.as_bytes());
    place
}
