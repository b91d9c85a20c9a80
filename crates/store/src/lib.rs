//! The storage contract. A backend is correct when it passes `conformance`.
//!
//! Small traits, each with its conformance suite; a backend implements all of them
//! ([`Backend`]). What runs rest on: records ([`Log`]), what reaches a run from outside
//! ([`Inbox`]), values ([`Blobs`]). Relational: definitions ([`Catalogue`]), lists
//! ([`Queries`]), the queue of pending runs ([`Admission`]), runs that no process may acquire
//! ([`DeadLetters`]), who changed what ([`Audit`]), timed starts ([`Schedules`]), starts by signed
//! requests ([`Hooks`]), sealed secrets ([`Secrets`]), expiry ([`Retention`]) and small records of
//! processes ([`KeyValue`]). Between processes: partitions ([`Leases`]), places at gates
//! ([`Places`]), slots of pools ([`Pools`]), wake-ups ([`Wakes`]) and the work queue ([`WorkQueue`]). Records and values are
//! opaque bytes here: what they mean is the core's business, how they are kept is the backend's.
//!
//! Tables that derive from the log and are written behind it ([`Projections`]) exist only where
//! people read them with SQL; they are no part of [`Backend`].
//!
//! Every method is asynchronous. A backend answers a small read before it returns; callers
//! without a runtime use [`block_on`] or [`Wait`].

pub mod checksum;
#[cfg(feature = "conformance")]
pub mod conformance;
#[doc(hidden)]
pub mod crash;

mod admission;
mod audit;
mod blobs;
mod block_on;
mod catalogue;
mod dead;
mod envelope;
mod hook;
mod inbox;
mod key_value;
mod leases;
mod local;
mod log;
mod memory;
mod places;
mod pools;
mod process;
mod projections;
mod queries;
mod retention;
mod schedule;
mod secrets;
mod slot;
mod tenant;
mod transfer;
mod types;
mod wakes;
mod work;

use std::future::Future;
use std::pin::Pin;

pub use admission::{Admission, GateCount, TenantGate};
pub use audit::{Audit, AuditEntry};
pub use blobs::{Blobs, HOLD};
pub use block_on::{Wait, block_on, may_block};
pub use catalogue::Catalogue;
pub use dead::{DeadLetter, DeadLetters};
pub use envelope::{Envelope, EnvelopeError, EnvelopeKind, STORED_FORM, check_stored_form};
pub use hook::{Hook, Hooks};
pub use inbox::{Inbox, InboxBounds, Offer, OfferAnswer, not_waiting, offered_bells};
pub use key_value::{KeyValue, Note};
pub use leases::{
    ExpiredSession, JoinedSession, LEASE_NAME_BYTES, Leases, LiveSession, Partition, Partitions,
    SessionId, TakenPartition,
};
pub use local::{LocalCoordinator, PoolTable};
pub use log::Log;
pub use memory::{AppendFault, MemoryStore};
pub use places::{GatePlace, HeldPlace, Places, TakePlace};
pub use pools::{
    GivenSlots, LinePlace, PoolKey, PoolRemoval, PoolRow, PoolUse, Pools, SlotRequest, SlotsTaken,
    grant,
};
pub use process::{ProcessInfo, Role, Roles};
pub use projections::{
    AttemptRow, AttemptStatus, EventRow, ProjectedRun, ProjectedValue, ProjectionBatch,
    ProjectionLag, ProjectionLook, Projections, RequestedRun, RunContext, RunDetails,
    UnprojectedRun,
};
pub use queries::Queries;
pub use retention::{REQUEST_CLAIM, Retention, request_key};
pub use schedule::{CatchUp, Fired, Overlap, Schedule, Schedules};
pub use secrets::{SecretRow, Secrets};
pub use slot::Slot;
pub use tenant::TenantFilter;
pub use transfer::{StoredClaim, Transfer};
pub use types::{
    Append, AppendError, Appended, Blob, Checkpoint, Claim, Compacted, Damage, DefinitionRow,
    Error, Head, Health, InboxItem, NewDefinition, Published, Record, Relatives, ResourceRow,
    RunFilter, RunPage, RunRow, StatusCounts, WorkflowRow, WriterId,
};
pub use wakes::{Bell, Listener, Wakes};
pub use work::{
    BegunItem, ItemOutcome, ItemRun, ItemState, LeaseAnswer, LeaseTerm, LeasedItem, Pull,
    QueueDepth, SettleAnswer, WorkItem, WorkKey, WorkLease, WorkQueue,
};

/// The future that every method returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A complete backend: what an engine needs.
pub trait Backend:
    Log
    + Inbox
    + Blobs
    + Catalogue
    + Queries
    + Admission
    + DeadLetters
    + Audit
    + Retention
    + Schedules
    + Hooks
    + KeyValue
    + Secrets
    + Leases
    + Places
    + Pools
    + Wakes
    + WorkQueue
{
}

impl<S> Backend for S where
    S: Log
        + Inbox
        + Blobs
        + Catalogue
        + Queries
        + Admission
        + DeadLetters
        + Audit
        + Retention
        + Schedules
        + Hooks
        + KeyValue
        + Secrets
        + Leases
        + Places
        + Pools
        + Wakes
        + WorkQueue
{
}
