//! Starting runs by the clock.
//!
//! A schedule is a row with its next time. One task of a serving engine sleeps until the
//! earliest of them, and is woken when schedules change: without any, nothing happens.

mod check;
mod cron_fields;
mod fire;
mod timing;

pub use check::{
    SCHEDULE_LIMIT, SCHEDULE_TRIGGER_LIMIT_BYTES, ScheduleError, check_schedule, next_times,
};
pub(crate) use fire::fire_always;
pub use timing::{CRON_LIMIT_BYTES, EVERY_LIMIT_MS, ScheduleProblem, Timing};
