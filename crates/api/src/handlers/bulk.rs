//! Acting on many runs, as a job.

use std::collections::BTreeMap;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_core::event::Actor;
use windlass_core::name::ShortText;
use windlass_core::{Millis, RunId};
use windlass_engine::load_latest;
use windlass_service::command::{CommandRequest, RunCommand};
use windlass_service::run_list::{self, RunSelection};
use windlass_service::{Failure, command, dry_run};
use windlass_store::{RunFilter, RunPage};

use super::executions::{ListQuery, selection};
use super::resuming::Written;
use super::shapes::Any;
use super::value_bytes;
use crate::answer::Accepted;
use crate::app::{App, Caller};
use crate::bounds::{NodePath, Reason};
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::failures;
use crate::jobs::{self, BulkJob, JobFailure, JobState};
use crate::route::{Access, Routes};

/// How many runs a job looks at together.
const PAGE: usize = 200;

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::POST,
            "/api/v1/bulk",
            Access::execute().body(value_bytes()),
            &[
                failures::TOO_MANY_JOBS,
                failures::STATUS_UNKNOWN,
                failures::TIME_INVALID,
                failures::LABEL_INVALID,
                failures::CURSOR_INVALID,
                failures::RUN_NOT_FOUND,
                failures::STORE_UNAVAILABLE,
                failures::STORE_TIMEOUT,
            ],
            "Acts on all runs that a filter finds; a job tells how far that is",
            begin,
        )
        .add(
            Method::GET,
            "/api/v1/bulk/{id}",
            Access::execute(),
            &[failures::JOB_NOT_FOUND],
            "Says how far a job is",
            state,
        );
}

/// What is done to many runs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Cancel,
    Pause,
    Resume,
    Reattempt,
    Signal,
    SetResult,
    Skip,
    Compensate,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BulkBody {
    /// The command.
    action: Action,
    /// Which runs to act on; `prefix`, `cursor`, `before` and `limit` are refused here.
    #[serde(deserialize_with = "object")]
    filter: ListQuery,
    /// Why; it is recorded.
    #[serde(default)]
    reason: Option<Reason>,
    /// Whether to say only what would happen.
    #[serde(default)]
    dry_run: bool,
    /// Whether cancelling also undoes what succeeded.
    #[serde(default)]
    compensate: bool,
    /// The nodes that are tried again; all that can be, if there are none.
    #[serde(default)]
    nodes: Vec<NodePath>,
    /// The node whose result is given, or that is skipped.
    #[serde(default)]
    node: Option<NodePath>,
    /// The signal's name.
    #[serde(default)]
    name: Option<ShortText>,
    /// The signal's payload, or the node's result.
    #[serde(default)]
    #[schemars(with = "Option<Any>")]
    value: Option<Box<RawValue>>,
}

/// An object: a filter that is an empty list would mean all runs.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ListQuery, D::Error> {
    let mut members = Map::<String, Value>::deserialize(deserializer)?;
    // As in a query, a list of one may be written without brackets.
    for key in ["status", "label"] {
        if let Some(one @ Value::String(_)) = members.get_mut(key) {
            *one = Value::Array(vec![one.take()]);
        }
    }
    serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)
}

impl BulkBody {
    fn command(&mut self) -> Result<RunCommand, ApiError> {
        let missing = |key: &str| {
            let detail = crate::error::Detail::new(format!("/{key}"), "it is missing");
            crate::code::BODY_INVALID
                .error(format!("the action needs `{key}`"))
                .detail(detail)
        };
        Ok(match self.action {
            Action::Cancel => RunCommand::Cancel {
                compensate: self.compensate,
            },
            Action::Pause => RunCommand::Pause,
            Action::Resume => RunCommand::Resume,
            Action::Reattempt => RunCommand::Reattempt {
                nodes: self.nodes.drain(..).map(Into::into).collect(),
            },
            Action::Signal => RunCommand::Signal {
                name: self.name.take().ok_or_else(|| missing("name"))?.into(),
            },
            Action::SetResult => RunCommand::SetResult {
                node: self.node.take().ok_or_else(|| missing("node"))?.into(),
            },
            Action::Skip => RunCommand::Skip {
                node: self.node.take().ok_or_else(|| missing("node"))?.into(),
            },
            Action::Compensate => RunCommand::Compensate,
        })
    }
}

