//! The server's own affairs: dead letters, the audit, backup, rebuilding.

use std::sync::Arc;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_core::event::Actor;
use windlass_service::{Failure, FailureKind, catalogue, listing};
use windlass_store::Wait as _;

use super::WORDS_BYTES;
use super::executions::{decode, encode, foreign};
use super::resuming::Written;
use super::shapes::{AuditShape, LetterShape, LettersShape};
use crate::answer::{Accepted, Download, Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::{Between, Words};
use crate::error::ApiError;
use crate::extract::{Json, Query};
use crate::failures;
use crate::jobs::{BulkJob, JobFailure, JobState};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    let letters = "/api/v1/dead-letters";
    let store = failures::STORE_UNAVAILABLE;
    routes
        .add(
            Method::GET,
            letters,
            Access::admin(),
            &[failures::CURSOR_INVALID, store],
            "Lists dead letters, newest run first",
            dead_letters,
        )
        .add(
            Method::POST,
            letters,
            Access::admin().body(WORDS_BYTES),
            &[failures::LETTER_NOT_FOUND, failures::USAGE, store],
            "Lets runs be tried again: those named, or all",
            requeue,
        )
        .add(
            Method::DELETE,
            letters,
            Access::admin(),
            &[failures::LETTER_NOT_FOUND, failures::USAGE, store],
            "Purges dead letters: those named, or all; their runs end as Failed, with DEAD_LETTERED",
            purge,
        )
        .add(
            Method::GET,
            "/api/v1/audit",
            Access::admin(),
            &[failures::CURSOR_INVALID, store],
            "Lists who changed what, newest first",
            audit,
        )
        .add(
            Method::POST,
            "/api/v1/backup",
            Access::admin().body(WORDS_BYTES),
            &[failures::BACKUP_UNSUPPORTED, store],
            "Gives a consistent copy of everything that is stored",
            backup,
        )
        .add(
            Method::POST,
            "/api/v1/rebuild",
            Access::admin().body(WORDS_BYTES),
            &[failures::TOO_MANY_JOBS, store],
            "Makes anew what derives from the logs; a job tells how far that is",
            rebuild,
        );
}

/// A page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct PageQuery {
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 1000>>,
}

impl PageQuery {
    fn limit(&self) -> usize {
        self.limit.map_or(100, Between::get)
    }

    fn after<const N: usize>(&self) -> Result<Option<[u8; N]>, Failure> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        let bytes = decode(text)?;
        Ok(Some(bytes.try_into().map_err(|_| foreign())?))
    }
}

async fn dead_letters(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<RawJson<Page<LetterShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let before = query.after::<16>()?.map(RunId::from_bytes);
            let limit = query.limit();
            let mut letters = queries
                .store
                .dead_letters(&queries.tenants, before, limit + 1)
                .wait()?;
            let more = letters.len() > limit;
            letters.truncate(limit);
            let next = letters.last().filter(|_| more);
            let next = next.map(|letter| encode(letter.run.as_bytes()));
            let items: Vec<Value> = letters.iter().map(listing::letter_item).collect();
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(page.to_string()))
}

/// Which dead letters to act on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Which")]
struct DeadLetterTarget {
    /// The letters of these runs.
    execution_id: Vec<Words<128>>,
    /// All letters.
    all: bool,
}

async fn requeue(
    State(app): State<App>,
    caller: Caller,
    Json(target): Json<DeadLetterTarget>,
) -> Result<Json<LettersShape>, ApiError> {
    let runs = chosen(&app, &caller, target).await?;
    for &run in &runs {
        app.engine().requeue(run).await.map_err(Failure::from)?;
    }
    told(&app, &caller, "dead-letters.requeue", &runs).await
}

async fn purge(
    State(app): State<App>,
    caller: Caller,
    Query(target): Query<DeadLetterTarget>,
) -> Result<Json<LettersShape>, ApiError> {
    let runs = chosen(&app, &caller, target).await?;
    for &run in &runs {
        let actor = Actor {
            by: caller.by(),
            ..Actor::default()
        };
        app.engine()
            .purge(run, actor)
            .await
            .map_err(Failure::from)?;
    }
    told(&app, &caller, "dead-letters.purge", &runs).await
}

async fn told(
    app: &App,
    caller: &Caller,
    what: &str,
    runs: &[RunId],
) -> Result<Json<LettersShape>, ApiError> {
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let tenant = caller.principal.tenant.clone();
    app.note(caller, tenant, what, "", &json!({ "executionIds": ids }))
        .await?;
    Ok(Json(LettersShape { execution_ids: ids }))
}

