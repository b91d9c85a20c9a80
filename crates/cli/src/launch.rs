//! Starting a run: the definition is published if its content is new, and the run's
//! first record is durable on return. Used by `run`, and by whoever acts for another
//! process.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::RunId;
use windlass_core::definition::Json;
use windlass_engine::{Begin, Clock as _, Engine, StartRequest, Started, SystemClock};
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
}

/// Publishes and starts.
pub(crate) async fn launch(engine: &Engine, launch: Launch) -> Result<Started, Failure> {
    let definition = launch.definition;
    let workflow = definition.plan.workflow();
    let store = engine.store();
    let known = store
        .workflows()?
        .into_iter()
        .find(|row| *row.workflow == *workflow);
    if known.is_some_and(|row| !row.enabled) {
        let message = format!("the workflow '{workflow}' is disabled");
        let hint = format!("`windlass workflows enable {workflow}` allows runs again");
        return Err(Failure::new(Exit::Conflict, "WORKFLOW_DISABLED", message).hint(hint));
    }
    let size = definition.text.len();
    let published = store
        .publish(NewDefinition {
            workflow: workflow.into(),
            display_name: definition.display_name,
            digest: definition.digest,
            text: definition.text,
            signature: definition.signature,
            at: SystemClock.now(),
        })
        .await?;
    engine
        .plans()
        .insert(definition.digest, &definition.plan, size);
    let plan = Arc::clone(&definition.plan);
    let request = StartRequest {
        run: Some(launch.run),
        trigger: launch.trigger,
        request_id: launch.request_id,
        labels: launch.labels,
        vars: launch.vars,
        begin: launch.begin,
        ..StartRequest::new(plan, published.version, definition.digest)
    };
    Ok(engine.start(&request).await?)
}
