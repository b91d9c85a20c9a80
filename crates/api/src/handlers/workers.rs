//! Workers in any language: they poll for work, send heartbeats, and report how an attempt
//! ended. Everything belongs to the token's tenant. These requests are not counted against a
//! token's rate: how often a worker asks follows from how much there is to do.

use std::time::Duration;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::event::ResourceLink;
use windlass_core::name::{KeyName, ShortText, cut};
use windlass_engine::{
    ActionError, Declaration, Poll, TaskId, TaskOutcome, WorkError, WorkerInfo, WorkerTask, limits,
};
use windlass_service::Failure;

use super::WORDS_BYTES;
use super::shapes::{Any, RecordedShape, StopShape, TasksShape, WorkerShape};
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::{Between, Words};
use crate::code::BODY_TOO_LARGE;
use crate::error::{ApiError, Code};
use crate::extract::{AnswerBy, Json, Path, Report};
use crate::failures::{
    ACTION_RESERVED, ENGINE_STOPPED, LEASE_LOST, PROTOCOL_UNSUPPORTED, SCHEMA_INVALID,
    SCHEMA_LIMIT, STORE_TIMEOUT, STORE_UNAVAILABLE, TASK_ENDED, TASK_NOT_FOUND, TOO_MANY_ACTIONS,
    TOO_MANY_POLLERS, USAGE,
};
use crate::route::{Access, Rate, Routes};
use crate::serve::Draining;

/// The version of the protocol that this server speaks.
const PROTOCOL: u32 = 1;

/// The largest body of a poll: a thousand declarations with their schemas.
const POLL_BYTES: u64 = 4 * 1024 * 1024;

/// The most labels that a worker may have, and tasks that it may name.
const LABELS: usize = 64;
const HOLDING: usize = 10_000;

/// The most that a worker may say about how an attempt ran, in bytes.
const META_BYTES: usize = 64 * 1024;

/// The most that is recorded of a failure's message and details, in bytes: a message is cut,
/// details past this are left out.
const MESSAGE_BYTES: usize = 64 * 1024;
const DETAILS_BYTES: usize = 1024 * 1024;

/// The largest body with an output in it. It has room for an output past its limit: that fails the
/// node with its own code, and the worker needs no second answer.
pub(super) fn output_bytes(limits: &windlass_engine::Limits) -> u64 {
    2 * limits.values.output_bytes as u64 + WORDS_BYTES
}

pub(super) fn add(routes: &mut Routes<App>) {
    let work = Access::work().rate(Rate::Free);
    let words = work.body(WORDS_BYTES);
    let report = work.body(output_bytes(limits())).beginning();
    let task: &[Code] = &[
        TASK_NOT_FOUND,
        LEASE_LOST,
        TASK_ENDED,
        ENGINE_STOPPED,
        STORE_UNAVAILABLE,
        STORE_TIMEOUT,
    ];
    let polling: &[Code] = &[
        PROTOCOL_UNSUPPORTED,
        USAGE,
        ACTION_RESERVED,
        TOO_MANY_ACTIONS,
        TOO_MANY_POLLERS,
        SCHEMA_INVALID,
        SCHEMA_LIMIT,
        ENGINE_STOPPED,
        STORE_UNAVAILABLE,
        STORE_TIMEOUT,
    ];
    routes
        .add(
            Method::GET,
            "/api/v1/workers",
            work,
            &[],
            "Lists the workers that poll or have tasks",
            list,
        )
        .add(
            Method::POST,
            "/api/v1/workers/poll",
            work.body(POLL_BYTES),
            polling,
            "Waits for work of the named types, which are declared by that",
            poll,
        )
        .add(
            Method::POST,
            "/api/v1/workers/tasks/{taskId}/heartbeat",
            words,
            task,
            "Keeps a task, and hears whether to stop",
            heartbeat,
        )
        .add(
            Method::POST,
            "/api/v1/workers/tasks/{taskId}/complete",
            report,
            task,
            "Ends a task's attempt with an output",
            complete,
        )
        .add(
            Method::POST,
            "/api/v1/workers/tasks/{taskId}/fail",
            report,
            task,
            "Ends a task's attempt with an error",
            fail,
        )
        .add(
            Method::POST,
            "/api/v1/workers/tasks/{taskId}/skip",
            words,
            task,
            "Ends a task's attempt: there was nothing to do",
            skip,
        );
}

