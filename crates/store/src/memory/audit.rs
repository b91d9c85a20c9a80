//! The book of changes in memory.

use std::future::ready;

use super::answer;
use crate::{Audit, AuditEntry, Error, MemoryStore, Pending, TenantFilter};

impl Audit for MemoryStore {
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>> {
        self.state().audit.extend(entries);
        Box::pin(ready(Ok(())))
    }

    fn audit(
        &self,
        tenant: &TenantFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>> {
        answer(|| {
            let state = self.state();
            let entries = state.audit.iter();
            let numbered =
                (1u64..).zip(entries.filter(|entry| tenant.matches(entry.tenant.as_deref())));
            let meant = numbered.filter(|(number, _)| before.is_none_or(|before| *number < before));
            let mut meant: Vec<_> = meant.map(|(n, entry)| (n, entry.clone())).collect();
            meant.reverse();
            meant.truncate(limit);
            Ok(meant)
        })
    }
}