fn actor(by: Option<Box<str>>, reason: Option<String>) -> Actor {
    Actor {
        by,
        reason: reason.map(Into::into),
        request: None,
    }
}

/// What a job does with which runs, as it is written down.
#[derive(Serialize, Deserialize)]
pub(super) struct Plan {
    #[serde(rename = "deed")]
    command: RunCommand,
    body: String,
    by: Option<Box<str>>,
    reason: Option<String>,
    dry_run: bool,
    workflow: Option<Box<str>>,
    statuses: Vec<String>,
    labels: BTreeMap<Box<str>, Box<str>>,
    parent: Option<RunId>,
    since: Option<i64>,
    #[serde(default)]
    version: Option<u32>,
    #[serde(default)]
    origin: Option<RunId>,
    #[serde(default)]
    error: Option<Box<str>>,
    #[serde(default)]
    waiting: bool,
    #[serde(default)]
    dead: Option<bool>,
    #[serde(default)]
    roots: bool,
    #[serde(default)]
    unforked: bool,
    #[serde(default)]
    orphaned: bool,
}

impl Plan {
    fn new(request: &CommandRequest, selection: &RunSelection, dry_run: bool) -> Self {
        let filter = &selection.filter;
        Self {
            command: request.command.clone(),
            body: request.body.to_string(),
            by: request.actor.by.clone(),
            reason: request.actor.reason.as_deref().map(Into::into),
            dry_run,
            workflow: filter.workflow.clone(),
            version: filter.version,
            statuses: filter.statuses.iter().map(ToString::to_string).collect(),
            labels: filter.labels.clone(),
            parent: filter.parent,
            since: filter.since.map(|since| since.0),
            origin: filter.origin,
            error: filter.error.clone(),
            waiting: filter.waiting,
            dead: filter.dead,
            roots: filter.roots,
            unforked: filter.unforked,
            orphaned: selection.orphaned,
        }
    }

    fn selection(&self, job: &BulkJob) -> RunSelection {
        let statuses = self.statuses.iter();
        let filter = RunFilter {
            tenant: job.tenants(),
            workflow: self.workflow.clone(),
            version: self.version,
            statuses: statuses.filter_map(|name| name.parse().ok()).collect(),
            labels: self.labels.clone(),
            parent: self.parent,
            origin: self.origin,
            error: self.error.clone(),
            waiting: self.waiting,
            dead: self.dead,
            roots: self.roots,
            unforked: self.unforked,
            since: self.since.map(Millis),
            before: job.at(),
            limit: PAGE,
        };
        RunSelection {
            filter,
            orphaned: self.orphaned,
        }
    }
}

async fn begin(
    State(app): State<App>,
    caller: Caller,
    Json(mut body): Json<BulkBody>,
) -> Result<Accepted<JobState>, ApiError> {
    let command = body.command()?;
    // A condition that is ignored would select more runs than the caller meant.
    if let Some(name) = body.filter.of_a_page() {
        let message = format!("`{name}` does not choose runs here");
        let detail = crate::error::Detail::new(format!("/filter/{name}"), message.as_str());
        return Err(crate::code::BODY_INVALID.error(message).detail(detail));
    }
    let value = body.value.as_ref().map_or("null", |value| value.get());
    let reason = body.reason.clone().map(String::from);
    let request = command.by(actor(caller.by(), reason)).with(value);
    let query = body.filter.clone();
    let mut selection = app
        .read(&caller, move |queries| selection(queries, &query))
        .await?;
    if selection.filter.statuses.is_empty() {
        selection.filter.statuses = request.command.statuses();
    }
    let plan = Plan::new(&request, &selection, body.dry_run);
    let what = (request.command.name(), body.dry_run);
    let (engine, tenants) = (app.engine(), caller.principal.tenants());
    let written = Written::Bulk(&plan);
    let store = (engine.store(), engine.shares_store());
    let job = app.jobs().begin(store, tenants, what, &written).await?;
    let state = job.state();
    let reason = &request.actor.reason;
    let detail = json!({ "deed": request.command, "reason": reason, "dryRun": body.dry_run });
    let tenant = caller.principal.tenant.clone();
    app.note(&caller, tenant, "bulk", state.id.as_str(), &detail)
        .await?;
    super::resuming::begin(app, job, &written);
    Ok(Accepted {
        location: format!("/api/v1/bulk/{}", state.id),
        body: state,
    })
}

