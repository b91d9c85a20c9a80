//! Drives shards with tokio: the worker pool, actions, recovery.
//!
//! The engine knows the storage contract and never a backend; it knows neither HTTP
//! nor a terminal. [`Engine`] is the handle; everything behind it is private.

pub mod action;
mod admission;
mod alarm;
mod canonical;
mod checks;
mod child_coordinator;
mod clock;
mod command;
mod concurrency_key;
mod crash_isolation;
mod dead_letter;
mod driver;
mod engine;
mod evaluators;
mod feed;
pub mod fork;
mod gates;
mod heal;
pub mod history;
mod intake;
mod interrupted;
mod known;
mod limits;
mod line;
mod load;
pub mod names;
mod notice;
mod options;
mod ownership;
mod parsed;
mod payload;
mod plans;
mod remote;
mod render;
mod replay;
mod retention;
mod row_repair;
mod schedule;
mod schema;
mod scrub;
mod secrecy;
mod serve;
mod shared;
mod start;
mod stats;
mod turns;
mod values;
pub mod verify;
pub mod view;
mod waker;
mod watched;
mod worker;

pub use action::{Action, ActionError, Context, Registry, Reply};
pub use canonical::{RepeatedKey, canonical};
pub use clock::{Clock, SystemClock};
pub use command::{CommandAnswer, CommandError, check_signal, check_signal_name};
pub use crash_isolation::Suspended;
pub use engine::{Engine, Recovery};
pub use feed::{Fed, Feed};
pub use heal::{Healing, HealingWarning, would_heal};
pub use limits::{Limits, limits, set_limits};
pub use line::{InLine, held_gate};
pub use load::{LoadError, LoadedRun, Unavailable, load_latest, load_run};
pub use notice::Notice;
pub use options::{NoSecrets, Observer, Observers, Options, SecretError, SecretSource};
pub use payload::{PayloadError, check_payload, check_payload_off_thread, check_schema};
pub use plans::Plans;
pub use remote::{
    ACTION_LIMIT, DECLARED_SCHEMA_BYTES, Declaration, DeclaredAction, POLL_WAIT_LIMIT_MS,
    POLLER_LIMIT, Poll, SLOT_LIMIT, Task, TaskId, TaskOutcome, WorkError, WorkState, WorkerInfo,
    declared_actions,
};
pub use retention::Retain;
pub use row_repair::{Derived, derive};
pub use schedule::{
    CRON_LIMIT_BYTES, EVERY_LIMIT_MS, SCHEDULE_LIMIT, SCHEDULE_TRIGGER_LIMIT_BYTES, ScheduleError,
    ScheduleProblem, Timing, check_schedule, next_times,
};
pub use serve::Serving;
pub use start::{Begin, FROZEN_AT, NewRun, StartError, StartRequest, Started, check_trigger};
pub use stats::EngineStats;
pub use values::ValueReader;
pub use watched::Attempt;
pub use windlass_store::Backend;
