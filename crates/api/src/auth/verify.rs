//! Whether a token is valid, and which principal it stands for.
//!
//! RFC 7519 with the advice of RFC 8725: the algorithm is the key's, keys come from the
//! configured document only (`jku`, `x5u`, `jwk` are not looked at), `exp` is required, and
//! tokens with critical extensions (`crit`) are refused.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use windlass_core::name::is_short_text;
use windlass_engine::names::is_tenant;

use super::principal::{Credential, Principal, Scopes};
use super::source::{KEY_GRACE, KeySource, Keys, Rotation};
use crate::route::TokenScope;

/// The longest token, in bytes.
pub const MAX_TOKEN: usize = 8 * 1024;

/// The largest tolerated difference between clocks.
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
    /// How long keys that were read stay good while they cannot be read again.
    pub grace: Duration,
    /// Whether every token must name its tenant.
    pub require_tenant: bool,
}

impl JwtOptions {
    /// Accepts tokens signed with these keys, of any issuer and for any audience.
    #[must_use]
    pub fn new(keys: KeySource) -> Self {
        Self {
            keys,
            rotation: None,
            issuer: None,
            audience: None,
            leeway: 10,
            grace: KEY_GRACE,
            require_tenant: false,
        }
    }
}

/// Checks tokens.
pub(super) struct Verifier {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: u64,
    require_tenant: bool,
}

/// The protected header, as far as it is looked at.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
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
    /// The library would ignore times that are not numbers.
    exp: f64,
    #[serde(default, deserialize_with = "moment")]
    iat: Option<f64>,
    #[serde(default, rename = "nbf", deserialize_with = "moment")]
    _not_before: Option<f64>,
}

/// A moment that is there: null is none.
fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    f64::deserialize(deserializer).map(Some)
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
            keys: Keys::read(options.keys, rotation, options.grace).await?,
            issuer: options.issuer,
            audience: options.audience,
            leeway: options.leeway.min(MAX_LEEWAY),
            require_tenant: options.require_tenant,
        })
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Waits until a valid token becomes invalid: it has expired, or its key is gone.
    pub(super) async fn ended(&self, credential: Credential) {
        let leeway = Duration::from_secs(self.leeway);
        let now = since_epoch();
        let expires = match credential.expires {
            // It is taken for as long as clocks may differ.
            past if past <= now => past + leeway,
            expires => expires,
        };
        loop {
            let left = expires.saturating_sub(since_epoch());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(self.keys.max_age())).await;
            if !self.keys.has(&credential.key).await {
                return;
            }
        }
    }

    /// The principal of the token, or why it is refused.
    pub(super) async fn verify(&self, token: &str) -> Result<Principal, &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("the token is too large");
        }
        let header = header(token)?;
        let algorithm = algorithm(&header.alg).ok_or("the token's algorithm is not allowed")?;
        let key = self.keys.find(header.kid.as_deref(), algorithm).await?;
        let validation = self.validation(key.algorithm);
        let claims = jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation)
            .map_err(|error| reason(error.kind()))?
            .claims;
        let latest = since_epoch().as_secs_f64() + self.leeway as f64;
        if claims.iat.is_some_and(|issued| issued > latest) {
            return Err("the token is issued in the future");
        }
        if self.require_tenant && claims.tenant_id.is_none() {
            return Err("the token lacks the claim tenant_id, which this server requires");
        }
        let credential = Credential {
            expires: Duration::try_from_secs_f64(claims.exp).unwrap_or(Duration::ZERO),
            key: key.print,
        };
        Ok(principal(&claims, token)?.with(credential))
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

fn header(token: &str) -> Result<Header, &'static str> {
    const STRANGE: &str = "the token is no JWT";
    let mut parts = token.split('.');
    let (Some(head), Some(_), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(STRANGE);
    };
    let head = URL_SAFE_NO_PAD.decode(head).map_err(|_| STRANGE)?;
    // RFC 7515, section 4.1.11: a verifier refuses extensions that it does not know. None is
    // known here, so an empty list, null and other spellings are refused as well.
    let members: Map<String, Value> = serde_json::from_slice(&head).map_err(|_| STRANGE)?;
    if members.keys().any(|name| name.eq_ignore_ascii_case("crit")) {
        return Err("the token demands an extension that is not known");
    }
    // Parsed from the text again, which refuses a repeated member.
    serde_json::from_slice(&head).map_err(|_| STRANGE)
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or(Duration::ZERO)
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
    // An invalid tenant name must not count as no tenant.
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
    text.chain(listed).filter_map(TokenScope::named).collect()
}

