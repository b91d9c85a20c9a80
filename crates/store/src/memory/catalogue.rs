//! Definitions in memory.

use std::future::ready;

use crate::{
    Catalogue, DefinitionRow, Error, MemoryStore, NewDefinition, Pending, Published, WorkflowRow,
};

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
}

impl Catalogue for MemoryStore {
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>> {
        let mut state = self.state();
        let workflow = state
            .workflows
            .entry(definition.workflow.clone())
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
        workflow: &str,
        version: Option<u32>,
    ) -> Result<Option<DefinitionRow>, Error> {
        let state = self.state();
        let versions = state
            .workflows
            .get(workflow)
            .map_or(&[][..], |w| &w.versions);
        Ok(match version {
            None => versions.last(),
            Some(number) => versions.iter().find(|row| row.version == number),
        }
        .cloned())
    }

    fn versions(&self, workflow: &str) -> Result<Vec<DefinitionRow>, Error> {
        let state = self.state();
        let versions = state
            .workflows
            .get(workflow)
            .map_or(&[][..], |w| &w.versions);
        let without_text = |row: &DefinitionRow| DefinitionRow {
            text: Vec::new(),
            ..row.clone()
        };
        Ok(versions.iter().rev().map(without_text).collect())
    }

    fn workflows(&self) -> Result<Vec<WorkflowRow>, Error> {
        let state = self.state();
        let rows = state.workflows.iter().filter_map(|(id, workflow)| {
            let newest = workflow.versions.last()?;
            Some(WorkflowRow {
                workflow: id.clone(),
                display_name: workflow.display_name.clone(),
                version: newest.version,
                enabled: workflow.enabled,
                updated_at: newest.at,
            })
        });
        Ok(rows.collect())
    }

    fn set_enabled(&self, workflow: &str, enabled: bool) -> Pending<'_, Result<bool, Error>> {
        let mut state = self.state();
        let known = state.workflows.get_mut(workflow);
        let found = known.is_some();
        if let Some(workflow) = known {
            workflow.enabled = enabled;
        }
        Box::pin(ready(Ok(found)))
    }
}