/// An action type, as a worker declares it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ActionBody {
    /// What definitions call it.
    action_type: KeyName,
    /// JSON Schema of its parameters: they are checked before the worker gets them.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    parameters_schema: Option<Box<RawValue>>,
    /// What it does.
    #[serde(default)]
    description: Option<Words<4096>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PollBody {
    /// The version of the protocol: 1.
    #[schemars(range(min = 1, max = 1))]
    protocol: u32,
    /// The worker's name, unique per process.
    #[schemars(length(min = 1))]
    worker: ShortText,
    /// What it can do.
    #[schemars(length(min = 1))]
    actions: Vec<ActionBody>,
    /// Its labels, for nodes that require them.
    #[serde(default)]
    #[schemars(length(max = 64))]
    labels: Vec<KeyName>,
    /// How many tasks it takes.
    #[serde(default)]
    slots: Option<Between<1, 1000>>,
    /// How long it waits for the first.
    #[serde(default)]
    wait_ms: Option<Between<0, 30_000>>,
    /// The tasks that the worker holds: a task that it was given and does not name is handed
    /// out again.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    holding: Option<Vec<Words<128>>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskPath {
    /// The task.
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeartbeatBody {
    /// The lease that the task came with.
    lease: Words<512>,
    /// Anything that the worker reports; it is not stored.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    #[expect(dead_code, reason = "it is read so that it is allowed")]
    details: Option<Box<RawValue>>,
}

/// A link to something that the action made elsewhere.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceBody {
    /// The other system.
    system: String,
    /// What kind of thing.
    #[serde(rename = "type")]
    kind: String,
    /// Its id there.
    id: String,
    /// Where to look at it.
    #[serde(default)]
    url: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CompleteBody {
    /// The lease that the task came with.
    lease: Words<512>,
    /// The output; null, if it is left out.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    output: Option<Box<RawValue>>,
    /// Metadata about how the attempt ran.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    meta: Option<Box<RawValue>>,
    /// Links to what it made elsewhere.
    #[serde(default)]
    resources: Vec<ResourceBody>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailBody {
    /// The lease that the task came with.
    lease: Words<512>,
    /// The error's code, in capitals with underscores.
    code: String,
    /// What went wrong, in a sentence.
    message: String,
    /// Whether another attempt might succeed; otherwise the node's retries end.
    #[serde(default)]
    retriable: bool,
    /// The earliest sensible time of another attempt.
    #[serde(default)]
    retry_after_ms: Option<u64>,
    /// Further details of the error.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    details: Option<Box<RawValue>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SkipBody {
    /// The lease that the task came with.
    lease: Words<512>,
}

/// A task, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskJson<'a> {
    task_id: String,
    lease: &'a str,
    execution_id: String,
    workflow_id: &'a str,
    version: u32,
    node: &'a str,
    attempt: u32,
    action_type: &'a str,
    parameters: &'a RawValue,
    idempotency_key: String,
    timeout_ms: u128,
    deadline: String,
    heartbeat_ms: u128,
    traceparent: Option<&'a str>,
}

async fn poll(
    State(app): State<App>,
    caller: Caller,
    draining: Draining,
    answer_by: AnswerBy,
    Json(body): Json<PollBody>,
) -> Result<RawJson<TasksShape>, ApiError> {
    if body.protocol != PROTOCOL {
        let asked = body.protocol;
        let message = format!("the protocol is {asked}; this server speaks {PROTOCOL}");
        return Err(PROTOCOL_UNSUPPORTED.error(message));
    }
    check_poll(&body)?;
    let declared = body.actions.into_iter().map(|action| Declaration {
        action: action.action_type.into(),
        parameters: action.parameters_schema,
        description: action.description.map(|text| String::from(text).into()),
    });
    let holding = body.holding.map(|tasks| {
        let tasks = tasks.into_iter().map(String::from);
        tasks.filter_map(|task| task.parse().ok()).collect()
    });
    let wait = body.wait_ms.map_or(0, Between::get);
    let poll = Poll {
        tenant: caller.tenant().map(Into::into),
        worker: body.worker.into(),
        actions: declared.collect(),
        labels: body.labels.into_iter().map(Into::into).collect(),
        slots: body.slots.map_or(1, Between::get),
        wait: Duration::from_millis(wait as u64).min(answer_by.longest_wait()),
        holding,
    };
    let tasks = app.engine().poll_work(poll, draining.begun()).await;
    let tasks = tasks.map_err(refused)?;
    let mut text = String::from("{\"tasks\":[");
    for (at, task) in tasks.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&task_json(task));
    }
    text.push_str("]}");
    Ok(RawJson::new(text))
}