/// Goes from page to page. The runs are those there were when the job began: what begins
/// meanwhile is newer than the first page. When the engine stops, the rest is left for the next
/// server process.
pub(super) async fn work(app: App, plan: Plan, job: BulkJob) {
    let mut selection = plan.selection(&job);
    let request: CommandRequest = plan.command.by(actor(plan.by, plan.reason));
    let request = request.with(plan.body);
    // Those that were in hand when a server ended come first.
    let mut runs = job.rest();
    loop {
        for run in runs {
            let done = one(&app, &job, request.clone(), run, plan.dry_run).await;
            if app.engine().is_stopping() || job.is_given_up() {
                return;
            }
            let failure = done.err().map(|failure| JobFailure {
                execution_id: run.to_string(),
                code: failure.code().to_owned(),
                message: failure.message,
            });
            if job.step(run, failure).await.is_err() {
                return;
            }
        }
        selection.filter.before = job.at();
        let Ok(page) = page(&app, &job, selection.clone()).await else {
            // Among several processes a later look continues it.
            if !app.engine().is_stopping() && !job.is_shared() {
                job.failed(JobFailure {
                    execution_id: String::new(),
                    code: "STORE_UNAVAILABLE".to_owned(),
                    message: "the list of runs cannot be read".to_owned(),
                });
                job.finish().await;
            }
            return;
        };
        runs = page.rows.iter().map(|row| row.run).collect();
        if runs.is_empty() {
            return job.finish().await;
        }
        if job.take(runs.clone()).await.is_err() {
            return;
        }
    }
}

/// The next runs of a job.
async fn page(app: &App, job: &BulkJob, selection: RunSelection) -> Result<RunPage, Failure> {
    let queries = app.queries_as(job.tenants());
    let looking = tokio::task::spawn_blocking(move || run_list::page(&queries, &selection));
    match looking.await {
        Ok(page) => page,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn one(
    app: &App,
    job: &BulkJob,
    request: CommandRequest,
    run: RunId,
    is_dry: bool,
) -> Result<(), Failure> {
    if !is_dry {
        // A job that continues after a crash repeats nothing.
        let request = request.keyed(Some(format!("bulk/{}/{run}", job.state().id)));
        return command::execute(app.engine(), run, &request)
            .await
            .map(|_| ());
    }
    let queries = app.queries_as(job.tenants());
    let looking = tokio::task::spawn_blocking(move || {
        let loaded = load_latest(&*queries.store, &queries.plans, run)?;
        dry_run::effect(&queries, &loaded.run, &request).map(|_| ())
    });
    match looking.await {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A job in the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct JobPath {
    /// The job's id.
    id: String,
}

async fn state(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<JobPath>,
) -> Result<Json<JobState>, ApiError> {
    let (engine, tenants) = (app.engine(), caller.principal.tenants());
    let found = match engine.shares_store() {
        true => {
            let stored = jobs::stored(engine.store(), &tenants, &path.id).await;
            stored.map_err(Failure::from)?
        }
        false => app.jobs().find(&tenants, &path.id),
    };
    let missing = || failures::JOB_NOT_FOUND.error(format!("there is no job '{}'", path.id));
    found.map(Json).ok_or_else(missing)
}
