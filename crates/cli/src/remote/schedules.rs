//! Schedules over HTTP.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::{Millis, RunId};
use windlass_service::schedules;
use windlass_store::{Error, Fired, Pending, Schedule, Schedules, TenantFilter};

use super::acting::{read, written};
use super::question::Question;
use super::refusals::refused;
use super::server::Server;
use super::shapes::{Page, moment};
use super::store::{RemoteStore, answer};
use crate::exit::{Exit, Failure};

/// The longest page that a server gives.
const PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleShape {
    id: Box<str>,
    tenant_id: Option<Box<str>>,
    workflow_id: Box<str>,
    cron: Option<Box<str>>,
    every_ms: Option<u64>,
    timezone: Box<str>,
    trigger: Box<RawValue>,
    labels: BTreeMap<Box<str>, Box<str>>,
    priority: u8,
    enabled: bool,
    catch_up: String,
    overlap: String,
    changed_at: String,
    next_at: Option<String>,
    last_at: Option<String>,
    last_execution_id: Option<RunId>,
    last_error: Option<Box<str>>,
    damage: Option<Box<str>>,
}

fn optional(text: Option<&str>) -> Option<Option<Millis>> {
    text.map_or(Some(None), |text| moment(text).map(Some))
}

impl ScheduleShape {
    fn schedule(self) -> Option<Schedule> {
        Some(Schedule {
            catch_up: schedules::catch_up(&self.catch_up).ok()?,
            overlap: schedules::overlap(&self.overlap).ok()?,
            changed_at: moment(&self.changed_at)?,
            next_at: optional(self.next_at.as_deref())?,
            last_at: optional(self.last_at.as_deref())?,
            id: self.id,
            tenant: self.tenant_id,
            workflow: self.workflow_id,
            cron: self.cron,
            every_ms: self.every_ms,
            timezone: self.timezone,
            trigger: self.trigger.get().into(),
            labels: self.labels,
            priority: self.priority,
            enabled: self.enabled,
            last_run: self.last_execution_id,
            last_error: self.last_error,
            revision: 0,
            damage: self.damage,
        })
    }
}

const UNREADABLE: &str = "schedules that cannot be read";

impl Schedules for RemoteStore {
    fn put_schedule(&self, _: Schedule, _: usize) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn schedule(&self, _: Option<&str>, id: &str) -> Pending<'_, Result<Option<Schedule>, Error>> {
        answer(|| {
            let shape: Option<ScheduleShape> = self.json(self.server.url(&["schedules", id]))?;
            let Some(shape) = shape else {
                return Ok(None);
            };
            let schedule = shape.schedule();
            schedule.map(Some).ok_or_else(|| self.foreign(UNREADABLE))
        })
    }

    /// Each page must follow one that was read before.
    fn schedules(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        answer(|| {
            let cursor = match after {
                None => None,
                Some((id, owner)) => {
                    let key = (id.into(), owner.map(Into::into));
                    match self.memory().schedules.get(&key) {
                        Some(cursor) => Some(cursor.clone()),
                        None => return Ok(Vec::new()),
                    }
                }
            };
            let mut url = self.server.url(&["schedules"]);
            {
                let mut query = url.query_pairs_mut();
                query.append_pair("limit", &limit.clamp(1, PAGE).to_string());
                if let Some(cursor) = &cursor {
                    query.append_pair("cursor", cursor);
                }
            }
            let Some(page) = self.json::<Page<ScheduleShape>>(url)? else {
                return Ok(Vec::new());
            };
            let found = page.items.into_iter().map(ScheduleShape::schedule);
            let found: Option<Vec<Schedule>> = found.collect();
            let mut found = found.ok_or_else(|| self.foreign(UNREADABLE))?;
            if let (Some(last), Some(next)) = (found.last(), page.next) {
                let key = (last.id.clone(), last.tenant.clone());
                self.memory().schedules.insert(key, next);
            }
            found.retain(|schedule| tenant.matches(schedule.tenant.as_deref()));
            Ok(found)
        })
    }

    fn remove_schedule(&self, _: Option<&str>, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn due_schedules(&self, _: Millis, _: usize) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        refused()
    }

    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>> {
        refused()
    }

    fn mark_fired(&self, _: Fired) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

fn answered(server: &Server, question: Question) -> Result<Schedule, Failure> {
    let answer = server.ask(question)?;
    let shape: ScheduleShape = read(server, &answer)?;
    let schedule = shape.schedule();
    schedule.ok_or_else(|| Failure::new(Exit::Unreachable, "SERVER_UNREACHABLE", UNREADABLE))
}

/// Lets the server keep a schedule.
pub(crate) fn put_schedule(server: &Server, schedule: &Schedule) -> Result<Schedule, Failure> {
    let trigger: Box<RawValue> = RawValue::from_string(schedule.trigger.to_string())
        .map_err(|error| Failure::new(Exit::Invalid, "TRIGGER_NOT_JSON", error))?;
    let labels: Value = json!(schedule.labels);
    let mut body = BTreeMap::new();
    let mut say = |key: &'static str, value: Value| {
        if let Ok(value) = serde_json::value::to_raw_value(&value) {
            body.insert(key, value);
        }
    };
    say("id", json!(schedule.id));
    say("workflowId", json!(schedule.workflow));
    say("cron", json!(schedule.cron));
    say("everyMs", json!(schedule.every_ms));
    say("timezone", json!(schedule.timezone));
    say("labels", labels);
    say("priority", json!(schedule.priority));
    say("enabled", json!(schedule.enabled));
    say("catchUp", json!(schedule.catch_up.as_str()));
    say("overlap", json!(schedule.overlap.as_str()));
    body.insert("trigger", trigger);
    let url = server.url(&["schedules"]);
    answered(server, Question::post(url, written(&body)?))
}

/// Lets the server pause a schedule, or resume it.
pub(crate) fn enable_schedule(
    server: &Server,
    id: &str,
    enabled: bool,
) -> Result<Schedule, Failure> {
    let what = if enabled { "resume" } else { "pause" };
    let url = server.url(&["schedules", id, what]);
    answered(server, Question::post(url, b"{}".to_vec()))
}

/// Lets the server remove a schedule.
pub(crate) fn remove_schedule(server: &Server, id: &str) -> Result<(), Failure> {
    let question = Question {
        method: Method::DELETE,
        ..Question::get(server.url(&["schedules", id]))
    };
    server.ask(question).map(|_| ())
}
