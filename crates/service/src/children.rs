//! The subworkflows of a definition, against the catalogue.

use std::collections::BTreeSet;

use windlass_core::definition::UnknownWorkflows;
use windlass_core::plan::{NodeIndex, Plan};
use windlass_engine::Backend;
use windlass_store::TenantFilter;

use crate::definition::{Surroundings, check_beside, invalid};
use crate::failure::Failure;
use crate::source::PreparedDefinition;

/// The subworkflows of a plan that the catalogue lacks; nothing if it lacks none.
///
/// # Errors
/// The store failed.
pub async fn unknown_workflows(
    store: &dyn Backend,
    tenant: Option<&str>,
    plan: &Plan,
) -> Result<Option<UnknownWorkflows>, Failure> {
    let children = (0..plan.total() as NodeIndex).filter_map(|node| plan.child(node));
    let asked: BTreeSet<(&str, Option<u32>)> = children.collect();
    let mut unknown = UnknownWorkflows::default();
    for (workflow, version) in asked {
        // The definition itself is about to be in the catalogue.
        if workflow == plan.workflow() && version.is_none() {
            continue;
        }
        if store.workflow(tenant, workflow).await?.is_none() {
            unknown.missing.insert((workflow.into(), None));
        } else if version.is_some() && store.definition(tenant, workflow, version).await?.is_none()
        {
            unknown.missing.insert((workflow.into(), version));
        }
    }
    if unknown.missing.is_empty() {
        return Ok(None);
    }
    let filter = TenantFilter::Only(tenant.map(Into::into));
    let rows = store.workflows(&filter).await?;
    unknown.known = rows.into_iter().map(|row| row.workflow).collect();
    Ok(Some(unknown))
}

/// Refuses a definition whose subworkflows the catalogue lacks, with their places in its text.
///
/// # Errors
/// It lacks some, or the store failed.
pub async fn refuse_unknown(
    store: &dyn Backend,
    tenant: Option<&str>,
    name: &str,
    definition: &PreparedDefinition,
    text: &[u8],
) -> Result<(), Failure> {
    let Some(mut unknown) = unknown_workflows(store, tenant, &definition.plan).await? else {
        return Ok(());
    };
    unknown.refused = true;
    let surroundings = Surroundings {
        unknown_workflows: Some(&unknown),
        ..Surroundings::default()
    };
    match check_beside(name, text, &surroundings) {
        Ok(_) => Ok(()),
        Err(problems) => Err(invalid(name, text, &problems)),
    }
}
