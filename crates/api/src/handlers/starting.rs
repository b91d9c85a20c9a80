//! Starting runs: of a published workflow, of a graph of their own, and from an old run.

use std::collections::BTreeMap;

use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_core::event::Actor;
use windlass_core::name::cut;
use windlass_core::{Digest, RunId};
use windlass_engine::names::TENANT_BYTES;
use windlass_engine::{Clock as _, StartError, StartRequest, Started, SystemClock, canonical};
use windlass_service::forking::{self, ForkAsked};
use windlass_service::launch::{
    Launch, REQUEST_ID_BYTES, is_request_id, is_tenant, label_problem, launch,
};
use windlass_service::start_body::StartBody;
use windlass_service::{Failure, catalogue};

use super::executions::RunPath;
use super::shapes::{Any, ForkPlanShape, StartedShape};
use super::workflows::{WorkflowPath, prepared_graph};
use super::{definition_bytes, value_bytes};
use crate::answer::{Accepted, Either, RawJson};
use crate::app::{App, Caller};
use crate::bounds::{NodePath, Reason};
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, Json, Path, Query, RawDocument, decode};
use crate::failures::{self, ACTING, DEFINING, STARTING, together};
use crate::route::{Access, Rate, Routes, TokenScope};
use crate::serve::Draining;

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::POST,
            "/api/v1/workflows/{id}/execute",
            Access::execute().rate(Rate::Workflow).body(value_bytes()),
            STARTING,
            "Queues a run; it is durable when the answer comes",
            execute,
        )
        .add(
            Method::POST,
            "/api/v1/executions",
            Access::manage().body(definition_bytes()),
            &together(&[STARTING, DEFINING]),
            "Starts a run of the graph in the body, which belongs to that run alone",
            dynamic,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/fork",
            Access::execute().body(value_bytes()),
            &together(&[STARTING, DEFINING, ACTING, &[failures::USAGE]]),
            "Starts a run that reuses results of an old one",
            fork,
        );
}

/// A request id, if it can be one.
fn checked(id: Option<String>) -> Result<Option<Box<str>>, ApiError> {
    match id {
        Some(id) if !is_request_id(&id) => {
            let message = format!(
                "a request id has from 1 to {REQUEST_ID_BYTES} bytes and no control characters"
            );
            Err(crate::code::BODY_INVALID.error(message))
        }
        id => Ok(id.map(Into::into)),
    }
}

/// What the body says of the run, once it is checked.
fn request(
    body: StartBody,
    caller: &Caller,
    key: IdempotencyKey,
    headers: &HeaderMap,
) -> Result<StartRequest, ApiError> {
    let invalid = |message: String| crate::code::BODY_INVALID.error(message);
    let priority = body.priority.unwrap_or(5);
    if priority > 9 {
        return Err(invalid(format!(
            "the priority is {priority}; it is from 0 to 9"
        )));
    }
    let request_id = checked(body.request_id.or(key.0))?;
    let correlation = body.correlation_id;
    if correlation.as_ref().is_some_and(|id| !is_request_id(id)) {
        return Err(invalid(format!(
            "a correlation id has from 1 to {REQUEST_ID_BYTES} bytes and no control characters"
        )));
    }
    let labels = body.labels.unwrap_or_default();
    let parts = labels.iter().map(|(key, value)| (&**key, &**value));
    if let Some(message) = label_problem(parts) {
        return Err(failures::LABEL_INVALID.error(message));
    }
    let trigger = body.trigger.as_ref().map_or("{}", |it| it.get());
    Ok(StartRequest {
        tenant: tenant(caller, body.tenant_id)?,
        trigger: trigger.to_owned(),
        request_id,
        asked: None,
        correlation_id: Some(match correlation {
            Some(id) => id.into(),
            None => caller.correlation.as_str().into(),
        }),
        priority,
        labels,
        vars: body.vars.unwrap_or_default(),
        traceparent: traceparent(headers),
    })
}

