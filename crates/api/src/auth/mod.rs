//! The principal of a request: the local user where tokens are off, otherwise the subject that
//! a signed token names.

mod crypto;
mod key;
mod mint;
mod principal;
mod source;
mod verify;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

pub use mint::{Minting, mint};
pub(crate) use principal::Credential;
pub use principal::{Principal, Scopes};
pub use source::{KEY_GRACE, KeySource, KeyTrouble, Rotation, count_keys};
pub use verify::{JwtOptions, MAX_TOKEN};

use crate::code;
use crate::error::ApiError;
use crate::figure::Figure;
use verify::Verifier;

/// How requests are authenticated. Cloning is cheap.
#[derive(Clone)]
pub struct Auth {
    verifier: Option<Arc<Verifier>>,
    /// The user whose process this is, where only that user can ask.
    owner: Option<Box<str>>,
}

impl Auth {
    /// Everyone may do everything; for loopback.
    #[must_use]
    pub fn off() -> Self {
        Self {
            verifier: None,
            owner: None,
        }
    }

    /// Only the owner of the process can ask, and may do everything; for a socket that the
    /// file system lets only its owner open.
    #[must_use]
    pub fn owner(user: impl Into<Box<str>>) -> Self {
        Self {
            verifier: None,
            owner: Some(user.into()),
        }
    }

    /// By tokens (RFC 6750, in the header only). Reads the keys.
    ///
    /// # Errors
    ///
    /// If the keys cannot be read; with the source and the reason.
    pub async fn jwt(options: JwtOptions) -> Result<Self, String> {
        Ok(Self {
            verifier: Some(Arc::new(Verifier::new(options).await?)),
            owner: None,
        })
    }

    /// Whether only the owner of the process can ask.
    pub(crate) fn is_owners(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether tokens are needed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// What is wrong with the keys, if something is. Reads them again, unless that was tried
    /// just now.
    pub async fn trouble(&self) -> Option<KeyTrouble> {
        self.verifier.as_ref()?.keys().trouble().await
    }

    /// What the metrics page shows of the keys.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let Some(verifier) = &self.verifier else {
            return Vec::new();
        };
        let (failures, age) = verifier.keys().figures();
        vec![
            Figure::counter(
                "windlass_auth_keys_failures_total",
                "Times that the keys of tokens could not be read again.",
                failures,
            ),
            Figure::gauge(
                "windlass_auth_keys_age_seconds",
                "Time since the keys of tokens were read.",
                age.as_secs(),
            ),
        ]
    }

    /// Waits until a valid token becomes invalid.
    pub(crate) async fn ended(&self, credential: Credential) {
        match &self.verifier {
            Some(verifier) => verifier.ended(credential).await,
            None => std::future::pending().await,
        }
    }

    /// Whose request it is.
    pub(crate) async fn principal(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        if let Some(user) = &self.owner {
            return Ok(Principal::owner(user));
        }
        let Some(verifier) = &self.verifier else {
            return Ok(Principal::local());
        };
        let token = bearer(headers).map_err(refusal)?;
        verifier.verify(token).await.map_err(refusal)
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match (self.is_on(), self.is_owners()) {
            (true, _) => "Auth::Jwt",
            (false, true) => "Auth::Owner",
            (false, false) => "Auth::Off",
        })
    }
}

const NO_TOKEN: &str = "the request has no bearer token";

fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(NO_TOKEN)?;
    if values.next().is_some() {
        return Err("the request has two Authorization headers");
    }
    let value = value.to_str().map_err(|_| NO_TOKEN)?;
    let (scheme, token) = value.split_once(' ').ok_or(NO_TOKEN)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(NO_TOKEN);
    }
    Ok(token.trim())
}

/// RFC 6750, section 3: the answer to a request without a token names the scheme only.
fn refusal(reason: &'static str) -> ApiError {
    let challenge = if reason == NO_TOKEN {
        HeaderValue::from_static("Bearer realm=\"windlass\"")
    } else {
        HeaderValue::from_static("Bearer realm=\"windlass\", error=\"invalid_token\"")
    };
    code::UNAUTHENTICATED
        .error(reason)
        .header(header::WWW_AUTHENTICATE, challenge)
}
