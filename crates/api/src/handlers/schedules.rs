//! Schedules: runs that the server starts at given times.

use std::collections::BTreeMap;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::name::ShortText;
use windlass_engine::{ScheduleError, check_schedule, next_times};
use windlass_service::members::Members;
use windlass_service::moment::now;
use windlass_service::{Failure, FailureKind, catalogue, schedules};
use windlass_store::{Schedule, Wait as _};

use super::WORDS_BYTES;
use super::executions::{decode, encode, foreign};
use super::shapes::{Any, RemovedShape, ScheduleShape};
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::failures::{
    CURSOR_INVALID, SCHEDULE_INVALID, SCHEDULE_NOT_FOUND, STORE_TIMEOUT, STORE_UNAVAILABLE,
    TOO_MANY_SCHEDULES, WORKFLOW_NOT_FOUND,
};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    let (list, one) = ("/api/v1/schedules", "/api/v1/schedules/{id}");
    let looking = &[SCHEDULE_NOT_FOUND, STORE_UNAVAILABLE, STORE_TIMEOUT];
    let changing = &[
        WORKFLOW_NOT_FOUND,
        SCHEDULE_NOT_FOUND,
        SCHEDULE_INVALID,
        TOO_MANY_SCHEDULES,
        STORE_UNAVAILABLE,
        STORE_TIMEOUT,
    ];
    routes
        .add(
            Method::GET,
            list,
            Access::manage(),
            &[CURSOR_INVALID, STORE_UNAVAILABLE, STORE_TIMEOUT],
            "Lists schedules, by id",
            list_schedules,
        )
        .add(
            Method::POST,
            list,
            Access::manage().body(WORDS_BYTES),
            changing,
            "Makes a schedule, or replaces the one of that id",
            put_schedule,
        )
        .add(
            Method::GET,
            one,
            Access::manage(),
            looking,
            "Shows a schedule",
            show_schedule,
        )
        .add(
            Method::DELETE,
            one,
            Access::manage(),
            looking,
            "Removes a schedule; the runs that it started stay",
            remove_schedule,
        )
        .add(
            Method::POST,
            "/api/v1/schedules/{id}/pause",
            Access::manage().body(WORDS_BYTES),
            changing,
            "Lets a schedule start nothing until it is resumed",
            pause_schedule,
        )
        .add(
            Method::POST,
            "/api/v1/schedules/{id}/resume",
            Access::manage().body(WORDS_BYTES),
            changing,
            "Lets a schedule start runs again, from its next time on",
            resume_schedule,
        );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ListQuery {
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 1000>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SchedulePath {
    /// The schedule's id.
    id: String,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ShowQuery {
    /// Whether to tell its next times, too.
    times: bool,
}

/// When runs are started, and with what.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScheduleBody {
    /// Its id.
    #[schemars(length(min = 1, max = 128))]
    id: String,
    /// The workflow whose newest version is run.
    #[schemars(length(min = 1, max = 128))]
    workflow_id: String,
    /// When: five fields of cron, or six with seconds first.
    #[schemars(length(max = 256))]
    cron: Option<String>,
    /// Or the time between runs, in milliseconds.
    #[schemars(range(min = 1000))]
    every_ms: Option<u64>,
    /// The time zone of `cron`, by its IANA name; UTC, if it is left out.
    #[schemars(length(max = 64))]
    timezone: Option<String>,
    /// The runs' trigger, up to 256 KiB.
    #[serde(default, deserialize_with = "windlass_service::start_body::given")]
    #[schemars(with = "Option<Any>")]
    trigger: Option<Box<RawValue>>,
    /// Labels of the runs.
    #[serde(default)]
    #[schemars(with = "BTreeMap<Box<str>, ShortText>", extend("maxProperties" = 64))]
    labels: BTreeMap<Box<str>, Box<str>>,
    /// From 0 to 9; higher begins first.
    #[schemars(range(max = 9))]
    priority: Option<u8>,
    /// Whether it starts runs; it does, if this is left out.
    enabled: Option<bool>,
    /// How many runs start for times at which no server ran: `none`, `one` for all of them (the
    /// default), or `all`.
    #[schemars(length(max = 16))]
    catch_up: Option<String>,
    /// Whether a run starts while the one before has not ended: `allow` (the default), `skip`.
    #[schemars(length(max = 16))]
    overlap: Option<String>,
}

impl ScheduleBody {
    fn schedule(self, caller: &Caller) -> Result<Schedule, Failure> {
        let tenant = caller.principal.tenant.clone();
        let mut schedule = schedules::plain(tenant, &self.id, &self.workflow_id);
        schedule.cron = self.cron.map(Into::into);
        schedule.every_ms = self.every_ms;
        if let Some(timezone) = self.timezone {
            schedule.timezone = timezone.into();
        }
        if let Some(trigger) = self.trigger {
            schedule.trigger = trigger.get().into();
        }
        schedule.labels = self.labels;
        schedule.priority = self.priority.unwrap_or(schedule.priority);
        schedule.enabled = self.enabled.unwrap_or(true);
        if let Some(name) = self.catch_up {
            schedule.catch_up = schedules::catch_up(&name)?;
        }
        if let Some(name) = self.overlap {
            schedule.overlap = schedules::overlap(&name)?;
        }
        Ok(schedule)
    }
}

async fn list_schedules(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<RawJson<Page<ScheduleShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let after = query.cursor.as_deref().map(after).transpose()?;
            let after = after
                .as_ref()
                .map(|(id, tenant)| (&**id, tenant.as_deref()));
            let limit = query.limit.map_or(100, Between::get);
            let mut rows = queries
                .store
                .schedules(&queries.tenants, after, limit + 1)
                .wait()?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| more).map(cursor);
            let items: Vec<Members> = rows.iter().map(|row| schedules::item(row, None)).collect();
            serde_json::to_string(&Page { items, next })
                .map_err(|error| Failure::new(FailureKind::OutputFailed, error))
        })
        .await?;
    Ok(RawJson::new(page))
}