/// The runs whose letters the request names; each must have one.
async fn chosen(
    app: &App,
    caller: &Caller,
    target: DeadLetterTarget,
) -> Result<Vec<RunId>, ApiError> {
    if target.all != target.execution_id.is_empty() {
        return Err(failures::USAGE.error("name runs by executionId, or say all=true"));
    }
    let all = target.all;
    let ids: Vec<String> = target.execution_id.into_iter().map(Into::into).collect();
    app.read(caller, move |queries| {
        let missing = |id: &str| {
            let message = format!("the run '{id}' is not among the dead letters");
            Failure::new(FailureKind::LetterNotFound, message)
        };
        let mut runs = Vec::new();
        for id in &ids {
            let run: RunId = id.parse().map_err(|_| missing(id))?;
            let letter = queries.store.dead_letter(run).wait()?;
            let letter = letter.filter(|it| queries.tenants.matches(it.tenant.as_deref()));
            runs.push(letter.ok_or_else(|| missing(id))?.run);
        }
        let mut before = None;
        if !all {
            return Ok(runs);
        }
        loop {
            let page = queries
                .store
                .dead_letters(&queries.tenants, before, 1000)
                .wait()?;
            let Some(last) = page.last() else {
                return Ok(runs);
            };
            before = Some(last.run);
            runs.extend(page.iter().map(|letter| letter.run));
        }
    })
    .await
}

async fn audit(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<RawJson<Page<AuditShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let before = query.after::<8>()?.map(u64::from_be_bytes);
            let limit = query.limit();
            let mut entries = queries
                .store
                .audit(&queries.tenants, before, limit + 1)
                .wait()?;
            let more = entries.len() > limit;
            entries.truncate(limit);
            let next = entries.last().filter(|_| more);
            let next = next.map(|(number, _)| encode(&number.to_be_bytes()));
            let items: Vec<Value> = entries
                .iter()
                .map(|(number, entry)| {
                    let detail: Value = serde_json::from_str(&entry.detail).unwrap_or_default();
                    let mut item = json!({
                        "number": number,
                        "at": entry.at.to_string(),
                        "tenantId": entry.tenant,
                        "by": entry.by,
                        "from": entry.from,
                        "what": entry.what,
                        "target": entry.target,
                        "detail": detail,
                    });
                    listing::tell_damage(&mut item, entry.damage.as_deref());
                    item
                })
                .collect();
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(page.to_string()))
}

async fn backup(State(app): State<App>, caller: Caller) -> Result<Download, ApiError> {
    // A copy has the rows of all tenants.
    if caller.principal.tenants() != windlass_store::TenantFilter::Any {
        return Err(crate::code::FORBIDDEN.error("a backup is for an admin without a tenant"));
    }
    let backup = app.backup().cloned();
    let backup = backup.map_err(|why| failures::BACKUP_UNSUPPORTED.error(why))?;
    let failed = |error: std::io::Error| {
        failures::STORE_UNAVAILABLE.error(format!("the copy cannot be written: {error}"))
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join("windlass.backup");
    let path = file.clone();
    let copying = tokio::task::spawn_blocking(move || backup(&path));
    match copying.await {
        Ok(copied) => copied.map_err(Failure::from)?,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
    app.note(&caller, None, "backup", "", &json!({})).await?;
    Download::open(folder, &file).await.map_err(failed)
}

async fn rebuild(State(app): State<App>, caller: Caller) -> Result<Accepted<JobState>, ApiError> {
    if caller.principal.tenants() != windlass_store::TenantFilter::Any {
        return Err(crate::code::FORBIDDEN.error("rebuilding is for an admin without a tenant"));
    }
    let (engine, tenants) = (app.engine(), caller.principal.tenants());
    let store = (engine.store(), engine.shares_store());
    let plan = Written::<()>::Rebuild;
    let job = app.jobs().begin(store, tenants, ("rebuild", false), &plan);
    let job = job.await?;
    let state = job.state();
    app.note(&caller, None, "rebuild", state.id.as_str(), &json!({}))
        .await?;
    super::resuming::begin(app, job, &plan);
    Ok(Accepted {
        location: format!("/api/v1/bulk/{}", state.id),
        body: state,
    })
}

/// Makes anew what derives from the logs; doing it twice is harmless.
pub(super) async fn rebuilding(app: App, job: BulkJob) {
    let engine = app.engine().clone();
    let job = Arc::new(job);
    let told = Arc::clone(&job);
    let rebuilding = tokio::task::spawn_blocking(move || {
        let progress = |done: usize| told.count(done as u64);
        catalogue::rebuild(&**engine.store(), engine.plans(), progress)
    });
    let rebuilt = rebuilding.await;
    if app.engine().is_stopping() || job.is_given_up() {
        return;
    }
    let failed = |run: String, code: &str, message: String| {
        job.failed(JobFailure {
            execution_id: run,
            code: code.to_owned(),
            message,
        });
    };
    match rebuilt {
        Ok(Ok(rebuilt)) => {
            for (run, reason) in rebuilt.quarantined {
                failed(run.to_string(), "RUN_UNREADABLE", reason);
            }
        }
        Ok(Err(failure)) => failed(String::new(), failure.code(), failure.message),
        Err(error) => failed(String::new(), "INTERNAL", error.to_string()),
    }
    if let Some(job) = Arc::into_inner(job) {
        job.finish().await;
    }
}
