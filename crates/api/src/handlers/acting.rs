//! Acting on one run.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use http::Method;
use http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::name::ShortText;
use windlass_engine::{limits, load_latest};
use windlass_service::command::{CommandRequest, RunCommand};
use windlass_service::launch::REQUEST_ID_BYTES;
use windlass_service::{command, dry_run};
use windlass_store::RunRow;

use super::executions::RunPath;
use super::shapes::{ActedShape, Any};
use super::workflows::prepared_graph;
use super::{WORDS_BYTES, definition_bytes, value_bytes};
use crate::app::{App, Caller};
use crate::bounds::{NodePath, Reason};
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, Json, Path, Query, RawDocument};
use crate::failures::{ACTING, DEFINING, together};
use crate::route::{Access, Input, Operation, Routes};
use crate::serve::Draining;

pub(super) fn add(routes: &mut Routes<App>) {
    let words = Access::execute().body(WORDS_BYTES);
    let value = Access::execute().body(value_bytes());
    routes
        .add(
            Method::POST,
            "/api/v1/executions/{id}/cancel",
            words,
            ACTING,
            "Ends a run; running work is asked to stop",
            cancel,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/pause",
            words,
            ACTING,
            "Starts nothing more of a run",
            pause,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/resume",
            words,
            ACTING,
            "Continues a paused run",
            resume,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/reattempt",
            words,
            ACTING,
            "Tries failed nodes again; none named means all that can be",
            reattempt,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/signal",
            value,
            ACTING,
            "Gives a run a signal; one that comes early is kept",
            signal,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/set-result",
            value,
            ACTING,
            "Gives a node's result by hand",
            set_result,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/skip",
            words,
            ACTING,
            "Lets a node count as succeeded",
            skip,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/compensate",
            words,
            ACTING,
            "Undoes what a run did; or tries parts of that again, or leaves them out",
            compensate,
        )
        .add(
            Method::POST,
            "/api/v1/executions/{id}/import",
            Access::manage().body(definition_bytes()),
            &together(&[ACTING, DEFINING]),
            "Replaces the graph of a paused or failed run",
            import,
        );
}

/// Why, and whether at all.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "Hand")]
pub(super) struct ActionOptions {
    /// Why; it is recorded.
    pub(super) reason: Option<Reason>,
    /// Whether to say only what would happen.
    pub(super) dry_run: bool,
}

