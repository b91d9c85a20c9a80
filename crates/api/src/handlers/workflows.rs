//! The catalogue: publishing, looking, comparing, disabling.

use std::time::Duration;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::definition::{Definition, Problem, Severity};
use windlass_service::definition::{Surroundings, to_json};
use windlass_service::source::{PreparedDefinition, prepare_beside, prepare_with_warnings};
use windlass_service::{
    Failure, RunQueries, catalogue, children, diff, frozen, launch, listing, publishing,
};
use windlass_store::{TenantFilter, Wait as _, block_on};

use super::shapes::{
    DefinitionShape, DefinitionWarningShape, DiffShape, EnabledShape, PublishedShape,
    PublishingShape, ValidatedShape, VersionShape, WorkflowShape,
};
use super::{WORDS_BYTES, definition_bytes};
use crate::answer::{Created, Either, Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::code;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query, RawDocument};
use crate::failures::{self, DEFINING};
use crate::route::{Access, Routes};
use crate::serve::Draining;

pub(super) fn add(routes: &mut Routes<App>) {
    let one = "/api/v1/workflows/{id}";
    let define = Access::manage().body(definition_bytes());
    let unknown = &[failures::WORKFLOW_NOT_FOUND, failures::STORE_UNAVAILABLE];
    let unknown_version = &[
        failures::WORKFLOW_NOT_FOUND,
        failures::VERSION_NOT_FOUND,
        failures::STORE_UNAVAILABLE,
    ];
    routes
        .add(
            Method::GET,
            "/api/v1/workflows",
            Access::read(),
            &[failures::CURSOR_INVALID],
            "Lists workflows",
            list,
        )
        .add(
            Method::POST,
            "/api/v1/workflows",
            define,
            DEFINING,
            "Publishes a definition as the newest version of its workflow",
            publish,
        )
        .add(
            Method::POST,
            "/api/v1/workflows/validate",
            define,
            &[],
            "Says everything that is wrong with a definition",
            validate,
        )
        .add(
            Method::GET,
            one,
            Access::read(),
            unknown_version,
            "Gives a definition, the newest or one version",
            show,
        )
        .add(
            Method::DELETE,
            one,
            Access::manage(),
            unknown,
            "Disables a workflow: new runs are refused",
            disable,
        )
        .add(
            Method::POST,
            "/api/v1/workflows/{id}/enable",
            Access::manage().body(WORDS_BYTES),
            unknown,
            "Allows new runs of a workflow again",
            enable,
        )
        .add(
            Method::POST,
            "/api/v1/workflows/{id}/plan",
            define,
            DEFINING,
            "Says what publishing a definition would do to each live run",
            plan,
        )
        .add(
            Method::GET,
            "/api/v1/workflows/{id}/versions",
            Access::read(),
            unknown,
            "Lists the versions of a workflow, newest first",
            versions,
        )
        .add(
            Method::GET,
            "/api/v1/workflows/{id}/diff",
            Access::read(),
            unknown_version,
            "Says what changed between two versions",
            compare,
        );
}

