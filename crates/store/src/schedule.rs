//! Runs that are started by the clock.

use std::collections::BTreeMap;

use windlass_core::{Millis, RunId};

use crate::{Error, Pending, TenantFilter};

/// What becomes of times that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are passed over.
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

    /// Its name outside.
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
    /// It is.
    #[default]
    Allow,
    /// That time is passed over.
    Skip,
}

impl Overlap {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Skip];

    /// Its name outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
        }
    }
}

/// When runs of a workflow are started, and with what. What its times mean is the engine's
/// business; here they are text and a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id, unique within the tenant.
    pub id: Box<str>,
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// The workflow whose runs it starts.
    pub workflow: Box<str>,
    /// When, as a cron expression.
    pub cron: Option<Box<str>>,
    /// Or how far apart, in milliseconds.
    pub every_ms: Option<u64>,
    /// The time zone that `cron` is meant in, by its IANA name.
    pub timezone: Box<str>,
    /// What the runs begin with: JSON text.
    pub trigger: Box<str>,
    /// The runs' labels beside the definition's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The runs' priority.
    pub priority: u8,
    /// Whether it starts runs now.
    pub enabled: bool,
    /// What becomes of times that nobody was there for.
    pub catch_up: CatchUp,
    /// Whether its runs may overlap.
    pub overlap: Overlap,
    /// When it was made, or replaced by another.
    pub changed_at: Millis,
    /// The next time; none while it is not enabled.
    pub next_at: Option<Millis>,
    /// The last time that came.
    pub last_at: Option<Millis>,
    /// The last run that it started.
    pub last_run: Option<RunId>,
    /// Why the last time that came started no run.
    pub last_error: Option<Box<str>>,
    /// Counts how often it was put; given by the store.
    pub revision: u64,
    /// Why it cannot be relied on, if the stored row is damaged: then the rest is what could
    /// still be read of it, or left out. Only lists give such.
    pub damage: Option<Box<str>>,
}

/// What came of a schedule's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The schedule's id.
    pub id: Box<str>,
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// The schedule as it was read: one that was put since then is left alone.
    pub revision: u64,
    /// The time that came.
    pub at: Millis,
    /// The run that was started; none leaves the one before.
    pub run: Option<RunId>,
    /// Why none was started.
    pub error: Option<Box<str>>,
    /// The time after.
    pub next_at: Option<Millis>,
}

/// Schedules: rows that say when runs are started.
pub trait Schedules: Send + Sync + 'static {
    /// Keeps a schedule, in place of the one of the same tenant and id. What the old one had
    /// last, and how often it was put, stays known, unless it is damaged: the new one's own is
    /// not looked at.
    /// `false` if it would be a new one and its tenant has `most` already. Durable on return.
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

    /// Keeps what came of a time and moves the schedule on. `false`, and nothing is changed,
    /// if it is gone or was put since it was read. Durable on return.
    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>>;
}
