//! The audit log: who changed what, from where.

use windlass_core::Millis;

use crate::{Error, Pending, TenantFilter};

/// A change that a user or a program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Millis,
    /// The tenant in whose name it was made.
    pub tenant: Option<Box<str>>,
    /// The user or program that made it.
    pub by: Box<str>,
    /// Where the request came from.
    pub from: Box<str>,
    /// What was done, e.g. `executions.cancel`.
    pub what: Box<str>,
    /// The object that was changed.
    pub target: Box<str>,
    /// More about it, as JSON.
    pub detail: Box<str>,
    /// Why the entry cannot be relied on, if the stored row is damaged: then the other fields
    /// hold what could still be read, or are empty. Only lists return such entries.
    pub damage: Option<Box<str>>,
}

/// The audit log: entries are added and never changed.
pub trait Audit: Send + Sync + 'static {
    /// Adds entries in their order, all or none. Durable on return.
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>>;

    /// Entries with their numbers, newest first, those with a number less than `before`.
    /// Numbers count up, and none is used twice. In a list for one tenant they count that
    /// tenant's entries from 1 without gaps, and reveal nothing of the others; in a list for
    /// all, they count all.
    fn audit(
        &self,
        tenant: &TenantFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>>;
}
