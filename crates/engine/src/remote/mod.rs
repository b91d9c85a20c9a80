//! Work for workers outside this process: action types that its own registry lacks.
//!
//! The driver keeps such an attempt open and puts it into the work queue (`offer`). A worker
//! asks for work (`poll`); parameters are rendered then, for that worker alone, and are never
//! stored. It reports under its lease (`finish`), and the driver records the report as it
//! records that of its own workers. What is in memory here (`open`) can be lost: the log knows
//! which attempts are open. Must not know HTTP.

mod cluster;
mod declared;
mod finish;
mod generation;
mod held;
mod lookup;
mod offer;
mod open;
mod poll;
mod pollers;
mod report_kind;
mod task_id;
mod timers;
mod worker_info;

use std::fmt;

use tokio::sync::OnceCell;
use windlass_store::Error;

pub use declared::{ACTION_LIMIT, DECLARED_SCHEMA_BYTES, Declaration, DeclaredAction};
pub use finish::TaskOutcome;
pub use poll::{POLL_WAIT_LIMIT_MS, Poll, SLOT_LIMIT, WorkerTask};
pub use pollers::{POLLER_LIMIT, WorkerInfo};
pub use task_id::TaskId;
pub use worker_info::{WorkState, declared_actions};

pub(crate) use cluster::{
    BegunAttempt, LeftBehind, OUTCOMES, leave_behind, stop_shared, wake_always, watch_queue,
    work_always,
};
pub(crate) use offer::{offer, withdraw};
pub(crate) use open::{Closed, RecordedReport, key_of};
pub(crate) use timers::watch_deadlines;

use cluster::SharedWork;
use declared::Declarations;
use open::OpenAttempts;
use pollers::Pollers;
use task_id::LeaseKey;

/// Whether only the server may have an action of this name, also one that it lacks because it
/// is switched off: a worker with the name would be handed what was meant for the server.
pub(crate) fn is_reserved(action: &str) -> bool {
    action.starts_with("core.")
}

/// How many heartbeats a worker may miss before its task is available again.
const MISSED_HEARTBEATS: u64 = 3;

/// How long a worker has a task without a heartbeat, where it is to send one so often.
pub fn work_lease_ms(heartbeat: std::time::Duration) -> u64 {
    u64::try_from(heartbeat.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_mul(MISSED_HEARTBEATS)
}

/// What an engine knows of workers outside it.
#[derive(Default)]
pub(crate) struct Remote {
    pub(crate) open: OpenAttempts,
    pub(crate) declared: Declarations,
    /// Work that other processes do, or gave to this one.
    pub(crate) shared: SharedWork,
    pollers: Pollers,
    lease_key: OnceCell<LeaseKey>,
}

/// Why a worker's request is refused.
#[derive(Clone, Debug)]
pub enum WorkError {
    /// There is no such task, or it is another tenant's.
    TaskNotFound,
    /// Another worker has the task, or had it after this one.
    LeaseLost,
    /// The server never gave this lease for this task.
    LeaseUnknown,
    /// The attempt ended otherwise: it ran out of time, was cancelled, or was set by hand.
    TaskEnded,
    /// The type is one of the server's own actions.
    Reserved(Box<str>),
    /// One poll declares the type in two ways.
    Contradicted(Box<str>),
    /// The tenant would have more types than it may.
    TooManyActions,
    /// The schema of a type cannot be used.
    SchemaInvalid {
        /// The type.
        action: Box<str>,
        /// What is wrong.
        reason: String,
        /// Whether it takes too much, and is not wrong otherwise.
        limit: bool,
    },
    /// As many workers wait as may.
    TooManyPollers,
    /// The store failed: send it again.
    Store(Error),
    /// The engine stops: send it again.
    Stopped,
}

impl From<Error> for WorkError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TaskNotFound => f.write_str("there is no such task"),
            Self::LeaseLost => f.write_str("the task was handed out again: another lease has it"),
            Self::LeaseUnknown => f.write_str("this is no lease that the server gave for the task"),
            Self::TaskEnded => f.write_str("the attempt has ended otherwise"),
            Self::Reserved(action) => write!(f, "'{action}' is an action of the server itself"),
            Self::Contradicted(action) => {
                write!(f, "the poll declares '{action}' twice, in different ways")
            }
            Self::TooManyActions => write!(
                f,
                "the workers of a tenant may declare {ACTION_LIMIT} action types together"
            ),
            Self::SchemaInvalid { action, reason, .. } => {
                write!(f, "the parametersSchema of '{action}': {reason}")
            }
            Self::TooManyPollers => write!(f, "{POLLER_LIMIT} workers wait for work already"),
            Self::Store(error) => error.fmt(f),
            Self::Stopped => f.write_str("the server is stopping"),
        }
    }
}

impl std::error::Error for WorkError {}
