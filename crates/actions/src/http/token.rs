//! Tokens by OAuth 2.0 client credentials, cached until shortly before they expire. The key
//! holds the tenant and everything that the token was asked with, so that a token is never
//! given to another tenant or client.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use windlass_core::Digest;
use windlass_engine::{ActionError, Context};

use super::parameters::Oauth2;
use super::{Call, client, guard, response};

/// A token that expires sooner is not used any more.
const MARGIN: Duration = Duration::from_secs(30);

/// How long a token is cached if the server does not say.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);

/// How many tokens are kept.
const MOST_TOKENS: usize = 1024;

/// The largest answer of a token server.
const MAX_BYTES: usize = 1024 * 1024;

/// Which token it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenKey(Digest);

impl TokenKey {
    pub(super) fn of(context: &Context, client: &Oauth2) -> Self {
        let parts = json!([
            context.tenant.as_deref(),
            client.token_url,
            client.client_id,
            client.client_secret,
            client.scope,
            client.audience,
        ]);
        Self(Digest::of(parts.to_string().as_bytes()))
    }
}

/// The tokens that are kept.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<TokenKey, CachedToken>>);

#[derive(Clone, Debug)]
struct CachedToken {
    token: String,
    until: Instant,
}

/// What a token server answers.
#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
}

impl Tokens {
    /// The kept token, or a new one.
    pub(super) async fn token(
        &self,
        call: &Call<'_>,
        client: &Oauth2,
        key: &TokenKey,
    ) -> Result<String, ActionError> {
        let known = self.lock().get(key).cloned();
        if let Some(kept) = known.filter(|kept| kept.until > Instant::now()) {
            return Ok(kept.token);
        }
        let given = ask(call, client).await?;
        let seconds = given.expires_in.as_ref().and_then(|value| match value {
            serde_json::Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        });
        let life = seconds.map_or(DEFAULT_LIFE, Duration::from_secs);
        let until = Instant::now().checked_add(life.saturating_sub(MARGIN));
        let mut tokens = self.lock();
        if tokens.len() >= MOST_TOKENS {
            tokens.clear();
        }
        if let Some(until) = until {
            let token = given.access_token.clone();
            tokens.insert(key.clone(), CachedToken { token, until });
        }
        Ok(given.access_token)
    }

    /// Drops a token that the server refuses.
    pub(super) fn forget(&self, key: &TokenKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TokenKey, CachedToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(call: &Call<'_>, client: &Oauth2) -> Result<Given, ActionError> {
    let url = guard::parse(&client.token_url)?;
    let literal = call.client.allowed().check_literal(&url);
    literal.map_err(guard::Refused::into_error)?;
    let mut request = call.client.get()?.post(url.clone());
    if !client.in_body {
        // Both are form-encoded before they are joined (RFC 6749, section 2.3.1).
        let encoded = |text: &str| -> String {
            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
        };
        let secret = encoded(&client.client_secret);
        request = request.basic_auth(encoded(&client.client_id), Some(secret));
    }
    let request = request
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(form(client));
    let sent = request.send().await;
    let answer = sent.map_err(|error| client::explain(&error))?;
    let status = answer.status().as_u16();
    let wait = response::retry_after_ms(answer.headers());
    let body = response::body(answer, MAX_BYTES).await?;
    let given: Option<Given> = serde_json::from_slice(&body).ok();
    if let (200..300, Some(given)) = (status, given) {
        return Ok(given);
    }
    let message = format!(
        "no token was given: POST {url} answered with status {status}; check clientId, \
         clientSecret and scope"
    );
    let mut error = ActionError::failed("HTTP_TOKEN", message);
    error.retriable = response::is_passing(status);
    error.retry_after_ms = wait.filter(|_| error.retriable);
    let body = response::excerpt(call.context, &body, response::ERROR_BODY_CHARACTERS);
    Err(error.with_details(
        &json!({ "method": "POST", "url": url.as_str(), "status": status, "body": body }),
    ))
}

/// The token request, as a form.
fn form(client: &Oauth2) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    let optional = [("scope", &client.scope), ("audience", &client.audience)];
    for (name, value) in optional {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    if client.in_body {
        form.append_pair("client_id", &client.client_id);
        form.append_pair("client_secret", &client.client_secret);
    }
    form.finish()
}