/// What the types of the members do not say.
fn check_poll(body: &PollBody) -> Result<(), ApiError> {
    let worker = body.worker.as_str();
    if worker.is_empty() {
        return Err(USAGE.error("the worker has no name").hint(NAMING));
    }
    if let Some(hidden) = worker.chars().find(|it| is_hidden(*it)) {
        let code = u32::from(hidden);
        let message = format!("the worker's name has the invisible character U+{code:04X}");
        return Err(USAGE.error(message).hint(NAMING));
    }
    if body.actions.is_empty() {
        let hint = "name the action types that the worker can do in `actions`";
        return Err(USAGE.error("the worker has no action").hint(hint));
    }
    let (labels, held) = (body.labels.len(), body.holding.as_ref().map_or(0, Vec::len));
    if labels > LABELS {
        let message = format!("the worker has {labels} labels; it may have {LABELS}");
        return Err(USAGE.error(message));
    }
    if held > HOLDING {
        let message = format!("`holding` names {held} tasks; it may name {HOLDING}");
        return Err(USAGE.error(message));
    }
    Ok(())
}

const NAMING: &str = "give `worker` a name that no other process has, such as host and process id";

/// Characters that change how the text around them is shown, or are not shown: in a list of
/// workers, one name could pass for another.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn task_json(task: &WorkerTask) -> String {
    let dispatch = &task.dispatch;
    let parameters = serde_json::from_str(&task.parameters);
    let written = TaskJson {
        task_id: task.task.to_string(),
        lease: &task.lease,
        execution_id: dispatch.run.to_string(),
        workflow_id: &dispatch.workflow,
        version: dispatch.version,
        node: &dispatch.path,
        attempt: dispatch.attempt,
        action_type: &dispatch.action,
        parameters: parameters.expect("parameters are rendered as JSON"),
        idempotency_key: dispatch.idempotency_key(),
        timeout_ms: task.timeout.as_millis().max(1),
        deadline: task.deadline.to_string(),
        heartbeat_ms: task.heartbeat.as_millis(),
        traceparent: task.traceparent.as_deref(),
    };
    serde_json::to_string(&written).expect("its keys are text")
}

async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<TaskPath>,
    Json(body): Json<HeartbeatBody>,
) -> Result<Json<StopShape>, ApiError> {
    let (task, lease) = named(&path, body.lease)?;
    let kept = app.engine().keep_task(caller.tenant(), task, &lease);
    let stop = kept.await.map_err(refused)?;
    Ok(Json(StopShape { stop }))
}

async fn complete(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<TaskPath>,
    body: Report<CompleteBody>,
) -> Result<Json<RecordedShape>, ApiError> {
    let body = match body {
        Report::Whole(body) => body,
        Report::Beginning(beginning) => {
            let most = limits().values.output_bytes;
            let message = format!(
                "the report has more than {} bytes; a node's output may have {most}",
                output_bytes(limits())
            );
            let error = ActionError::failed("OUTPUT_LIMIT", message);
            return cut_off(&app, &caller, (&path, beginning.lease), error).await;
        }
    };
    let size = body.meta.as_ref().map_or(0, |meta| meta.get().len());
    let resources = body.resources.into_iter().map(|link| ResourceLink {
        system: link.system.into(),
        kind: link.kind.into(),
        id: link.id.into(),
        url: link.url.map(Into::into),
    });
    let outcome = match size > META_BYTES {
        true => {
            let message = format!("meta has {size} bytes; it may have {META_BYTES}");
            TaskOutcome::Failed(ActionError::failed("OUTPUT_LIMIT", message))
        }
        false => TaskOutcome::Succeeded {
            output: body.output,
            meta: body.meta,
            resources: resources.collect(),
        },
    };
    finish(&app, &caller, (&path, body.lease), outcome).await
}

async fn fail(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<TaskPath>,
    body: Report<FailBody>,
) -> Result<Json<RecordedShape>, ApiError> {
    let body = match body {
        Report::Whole(body) => body,
        Report::Beginning(beginning) => {
            let message = format!(
                "the worker reported a failure with more than {} bytes; its message and details \
                 are left out",
                output_bytes(limits())
            );
            let code = beginning.code.unwrap_or_else(|| "ACTION_FAILED".to_owned());
            let mut error = ActionError::failed(&code, message);
            error.retriable = beginning.retriable.unwrap_or(false);
            return cut_off(&app, &caller, (&path, beginning.lease), error).await;
        }
    };
    let message = match body.message.len() > MESSAGE_BYTES {
        true => format!("{} …", cut(&body.message, MESSAGE_BYTES)),
        false => body.message,
    };
    let mut error = ActionError::failed(&body.code, message);
    error.retriable = body.retriable;
    error.retry_after_ms = body.retry_after_ms;
    error.details = body
        .details
        .filter(|details| details.get().len() <= DETAILS_BYTES);
    finish(
        &app,
        &caller,
        (&path, body.lease),
        TaskOutcome::Failed(error),
    )
    .await
}