/// The run's tenant: the token's; a caller that may see all tenants may name another.
fn tenant(caller: &Caller, asked: Option<String>) -> Result<Option<Box<str>>, ApiError> {
    let own = caller.principal.tenant.clone();
    let free = caller.principal.tenants() == windlass_store::TenantFilter::Any;
    match asked {
        None => Ok(own),
        Some(asked) if own.as_deref() == Some(asked.as_str()) => Ok(own),
        Some(asked) if caller.principal.is_everyone() => {
            let asked = cut(&asked, TENANT_BYTES).escape_debug();
            let message =
                format!("tenantId '{asked}': this server asks for no tokens, and has no tenants");
            Err(failures::TENANT_MISMATCH
                .error(message)
                .hint("leave tenantId out, or serve with tokens (auth_keys)"))
        }
        Some(asked) if free && is_tenant(&asked) => Ok(Some(asked.into())),
        Some(asked) => {
            let asked = cut(&asked, TENANT_BYTES).escape_debug();
            let message = format!("the tenant '{asked}' is not the token's");
            Err(failures::TENANT_MISMATCH.error(message))
        }
    }
}

async fn execute(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    key: IdempotencyKey,
    headers: HeaderMap,
    body: Option<Json<StartBody>>,
) -> Result<Accepted<StartedShape>, ApiError> {
    let body = body.map(|Json(body)| body).unwrap_or_default();
    let version = body.version;
    let request = request(body, &caller, key, &headers)?;
    let (tenant, request_id) = (request.tenant.clone(), request.request_id.clone());
    let started = match app.engine().enqueue(&path.id, version, request).await {
        Ok(started) => started,
        // A suggestion names another workflow, which takes the right to read them.
        Err(error) if !caller.principal.scopes.allow(TokenScope::Read) => {
            return Err(Failure::from(error).into());
        }
        Err(error) => {
            let store = app.engine().store();
            let refused = catalogue::not_started(&**store, tenant.as_deref(), error);
            return Err(refused.await.into());
        }
    };
    if !started.existing {
        let detail = json!({ "executionId": started.run.to_string(), "requestId": request_id });
        let what = "workflows.execute";
        app.note_done(&caller, tenant, what, path.id.as_str(), &detail)
            .await;
    }
    accepted(&app, started).await
}

fn traceparent(headers: &HeaderMap) -> Option<Box<str>> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    (value.len() <= 128).then(|| value.into())
}

