//! Drives shards with tokio: the worker pool, actions, recovery.
//!
//! The engine knows the storage contract and never a backend; it knows neither HTTP
//! nor a terminal. [`Engine`] is the handle; everything behind it is private.

mod acquire;
pub mod action;
mod admission;
mod at_work;
mod attempt_tracker;
mod blocking;
mod canonical;
mod checks;
mod child_coordinator;
mod clock;
mod cluster;
mod command;
mod concurrency_key;
mod crash_isolation;
mod dead_letter;
mod driver;
mod engine;
mod engine_event;
mod enqueue;
mod evaluators;
mod event_stream;
pub mod fork;
mod frozen_at;
mod gates;
mod heal;
pub mod history;
mod inbox;
mod interrupted;
mod leaving;
mod limits;
mod load;
mod named_lease;
pub mod names;
mod options;
mod ownership;
mod parsed;
mod payload;
mod plans;
mod pool_slots;
mod projector;
mod queue_reason;
mod remote;
mod render;
mod replay;
mod retention;
mod row_repair;
mod run_owner;
mod schedule;
mod schema;
mod scrub;
mod secrecy;
mod serve;
mod shared;
mod shared_gates;
mod start;
mod start_metadata_cache;
mod stats;
mod timer;
mod turns;
mod values;
pub mod verify;
pub mod view;
mod waker;
mod watched;
mod whereabouts;
mod worker;
mod worker_slots;

pub use action::{
    Action, ActionError, Context, FileReader, FileWriter, OrFail, Registry, Reply, RetryStrategies,
    RetryStrategy, SharedState, State, file_digest, file_name, find_file,
};
pub use attempt_tracker::FinishedAttempt;
pub use canonical::{RepeatedKey, canonical};
pub use clock::{Clock, SystemClock};
pub use cluster::{ClusterSession, ClusterView};
pub use command::{
    CommandAnswer, CommandError, check_signal, check_signal_name, find_node, refuse_orphan,
};
pub use crash_isolation::Suspended;
pub use engine::{Engine, Recovery};
pub use engine_event::EngineEvent;
pub use event_stream::{RunEventStream, StreamItem};
pub use frozen_at::frozen_at;
pub use heal::{Healing, HealingWarning, would_heal};
pub use limits::{Limits, limits, set_limits};
pub use load::{LoadError, LoadedRun, Unavailable, load_latest, load_run};
pub use named_lease::NamedLease;
pub use options::{NoSecrets, Observer, Observers, Options, SecretError, SecretSource};
pub use payload::{PayloadError, check_payload, check_payload_off_thread, check_schema};
pub use plans::Plans;
pub use queue_reason::{QueueReason, held_gate};
pub use remote::{
    ACTION_LIMIT, DECLARED_SCHEMA_BYTES, Declaration, DeclaredAction, POLL_WAIT_LIMIT_MS,
    POLLER_LIMIT, Poll, SLOT_LIMIT, TaskId, TaskOutcome, WorkError, WorkState, WorkerInfo,
    WorkerTask, declared_actions, work_lease_ms,
};
pub use retention::Retain;
pub use row_repair::{Derived, derive};
pub use run_owner::RunOwner;
pub use schedule::{
    CRON_LIMIT_BYTES, EVERY_LIMIT_MS, SCHEDULE_LIMIT, SCHEDULE_TRIGGER_LIMIT_BYTES, ScheduleError,
    ScheduleProblem, Timing, check_schedule, next_times,
};
pub use schema::ActionSchemas;
pub use serve::Serving;
pub use start::{Begin, FROZEN_AT, NewRun, StartError, StartRequest, Started, check_trigger};
pub use stats::EngineStats;
pub use values::ValueReader;
pub use windlass_store::Backend;