/// The message helps a legitimate caller and tells an attacker nothing new.
fn reason(kind: &jsonwebtoken::errors::ErrorKind) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match kind {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::InvalidSignature => "the token's signature is wrong",
        ErrorKind::MissingRequiredClaim(claim) => match claim.as_str() {
            "exp" => "the token has no claim exp that is a time",
            "iss" => "the token lacks the claim iss",
            _ => "the token lacks the claim aud",
        },
        ErrorKind::Json(_) => "the token's claims cannot be read: it needs exp as a number",
        _ => "the token cannot be used",
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::EncodingKey;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fuzz::{changed, changes, rounds};

    const SECRET: [u8; 32] = [7; 32];

    struct World {
        runtime: tokio::runtime::Runtime,
        verifier: Verifier,
        _folder: tempfile::TempDir,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        let key = json!({"kty": "oct", "kid": "s", "k": URL_SAFE_NO_PAD.encode(SECRET)});
        std::fs::write(&file, json!({"keys": [key]}).to_string()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let options = JwtOptions {
            rotation: Some(Rotation {
                min_interval: Duration::from_secs(3600),
                max_age: Duration::from_secs(7200),
            }),
            ..JwtOptions::new(KeySource::File(file))
        };
        let verifier = runtime.block_on(Verifier::new(options)).unwrap();
        World {
            runtime,
            verifier,
            _folder: folder,
        }
    }

    impl World {
        fn verify(&self, token: &str) -> Result<Principal, &'static str> {
            self.runtime.block_on(self.verifier.verify(token))
        }
    }

    fn signed(header: &str, claims: &str) -> String {
        let (header, claims) = (
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims),
        );
        let message = format!("{header}.{claims}");
        super::super::crypto::install();
        let key = EncodingKey::from_secret(&SECRET);
        let code = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256);
        format!("{message}.{}", code.unwrap())
    }

    const HEADER: &str = r#"{"alg":"HS256","kid":"s"}"#;

    fn good() -> String {
        let claims = json!({"sub": "ann", "tenant_id": "acme", "scope": "workflows:read",
            "exp": since_epoch().as_secs() + 100_000});
        signed(HEADER, &claims.to_string())
    }

    #[test]
    fn fuzz_tokens_that_were_changed_are_refused() {
        let (world, good) = (world(), good());
        assert!(world.verify(&good).is_ok());
        rounds(&changes(), |changes| {
            let token = changed(&good, &changes);
            assert_eq!(world.verify(&token).is_ok(), token == good, "{token}");
        });
    }

    #[test]
    fn fuzz_texts_are_no_tokens() {
        let world = world();
        let text = prop_oneof![
            ".*",
            "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}",
        ];
        rounds(&text, |text| {
            assert!(world.verify(&text).is_err(), "{text}");
        });
    }

    /// An issuer with the key may still write nonsense.
    #[test]
    fn fuzz_signed_headers_and_claims_are_what_they_must_be() {
        let world = world();
        let claims = json!({"sub": "ann", "exp": since_epoch().as_secs() + 100_000,
            "iat": since_epoch().as_secs(), "nbf": 1, "tenant_id": "acme", "scp": ["admin"]});
        let claims = claims.to_string();
        rounds(&(changes(), changes()), |(head, body)| {
            let (header, claims) = (changed(HEADER, &head), changed(&claims, &body));
            let Ok(principal) = world.verify(&signed(&header, &claims)) else {
                return;
            };
            let header: Map<String, Value> = serde_json::from_str(&header).unwrap();
            assert_eq!(header["alg"], "HS256");
            assert!(!header.contains_key("crit"));
            let claims: Map<String, Value> = serde_json::from_str(&claims).unwrap();
            let now = since_epoch().as_secs_f64();
            assert!(claims["exp"].as_f64().unwrap() > now - 31.0);
            for name in ["iat", "nbf"] {
                let moment = claims.get(name).map(|it| it.as_f64().unwrap());
                assert!(moment.is_none_or(|it| it < now + 31.0));
            }
            let tenant = claims.get("tenant_id").and_then(Value::as_str);
            assert_eq!(principal.tenant.as_deref(), tenant);
        });
    }
}
