//! Making and changing schedules.

use std::fmt;

use windlass_core::Millis;
use windlass_store::{Error, Schedule};

use super::timing::{ScheduleProblem, Timing};
use crate::engine::Engine;
use crate::names::{is_tenant, label_problem};
use crate::payload::{PayloadError, check_payload};

/// How many schedules a tenant may have.
pub const SCHEDULE_LIMIT: usize = 10_000;

/// The largest trigger of a schedule, in bytes: it is read whenever a time comes.
pub const SCHEDULE_TRIGGER_LIMIT_BYTES: usize = 256 * 1024;

/// The longest id of a schedule, in bytes.
const ID_LIMIT_BYTES: usize = 128;

/// Why a schedule was not kept.
#[derive(Debug)]
pub enum ScheduleError {
    /// It cannot be used.
    Invalid(ScheduleProblem),
    /// Its tenant has as many as it may.
    TooMany,
    /// The store failed.
    Store(Error),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(problem) => {
                let name = problem.pointer.trim_start_matches('/');
                write!(f, "the schedule's {name}: {}", problem.message)
            }
            Self::TooMany => write!(f, "there are {SCHEDULE_LIMIT} schedules already"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ScheduleError {}

impl From<Error> for ScheduleError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Checks a schedule and gives it its next time, which is none if it is not enabled.
///
/// # Errors
/// It cannot be used.
pub fn check_schedule(schedule: Schedule, now: Millis) -> Result<Schedule, ScheduleProblem> {
    let wrong = |pointer, message: &str| ScheduleProblem::new(pointer, message);
    check_id("/id", &schedule.id)?;
    check_id("/workflowId", &schedule.workflow)?;
    if schedule.priority > 9 {
        return Err(wrong("/priority", "it is from 0 to 9"));
    }
    if schedule.tenant.as_deref().is_some_and(|it| !is_tenant(it)) {
        return Err(wrong("/tenantId", "it cannot be the name of a tenant"));
    }
    let labels = schedule.labels.iter();
    if let Some(message) = label_problem(labels.map(|(key, value)| (&**key, &**value))) {
        return Err(wrong("/labels", &message));
    }
    if schedule.trigger.len() > SCHEDULE_TRIGGER_LIMIT_BYTES {
        let message = format!("it has at most {SCHEDULE_TRIGGER_LIMIT_BYTES} bytes");
        return Err(wrong("/trigger", &message));
    }
    let trigger = check_payload(&schedule.trigger, None);
    trigger.map_err(|error: PayloadError| wrong("/trigger", &error.to_string()))?;
    let cron = schedule.cron.as_deref();
    let timing = Timing::new(cron, schedule.every_ms, &schedule.timezone)?;
    let Some(first) = timing.first(now) else {
        return Err(wrong("/cron", "there is no such time"));
    };
    Ok(Schedule {
        next_at: schedule.enabled.then_some(first),
        changed_at: now,
        ..schedule
    })
}

/// As ids of nodes are.
fn check_id(pointer: &'static str, id: &str) -> Result<(), ScheduleProblem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !id.is_empty() && id.len() <= ID_LIMIT_BYTES && id.bytes().all(plain) {
        return Ok(());
    }
    let message = format!("an id has from 1 to {ID_LIMIT_BYTES} letters, digits, '-' and '_'");
    Err(ScheduleProblem::new(pointer, message))
}

/// The next times of a schedule, at most so many; none while it is not enabled.
pub fn next_times(schedule: &Schedule, most: usize) -> Vec<Millis> {
    let cron = schedule.cron.as_deref();
    let Ok(timing) = Timing::new(cron, schedule.every_ms, &schedule.timezone) else {
        return Vec::new();
    };
    let mut times = Vec::new();
    let mut next = schedule.next_at;
    while let Some(at) = next.filter(|_| times.len() < most) {
        times.push(at);
        next = timing.after(at, at);
    }
    times
}

impl Engine {
    /// Keeps a schedule, in place of the one of its tenant and id. It is durable on return.
    ///
    /// # Errors
    /// It cannot be used, there are too many, or the store failed.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<Schedule, ScheduleError> {
        let schedule = check_schedule(schedule, self.now()).map_err(ScheduleError::Invalid)?;
        let (tenant, id) = (schedule.tenant.clone(), schedule.id.clone());
        let put = self.store().put_schedule(schedule, SCHEDULE_LIMIT).await?;
        if !put {
            return Err(ScheduleError::TooMany);
        }
        self.shared().schedules.notify_one();
        self.ring_scheduler();
        let found = self.store().schedule(tenant.as_deref(), &id).await?;
        Ok(found.ok_or_else(|| Error::NotFound(id.into()))?)
    }

    /// Removes a schedule; `false` if there is none. Its runs stay. Durable on return.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_schedule(&self, tenant: Option<&str>, id: &str) -> Result<bool, Error> {
        self.store().remove_schedule(tenant, id).await
    }
}
