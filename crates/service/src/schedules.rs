//! Schedules as people and programs see them.

use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::Millis;
use windlass_engine::{SCHEDULE_LIMIT, ScheduleError};
use windlass_store::{CatchUp, Overlap, Schedule};

use crate::failure::{Failure, FailureKind};
use crate::listing::tell_damage;
use crate::members::Members;

/// How many of a schedule's next times a caller gets.
pub const TIMES_TOLD: usize = 10;

/// A schedule with its id and its workflow, and defaults for the rest.
pub fn plain(tenant: Option<Box<str>>, id: &str, workflow: &str) -> Schedule {
    Schedule {
        id: id.into(),
        tenant,
        workflow: workflow.into(),
        cron: None,
        every_ms: None,
        timezone: "UTC".into(),
        trigger: "{}".into(),
        labels: Default::default(),
        priority: 5,
        enabled: true,
        catch_up: CatchUp::default(),
        overlap: Overlap::default(),
        changed_at: Millis(0),
        next_at: None,
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 0,
        damage: None,
    }
}

/// A schedule for programs; its next times, where they were asked for.
pub fn item(schedule: &Schedule, times: Option<&[Millis]>) -> Members {
    let text = |at: Option<Millis>| at.map(|at| at.to_string());
    let mut item = json!({
        "id": schedule.id,
        "tenantId": schedule.tenant,
        "workflowId": schedule.workflow,
        "cron": schedule.cron,
        "everyMs": schedule.every_ms,
        "timezone": schedule.timezone,
        "trigger": null,
        "labels": schedule.labels,
        "priority": schedule.priority,
        "enabled": schedule.enabled,
        "catchUp": schedule.catch_up.as_str(),
        "overlap": schedule.overlap.as_str(),
        "changedAt": schedule.changed_at.to_string(),
        "nextAt": text(schedule.next_at),
        "lastAt": text(schedule.last_at),
        "lastExecutionId": schedule.last_run.map(|run| run.to_string()),
        "lastError": schedule.last_error,
    });
    tell_damage(&mut item, schedule.damage.as_deref());
    if let Some(times) = times {
        let times: Vec<String> = times.iter().map(Millis::to_string).collect();
        item["times"] = json!(times);
    }
    let mut item = Members::of(&item).unwrap_or_default();
    if let Ok(trigger) = serde_json::from_str::<&RawValue>(&schedule.trigger) {
        item.set("trigger", trigger)
            .expect("what is written stays so");
    }
    item
}

/// There is no such schedule.
pub fn unknown(id: &str) -> Failure {
    let message = format!("there is no schedule '{id}'");
    Failure::new(FailureKind::ScheduleNotFound, message).hint("`windlass schedules` lists them")
}

fn invalid(pointer: &str, message: &str) -> Failure {
    let name = pointer.trim_start_matches('/');
    Failure::new(
        FailureKind::ScheduleInvalid,
        format!("the schedule's {name}: {message}"),
    )
    .details(vec![json!({ "pointer": pointer, "message": message })])
}

/// What becomes of missed times, by its name.
///
/// # Errors
/// There is no such name.
pub fn catch_up(name: &str) -> Result<CatchUp, Failure> {
    let found = CatchUp::ALL.into_iter().find(|it| it.as_str() == name);
    found.ok_or_else(|| invalid("/catchUp", "it is none, one or all"))
}

/// Whether runs may overlap, by its name.
///
/// # Errors
/// There is no such name.
pub fn overlap(name: &str) -> Result<Overlap, Failure> {
    let found = Overlap::ALL.into_iter().find(|it| it.as_str() == name);
    found.ok_or_else(|| invalid("/overlap", "it is allow or skip"))
}

impl From<ScheduleError> for Failure {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Invalid(problem) => invalid(problem.pointer, &problem.message),
            ScheduleError::TooMany => {
                let message = format!("there are {SCHEDULE_LIMIT} schedules already");
                Self::new(FailureKind::TooManySchedules, message)
                    .hint("remove those that are not needed")
            }
            ScheduleError::Store(error) => error.into(),
        }
    }
}
