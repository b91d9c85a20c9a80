//! The registered workflows in a tenant's name. A tenant's catalogue is its own, so they
//! are published there when the first run for it is asked for, all of them: a run may
//! start others as children.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_store::{Error, NewDefinition};

use super::Inner;

/// The versions of the registered workflows in each tenant that runs were asked for.
#[derive(Default)]
pub(super) struct Tenants(Mutex<BTreeMap<Box<str>, Versions>>);

type Versions = Arc<BTreeMap<Box<str>, u32>>;

impl Tenants {
    fn get(&self, tenant: &str) -> Option<Versions> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tenant).cloned()
    }

    fn keep(&self, tenant: &str, versions: &Versions) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(tenant.into(), Arc::clone(versions));
    }
}

/// The version that a registered workflow has in a tenant.
pub(super) async fn version(
    engine: &Inner,
    tenant: &str,
    workflow: &str,
) -> Result<Option<u32>, Error> {
    let versions = match engine.tenants.get(tenant) {
        Some(versions) => versions,
        None => {
            let versions = Arc::new(publish_all(engine, tenant).await?);
            engine.tenants.keep(tenant, &versions);
            versions
        }
    };
    Ok(versions.get(workflow).copied())
}

async fn publish_all(engine: &Inner, tenant: &str) -> Result<BTreeMap<Box<str>, u32>, Error> {
    let store = engine.engine.store();
    let mut versions = BTreeMap::new();
    for (workflow, published) in &engine.workflows {
        let Some(row) = store
            .definition(None, workflow, Some(published.version))
            .await?
        else {
            continue;
        };
        let name = store.workflow(None, workflow).await?;
        let copied = store.publish(NewDefinition {
            tenant: Some(tenant.into()),
            workflow: workflow.clone(),
            display_name: name.and_then(|row| row.display_name),
            digest: row.digest,
            text: row.text.into(),
            signature: row.signature,
            at: row.at,
        });
        versions.insert(workflow.clone(), copied.await?.version);
    }
    Ok(versions)
}