/// The answer to a start. A run that existed before may have any status by now.
async fn accepted(app: &App, started: Started) -> Result<Accepted<StartedShape>, ApiError> {
    let run = started.run;
    app.started(run).await?;
    let status = match started.existing {
        false => "Pending".to_owned(),
        true => {
            let row = app.engine().store().run(run).await.ok().flatten();
            row.map_or("Pending", |row| row.status.as_str()).to_owned()
        }
    };
    let location = format!("/api/v1/executions/{run}");
    Ok(Accepted {
        body: StartedShape {
            execution_id: run.to_string(),
            status,
            status_url: location.clone(),
            existing: started.existing,
        },
        location,
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DynamicQuery {
    /// Unique per tenant and workflow, where the body does not say.
    #[schemars(length(min = 1, max = 256))]
    request_id: Option<String>,
}

async fn dynamic(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    Query(query): Query<DynamicQuery>,
    headers: HeaderMap,
    draining: Draining,
    document: RawDocument<Any>,
) -> Result<Accepted<StartedShape>, ApiError> {
    let (graph, mut body) = match document.yaml {
        true => (document.bytes.to_vec(), StartBody::default()),
        false => split(&document.bytes)?,
    };
    body.request_id = body.request_id.or(query.request_id);
    let request = request(body, &caller, key, &headers)?;
    let graph = Bytes::from(graph);
    let definition = prepared_graph((&app, &caller), graph.clone(), None, &draining).await?;
    let declared = definition.plan.vars();
    if let Some(name) = request.vars.keys().find(|&it| !declared.contains_key(it)) {
        return Err(Failure::from(StartError::UnknownVariable(name.clone())).into());
    }
    let target = definition.plan.workflow().to_owned();
    let tenant = request.tenant.clone();
    let request = StartRequest {
        asked: Some(as_sent(&graph, document.yaml)),
        ..request
    };
    let launched = Launch {
        frozen: true,
        request,
        ..Launch::new(definition, SystemClock.new_run_id())
    };
    let started = launch(app.engine(), launched).await?.started;
    let detail = json!({ "executionId": started.run.to_string() });
    app.note_done(&caller, tenant, "executions.start", target, &detail)
        .await;
    accepted(&app, started).await
}

/// A digest of a graph that was checked, as it was sent: the definition made of it may have the
/// time of this request.
fn as_sent(graph: &[u8], yaml: bool) -> Digest {
    let text = std::str::from_utf8(graph).ok().filter(|_| !yaml);
    match text.and_then(|text| canonical(text).ok()) {
        Some(text) => Digest::of(text.as_bytes()),
        None => Digest::of(graph),
    }
}

/// The graph and what else the body says: a graph alone, or one under `graph` beside the
/// keys that `execute` has.
fn split(bytes: &[u8]) -> Result<(Vec<u8>, StartBody), ApiError> {
    let keys: BTreeMap<String, Box<RawValue>> = decode(bytes)?;
    let Some(graph) = keys.get("graph") else {
        return Ok((bytes.to_vec(), StartBody::default()));
    };
    let graph = graph.get().as_bytes().to_vec();
    let rest: BTreeMap<&String, &Box<RawValue>> =
        keys.iter().filter(|(key, _)| *key != "graph").collect();
    let rest = serde_json::to_vec(&rest).unwrap_or_default();
    Ok((graph, decode(&rest)?))
}

/// What a fork is asked for with.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForkBody {
    /// The nodes that run again, with all after them.
    #[schemars(length(min = 1))]
    from: Vec<NodePath>,
    /// What changes: `trigger.x`, `vars.x` or `nodes.N.parameters.x`, with its value.
    #[serde(default)]
    set: Map<String, Value>,
    /// Whether the newest version is taken.
    #[serde(default)]
    newest: bool,
    /// The version that is taken instead of the old run's.
    version: Option<u32>,
    /// Whether results that compensation has undone are reused. Without it those nodes run again,
    /// with all after them.
    #[serde(default)]
    reuse_compensated: bool,
    /// Unique per tenant and workflow.
    #[schemars(length(min = 1, max = 256))]
    request_id: Option<String>,
    /// Why; it is recorded.
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

async fn fork(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    key: IdempotencyKey,
    Json(body): Json<ForkBody>,
) -> Result<Either<Accepted<StartedShape>, RawJson<ForkPlanShape>>, ApiError> {
    let row = app.run(&caller, &path.id).await?;
    let request_id = checked(body.request_id.or(key.0))?;
    let asked = ForkAsked {
        origin: row.run,
        run: SystemClock.new_run_id(),
        from: body.from.into_iter().map(Into::into).collect(),
        set: body
            .set
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect(),
        newest: body.newest,
        version: body.version,
        reuse_compensated: body.reuse_compensated,
        request_id,
        actor: Actor {
            by: caller.by(),
            reason: body.reason.map(|words| String::from(words).into()),
            request: None,
        },
    };
    let reason = asked.actor.reason.clone();
    let origin: RunId = row.run;
    let forked = app
        .read(&caller, move |queries| {
            forking::prepare(&*queries.store, &queries.plans, &queries.values(), &asked)
        })
        .await?;
    if body.dry_run {
        let plan = forking::to_json(origin, &forked);
        return Ok(Either::Right(RawJson::new(plan.to_string())));
    }
    let started = app
        .engine()
        .start(&forked.new_run)
        .await
        .map_err(Failure::from)?;
    let detail = json!({ "executionId": started.run.to_string(), "reason": reason });
    app.note_done(&caller, row.tenant, "executions.fork", path.id, &detail)
        .await;
    Ok(Either::Left(accepted(&app, started).await?))
}