/// Ends an attempt whose report is too large to be read whole.
async fn cut_off(
    app: &App,
    caller: &Caller,
    (path, lease): (&TaskPath, Option<String>),
    error: ActionError,
) -> Result<Json<RecordedShape>, ApiError> {
    let Some(lease) = lease else {
        let message = format!("the body is larger than {} bytes", output_bytes(limits()));
        return Err(BODY_TOO_LARGE.error(message).hint(
            "the attempt is still open: report `fail` with the code OUTPUT_LIMIT; where `lease` \
             is the first member of a report, the server does so itself",
        ));
    };
    let task = path.task_id.parse().map_err(refused)?;
    end(app, caller, (task, &lease), TaskOutcome::Failed(error)).await
}

async fn skip(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<TaskPath>,
    Json(body): Json<SkipBody>,
) -> Result<Json<RecordedShape>, ApiError> {
    finish(&app, &caller, (&path, body.lease), TaskOutcome::Skipped).await
}

async fn finish(
    app: &App,
    caller: &Caller,
    (path, lease): (&TaskPath, Words<512>),
    outcome: TaskOutcome,
) -> Result<Json<RecordedShape>, ApiError> {
    let (task, lease) = named(path, lease)?;
    end(app, caller, (task, &lease), outcome).await
}

async fn end(
    app: &App,
    caller: &Caller,
    (task, lease): (TaskId, &str),
    outcome: TaskOutcome,
) -> Result<Json<RecordedShape>, ApiError> {
    let recorded = app
        .engine()
        .finish_task(caller.tenant(), task, lease, outcome);
    recorded.await.map_err(refused)?;
    Ok(Json(RecordedShape {
        task_id: task.to_string(),
        recorded: true,
    }))
}

fn named(path: &TaskPath, lease: Words<512>) -> Result<(TaskId, String), ApiError> {
    let task = path.task_id.parse().map_err(refused)?;
    Ok((task, lease.into()))
}

async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<RawJson<Page<WorkerShape>>, ApiError> {
    let workers = app.engine().work_pollers(caller.tenant());
    let items: Vec<_> = workers.iter().map(worker_json).collect();
    let page = json!({ "items": items, "next": null });
    Ok(RawJson::new(page.to_string()))
}

fn worker_json(worker: &WorkerInfo) -> serde_json::Value {
    json!({
        "worker": worker.worker,
        "tenantId": worker.tenant,
        "actions": &*worker.actions,
        "labels": &*worker.labels,
        "since": worker.since.to_string(),
        "lastPollAt": worker.last_poll.map(|at| at.to_string()),
        "waiting": worker.waiting,
        "tasks": worker.tasks,
    })
}

fn refused(error: WorkError) -> ApiError {
    let message = error.to_string();
    match error {
        WorkError::TaskNotFound => TASK_NOT_FOUND.error(message),
        WorkError::LeaseLost => LEASE_LOST
            .error(message)
            .hint("end the work on it and report nothing more: the other worker does"),
        WorkError::LeaseUnknown => LEASE_LOST
            .error(message)
            .hint("send the `lease` that came with this very task, unchanged"),
        WorkError::TaskEnded => TASK_ENDED
            .error(message)
            .hint("it ran out of time, was cancelled or was set by hand; report nothing more"),
        WorkError::Reserved(_) => ACTION_RESERVED
            .error(message)
            .hint("give the worker's action a name of its own"),
        WorkError::Contradicted(_) => USAGE
            .error(message)
            .hint("name each type once, with one schema and one description"),
        WorkError::TooManyActions => TOO_MANY_ACTIONS
            .error(message)
            .hint("types that no worker polls for are forgotten after 30 days"),
        WorkError::SchemaInvalid { limit: true, .. } => SCHEMA_LIMIT.error(message),
        WorkError::SchemaInvalid { .. } => SCHEMA_INVALID.error(message),
        WorkError::TooManyPollers => TOO_MANY_POLLERS.error(message),
        WorkError::Store(error) => Failure::from(error).into(),
        WorkError::Stopped => ENGINE_STOPPED
            .error("the server is stopping, or the run is being recovered; send it again"),
    }
}
