//! Keys of a JWKS document (RFC 7517), each pinned to one algorithm.
//!
//! The algorithm is the key's and never the token's: what a token says of itself only
//! selects among keys that agree.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use super::crypto;
use crate::limit;

/// The largest document that is read.
pub(super) const MAX_DOCUMENT: usize = 1024 * 1024;

/// RFC 7518, section 3.2: a key as long as the digest, at least.
const MIN_SECRET: usize = 32;

/// RFC 7518, section 3.3: 2048 bits at least.
const MIN_MODULUS: usize = 256;

/// A digest of a key.
pub(super) type Print = crate::limit::BucketKey;

/// The keys of one document.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<VerificationKey>,
}

/// A key that checks signatures of one algorithm.
#[derive(Debug, Clone)]
pub(super) struct VerificationKey {
    pub(super) id: Option<Box<str>>,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
    /// A digest of what the key is made of, whatever it is called.
    pub(super) print: Print,
    /// The secret itself, where it is one, to sign development tokens.
    pub(super) secret: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

/// Members of a JWK, RFC 7517 section 4 and RFC 7518 section 6.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    kid: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

impl KeySet {
    /// Reads a document. Keys of kinds that are not known are left out, as RFC 7517 section
    /// 5 has it.
    ///
    /// # Errors
    ///
    /// If it is no JWKS document, or there is no key in it that can be used; with the reason.
    pub(super) fn parse(document: &[u8]) -> Result<Self, String> {
        crypto::install();
        if document.len() > MAX_DOCUMENT {
            return Err(format!("it is larger than {MAX_DOCUMENT} bytes"));
        }
        let document: Document = serde_json::from_slice(document)
            .map_err(|error| format!("it is no JWKS document: {error}"))?;
        let mut refused = Vec::new();
        let mut keys = Vec::new();
        for value in document.keys {
            match serde_json::from_value(value)
                .map_err(|error| error.to_string())
                .and_then(key)
            {
                Ok(key) => keys.push(key),
                Err(reason) => refused.push(reason),
            }
        }
        if keys.is_empty() {
            return Err(format!("it has no key of use: {}", refused.join("; ")));
        }
        Ok(Self { keys })
    }

    /// The key for a token: the one of its id; without an id, the only one there is for its
    /// algorithm.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&VerificationKey> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithm == algorithm && (id.is_none() || key.id.as_deref() == id));
        let first = fitting.next()?;
        match fitting.next() {
            Some(_) if id.is_none() => None,
            _ => Some(first),
        }
    }