/// A workflow in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WorkflowPath {
    /// The workflow's id.
    pub(super) id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VersionQuery {
    /// The version; the newest, if it is left out.
    version: Option<u32>,
    /// The tenant, for callers without a tenant of their own.
    #[serde(rename = "tenantId")]
    tenant: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct TenantQuery {
    /// The tenant, for callers without a tenant of their own.
    #[serde(rename = "tenantId")]
    tenant: Option<String>,
}

/// Looks at the definitions of the tenant that is named, if the caller may.
pub(super) fn of_tenant(queries: &RunQueries, tenant: Option<String>) -> RunQueries {
    let mut queries = queries.clone();
    if let (Some(tenant), TenantFilter::Any) = (tenant, &queries.tenants) {
        queries.tenants = TenantFilter::Only(Some(tenant.into()));
    }
    queries
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only the workflow with this id; one of each tenant, for callers without one of their own.
    workflow: Option<String>,
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 1000>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct PublishQuery {
    /// Whether subworkflows may name workflows that are not published yet.
    #[serde(rename = "allowUnknown")]
    allow_unknown: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffQuery {
    /// The older version.
    from: u32,
    /// The newer version.
    to: u32,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<RawJson<Page<WorkflowShape>>, ApiError> {
    let limit = query.limit.map_or(100, Between::get);
    let items = app
        .read(&caller, move |queries| {
            let rows = queries.store.workflows(&queries.tenants).wait()?;
            let key = |row: &windlass_store::WorkflowRow| {
                format!(
                    "{}\n{}",
                    row.tenant.as_deref().unwrap_or_default(),
                    row.workflow
                )
            };
            let only = query.workflow.as_deref();
            let after = query.cursor.as_deref().map(super::executions::decode);
            let after = after.transpose()?;
            let after = after.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let mut rows: Vec<_> = rows
                .into_iter()
                .filter(|row| after.as_ref().is_none_or(|after| key(row) > *after))
                .filter(|row| only.is_none_or(|only| *only == *row.workflow))
                .collect();
            rows.sort_by_cached_key(key);
            let more = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| more).map(key);
            let next = next.map(|key| super::executions::encode(key.as_bytes()));
            let described = |row| listing::workflow_described(&*queries.store, row);
            let items = rows.iter().map(described);
            let items: Vec<Value> = items.collect::<Result<_, _>>()?;
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(items.to_string()))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    Query(query): Query<VersionQuery>,
) -> Result<RawJson<DefinitionShape>, ApiError> {
    let row = app
        .read(&caller, move |queries| {
            of_tenant(queries, query.tenant).definition(&path.id, query.version)
        })
        .await?;
    Ok(RawJson::new(row.text))
}

async fn versions(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    Query(query): Query<TenantQuery>,
) -> Result<RawJson<Page<VersionShape>>, ApiError> {
    let items = app
        .read(&caller, move |queries| {
            let queries = of_tenant(queries, query.tenant);
            let rows = queries.store.versions(queries.tenant(), &path.id).wait()?;
            if rows.is_empty() {
                let (store, tenant) = (&*queries.store, queries.tenant());
                return Err(block_on(catalogue::unknown(store, tenant, &path.id)));
            }
            let items: Vec<Value> = rows.iter().map(listing::version_item).collect();
            Ok(json!({ "items": items, "next": null }))
        })
        .await?;
    Ok(RawJson::new(items.to_string()))
}

async fn compare(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    Query(query): Query<DiffQuery>,
) -> Result<RawJson<DiffShape>, ApiError> {
    let changes = app
        .read(&caller, move |queries| {
            Ok(diff::diff(queries, &path.id, query.from, query.to)?.json())
        })
        .await?;
    Ok(RawJson::new(changes.to_string()))
}

/// Checks a definition off the runtime's threads.
pub(super) async fn prepared(
    app: &App,
    caller: &Caller,
    text: bytes::Bytes,
    draining: &Draining,
) -> Result<PreparedDefinition, ApiError> {
    let prepared = prepared_with_warnings(app, caller, text, draining);
    prepared.await.map(|(definition, _)| definition)
}

async fn prepared_with_warnings(
    app: &App,
    caller: &Caller,
    text: bytes::Bytes,
    draining: &Draining,
) -> Result<(PreparedDefinition, Vec<Problem>), ApiError> {
    let declared = app.engine().declared_actions(caller.tenant()).await;
    let declared = declared.map_err(Failure::from)?;
    let prepare = move || {
        let surroundings = Surroundings {
            declared: &declared,
            ..Surroundings::default()
        };
        prepare_with_warnings(&text, &surroundings)
    };
    Ok(computed(prepare, draining).await??)
}

fn warning(problem: Problem) -> DefinitionWarningShape {
    DefinitionWarningShape {
        code: problem.code.to_owned(),
        message: problem.message,
        pointer: problem.pointer,
        suggestion: problem.suggestion,
    }
}

/// Checks a graph for one run alone, or a definition, off the runtime's threads. A graph that
/// names no workflow is of this one.
pub(super) async fn prepared_graph(
    (app, caller): (&App, &Caller),
    text: bytes::Bytes,
    workflow: Option<Box<str>>,
    draining: &Draining,
) -> Result<PreparedDefinition, ApiError> {
    let declared = app.engine().declared_actions(caller.tenant()).await;
    let declared = declared.map_err(Failure::from)?;
    let prepare = move || {
        let expected = frozen::Expected {
            workflow: workflow.as_deref(),
            plain_graphs: true,
            surroundings: Surroundings {
                declared: &declared,
                ..Surroundings::default()
            },
        };
        frozen::prepare("the graph", &text, expected)
    };
    Ok(computed(prepare, draining).await??)
}

/// Computes something off the runtime's threads. It cannot be interrupted, so a server that
/// stops waits for it only a moment, and leaves it to the end of the process.
async fn computed<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    draining: &Draining,
) -> Result<T, ApiError> {
    let stopping = async {
        draining.begun().await;
        tokio::time::sleep(LAST_MOMENT).await;
    };
    tokio::select! {
        biased;
        done = tokio::task::spawn_blocking(work) => match done {
            Ok(done) => Ok(done),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
        () = stopping => Err(code::UNAVAILABLE.error("the server stops; send it again")),
    }
}

/// How long a server that stops waits for what it computes.
const LAST_MOMENT: Duration = Duration::from_secs(2);

async fn publish(
    State(app): State<App>,
    caller: Caller,
    draining: Draining,
    Query(query): Query<PublishQuery>,
    document: RawDocument<Definition>,
) -> Result<Either<Created<PublishedShape>, Json<PublishedShape>>, ApiError> {
    let text = document.bytes;
    let prepared = prepared_with_warnings(&app, &caller, text.clone(), &draining);
    let (definition, warnings) = prepared.await?;
    let workflow = definition.plan.workflow().to_owned();
    let tenant = caller.tenant();
    if !query.allow_unknown {
        let store = &**app.engine().store();
        children::refuse_unknown(store, tenant, "definition", &definition, &text).await?;
    }
    drop(text);
    let published = launch::publish(app.engine(), tenant, definition).await?;
    let detail = json!({ "version": published.version, "created": published.created });
    app.note(
        &caller,
        tenant.map(Into::into),
        "workflows.publish",
        workflow.as_str(),
        &detail,
    )
    .await?;
    let body = PublishedShape {
        version: published.version,
        created: published.created,
        workflow_id: workflow,
        warnings: warnings.into_iter().map(warning).collect(),
    };
    Ok(match published.created {
        true => Either::Left(Created {
            location: format!(
                "/api/v1/workflows/{}?version={}",
                body.workflow_id, body.version
            ),
            body,
        }),
        false => Either::Right(Json(body)),
    })
}

async fn validate(
    State(app): State<App>,
    caller: Caller,
    draining: Draining,
    document: RawDocument<Definition>,
) -> Result<RawJson<ValidatedShape>, ApiError> {
    let declared = app.engine().declared_actions(caller.tenant()).await;
    let declared = declared.map_err(Failure::from)?;
    let text = document.bytes.clone();
    let parsing = move || {
        let surroundings = Surroundings {
            declared: &declared,
            ..Surroundings::default()
        };
        prepare_beside(&text, &surroundings)
            .ok()
            .map(|it| (it, declared))
    };
    // The catalogue is asked only about what can be read.
    let (unknown, declared) = match computed(parsing, &draining).await? {
        Some((definition, declared)) => {
            let store = &**app.engine().store();
            let plan = &definition.plan;
            let unknown = children::unknown_workflows(store, caller.tenant(), plan).await?;
            (unknown, declared)
        }
        None => (None, Vec::new()),
    };
    let checking = move || {
        let expected = frozen::Expected {
            surroundings: Surroundings {
                declared: &declared,
                unknown_workflows: unknown.as_ref(),
            },
            ..frozen::Expected::default()
        };
        let checked = frozen::check_source("definition", &document.bytes, expected);
        let (valid, problems) = match checked {
            Ok(checked) => (true, checked.parsed.warnings),
            Err(error) => (false, error.into_problems("definition")),
        };
        debug_assert_eq!(
            valid,
            !problems.iter().any(|it| it.severity == Severity::Error)
        );
        let problems: Vec<Value> = problems.iter().map(to_json).collect();
        json!({ "valid": valid, "problems": problems })
    };
    let answer = computed(checking, &draining).await?;
    Ok(RawJson::new(answer.to_string()))
}

async fn plan(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
    draining: Draining,
    document: RawDocument<Definition>,
) -> Result<RawJson<PublishingShape>, ApiError> {
    let definition = prepared(&app, &caller, document.bytes, &draining).await?;
    let workflow = definition.plan.workflow();
    if workflow != path.id {
        let message = format!(
            "the definition is that of '{workflow}', not of '{}'",
            path.id
        );
        return Err(failures::ID_MISMATCH.error(message));
    }
    let answer = app
        .read(&caller, move |queries| {
            Ok(publishing::would_publish(queries, &definition)?.json())
        })
        .await?;
    Ok(RawJson::new(answer.to_string()))
}

async fn disable(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
) -> Result<Json<EnabledShape>, ApiError> {
    set_enabled(&app, &caller, path.id, false).await
}

async fn enable(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<WorkflowPath>,
) -> Result<Json<EnabledShape>, ApiError> {
    set_enabled(&app, &caller, path.id, true).await
}

async fn set_enabled(
    app: &App,
    caller: &Caller,
    workflow: String,
    enabled: bool,
) -> Result<Json<EnabledShape>, ApiError> {
    let (store, tenant) = (app.engine().store(), caller.tenant());
    let set = store.set_enabled(tenant, &workflow, enabled).await;
    if !set.map_err(Failure::from)? {
        return Err(catalogue::unknown(&**store, tenant, &workflow).await.into());
    }
    app.engine().catalogue_changed(tenant, &workflow);
    let what = match enabled {
        true => "workflows.enable",
        false => "workflows.disable",
    };
    app.note(
        caller,
        tenant.map(Into::into),
        what,
        workflow.as_str(),
        &json!({}),
    )
    .await?;
    Ok(Json(EnabledShape {
        workflow_id: workflow,
        enabled,
    }))
}
