//! The `Authorization` header that a request's `auth` makes.

use base64::Engine as _;
use reqwest::header::HeaderValue;
use windlass_engine::ActionError;

use super::parameters::Auth;
use super::{Call, invalid, token};

/// The `Authorization` header of a request.
pub(super) struct Proof {
    pub(super) header: HeaderValue,
    /// The key of its token in the cache, if it comes from there.
    pub(super) cached: Option<token::TokenKey>,
}

/// The proof of an attempt's next request.
pub(super) async fn proof(call: &Call<'_>) -> Result<Option<Proof>, ActionError> {
    let Some(auth) = &call.parameters.auth else {
        return Ok(None);
    };
    let (text, cached) = match auth {
        Auth::Basic { user, password } => {
            let pair = format!("{user}:{password}");
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            call.context.conceal(pair.clone());
            (format!("Basic {pair}"), None)
        }
        Auth::Bearer(token) => (format!("Bearer {}", token.trim()), None),
        Auth::Oauth2(client) => {
            let key = token::TokenKey::of(call.context, client);
            let token = call.tokens.token(call, client, &key).await?;
            call.context.conceal(token.clone());
            (format!("Bearer {token}"), Some(key))
        }
    };
    let mut header = HeaderValue::from_str(&text)
        .map_err(|_| invalid("the token or password in 'auth' has forbidden letters"))?;
    header.set_sensitive(true);
    Ok(Some(Proof { header, cached }))
}
