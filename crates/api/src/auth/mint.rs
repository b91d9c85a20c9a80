//! Development tokens, signed with a key of a file that is made where it is missing.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};

use super::key::KeySet;
use crate::route::TokenScope;

/// The claims of a new token.
#[derive(Debug, Clone)]
pub struct Minting {
    /// The subject.
    pub subject: String,
    /// The tenant.
    pub tenant: Option<String>,
    /// The scopes.
    pub scopes: Vec<TokenScope>,
    /// The lifetime.
    pub lifetime: Duration,
    /// The issuer.
    pub issuer: Option<String>,
    /// The audience.
    pub audience: Option<String>,
}

/// Makes a token, signed with the first secret of the JWKS file. Where there is no file, one is
/// made with a new secret, readable by its owner alone.
///
/// # Errors
///
/// If the file cannot be read or made, or has no secret to sign with.
pub fn mint(key_file: &Path, minting: &Minting) -> io::Result<String> {
    if !key_file.exists() {
        make_key(key_file)?;
    }
    let keys = KeySet::parse(&fs::read(key_file)?).map_err(io::Error::other)?;
    let key = keys
        .secret()
        .ok_or_else(|| io::Error::other("the file has public keys only, which cannot sign"))?;
    let secret = key.secret.as_deref().unwrap_or_default();
    let mut header = Header::new(Algorithm::HS256);
    header.kid = key.id.as_deref().map(str::to_owned);
    jsonwebtoken::encode(&header, &claims(minting), &EncodingKey::from_secret(secret))
        .map_err(io::Error::other)
}

fn claims(minting: &Minting) -> Map<String, Value> {
    let now = jsonwebtoken::get_current_timestamp();
    let scopes: Vec<&str> = minting.scopes.iter().map(|scope| scope.name()).collect();
    let mut claims = Map::new();
    claims.insert("sub".into(), json!(minting.subject));
    claims.insert("iat".into(), json!(now));
    let expires = now.saturating_add(minting.lifetime.as_secs());
    claims.insert("exp".into(), json!(expires));
    claims.insert("scope".into(), json!(scopes.join(" ")));
    let others = [
        ("tenant_id", &minting.tenant),
        ("iss", &minting.issuer),
        ("aud", &minting.audience),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            claims.insert(name.into(), json!(value));
        }
    }
    claims
}

fn make_key(path: &Path) -> io::Result<()> {
    let mut secret = [0; 32];
    let mut id = [0; 8];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let document = json!({"keys": [{
        "kty": "oct",
        "alg": "HS256",
        "use": "sig",
        "kid": URL_SAFE_NO_PAD.encode(id),
        "k": URL_SAFE_NO_PAD.encode(secret),
    }]});
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(format!("{document:#}\n").as_bytes())?;
    file.sync_all()
}
