//! The storage contract. A backend is correct when it passes `conformance`.
//!
//! Durability is one small trait, [`Store`]; definitions ([`Catalogue`]), lists
//! ([`Queries`]), what waits to begin ([`Admission`]), what nobody could carry on
//! ([`DeadLetters`]), who changed what ([`Audit`]), what the clock starts ([`Schedules`]),
//! what signed requests start ([`Hooks`]), sealed secrets ([`Secrets`])
//! and what is not kept any longer ([`Retention`]) are others. Records and values are
//! opaque bytes here: what they mean is the core's business, how they are kept is the
//! backend's.

pub mod checksum;
#[cfg(feature = "conformance")]
pub mod conformance;
#[doc(hidden)]
pub mod crash;

mod admission;
mod audit;
mod block_on;
mod dead;
mod envelope;
mod hook;
mod memory;
mod notes;
mod retention;
mod schedule;
mod secrets;
mod tenant;
mod types;

use std::future::Future;
use std::pin::Pin;

use windlass_core::{Digest, Millis, RunId};

pub use admission::{Admission, Gate};
pub use audit::{Audit, AuditEntry};
pub use block_on::block_on;
pub use dead::{DeadLetter, DeadLetters};
pub use envelope::{Envelope, EnvelopeError, Kind};
pub use hook::{Hook, Hooks};
pub use memory::{AppendFault, MemoryStore};
pub use notes::{Note, Notes};
pub use retention::{REQUEST_CLAIM, Retention, request_key};
pub use schedule::{CatchUp, Fired, Overlap, Schedule, Schedules};
pub use secrets::{SecretRow, Secrets};
pub use tenant::TenantFilter;
pub use types::{
    Append, AppendError, Appended, Blob, Checkpoint, Claim, Compacted, Damage, DefinitionRow,
    Error, Head, Health, InboxItem, NewDefinition, Published, Record, ResourceRow, RunFilter,
    RunPage, RunRow, WorkflowRow, WriterId,
};

