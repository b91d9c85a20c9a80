//! Whose rows are meant.

/// Whose rows are meant: everybody's, or those of one tenant. Rows without a tenant belong
/// to nobody else: `Only(None)` means them alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantFilter {
    /// Everybody's.
    #[default]
    Any,
    /// One tenant's, or those without a tenant.
    Only(Option<Box<str>>),
}

impl TenantFilter {
    /// Whether something that belongs to this tenant is meant.
    pub fn matches(&self, tenant: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only.as_deref() == tenant,
        }
    }
}
