//! Who changed what, from where.

use windlass_core::Millis;

use crate::{Error, Pending, TenantFilter};

/// Something that somebody changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Millis,
    /// In whose name.
    pub tenant: Option<Box<str>>,
    /// Who.
    pub by: Box<str>,
    /// From where.
    pub from: Box<str>,
    /// What was done, e.g. `executions.cancel`.
    pub what: Box<str>,
    /// To what.
    pub target: Box<str>,
    /// More about it, as JSON.
    pub detail: Box<str>,
    /// Why it cannot be relied on, if the stored row is damaged: then the rest is what could
    /// still be read of it, or left out. Only lists give such.
    pub damage: Option<Box<str>>,
}

/// The book of changes: entries are added and never changed.
pub trait Audit: Send + Sync + 'static {
    /// Adds entries in their order, all or none. Durable on return.
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>>;

    /// Entries with their numbers, newest first, those with a number less than `before`.
    /// Numbers count up, and none is used twice. Asked for one tenant, they count that
    /// tenant's entries from 1 without gaps, and tell nothing of the others; asked for all,
    /// they count all.
    fn audit(
        &self,
        tenant: &TenantFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>>;
}