/// Where the next page begins: after this one.
fn cursor(schedule: &Schedule) -> String {
    let tenant = schedule.tenant.as_deref().unwrap_or_default();
    encode(format!("{}/{tenant}", schedule.id).as_bytes())
}

/// What a page comes after: an id and its tenant.
pub(super) fn after(cursor: &str) -> Result<(String, Option<String>), Failure> {
    let text = String::from_utf8(decode(cursor)?).map_err(|_| foreign())?;
    let (id, tenant) = text.split_once('/').ok_or_else(foreign)?;
    let tenant = (!tenant.is_empty()).then(|| tenant.to_owned());
    Ok((id.to_owned(), tenant))
}

async fn found(app: &App, caller: &Caller, id: String) -> Result<Schedule, ApiError> {
    let tenant = caller.principal.tenant.clone();
    app.read(caller, move |queries| {
        let found = queries.store.schedule(tenant.as_deref(), &id).wait()?;
        found.ok_or_else(|| schedules::unknown(&id))
    })
    .await
}

async fn show_schedule(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<SchedulePath>,
    Query(query): Query<ShowQuery>,
) -> Result<RawJson<ScheduleShape>, ApiError> {
    let schedule = found(&app, &caller, path.id).await?;
    let times = query
        .times
        .then(|| next_times(&schedule, schedules::TIMES_TOLD));
    let item = schedules::item(&schedule, times.as_deref());
    Ok(RawJson::new(item.to_string()))
}

async fn put_schedule(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<ScheduleBody>,
) -> Result<RawJson<ScheduleShape>, ApiError> {
    let schedule = body.schedule(&caller)?;
    let (store, tenant) = (app.engine().store(), schedule.tenant.as_deref());
    // A schedule that cannot be used says so first.
    check_schedule(schedule.clone(), now())
        .map_err(ScheduleError::Invalid)
        .map_err(Failure::from)?;
    catalogue::must_have(&**store, tenant, &schedule.workflow).await?;
    keep(&app, &caller, schedule, "schedules.put").await
}

async fn keep(
    app: &App,
    caller: &Caller,
    schedule: Schedule,
    what: &str,
) -> Result<RawJson<ScheduleShape>, ApiError> {
    let put = app.engine().put_schedule(schedule).await;
    let schedule = put.map_err(Failure::from)?;
    let detail = json!({ "workflowId": schedule.workflow, "cron": schedule.cron,
        "everyMs": schedule.every_ms });
    let (tenant, id) = (schedule.tenant.clone(), schedule.id.clone());
    app.note(caller, tenant, what, id, &detail).await?;
    Ok(RawJson::new(schedules::item(&schedule, None).to_string()))
}

async fn remove_schedule(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<SchedulePath>,
) -> Result<Json<RemovedShape>, ApiError> {
    let tenant = caller.tenant();
    let removed = app.engine().remove_schedule(tenant, &path.id).await;
    if !removed.map_err(Failure::from)? {
        return Err(schedules::unknown(&path.id).into());
    }
    let (tenant, id) = (tenant.map(Into::into), path.id.as_str());
    app.note(&caller, tenant, "schedules.remove", id, &json!({}))
        .await?;
    Ok(Json(RemovedShape { id: path.id }))
}

async fn pause_schedule(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<SchedulePath>,
) -> Result<RawJson<ScheduleShape>, ApiError> {
    let mut schedule = found(&app, &caller, path.id).await?;
    schedule.enabled = false;
    keep(&app, &caller, schedule, "schedules.pause").await
}

async fn resume_schedule(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<SchedulePath>,
) -> Result<RawJson<ScheduleShape>, ApiError> {
    let mut schedule = found(&app, &caller, path.id).await?;
    schedule.enabled = true;
    keep(&app, &caller, schedule, "schedules.resume").await
}
