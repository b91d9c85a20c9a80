//! Starting a run: the definition is published if its content is new, and the run's
//! first record is durable on return. Used by `run`, and by whoever acts for another
//! process.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::RunId;
use windlass_core::definition::Json;
use windlass_engine::{Backend, Begin, Clock as _, Engine, StartRequest, Started, SystemClock};
use windlass_store::NewDefinition;

use crate::exit::{Exit, Failure};
use crate::source::Prepared;

/// What a run is started with.
pub(crate) struct Launch {
    pub(crate) definition: Prepared,
    /// The new run's id, if there is none for the request id yet.
    pub(crate) run: RunId,
    pub(crate) trigger: String,
    pub(crate) request_id: Option<Box<str>>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) vars: BTreeMap<Box<str>, Json>,
    pub(crate) begin: Begin,
    /// Whether the graph belongs to the run alone: it is not published.
    pub(crate) frozen: bool,
}

/// Publishes and starts.
pub(crate) async fn launch(engine: &Engine, launch: Launch) -> Result<Started, Failure> {
    let definition = launch.definition;
    let workflow = definition.plan.workflow();
    refuse_disabled(&**engine.store(), workflow)?;
    let size = definition.text.len();
    let plan = Arc::clone(&definition.plan);
    let (digest, text) = (definition.digest, Arc::clone(&definition.text));
    let version = match launch.frozen {
        // A graph of its own is no version.
        true => 0,
        false => publish(engine, definition).await?,
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
        begin: launch.begin,
        frozen,
        ..StartRequest::new(plan, version, digest)
    };
    Ok(engine.start(&request).await?)
}

/// Publishes a definition; runs that follow the newest version do so.
async fn publish(engine: &Engine, definition: Prepared) -> Result<u32, Failure> {
    let workflow = definition.plan.workflow().to_owned();
    let published = engine
        .store()
        .publish(NewDefinition {
            tenant: None,
            workflow: workflow.as_str().into(),
            display_name: definition.display_name,
            digest: definition.digest,
            text: definition.text,
            signature: definition.signature,
            at: SystemClock.now(),
        })
        .await?;
    if published.created {
        engine.heal_all(None, &workflow).await?;
    }
    Ok(published.version)
}

/// Refuses new runs of a workflow that is disabled.
pub(crate) fn refuse_disabled(store: &dyn Backend, workflow: &str) -> Result<(), Failure> {
    if store
        .workflow(None, workflow)?
        .is_some_and(|row| !row.enabled)
    {
        let message = format!("the workflow '{workflow}' is disabled");
        let hint = format!("`windlass workflows enable {workflow}` allows runs again");
        return Err(Failure::new(Exit::Conflict, "WORKFLOW_DISABLED", message).hint(hint));
    }
    Ok(())
}
