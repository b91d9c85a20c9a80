//! What is checked of a call of a hook before its body is read: the hook exists, and the
//! signature's time is within minutes of now. The signature itself is checked with the body.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::Digest as _;
use windlass_core::{Digest, Millis};
use windlass_service::moment::now;
use windlass_service::secrets;
use windlass_store::Hook;

use crate::app::App;
use crate::code;
use crate::error::ApiError;
use crate::failures::HOOK_SIGNATURE_INVALID;
use crate::route::{Input, Operation};

/// How far a signature's time may be from now.
const PATIENCE_SECONDS: u64 = 300;

const HEADER: HeaderName = HeaderName::from_static("x-windlass-signature");

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenPath {
    /// What the hook's address ends with.
    token: String,
}

/// A call of a hook that exists; an extractor that does not touch the body.
pub(super) struct Call {
    pub(super) hook: Hook,
    secret: String,
    signature: Signature,
}

impl Call {
    /// Refuses a body that is not the one which was signed.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), ApiError> {
        match self.signature.is_of(&self.secret, body) {
            true => Ok(()),
            false => Err(unsigned()),
        }
    }

    /// The digest of what was signed, not of the signature's text, which can be written in
    /// several ways.
    pub(super) fn digest(&self, body: &[u8]) -> Digest {
        let mut digest = sha2::Sha256::new();
        for part in [self.signature.time.as_bytes(), b".", body] {
            digest.update(part);
        }
        Digest(digest.finalize().into())
    }
}

impl FromRequestParts<App> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let path = Path::<TokenPath>::from_request_parts(parts, app).await;
        let Path(path) = path.map_err(|it| code::PATH_INVALID.error(it.body_text()))?;
        let token = Digest::of(path.token.as_bytes());
        let found = app.engine().store().hook_of(&token).await;
        let found = found.map_err(windlass_service::Failure::from)?;
        let hook = found.ok_or_else(secrets::unknown_hook)?;
        let signature = Signature::of(&parts.headers, now()).ok_or_else(unsigned)?;
        let secret = secrets::open_hook(app.secrets(), &hook)?;
        Ok(Self {
            hook,
            secret,
            signature,
        })
    }
}

impl Input for Call {
    fn describe(operation: &mut Operation<'_>) {
        operation.parameters::<TokenPath>("path");
        operation.implies(code::PATH_INVALID);
    }
}

fn unsigned() -> ApiError {
    let message = "the header X-Windlass-Signature is missing, wrong, or not of these minutes";
    HOOK_SIGNATURE_INVALID.error(message)
}

/// `t=SECONDS,v1=HEX`.
struct Signature {
    time: String,
    code: [u8; 32],
}

impl Signature {
    /// The signature among the headers, if there is one, well formed, and its time is near.
    fn of(headers: &HeaderMap, now: Millis) -> Option<Self> {
        let mut values = headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        Self::parse(value.to_str().ok()?, now)
    }

    fn parse(text: &str, now: Millis) -> Option<Self> {
        let (time, code) = text.split_once(',')?;
        let (time, code) = (time.strip_prefix("t=")?, code.strip_prefix("v1=")?);
        let seconds: i64 = time.parse().ok()?;
        let apart = (now.0 / 1000).checked_sub(seconds)?;
        (apart.unsigned_abs() <= PATIENCE_SECONDS).then_some(())?;
        Some(Self {
            time: time.to_owned(),
            code: hex(code)?,
        })
    }

    /// Whether it is the code of its time, a dot and the body.
    fn is_of(&self, secret: &str, body: &[u8]) -> bool {
        use ring::hmac;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let mut signed = hmac::Context::with_key(&key);
        for part in [self.time.as_bytes(), b".", body] {
            signed.update(part);
        }
        // Digests of both are compared, which takes the same time wherever they differ.
        let right = hmac::sign(&key, signed.sign().as_ref());
        hmac::verify(&key, &self.code, right.as_ref()).is_ok()
    }
}

fn hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut code = [0; 32];
    for (at, byte) in code.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(code)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "all of it is for tests")]
mod tests {
    use super::*;

    fn is_signed(signature: &str, secret: &str, body: &[u8], now: Millis) -> bool {
        Signature::parse(signature, now).is_some_and(|it| it.is_of(secret, body))
    }

    fn sign(secret: &str, time: i64, body: &[u8]) -> String {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let message = [format!("{time}.").as_bytes(), body].concat();
        let code = ring::hmac::sign(&key, &message);
        let hex = hex::encode(code);
        format!("t={time},v1={hex}")
    }

    #[test]
    fn only_a_right_and_recent_signature_is_good() {
        let now = Millis(1_800_000_000_000);
        let body = b"{\"n\":1}";
        let good = sign("secret", 1_800_000_000, body);
        assert!(is_signed(&good, "secret", body, now));
        assert!(is_signed(
            &sign("secret", 1_800_000_300, body),
            "secret",
            body,
            now
        ));
        assert!(is_signed(
            &sign("secret", 1_799_999_700, body),
            "secret",
            body,
            now
        ));
        assert!(!is_signed(
            &sign("secret", 1_800_000_301, body),
            "secret",
            body,
            now
        ));
        assert!(!is_signed(
            &sign("secret", 1_799_999_699, body),
            "secret",
            body,
            now
        ));
        assert!(!is_signed(&good, "other", body, now));
        assert!(!is_signed(&good, "secret", b"{\"n\":2}", now));
        let moved = good.replace("t=1800000000", "t=1800000001");
        assert!(!is_signed(&moved, "secret", body, now));
        let (time, code) = good.split_once(',').unwrap();
        for wrong in [
            "",
            "t=,v1=",
            time,
            code,
            &format!("{code},{time}"),
            &good[..good.len() - 2],
            &format!("{time},v1={}", "é".repeat(32)),
            &format!("t={},v1={}", i64::MIN, &code[3..]),
        ] {
            assert!(!is_signed(wrong, "secret", body, now), "{wrong}");
        }
    }

    #[test]
    fn a_signature_comes_once_and_before_the_body() {
        let now = Millis(1_800_000_000_000);
        let good = sign("secret", 1_800_000_000, b"{}");
        let mut headers = HeaderMap::new();
        assert!(Signature::of(&headers, now).is_none());
        headers.insert(HEADER, good.parse().unwrap());
        assert!(Signature::of(&headers, now).is_some());
        headers.append(HEADER, good.parse().unwrap());
        assert!(Signature::of(&headers, now).is_none());
        headers.insert(HEADER, "t=1,v1=".parse().unwrap());
        assert!(Signature::of(&headers, now).is_none());
    }

    #[test]
    fn fuzz_signatures_that_were_changed_are_refused() {
        use crate::fuzz::{changed, changes, rounds};
        let now = Millis(1_800_000_000_000);
        let body = r#"{"n": 1}"#;
        let good = sign("secret", 1_800_000_000, body.as_bytes());
        rounds(&(changes(), changes()), |(header, content)| {
            let (signature, changed) = (changed(&good, &header), changed(body, &content));
            let is_same = signature.eq_ignore_ascii_case(&good)
                && signature.starts_with("t=1800000000,v1=")
                && changed == body;
            let taken = is_signed(&signature, "secret", changed.as_bytes(), now);
            assert_eq!(taken, is_same, "{signature} {changed}");
        });
    }
}