    /// Whether a key is still among them.
    pub(super) fn has(&self, print: &Print) -> bool {
        self.keys.iter().any(|key| key.print == *print)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// A key that can sign.
    pub(super) fn secret(&self) -> Option<&VerificationKey> {
        self.keys.iter().find(|key| key.secret.is_some())
    }
}

fn key(jwk: Jwk) -> Result<VerificationKey, String> {
    if jwk
        .purpose
        .as_deref()
        .is_some_and(|purpose| purpose != "sig")
    {
        return Err("a key is not for signatures".to_owned());
    }
    let verifies = |ops: &Vec<String>| ops.iter().any(|op| op == "verify" || op == "sign");
    if jwk.key_ops.as_ref().is_some_and(|ops| !verifies(ops)) {
        return Err("a key is not for signatures".to_owned());
    }
    let mut secret = None;
    let print = |name: &str, parts: &[&[u8]]| limit::key(&[&[name.as_bytes()], parts].concat());
    let (algorithm, name, decoding, print) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("oct", _) => {
            let bytes = part(jwk.k.as_deref(), "k", MIN_SECRET..=MAX_DOCUMENT)?;
            let decoding = DecodingKey::from_secret(&bytes);
            let print = print("HS256", &[&bytes]);
            secret = Some(bytes);
            (Algorithm::HS256, "HS256", decoding, print)
        }
        ("RSA", _) => {
            let modulus = part(jwk.n.as_deref(), "n", MIN_MODULUS..=1024)?;
            let exponent = part(jwk.e.as_deref(), "e", 1..=8)?;
            let decoding = DecodingKey::from_rsa_raw_components(&modulus, &exponent);
            let print = print("RS256", &[&modulus, &exponent]);
            (Algorithm::RS256, "RS256", decoding, print)
        }
        ("EC", Some("P-256")) => {
            // The uncompressed point: SEC 1, section 2.3.3.
            let mut point = vec![4];
            point.extend(part(jwk.x.as_deref(), "x", 32..=32)?);
            point.extend(part(jwk.y.as_deref(), "y", 32..=32)?);
            let decoding = DecodingKey::from_ec_der(&point);
            (
                Algorithm::ES256,
                "ES256",
                decoding,
                print("ES256", &[&point]),
            )
        }
        ("OKP", Some("Ed25519")) => {
            let bytes = part(jwk.x.as_deref(), "x", 32..=32)?;
            let decoding = DecodingKey::from_ed_der(&bytes);
            (
                Algorithm::EdDSA,
                "EdDSA",
                decoding,
                print("EdDSA", &[&bytes]),
            )
        }
        (kind, curve) => {
            let curve = curve.unwrap_or("no curve");
            return Err(format!("keys of kind {kind:?} with {curve:?} are not used"));
        }
    };
    // RFC 9864 calls EdDSA with this curve Ed25519.
    let agrees = |alg: &str| alg == name || name == "EdDSA" && alg == "Ed25519";
    if let Some(alg) = jwk.alg.as_deref().filter(|alg| !agrees(alg)) {
        return Err(format!(
            "a key is for {alg:?}; {name} is what is used with it"
        ));
    }
    Ok(VerificationKey {
        id: jwk.kid.map(Into::into),
        algorithm,
        decoding,
        print,
        secret,
    })
}

fn part(
    text: Option<&str>,
    name: &str,
    length: std::ops::RangeInclusive<usize>,
) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("a key has no {name:?}"))?;
    let bytes = URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .map_err(|_| format!("a key's {name:?} is not base64url"))?;
    if !length.contains(&bytes.len()) {
        return Err(format!("a key's {name:?} has {} bytes", bytes.len()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(key: &str) -> String {
        KeySet::parse(format!("{{\"keys\": [{key}]}}").as_bytes()).unwrap_err()
    }

    #[test]
    fn weak_and_strange_keys_are_refused() {
        assert!(refusal("").contains("no key of use"));
        assert!(refusal("{\"kty\": \"oct\", \"k\": \"c2hvcnQ\"}").contains("5 bytes"));
        assert!(
            refusal("{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"AA\"}").contains("1 bytes")
        );
        assert!(refusal("{\"kty\": \"EC\", \"crv\": \"P-384\"}").contains("not used"));
        assert!(
            refusal("{\"kty\": \"RSA\", \"n\": \"AQAB\", \"e\": \"AQAB\"}").contains("3 bytes")
        );
        let secret = "A".repeat(43);
        let other = format!("{{\"kty\": \"oct\", \"alg\": \"RS256\", \"k\": \"{secret}\"}}");
        assert!(refusal(&other).contains("RS256"));
        let sealing = format!("{{\"kty\": \"oct\", \"use\": \"enc\", \"k\": \"{secret}\"}}");
        assert!(refusal(&sealing).contains("not for signatures"));
    }

    #[test]
    fn without_an_id_only_a_lone_key_fits() {
        let secret = "A".repeat(43);
        let key =
            |id: &str| format!("{{\"kty\": \"oct\", \"kid\": \"{id}\", \"k\": \"{secret}\"}}");
        let set = |keys: &[String]| {
            KeySet::parse(format!("{{\"keys\": [{}]}}", keys.join(",")).as_bytes()).unwrap()
        };
        let two = set(&[key("a"), key("b")]);
        assert!(two.find(None, Algorithm::HS256).is_none());
        assert!(two.find(Some("b"), Algorithm::HS256).is_some());
        assert!(two.find(Some("c"), Algorithm::HS256).is_none());
        assert!(two.find(Some("b"), Algorithm::RS256).is_none());
        assert!(set(&[key("a")]).find(None, Algorithm::HS256).is_some());
    }
}
