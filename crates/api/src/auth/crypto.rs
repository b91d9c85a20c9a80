//! Signatures of tokens by `ring`, which TLS brings along anyway. The crates that
//! `jsonwebtoken` would bring for the same four algorithms take longer to build than the
//! server's own code.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{self as ring_signature, RsaPublicKeyComponents, UnparsedPublicKey};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // Keys are read here, in `key`.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes these the signatures of this process. Whatever was installed before stays.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

/// Only development tokens are signed here, with a shared secret.
fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => Ok(Box::new(Hmac::new(key.as_bytes()))),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let public = |check| {
        let key = key.clone();
        let algorithm = *algorithm;
        Box::new(Public {
            algorithm,
            key,
            check,
        })
    };
    Ok(match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => Box::new(Hmac::new(key.try_get_as_bytes()?)),
        (Algorithm::RS256, AlgorithmFamily::Rsa) => public(check_rsa),
        (Algorithm::ES256, AlgorithmFamily::Ec) => public(check_p256),
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => public(check_ed25519),
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}

struct Hmac(hmac::Key);

impl Hmac {
    fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }
}

impl Signer<Vec<u8>> for Hmac {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hmac {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| Error::new())
    }
}

impl JwtSigner for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// Says whether a signature of a message is of a key; nothing if it is not.
type Check = fn(&DecodingKey, &[u8], &[u8]) -> Option<()>;

struct Public {
    algorithm: Algorithm,
    key: DecodingKey,
    check: Check,
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        (self.check)(&self.key, message, signature).ok_or_else(Error::new)
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn check_rsa(key: &DecodingKey, message: &[u8], signature: &[u8]) -> Option<()> {
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        return None;
    };
    RsaPublicKeyComponents { n, e }
        .verify(
            &ring_signature::RSA_PKCS1_2048_8192_SHA256,
            message,
            signature,
        )
        .ok()
}

fn check_p256(key: &DecodingKey, message: &[u8], signature: &[u8]) -> Option<()> {
    let point = key.try_get_as_bytes().ok()?;
    UnparsedPublicKey::new(&ring_signature::ECDSA_P256_SHA256_FIXED, point)
        .verify(message, signature)
        .ok()
}

fn check_ed25519(key: &DecodingKey, message: &[u8], signature: &[u8]) -> Option<()> {
    let point = key.try_get_as_bytes().ok()?;
    UnparsedPublicKey::new(&ring_signature::ED25519, point)
        .verify(message, signature)
        .ok()
}
