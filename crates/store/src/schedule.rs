//! Runs that are started by the clock.

use std::collections::BTreeMap;

use windlass_core::{Millis, RunId};

use crate::{Error, Pending, TenantFilter};

/// What to do about times that passed while no process was there to start runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped.
    None,
    /// All of them together start one run.
    #[default]
    One,
    /// Each starts a run, up to a bound.
    All,
}

impl CatchUp {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::None, Self::One, Self::All];

    /// Its name outside the program.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::One => "one",
            Self::All => "all",
        }
    }
}

/// Whether a run is started while the one before has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// It is started.
    #[default]
    Allow,
    /// That time is skipped.
    Skip,
}

impl Overlap {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Skip];

    /// Its name outside the program.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
        }
    }
}

/// When runs of a workflow are started, and with what. The engine interprets the times; the
/// store keeps text and a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id, unique within the tenant.
    pub id: Box<str>,
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The workflow whose runs it starts.
    pub workflow: Box<str>,
    /// When, as a cron expression.
    pub cron: Option<Box<str>>,
    /// Or the interval, in milliseconds.
    pub every_ms: Option<u64>,
    /// The time zone of `cron`, by its IANA name.
    pub timezone: Box<str>,
    /// The trigger of the runs: JSON text.
    pub trigger: Box<str>,
    /// The runs' labels beside the definition's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The runs' priority.
    pub priority: u8,
    /// Whether it starts runs now.
    pub enabled: bool,
    /// What to do about times that passed while no process was there to start runs.
    pub catch_up: CatchUp,
    /// Whether its runs may overlap.
    pub overlap: Overlap,
    /// When it was created or replaced.
    pub changed_at: Millis,
    /// The next time; none while it is disabled.
    pub next_at: Option<Millis>,
    /// The last time that came.
    pub last_at: Option<Millis>,
    /// The last run that it started.
    pub last_run: Option<RunId>,
    /// Why the last time that came started no run.
    pub last_error: Option<Box<str>>,
    /// Counts how often it was put; the store sets it.
    pub revision: u64,
    /// Why the schedule cannot be relied on, if the stored row is damaged: then the other
    /// fields hold what could still be read, or are empty. Only lists return such schedules.
    pub damage: Option<Box<str>>,
}

/// What a schedule did at one of its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The schedule's id.
    pub id: Box<str>,
    /// The schedule's tenant; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The revision that was read: a schedule that was put since then is left alone.
    pub revision: u64,
    /// The time that came.
    pub at: Millis,
    /// The run that was started; `None` leaves the one before.
    pub run: Option<RunId>,
    /// Why no run was started.
    pub error: Option<Box<str>>,
    /// The next time after it.
    pub next_at: Option<Millis>,
}

/// Schedules: rows that say when runs are started.
pub trait Schedules: Send + Sync + 'static {
    /// Keeps a schedule, in place of the one of the same tenant and id. The last time, run and
    /// error of the old one, and its revision, are kept, unless its row is damaged; those of
    /// the new one are ignored. `false` if it would be a new one and its tenant has `most`
    /// already. Durable on return.
    fn put_schedule(&self, schedule: Schedule, most: usize) -> Pending<'_, Result<bool, Error>>;

    /// One schedule.
    fn schedule(
        &self,
        tenant: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<Schedule>, Error>>;

    /// The schedules of those tenants, by id, then by tenant, those after the given one.
    fn schedules(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>>;

    /// Removes a schedule; `false` if there is none. Durable on return.
    fn remove_schedule(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>>;

    /// Schedules whose next time is at or before `until`, earliest first, at most `limit`.
    /// Damaged ones are left out.
    fn due_schedules(
        &self,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>>;

    /// The earliest next time of all schedules but the damaged ones.
    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>>;

    /// Records what happened at a time and moves the schedule on. `false`, and nothing
    /// changes, if the schedule is gone or was put since it was read. Durable on return.
    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>>;
}
