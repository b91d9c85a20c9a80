//! Starting a run: the definition is published if its content is new, and the run's
//! first record is durable on return. Used by `run`, and by a process that acts for another
//! one.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_core::name::TEXT_BYTES;
use windlass_engine::{
    Backend, Begin, Clock as _, Engine, NewRun, StartRequest, Started, SystemClock,
};
use windlass_store::{NewDefinition, Published};

use crate::failure::{Failure, FailureKind};
use crate::pools::check_pools;
use crate::source::PreparedDefinition;

/// The longest request id.
pub const REQUEST_ID_BYTES: usize = TEXT_BYTES;
/// The longest value of a label; a key has at most 128 bytes.
pub const LABEL_BYTES: usize = TEXT_BYTES;

pub use windlass_engine::names::{LABELS, is_request_id, is_tenant, label_problem};

/// A definition to run, and the request for its run.
pub struct Launch {
    /// The definition to run.
    pub definition: PreparedDefinition,
    /// Whether the graph belongs to the run alone: it is not published.
    pub frozen: bool,
    /// The new run's id, if there is none for the request id yet.
    pub run: RunId,
    /// Whether it begins at once.
    pub begin: Begin,
    /// What the caller says of it.
    pub request: StartRequest,
}

impl Launch {
    /// A launch with nothing but a definition.
    pub fn new(definition: PreparedDefinition, run: RunId) -> Self {
        Self {
            definition,
            frozen: false,
            run,
            begin: Begin::Now,
            request: StartRequest::default(),
        }
    }
}

/// A run that was started, and the version that was published for it.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// The run.
    pub started: Started,
    /// The version of its workflow; `None` if the graph belongs to the run alone.
    pub published: Option<Published>,
}

/// Publishes and starts.
///
/// # Errors
/// The workflow is disabled, the trigger does not fit, or the store failed.
pub async fn launch(engine: &Engine, launch: Launch) -> Result<Launched, Failure> {
    let (definition, request) = (launch.definition, launch.request);
    let tenant = request.tenant.as_deref();
    refuse_disabled(&**engine.store(), tenant, definition.plan.workflow()).await?;
    let plan = Arc::clone(&definition.plan);
    check_pools(&**engine.store(), tenant, &plan).await?;
    let (digest, text) = (definition.digest, Arc::clone(&definition.text));
    let (published, frozen) = match launch.frozen {
        // A graph of its own is no version.
        true => (None, Some(String::from_utf8_lossy(&text).into())),
        false => (Some(publish(engine, tenant, definition).await?), None),
    };
    let version = published.map_or(0, |published| published.version);
    engine.plans().insert(digest, &plan, text.len());
    let new = NewRun {
        run: Some(launch.run),
        begin: launch.begin,
        request,
        frozen,
        ..NewRun::new(plan, version, digest)
    };
    let started = engine.start(&new).await?;
    Ok(Launched { started, published })
}

/// Publishes a definition; runs that follow the newest version do so.
///
/// # Errors
/// The store failed.
pub async fn publish(
    engine: &Engine,
    tenant: Option<&str>,
    definition: PreparedDefinition,
) -> Result<Published, Failure> {
    let workflow = definition.plan.workflow().to_owned();
    check_pools(&**engine.store(), tenant, &definition.plan).await?;
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
    // Runs that are asked for from now on get this version.
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
