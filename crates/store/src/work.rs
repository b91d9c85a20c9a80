//! The work queue: attempts for workers of other processes, and for workers in any language.
//!
//! It may lose items, because the log knows what is open: the owner of a run asks what the
//! queue still has ([`WorkQueue::known`]) after every reconnect and for every attempt that has been
//! silent too long, and pushes again. It records no outcome: an outcome is offered to the run
//! under the item's lease, and the run's owner decides. Payloads are opaque here.

use windlass_core::RunId;

use crate::{Error, Offer, Partition, Pending, SessionId, TenantFilter};

/// Which attempt an item is: at most one item exists for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    /// The run that handed the attempt out.
    pub run: RunId,
    /// The node instance's number in the run.
    pub instance: u32,
    /// The attempt's number, from 1.
    pub attempt: u32,
}

/// One attempt for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// Which attempt.
    pub key: WorkKey,
    /// The tenant of the run.
    pub tenant: Option<Box<str>>,
    /// The action to call.
    pub action: Box<str>,
    /// The labels that the worker must have, all of them.
    pub requires: Vec<Box<str>>,
    /// From 0 to 9; higher first.
    pub priority: u8,
    /// The dispatch, self-contained: a worker never reads a log.
    pub payload: Vec<u8>,
}

/// An attempt that a worker has begun before the queue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunItem {
    /// The attempt.
    pub item: WorkItem,
    /// How many milliseconds ago the worker began.
    pub begun_ms: u64,
}

/// How long a worker has an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseTerm {
    /// For so many milliseconds after the pull or the last renewal: workers over HTTP.
    Millis(u64),
    /// For as long as this session is live: workers inside a process that holds one.
    Session(SessionId),
}

/// A worker's request for items.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The worker's name; unique per process.
    pub worker: Box<str>,
    /// Only items of these tenants' runs.
    pub tenant: TenantFilter,
    /// The actions that it has.
    pub actions: Vec<Box<str>>,
    /// The labels that it has.
    pub labels: Vec<Box<str>>,
    /// At most so many items.
    pub slots: usize,
    /// The limit on the bytes of all payloads together; at least one item comes if there is
    /// one.
    pub max_bytes: usize,
    /// How long it has them.
    pub term: LeaseTerm,
    /// The items that it has already, if it names them: an item that is leased to it and not
    /// named here comes again at once, because the answer that carried it was lost. Such an
    /// answer delivered nothing.
    pub holding: Option<Vec<WorkKey>>,
}

/// Which hand-out of an item this is; never given twice for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkLease(pub u64);

/// An item that a worker has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedItem {
    /// The item.
    pub item: WorkItem,
    /// The lease that the worker names when it renews or completes the item.
    pub lease: WorkLease,
    /// How often the item was handed out, this time included; not those that were returned, or
    /// whose answer was lost.
    pub deliveries: u32,
    /// How many milliseconds ago it was handed out first.
    pub begun_ms: u64,
    /// Its run, where the backend has read it with the item; a caller without it reads the row.
    pub run: Option<ItemRun>,
}

/// What a worker has to know of the run of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRun {
    /// The partition that the run is in.
    pub partition: Partition,
    /// Whether its attempts may begin: it is neither paused, nor over, nor a dead letter.
    pub is_running: bool,
}

/// Where an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemState {
    /// It waits for a worker.
    Waiting {
        /// The worker that had it last, and its lease; none if no worker has had it.
        last: Option<(Box<str>, WorkLease)>,
    },
    /// A worker has it.
    Leased {
        /// The name of the worker that has the item.
        worker: Box<str>,
        /// Its lease.
        lease: WorkLease,
        /// Whether the worker is asked to end the attempt.
        stop: bool,
        /// How many milliseconds ago the item was handed out first.
        begun_ms: u64,
    },
}

impl ItemState {
    /// Whether a worker's report under a lease comes too late: another worker has the item, or
    /// has had it since.
    pub fn fences(&self, worker: &str, lease: WorkLease) -> bool {
        let last = match self {
            Self::Waiting { last } => last.as_ref().map(|(worker, lease)| (worker, *lease)),
            Self::Leased { worker, lease, .. } => Some((worker, *lease)),
        };
        last.is_some_and(|(has, current)| current != lease && **has != *worker)
    }
}

