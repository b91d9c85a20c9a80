//! Published definitions.

use crate::{DefinitionRow, Error, NewDefinition, Pending, Published, TenantFilter, WorkflowRow};

/// Workflow definitions: immutable once published. Each belongs to a tenant, or to none:
/// the same id in two tenants names two workflows.
pub trait Catalogue: Send + Sync + 'static {
    /// Publishes a definition. If the newest version has the same digest, that version is
    /// returned with `created: false`; otherwise the next version is made. Durable on return.
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>>;

    /// One version of a definition, or the newest.
    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>>;

    /// All versions of a workflow, newest first, without their text.
    fn versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>>;

    /// The workflows of those tenants, by id, then by tenant.
    fn workflows(&self, tenant: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>>;

    /// One workflow.
    fn workflow(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>>;

    /// Enables or disables a workflow; `false` if there is none of that id. Durable on return.
    fn set_enabled(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>>;
}
