//! Starting a run: the definition is published if its content is new, and the run's
//! first record is durable on return. Used by `run`, and by whoever acts for another
//! process.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::RunId;
use windlass_core::definition::Json;
use windlass_core::name::TEXT_BYTES;
use windlass_engine::{Backend, Begin, Clock as _, Engine, StartRequest, Started, SystemClock};
use windlass_store::{NewDefinition, Published};

use crate::failure::{Failure, FailureKind};
use crate::source::Prepared;

/// The longest request id.
pub const REQUEST_ID_BYTES: usize = TEXT_BYTES;
/// The longest value of a label; a key has at most 128 bytes.
pub const LABEL_BYTES: usize = TEXT_BYTES;

pub use windlass_engine::names::{LABELS, is_request_id, is_tenant, label_problem};

/// What a run is started with.
pub struct Launch {
    /// What is run.
    pub definition: Prepared,
    /// The new run's id, if there is none for the request id yet.
    pub run: RunId,
    /// JSON text.
    pub trigger: String,
    /// Unique per tenant and workflow.
    pub request_id: Option<Box<str>>,
    /// Beside the definition's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Instead of the definition's own.
    pub vars: BTreeMap<Box<str>, Json>,
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// From 0 to 9; higher first.
    pub priority: u8,
    /// What ties the run to the outside.
    pub correlation_id: Option<Box<str>>,
    /// Whether it begins at once.
    pub begin: Begin,
    /// Whether the graph belongs to the run alone: it is not published.
    pub frozen: bool,
}

impl Launch {
    /// A launch with nothing but a definition.
    pub fn new(definition: Prepared, run: RunId) -> Self {
        Self {
            definition,
            run,
            trigger: "{}".to_owned(),
            request_id: None,
            labels: BTreeMap::new(),
            vars: BTreeMap::new(),
            tenant: None,
            priority: 5,
            correlation_id: None,
            begin: Begin::Now,
            frozen: false,
        }
    }
}

/// Publishes and starts.
///
/// # Errors
/// The workflow is disabled, the trigger does not fit, or the store failed.
pub async fn launch(engine: &Engine, launch: Launch) -> Result<Started, Failure> {
    let definition = launch.definition;
    let workflow = definition.plan.workflow();
    let tenant = launch.tenant.as_deref();
    refuse_disabled(&**engine.store(), tenant, workflow).await?;
    let size = definition.text.len();
    let plan = Arc::clone(&definition.plan);
    let (digest, text) = (definition.digest, Arc::clone(&definition.text));
    let version = match launch.frozen {
        // A graph of its own is no version.
        true => 0,
        false => publish(engine, tenant, definition).await?.version,
    };
    engine.plans().insert(digest, &plan, size);
    let frozen = launch
        .frozen
        .then(|| String::from_utf8_lossy(&text).into_owned().into());
    let request = StartRequest {
        run: Some(launch.run),
        trigger: launch.trigger,
        request_id: launch.request_id,
        labels: launch.labels,
        vars: launch.vars,
        tenant: launch.tenant,
        priority: launch.priority,
        correlation_id: launch.correlation_id,
        begin: launch.begin,
        frozen,
        ..StartRequest::new(plan, version, digest)
    };
    Ok(engine.start(&request).await?)
}

/// Publishes a definition; runs that follow the newest version do so.
///
/// # Errors
/// The store failed.
pub async fn publish(
    engine: &Engine,
    tenant: Option<&str>,
    definition: Prepared,
) -> Result<Published, Failure> {
    let workflow = definition.plan.workflow().to_owned();
    let published = engine
        .store()
        .publish(NewDefinition {
            tenant: tenant.map(Into::into),
            workflow: workflow.as_str().into(),
            display_name: definition.display_name,
            digest: definition.digest,
            text: definition.text,
            signature: definition.signature,
            at: SystemClock.now(),
        })
        .await?;
    // Whoever is asked for a run from now on gets this version.
    engine.catalogue_changed(tenant, &workflow);
    if published.created {
        engine.heal_all(tenant, &workflow).await?;
    }
    Ok(published)
}

/// Refuses new runs of a workflow that is disabled.
pub async fn refuse_disabled(
    store: &dyn Backend,
    tenant: Option<&str>,
    workflow: &str,
) -> Result<(), Failure> {
    let row = store.workflow(tenant, workflow).await?;
    if row.is_some_and(|row| !row.enabled) {
        let message = format!("the workflow '{workflow}' is disabled");
        let hint = format!("`windlass workflows enable {workflow}` allows runs again");
        return Err(Failure::new(FailureKind::WorkflowDisabled, message).hint(hint));
    }
    Ok(())
}
