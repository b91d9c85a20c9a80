//! The caller of a request: what it may do, and which tenant's rows it sees.

use std::time::Duration;

use axum::extract::FromRequestParts;
use http::request::Parts;
use windlass_store::TenantFilter;

use super::key::Print;
use crate::code;
use crate::error::ApiError;
use crate::limit::{self, BucketKey};
use crate::route::TokenScope;

/// The caller of a request; an extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token's subject; `local` where tokens are off.
    pub subject: Box<str>,
    /// The tenant that the caller belongs to.
    pub tenant: Option<Box<str>>,
    /// What may be done.
    pub scopes: Scopes,
    /// What requests are counted by; a digest of the token.
    pub token_key: BucketKey,
    /// Whether tokens are off.
    everyone: bool,
    /// Whether it is the owner of the process.
    at_terminal: bool,
    /// How long its token is good, where it has one.
    credential: Option<Credential>,
}

/// How long a token is good: until it expires, or its key is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credential {
    /// Since the Unix epoch.
    pub(super) expires: Duration,
    /// The key that it is signed with.
    pub(super) key: Print,
}

impl Principal {
    /// The principal of every request where tokens are off.
    #[must_use]
    pub fn local() -> Self {
        Self {
            subject: "local".into(),
            tenant: None,
            scopes: Scopes::all(),
            token_key: limit::key(&[b"local"]),
            everyone: true,
            at_terminal: false,
            credential: None,
        }
    }

    /// The user whose process this is, at a socket that only that user can open.
    pub(crate) fn owner(user: &str) -> Self {
        Self {
            subject: user.into(),
            at_terminal: true,
            ..Self::local()
        }
    }

    /// Whether tokens are off: every caller is the same.
    pub(crate) fn is_everyone(&self) -> bool {
        self.everyone
    }

    /// Whether it asks from a terminal of this machine, over the owner's socket.
    pub(crate) fn is_at_terminal(&self) -> bool {
        self.at_terminal
    }

    /// The principal of requests to public routes, who may do nothing else.
    pub(crate) fn anonymous() -> Self {
        Self {
            subject: "".into(),
            tenant: None,
            scopes: Scopes::default(),
            token_key: limit::key(&[]),
            everyone: false,
            at_terminal: false,
            credential: None,
        }
    }

    /// Whether it may do nothing.
    pub(crate) fn is_anonymous(&self) -> bool {
        !self.everyone && self.subject.is_empty()
    }

    /// The principal that a token speaks for.
    pub(crate) fn of(subject: &str, tenant: Option<&str>, scopes: Scopes, token: &str) -> Self {
        Self {
            subject: subject.into(),
            tenant: tenant.map(Into::into),
            scopes,
            token_key: limit::key(&[b"token", token.as_bytes()]),
            everyone: false,
            at_terminal: false,
            credential: None,
        }
    }

    /// The same with a token that is good for so long.
    pub(super) fn with(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// How long its token is good, where it has one.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.credential
    }

    /// Which rows the caller sees: with a tenant, that tenant's; without one, all rows for
    /// `admin` and where tokens are off, otherwise only rows without a tenant.
    #[must_use]
    pub fn tenants(&self) -> TenantFilter {
        match &self.tenant {
            Some(tenant) => TenantFilter::Only(Some(tenant.clone())),
            None if self.everyone || self.scopes.allow(TokenScope::Admin) => TenantFilter::Any,
            None => TenantFilter::Only(None),
        }
    }

    /// Which client's share of memory and connections the caller uses: its tenant's, otherwise
    /// its subject's.
    pub(crate) fn client(&self) -> BucketKey {
        match (&self.tenant, &*self.subject) {
            (Some(tenant), _) => limit::key(&[b"tenant", tenant.as_bytes()]),
            (None, "") => self.token_key,
            (None, subject) => limit::key(&[b"subject", subject.as_bytes()]),
        }
    }

    /// Refuses what the scopes do not allow.
    ///
    /// # Errors
    ///
    /// `FORBIDDEN`, naming the scope.
    pub fn require(&self, scope: TokenScope) -> Result<(), ApiError> {
        if self.scopes.allow(scope) {
            return Ok(());
        }
        Err(code::FORBIDDEN.error(format!("the token lacks the scope {scope}")))
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // The guard puts it there; without a guard the caller may do nothing.
        Ok(parts
            .extensions
            .get::<Self>()
            .cloned()
            .unwrap_or_else(Self::anonymous))
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// All scopes.
    #[must_use]
    pub fn all() -> Self {
        TokenScope::CARRIED.into_iter().collect()
    }

    /// Whether the scope is among them; `admin` allows all, and what is public needs none.
    #[must_use]
    pub fn allow(self, scope: TokenScope) -> bool {
        scope == TokenScope::Public || self.0 & (bit(scope) | bit(TokenScope::Admin)) != 0
    }
}

impl FromIterator<TokenScope> for Scopes {
    fn from_iter<I: IntoIterator<Item = TokenScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().map(bit).fold(0, |set, bit| set | bit))
    }
}

fn bit(scope: TokenScope) -> u8 {
    1 << scope as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(tenant: Option<&str>, scopes: &[TokenScope]) -> Principal {
        Principal::of("s", tenant, scopes.iter().copied().collect(), "t")
    }

    #[test]
    fn admin_allows_all_and_others_themselves_only() {
        for held in TokenScope::CARRIED {
            for needed in TokenScope::CARRIED {
                let allowed = token(None, &[held]).require(needed).is_ok();
                assert_eq!(allowed, held == needed || held == TokenScope::Admin);
            }
        }
        assert!(Principal::anonymous().require(TokenScope::Public).is_ok());
        assert!(Principal::anonymous().require(TokenScope::Read).is_err());
    }

    #[test]
    fn a_tenant_sees_its_own_and_only_an_admin_without_one_sees_all() {
        let own = TenantFilter::Only(Some("a".into()));
        assert_eq!(token(Some("a"), &[TokenScope::Read]).tenants(), own);
        assert_eq!(token(Some("a"), &[TokenScope::Admin]).tenants(), own);
        assert_eq!(
            token(None, &[TokenScope::Read]).tenants(),
            TenantFilter::Only(None)
        );
        assert_eq!(
            token(None, &[TokenScope::Admin]).tenants(),
            TenantFilter::Any
        );
        assert_eq!(Principal::local().tenants(), TenantFilter::Any);
        assert_eq!(Principal::anonymous().tenants(), TenantFilter::Only(None));
    }
}
