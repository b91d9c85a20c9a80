//! Who asks: nobody in particular where tokens are off, else whoever signed the token says.

mod principal;

use http::HeaderMap;

pub use principal::{Principal, Scopes, Tenants};

use crate::error::ApiError;

/// How requests prove who they come from.
pub struct Auth {
    verifier: Option<()>,
}

impl Auth {
    /// Everyone may do everything; for loopback.
    #[must_use]
    pub fn off() -> Self {
        Self { verifier: None }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// Whose request it is.
    pub(crate) async fn principal(&self, _headers: &HeaderMap) -> Result<Principal, ApiError> {
        Ok(Principal::local())
    }
}
