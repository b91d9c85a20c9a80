//! What does not derive from the log: definitions, schedules, hooks, secrets, notes, the audit.

use windlass_core::{Digest, Millis};
use windlass_store::{
    Audit, AuditEntry, Catalogue, DefinitionRow, Error, Fired, Hook, Hooks, KeyValue,
    NewDefinition, Note, Pending, Published, Schedule, Schedules, SecretRow, Secrets, TenantFilter,
    WorkflowRow,
};

use crate::store::NatsStore;

impl Catalogue for NatsStore {
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        Catalogue::publish(&self.inner.postgres, definition)
    }

    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>> {
        Catalogue::definition(&self.inner.postgres, tenant, workflow, version)
    }

    fn versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        Catalogue::versions(&self.inner.postgres, tenant, workflow)
    }

    fn workflows(&self, tenant: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>> {
        Catalogue::workflows(&self.inner.postgres, tenant)
    }

    fn workflow(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>> {
        Catalogue::workflow(&self.inner.postgres, tenant, workflow)
    }

    fn set_enabled(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>> {
        Catalogue::set_enabled(&self.inner.postgres, tenant, workflow, enabled)
    }
}

impl Audit for NatsStore {
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>> {
        Audit::note(&self.inner.postgres, entries)
    }

    fn audit(
        &self,
        tenant: &TenantFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>> {
        Audit::audit(&self.inner.postgres, tenant, before, limit)
    }
}

impl Hooks for NatsStore {
    fn put_hook(&self, hook: Hook, most: usize) -> Pending<'_, Result<bool, Error>> {
        Hooks::put_hook(&self.inner.postgres, hook, most)
    }

    fn hook_of(&self, token: &Digest) -> Pending<'_, Result<Option<Hook>, Error>> {
        Hooks::hook_of(&self.inner.postgres, token)
    }

    fn hooks(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>> {
        Hooks::hooks(&self.inner.postgres, tenant, after, limit)
    }

    fn remove_hook(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        Hooks::remove_hook(&self.inner.postgres, tenant, id)
    }
}

impl Secrets for NatsStore {
    fn put_secret(
        &self,
        tenant: Option<&str>,
        name: &str,
        sealed: Vec<u8>,
        at: Millis,
    ) -> Pending<'_, Result<bool, Error>> {
        Secrets::put_secret(&self.inner.postgres, tenant, name, sealed, at)
    }

    fn secret(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        Secrets::secret(&self.inner.postgres, tenant, name)
    }

    fn secrets(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>> {
        Secrets::secrets(&self.inner.postgres, tenant, after, limit)
    }

    fn remove_secret(&self, tenant: Option<&str>, name: &str) -> Pending<'_, Result<bool, Error>> {
        Secrets::remove_secret(&self.inner.postgres, tenant, name)
    }
}

impl Schedules for NatsStore {
    fn put_schedule(&self, schedule: Schedule, most: usize) -> Pending<'_, Result<bool, Error>> {
        Schedules::put_schedule(&self.inner.postgres, schedule, most)
    }

    fn schedule(
        &self,
        tenant: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<Schedule>, Error>> {
        Schedules::schedule(&self.inner.postgres, tenant, id)
    }

    fn schedules(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        Schedules::schedules(&self.inner.postgres, tenant, after, limit)
    }

    fn remove_schedule(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        Schedules::remove_schedule(&self.inner.postgres, tenant, id)
    }

    fn due_schedules(
        &self,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        Schedules::due_schedules(&self.inner.postgres, until, limit)
    }

    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>> {
        Schedules::next_schedule(&self.inner.postgres)
    }

    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>> {
        Schedules::mark_fired(&self.inner.postgres, fired)
    }
}

impl KeyValue for NatsStore {
    fn keep_note(&self, kind: &str, key: &str, bytes: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        KeyValue::keep_note(&self.inner.postgres, kind, key, bytes)
    }

    fn note_at(&self, kind: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        KeyValue::note_at(&self.inner.postgres, kind, key)
    }

    fn notes(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Note>, Error>> {
        KeyValue::notes(&self.inner.postgres, kind, after, limit)
    }

    fn forget_note(&self, kind: &str, key: &str) -> Pending<'_, Result<bool, Error>> {
        KeyValue::forget_note(&self.inner.postgres, kind, key)
    }
}
