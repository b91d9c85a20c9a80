//! Definitions in memory.

use std::future::ready;

use super::answer;
use crate::{
    Catalogue, DefinitionRow, Error, MemoryStore, NewDefinition, Pending, Published, TenantFilter,
    WorkflowRow,
};

/// A workflow's id and its tenant.
pub(super) type WorkflowKey = (Box<str>, Option<Box<str>>);

fn key(tenant: Option<&str>, workflow: &str) -> WorkflowKey {
    (workflow.into(), tenant.map(Into::into))
}

#[derive(Debug)]
pub(super) struct Workflow {
    display_name: Option<Box<str>>,
    enabled: bool,
    /// Oldest first; version n stands at n - 1.
    versions: Vec<DefinitionRow>,
}

impl Workflow {
    fn version(&self) -> u32 {
        u32::try_from(self.versions.len()).unwrap_or(u32::MAX)
    }

    fn row(&self) -> Option<WorkflowRow> {
        let newest = self.versions.last()?;
        Some(WorkflowRow {
            tenant: newest.tenant.clone(),
            workflow: newest.workflow.clone(),
            display_name: self.display_name.clone(),
            version: newest.version,
            enabled: self.enabled,
            updated_at: newest.at,
            damage: None,
        })
    }
}

impl Catalogue for MemoryStore {
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        let mut state = self.state();
        let workflow = state
            .workflows
            .entry((definition.workflow.clone(), definition.tenant.clone()))
            .or_insert_with(|| Workflow {
                display_name: None,
                enabled: true,
                versions: Vec::new(),
            });
        let same = workflow
            .versions
            .last()
            .is_some_and(|newest| newest.digest == definition.digest);
        if !same {
            workflow.display_name = definition.display_name;
            let version = workflow.version() + 1;
            workflow.versions.push(DefinitionRow {
                tenant: definition.tenant,
                workflow: definition.workflow,
                version,
                digest: definition.digest,
                signature: definition.signature,
                at: definition.at,
                text: definition.text.to_vec(),
            });
        }
        Box::pin(ready(Ok(Published {
            version: workflow.version(),
            created: !same,
        })))
    }

    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Pending<'_, Result<Option<DefinitionRow>, Error>> {
        answer(|| {
            let state = self.state();
            let found = state.workflows.get(&key(tenant, workflow));
            let versions = found.map_or(&[][..], |workflow| &workflow.versions);
            Ok(match version {
                None => versions.last(),
                Some(number) => versions.iter().find(|row| row.version == number),
            }
            .cloned())
        })
    }

    fn versions(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Vec<DefinitionRow>, Error>> {
        answer(|| {
            let state = self.state();
            let found = state.workflows.get(&key(tenant, workflow));
            let versions = found.map_or(&[][..], |workflow| &workflow.versions);
            let without_text = |row: &DefinitionRow| DefinitionRow {
                text: Vec::new(),
                ..row.clone()
            };
            Ok(versions.iter().rev().map(without_text).collect())
        })
    }

    fn workflows(&self, tenant: &TenantFilter) -> Pending<'_, Result<Vec<WorkflowRow>, Error>> {
        answer(|| {
            let state = self.state();
            let meant = state.workflows.iter();
            let meant = meant.filter(|((_, of), _)| tenant.matches(of.as_deref()));
            Ok(meant.filter_map(|(_, workflow)| workflow.row()).collect())
        })
    }

    fn workflow(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Pending<'_, Result<Option<WorkflowRow>, Error>> {
        answer(|| {
            let state = self.state();
            let found = state.workflows.get(&key(tenant, workflow));
            Ok(found.and_then(Workflow::row))
        })
    }

    fn set_enabled(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let known = state.workflows.get_mut(&key(tenant, workflow));
        let found = known.is_some();
        if let Some(workflow) = known {
            workflow.enabled = enabled;
        }
        Box::pin(ready(Ok(found)))
    }
}
