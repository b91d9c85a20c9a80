//! Whether a token is good, and whom it speaks for.
//!
//! RFC 7519 with the advice of RFC 8725: the algorithm is the key's, keys come from the
//! configured document only (`jku`, `x5u`, `jwk` are not looked at), `exp` must be there,
//! and extensions that must be understood are not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::Value;
use windlass_core::name::is_short_text;
use windlass_engine::names::is_tenant;

use super::principal::{Principal, Scopes};
use super::source::{KeySource, Keys, Rotation};
use crate::route::Scope;

/// The longest token, in bytes.
pub const MAX_TOKEN: usize = 8 * 1024;

/// Clocks that differ by more are wrong.
const MAX_LEEWAY: u64 = 30;

/// What tokens must say.
#[derive(Debug, Clone)]
pub struct JwtOptions {
    /// Where the keys are.
    pub keys: KeySource,
    /// When they are read again; by the kind of source where it is not said.
    pub rotation: Option<Rotation>,
    /// The issuer, where one is demanded.
    pub issuer: Option<String>,
    /// The audience, where one is demanded.
    pub audience: Option<String>,
    /// By how many seconds clocks may differ; 30 at most.
    pub leeway: u64,
}

impl JwtOptions {
    /// Tokens signed with these keys, whoever issued them for whom.
    #[must_use]
    pub fn new(keys: KeySource) -> Self {
        Self {
            keys,
            rotation: None,
            issuer: None,
            audience: None,
            leeway: 10,
        }
    }
}

/// Checks tokens.
pub(super) struct Verifier {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: u64,
}

/// The protected header, as far as it is looked at.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    sub: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    scp: Option<Listed>,
    /// One text, RFC 7519 section 4.1.1; the library would look for ours in a list.
    #[serde(default, rename = "iss")]
    _issuer: Option<String>,
}

/// `scp` is a list; some issuers write it like `scope`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    List(Vec<String>),
    Text(String),
}

impl Verifier {
    pub(super) async fn new(options: JwtOptions) -> Result<Self, String> {
        let rotation = options
            .rotation
            .unwrap_or_else(|| Rotation::of(&options.keys));
        Ok(Self {
            keys: Keys::read(options.keys, rotation).await?,
            issuer: options.issuer,
            audience: options.audience,
            leeway: options.leeway.min(MAX_LEEWAY),
        })
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.keys.failure()
    }

    /// Whom the token speaks for, or why it is refused.
    pub(super) async fn verify(&self, token: &str) -> Result<Principal, &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("the token is too large");
        }
        let header = header(token).ok_or("the token is no JWT")?;
        if header.crit.is_some() {
            return Err("the token demands an extension that is not known");
        }
        let algorithm = algorithm(&header.alg).ok_or("the token's algorithm is not allowed")?;
        let key = self
            .keys
            .find(header.kid.as_deref(), algorithm)
            .await
            .ok_or("the token's key is not known")?;
        let validation = self.validation(key.algorithm);
        let claims = jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation)
            .map_err(|error| reason(error.kind()))?
            .claims;
        principal(&claims, token)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.leeway;
        validation.validate_nbf = true;
        validation.validate_aud = self.audience.is_some();
        let mut required = vec!["exp"];
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &self.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

fn header(token: &str) -> Option<Header> {
    let mut parts = token.split('.');
    let (head, _, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let head = URL_SAFE_NO_PAD.decode(head).ok()?;
    serde_json::from_slice(&head).ok()
}

fn algorithm(name: &str) -> Option<Algorithm> {
    match name {
        "HS256" => Some(Algorithm::HS256),
        "RS256" => Some(Algorithm::RS256),
        "ES256" => Some(Algorithm::ES256),
        "EdDSA" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

fn principal(claims: &Claims, token: &str) -> Result<Principal, &'static str> {
    let tenant = claims.tenant_id.as_deref();
    // A name that cannot be one must not be taken for none.
    if tenant.is_some_and(|tenant| !is_tenant(tenant)) {
        return Err("the token's tenant_id is no name of a tenant");
    }
    let subject = claims.sub.as_deref().unwrap_or_default();
    // It is recorded with what the token does, and shown.
    if !is_short_text(subject) {
        return Err("the token's sub has more than 256 bytes, or control characters");
    }
    Ok(Principal::of(subject, tenant, scopes(claims), token))
}

fn scopes(claims: &Claims) -> Scopes {
    let text = claims.scope.as_deref().unwrap_or_default().split(' ');
    let listed: Vec<&str> = match &claims.scp {
        Some(Listed::List(names)) => names.iter().map(String::as_str).collect(),
        Some(Listed::Text(text)) => text.split(' ').collect(),
        None => Vec::new(),
    };
    text.chain(listed).filter_map(Scope::named).collect()
}

/// In words that help the honest and tell others nothing new.
fn reason(kind: &jsonwebtoken::errors::ErrorKind) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match kind {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::InvalidSignature => "the token's signature is wrong",
        ErrorKind::MissingRequiredClaim(claim) => match claim.as_str() {
            "exp" => "the token lacks the claim exp",
            "iss" => "the token lacks the claim iss",
            _ => "the token lacks the claim aud",
        },
        _ => "the token cannot be used",
    }
}
