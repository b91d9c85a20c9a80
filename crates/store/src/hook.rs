//! Runs that are started from outside by a signed request.

use windlass_core::{Digest, Millis};

use crate::{Error, Pending, TenantFilter};

/// Which runs a signed request starts.
#[derive(Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its id, unique within the tenant.
    pub id: Box<str>,
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The workflow whose runs it starts.
    pub workflow: Box<str>,
    /// The digest of the token that its address ends with; unique.
    pub token: Digest,
    /// The key that requests are signed with, in clear text, because checking a signature
    /// needs it.
    pub secret: Box<str>,
    /// When it was made.
    pub created_at: Millis,
    /// Why the hook cannot be relied on, if the stored row is damaged: then the other fields
    /// hold what could still be read, or are empty. Only lists return such hooks.
    pub damage: Option<Box<str>>,
}

/// Without its secret.
impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("workflow", &self.workflow)
            .finish_non_exhaustive()
    }
}

/// Hooks: rows that say which signed requests start runs.
pub trait Hooks: Send + Sync + 'static {
    /// Keeps a hook, in place of the one of the same tenant and id. `false` if it would be a
    /// new one and its tenant has `most` already. Durable on return.
    fn put_hook(&self, hook: Hook, most: usize) -> Pending<'_, Result<bool, Error>>;

    /// The hook whose token has this digest.
    fn hook_of(&self, token: &Digest) -> Pending<'_, Result<Option<Hook>, Error>>;

    /// The hooks of those tenants, by id, then by tenant, those after the given one.
    fn hooks(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>>;

    /// Removes a hook; `false` if there is none. Durable on return.
    fn remove_hook(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>>;
}