impl ActionOptions {
    fn new(reason: Option<Reason>, dry_run: bool) -> Self {
        Self { reason, dry_run }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CancelBody {
    /// Whether what succeeded is undone.
    compensate: bool,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct NodesBody {
    /// The nodes, by their paths.
    nodes: Vec<NodePath>,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignalBody {
    /// The signal's name.
    name: ShortText,
    /// What it carries; null, if it is left out.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    payload: Option<Box<RawValue>>,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResultBody {
    /// The node, by its path.
    node: NodePath,
    /// The result.
    #[schemars(with = "Any")]
    output: Box<RawValue>,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeBody {
    /// The node, by its path.
    node: NodePath,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CompensateBody {
    /// Nodes whose compensation is retried.
    retry: Vec<NodePath>,
    /// Nodes whose compensation is skipped.
    skip: Vec<NodePath>,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ImportQuery {
    /// Why; it is recorded.
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    dry_run: bool,
}

/// The run that a command is for, who gives it, and the key of the request.
struct Target {
    caller: Caller,
    path: RunPath,
    key: Option<Box<str>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Target {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(path) = Path::from_request_parts(parts, state).await?;
        let IdempotencyKey(key) = IdempotencyKey::from_request_parts(parts, state).await?;
        Ok(Self {
            caller: Caller::from_request_parts(parts, state).await?,
            path,
            key: key.map(Into::into),
        })
    }
}

impl Input for Target {
    fn describe(operation: &mut Operation<'_>) {
        Path::<RunPath>::describe(operation);
        operation.header(
            "Idempotency-Key",
            "A request that comes again with the same key gets the first answer, and changes \
             nothing",
            Some(REQUEST_ID_BYTES),
        );
    }
}

impl Target {
    /// The run's row, and the command as the caller gives it. A rehearsal has no key.
    async fn request(
        &self,
        app: &App,
        (command, body): (RunCommand, impl Into<Arc<str>>),
        options: ActionOptions,
    ) -> Result<(RunRow, CommandRequest), ApiError> {
        let row = app.run(&self.caller, &self.path.id).await?;
        let by = windlass_core::event::Actor {
            by: self.caller.by(),
            reason: options.reason.map(|reason| String::from(reason).into()),
            request: None,
        };
        let key = self.key.clone().filter(|_| !options.dry_run);
        Ok((row, command.by(by).with(body).keyed(key)))
    }
}

fn paths(nodes: Vec<NodePath>) -> Vec<String> {
    nodes.into_iter().map(Into::into).collect()
}

/// Carries a command out, or says what it would do.
async fn act_on(
    app: &App,
    target: &Target,
    (command, body): (RunCommand, impl Into<Arc<str>>),
    options: ActionOptions,
) -> Result<Json<ActedShape>, ApiError> {
    let (caller, is_dry) = (&target.caller, options.dry_run);
    let (row, request) = target.request(app, (command, body), options).await?;
    let run = row.run;
    let acted = ActedShape {
        execution_id: run.to_string(),
        workflow_id: row.workflow.to_string(),
        status: row.status.as_str().to_owned(),
        would: None,
        again: None,
        undone: None,
    };
    if is_dry {
        let (effect, status, verb) = app
            .read(caller, move |queries| {
                let loaded = load_latest(&*queries.store, &queries.plans, run)?;
                let effect = dry_run::effect(queries, &loaded.run, &request)?;
                Ok((effect, loaded.run.status(), command::verb(&request.command)))
            })
            .await?;
        let paths = |paths: &[Box<str>]| paths.iter().map(ToString::to_string).collect();
        return Ok(Json(ActedShape {
            status: status.as_str().to_owned(),
            would: Some(verb.to_owned()),
            again: Some(paths(&effect.again)),
            undone: Some(paths(&effect.undone)),
            ..acted
        }));
    }
    let answer = command::execute(app.engine(), run, &request).await?;
    if !answer.repeated {
        if request.command.continues_run() {
            app.run_continues(run);
        }
        let detail = json!({ "deed": request.command, "reason": request.actor.reason });
        let what = format!("executions.{}", request.command.name());
        app.note(caller, row.tenant, &what, run.to_string(), &detail)
            .await?;
    }
    let status = match answer.status {
        Some(status) => status,
        None => app.read(caller, move |queries| queries.status(run)).await?,
    };
    Ok(Json(ActedShape {
        status: status.as_str().to_owned(),
        ..acted
    }))
}

async fn cancel(
    State(app): State<App>,
    target: Target,
    body: Option<Json<CancelBody>>,
) -> Result<Json<ActedShape>, ApiError> {
    let body = body.map(|Json(body)| body).unwrap_or_default();
    let command = RunCommand::Cancel {
        compensate: body.compensate,
    };
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, ""), options).await
}

async fn pause(
    State(app): State<App>,
    target: Target,
    body: Option<Json<ActionOptions>>,
) -> Result<Json<ActedShape>, ApiError> {
    let options = body.map(|Json(options)| options).unwrap_or_default();
    act_on(&app, &target, (RunCommand::Pause, ""), options).await
}

async fn resume(
    State(app): State<App>,
    target: Target,
    body: Option<Json<ActionOptions>>,
) -> Result<Json<ActedShape>, ApiError> {
    let options = body.map(|Json(options)| options).unwrap_or_default();
    act_on(&app, &target, (RunCommand::Resume, ""), options).await
}

async fn reattempt(
    State(app): State<App>,
    target: Target,
    body: Option<Json<NodesBody>>,
) -> Result<Json<ActedShape>, ApiError> {
    let body = body.map(|Json(body)| body).unwrap_or_default();
    let command = RunCommand::Reattempt {
        nodes: paths(body.nodes),
    };
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, ""), options).await
}

/// Refuses a value past its limit with a status of its own, as triggers are.
fn check_size(value: &str) -> Result<(), ApiError> {
    let (size, most) = (value.len(), limits().payload_bytes);
    if size <= most {
        return Ok(());
    }
    let message = format!("the value has {size} bytes; it may have {most}");
    Err(crate::failures::PAYLOAD_TOO_LARGE.error(message))
}

async fn signal(
    State(app): State<App>,
    target: Target,
    Json(body): Json<SignalBody>,
) -> Result<Json<ActedShape>, ApiError> {
    let command = RunCommand::Signal {
        name: body.name.into(),
    };
    let payload = body
        .payload
        .map_or_else(|| "null".to_owned(), |it| it.get().to_owned());
    check_size(&payload)?;
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, payload), options).await
}

async fn set_result(
    State(app): State<App>,
    target: Target,
    Json(body): Json<ResultBody>,
) -> Result<Json<ActedShape>, ApiError> {
    check_size(body.output.get())?;
    let command = RunCommand::SetResult {
        node: body.node.into(),
    };
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, body.output.get()), options).await
}

async fn skip(
    State(app): State<App>,
    target: Target,
    Json(body): Json<NodeBody>,
) -> Result<Json<ActedShape>, ApiError> {
    let command = RunCommand::Skip {
        node: body.node.into(),
    };
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, ""), options).await
}

async fn compensate(
    State(app): State<App>,
    target: Target,
    body: Option<Json<CompensateBody>>,
) -> Result<Json<ActedShape>, ApiError> {
    let body = body.map(|Json(body)| body).unwrap_or_default();
    let command = match (body.retry.is_empty(), body.skip.is_empty()) {
        (true, true) => RunCommand::Compensate,
        (true, false) => RunCommand::SkipCompensation {
            nodes: paths(body.skip),
        },
        (false, true) => RunCommand::RetryCompensation {
            nodes: paths(body.retry),
        },
        (false, false) => {
            let message = "either retry or skip, not both at once";
            return Err(crate::code::BODY_INVALID.error(message));
        }
    };
    let options = ActionOptions::new(body.reason, body.dry_run);
    act_on(&app, &target, (command, ""), options).await
}

async fn import(
    State(app): State<App>,
    target: Target,
    Query(query): Query<ImportQuery>,
    draining: Draining,
    document: RawDocument<Any>,
) -> Result<Json<ActedShape>, ApiError> {
    let row = app.run(&target.caller, &target.path.id).await?;
    let workflow = Some(row.workflow.clone());
    let caller = (&app, &target.caller);
    let preparing = prepared_graph(caller, document.bytes, workflow, &draining).await;
    let definition = preparing.map_err(|error| match error.code() {
        "DEFINITION_INVALID" => error.renamed(crate::failures::IMPORT_INVALID),
        _ => error,
    })?;
    let text = String::from_utf8_lossy(&definition.text).into_owned();
    let options = ActionOptions::new(query.reason, query.dry_run);
    act_on(&app, &target, (RunCommand::Import, text), options).await
}
