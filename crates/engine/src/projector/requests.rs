//! Starts the runs that SQL asks for. The request id is claimed for the run already, so several
//! processes may try: the first record decides.

use serde_json::{Value, json};
use windlass_store::{DeadLetter, Error, Head, Projections, RequestedRun};

use crate::engine::Engine;
use crate::engine_event::EngineEvent;
use crate::names::check_names;
use crate::start::{StartError, StartRequest, claim_value};

/// How many requests are read together.
const PAGE: usize = 64;

impl Engine {
    /// Starts, or refuses, the requests that have waited for at least this long.
    pub(super) async fn start_requested(
        &self,
        projections: &dyn Projections,
        age_ms: u64,
    ) -> Result<(), Error> {
        for request in projections.requested_runs(age_ms, PAGE).await? {
            let start = start_of(&request);
            let claim = claim_value(request.run, &start);
            if self.store().head(request.run).await? != Head::NONE {
                // Another process was faster, or died before it could say so.
                projections.request_started(request.run, claim).await?;
                continue;
            }
            match self.start_request(&request, start).await {
                Ok(()) => projections.request_started(request.run, claim).await?,
                Err(StartError::Store(Error::Damaged(damage))) => {
                    self.refuse_request(projections, &request, &damage.to_string())
                        .await?;
                }
                Err(StartError::Store(error)) => return Err(error),
                Err(StartError::Stopped | StartError::Busy) => return Ok(()),
                Err(error) => {
                    self.refuse_request(projections, &request, &error.to_string())
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn start_request(
        &self,
        request: &RequestedRun,
        start: StartRequest,
    ) -> Result<(), StartError> {
        check_names(&start, false)?;
        self.enqueue_as(request.run, &request.workflow, None, start)
            .await?;
        Ok(())
    }

    /// Puts a request among the dead letters, under the id that its caller has.
    async fn refuse_request(
        &self,
        projections: &dyn Projections,
        request: &RequestedRun,
        reason: &str,
    ) -> Result<(), Error> {
        let trigger = serde_json::from_str::<Value>(&request.trigger).unwrap_or(Value::Null);
        let payload = json!({
            "executionId": request.run.to_string(),
            "workflowId": &*request.workflow,
            "requestId": &*request.request_id,
            "trigger": trigger,
            "requestedBy": "sp_start_workflow_execution",
        });
        let letter = DeadLetter {
            run: request.run,
            tenant: request.tenant.clone(),
            workflow: request.workflow.clone(),
            reason: reason.into(),
            payload: payload.to_string().into_bytes(),
            deliveries: 1,
            at: self.now(),
            damage: None,
        };
        self.store().add_dead_letter(letter).await?;
        projections.request_refused(request.run).await?;
        self.shared().observe(&EngineEvent::DeadLettered {
            run: request.run,
            workflow: &request.workflow,
            version: 0,
            correlation_id: &request.run.to_string(),
            reason,
        });
        Ok(())
    }
}

/// What SQL asks for.
fn start_of(request: &RequestedRun) -> StartRequest {
    StartRequest {
        tenant: request.tenant.clone(),
        trigger: request.trigger.clone(),
        request_id: Some(request.request_id.clone()),
        ..StartRequest::default()
    }
}