/// What every asynchronous method returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The durable truth of runs: log, inbox, claims and blobs; and what makes a long log
/// cheap to keep: checkpoints and packing.
pub trait Store: Send + Sync + 'static {
    /// Appends one record to each of several runs; one answer for each, in order.
    ///
    /// Each append stands alone: a conflict of one run does not abort the others.
    /// Before: the caller believes `append.head` is the run's head. After `Ok`: the
    /// record, its row, its claims and its blobs are durable together, and the new head
    /// is returned. After `Err`: nothing of that append is stored, except when the
    /// error is [`AppendError::Unknown`]. After a crash in between: all of it or nothing;
    /// the owner reads the head and compares `append_id`.
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>>;

    /// The run's head, or [`Head::NONE`] for a run that does not exist.
    fn head(&self, run: RunId) -> Result<Head, Error>;

    /// Records from sequence number `from` (the first record is 1), in order, until about
    /// `max_bytes` were read, at least one if there is one. Every record's checksum and
    /// its place in the chain are verified; damage is [`Error::Damaged`], naming the place.
    fn read(&self, run: RunId, from: u64, max_bytes: usize) -> Result<Vec<Record>, Error>;

    /// Offers something from outside to a run's owner. Durable on return; the first
    /// per key wins, and `false` says that there was one already.
    fn offer(&self, run: RunId, key: &str, bytes: &[u8]) -> Pending<'_, Result<bool, Error>>;

    /// What was offered to a run and not yet consumed, oldest first. An item is consumed
    /// by naming its key in [`Append::consumed`].
    fn inbox(&self, run: RunId) -> Result<Vec<InboxItem>, Error>;

    /// Runs that have something in their inbox, by id, after the given one, whether or not
    /// they have a log: what recovery walks.
    fn offered(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, Error>;

    /// The value that holds a claim, if any. Claims are made by [`Append::claims`].
    fn claimed(&self, namespace: &str, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Stores a value under its digest. Durable on return. Storing it twice is harmless.
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>>;

    /// Reads a value, checking it against its digest.
    fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error>;

    /// Stores a checkpoint for a run, in place of the one before. It is derived: not
    /// necessarily durable on return, never visible before the records it covers, and a
    /// crash leaves the old one, the new one, or none.
    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>>;

    /// The run's checkpoint, if there is one whose head lies on the run's chain. A damaged
    /// or foreign one is answered as `None`: the log is replayed instead.
    fn checkpoint(&self, run: RunId) -> Result<Option<Checkpoint>, Error>;

    /// Packs the records up to `through` that are not packed yet, in steps that hold up
    /// nobody else for long.
    ///
    /// Nothing is lost: head and fence stay as they are, and `read` gives the same records
    /// byte for byte. `through` beyond the head means the head. Packing twice is harmless.
    /// After an error, or a crash in between: some of the records are packed, the others
    /// as they were, and the next call goes on from there.
    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>>;
}

/// Workflow definitions: immutable once published. Each belongs to a tenant, or to none:
/// the same id in two tenants names two workflows.
pub trait Catalogue: Send + Sync + 'static {
    /// Publishes a definition. If the newest version has the same digest, that version is
    /// returned with `created: false`; otherwise the next version is made. Durable on return.
    fn publish(&self, definition: NewDefinition) -> Pending<'_, Result<Published, Error>>;

    /// One version of a definition, or the newest.
    fn definition(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Result<Option<DefinitionRow>, Error>;

    /// All versions of a workflow, newest first, without their text.
    fn versions(&self, tenant: Option<&str>, workflow: &str) -> Result<Vec<DefinitionRow>, Error>;

    /// The workflows of those tenants, by id, then by tenant.
    fn workflows(&self, tenant: &TenantFilter) -> Result<Vec<WorkflowRow>, Error>;

    /// One workflow.
    fn workflow(&self, tenant: Option<&str>, workflow: &str) -> Result<Option<WorkflowRow>, Error>;

    /// Enables or disables a workflow; `false` if there is none of that id. Durable on return.
    fn set_enabled(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        enabled: bool,
    ) -> Pending<'_, Result<bool, Error>>;
}

/// Lists over rows that derive from the log, read on connections of their own. A damaged row
/// is left out of every list, and does not keep the others from it.
pub trait Queries: Send + Sync + 'static {
    /// Runs that lists left out since this was asked last, because their rows are damaged; those
    /// that are dead are not named.
    fn left_out(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// One run's row.
    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error>;

    /// A page of runs, newest first.
    fn runs(&self, filter: &RunFilter) -> Result<RunPage, Error>;

    /// Up to `limit` runs whose id, as text, begins with `prefix` (hyphens are optional).
    fn runs_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<RunId>, Error>;

    /// Runs that have not ended, oldest first, after the given one: what recovery walks.
    fn unfinished(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunRow>, Error>;

    /// Runs that have not ended and do not sleep, oldest first, after the given one. The
    /// cost does not depend on how many sleep.
    fn awake(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunRow>, Error>;

    /// Sleeping runs that want to be woken at or before `until`, earliest first, at most
    /// `limit`, after the given one; those of the same time by id. Dead ones are left out.
    fn due(
        &self,
        after: Option<(Millis, RunId)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<(RunId, Millis)>, Error>;

    /// The earliest wake-up time of a sleeping run that is not dead, if any.
    fn next_wake(&self) -> Result<Option<Millis>, Error>;

    /// The runs that a run started, oldest first.
    fn children(&self, parent: RunId) -> Result<Vec<RunRow>, Error>;

    /// A run's resource links.
    fn resources(&self, run: RunId) -> Result<Vec<ResourceRow>, Error>;

    /// One resource link: the first that was made wins.
    fn resource(
        &self,
        tenant: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<ResourceRow>, Error>;

    /// Replaces rows that derive from the log (for `rebuild`): the rows of these runs and
    /// their resource links. Who is dead stays so. Durable on return.
    fn replace_rows(&self, rows: Vec<(RunRow, Vec<ResourceRow>)>)
    -> Pending<'_, Result<(), Error>>;

    /// Every run that has a log, oldest first, after the given one, whether or not it has
    /// a row: what `rebuild` walks.
    fn logged_runs(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, Error>;

    /// Checks that the store can be read and written.
    fn health(&self) -> Result<Health, Error>;
}
