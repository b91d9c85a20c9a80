//! Definitions in the catalogue of a store.

use std::sync::Arc;

use windlass_core::definition::{self, DefinitionSource, signature};
use windlass_core::plan::Plan;
use windlass_core::{Digest, Millis};
use windlass_engine::NewRun;
use windlass_store::{Catalogue, NewDefinition};

/// Adds a definition to the catalogue, as a request for a run of it.
pub async fn publish(store: &dyn Catalogue, tenant: Option<&str>, text: &str) -> NewRun {
    let source = DefinitionSource::new("test.json", text.as_bytes());
    let parsed = definition::parse(&source, &definition::Options::default());
    let parsed = parsed.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    let digest = Digest::of(&parsed.json);
    let published = store.publish(NewDefinition {
        tenant: tenant.map(Into::into),
        workflow: parsed.definition.id.clone(),
        display_name: None,
        digest,
        text: parsed.json.into(),
        signature: signature(&parsed.definition),
        at: Millis(0),
    });
    let version = published.await.expect("published").version;
    let plan = Arc::new(Plan::build(parsed.definition).expect("a plan"));
    let mut new = NewRun::new(plan, version, digest);
    new.request.tenant = tenant.map(Into::into);
    new
}