/// How many items of a kind the queue has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueDepth {
    /// The tenant of their runs.
    pub tenant: Option<Box<str>>,
    /// The action to call.
    pub action: Box<str>,
    /// The labels that the worker must have.
    pub requires: Vec<Box<str>>,
    /// How many wait for a worker.
    pub waiting: u64,
    /// How many a worker has.
    pub leased: u64,
}

/// The answer to a renewal or a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The lease is the current one, and the call took effect.
    Held {
        /// Whether the worker is asked to end the attempt.
        stop: bool,
    },
    /// Another hand-out has taken the lease's place, or it ran out and the item waits.
    Lost,
    /// The queue does not have the item: it was completed or withdrawn, or the queue lost it.
    /// The log tells which.
    Unknown,
}

/// The outcome of an item, for the owner of its run.
#[derive(Clone, Debug)]
pub struct ItemOutcome {
    /// What the owner gets.
    pub offer: Offer,
    /// The item.
    pub key: WorkKey,
    /// The worker that has done it.
    pub worker: Box<str>,
    /// Its lease.
    pub lease: WorkLease,
}

/// The answer to an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAnswer {
    /// The owner has the outcome, and the queue has not the item any more.
    Offered,
    /// Another worker has the item, or has had it since ([`ItemState::fences`]): nothing changed.
    Lost,
    /// The backend cannot do both in one step, and did nothing.
    Apart,
}

/// The work queue.
pub trait WorkQueue: Send + Sync + 'static {
    /// Puts items into the queue. One whose key is there already changes nothing, so pushing
    /// again is harmless. Rings [`crate::Bell::Work`]. After an error, or a crash in between or at
    /// any time after: some of them are there, or none.
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>>;

    /// Puts items into the queue that a worker works on already: from the first moment each is
    /// leased to it for as long as its session is live, and has been delivered once. The answer
    /// has the lease of each, in order; none for an item whose key is there already, or if the
    /// session is not live. After a crash in between: some of them are there, and wait once the
    /// session is over.
    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>>;

    /// Leases items that wait, by priority, then age, and answers at once, maybe with none:
    /// [`crate::Bell::Work`] tells when to ask again. After a crash in between: items may be
    /// leased without the worker's knowledge; they come again when their lease runs out, or
    /// with `holding`.
    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>>;

    /// Which of these items the queue still has, in the order of the question.
    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>>;

    /// How many items of each tenant, action and set of labels there are, in order, at most
    /// `limit` kinds of them.
    fn queue_depth(&self, limit: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>>;

    /// Prolongs a lease by its term; to another tenant the item is unknown. After a crash in
    /// between: it was prolonged or not.
    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>>;

    /// Removes an item whose outcome is durable in the run's inbox or log. Only the current
    /// lease may; to another tenant the item is unknown. After a crash in between: the item
    /// is there or not; a worker that gets it again is refused by the run's owner.
    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>>;

    /// Offers the outcome of an item to the owner of its run, as [`crate::Inbox::offer`] does, and
    /// removes the item, in one step: the owner need not ask whether the worker still had it. An item
    /// that the queue has lost does not stand in the way. After an error, or a crash in between:
    /// both happened, or nothing.
    fn settle(&self, outcome: ItemOutcome) -> Pending<'_, Result<SettleAnswer, Error>> {
        let _ = outcome;
        Box::pin(std::future::ready(Ok(SettleAnswer::Apart)))
    }

    /// Lets an item wait again at once, at its old place: its worker did not get it, so it does
    /// not count as delivered. Only the
    /// current lease may; to another tenant the item is unknown. After a crash in between: the
    /// item waits, or its lease runs out.
    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>>;

    /// Leases an item that waits to a worker that works on it already, under a lease that ran
    /// out or that the queue has lost; `None` if the item does not wait. After a crash in
    /// between: it may be leased without the worker's knowledge, as after [`WorkQueue::pull`].
    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>>;

    /// Asks that attempts end: items that wait are removed, and the workers of the others hear of
    /// it with their next renewal. After a crash in between: some of them were asked.
    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>>;

    /// Removes items whose attempts have ended otherwise, also from a worker that has one:
    /// their leases are answered [`LeaseAnswer::Unknown`] from then on. After a crash in
    /// between: some of them are removed.
    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>>;
}
