//! Which tenants' rows a list covers.

/// Which rows a list covers: those of all tenants, or those of one. Rows without a tenant
/// belong to no tenant: `Only(None)` covers exactly these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantFilter {
    /// All tenants' rows, and those without a tenant.
    #[default]
    Any,
    /// One tenant's, or those without a tenant.
    Only(Option<Box<str>>),
}

impl TenantFilter {
    /// Whether rows of this tenant are covered.
    pub fn matches(&self, tenant: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only.as_deref() == tenant,
        }
    }
}
