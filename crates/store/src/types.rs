//! The data that crosses the storage contract.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Partition;
use windlass_core::{Digest, Millis, RunId, RunStatus};

use crate::TenantFilter;

/// A run's fence: where its log ends, and the hash of all before it. Opaque outside
/// the store; it outlives compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last record's sequence number; 0 for a run that does not exist.
    pub sequence: u64,
    /// The checksum of the last record, chained over all before it.
    pub chain: [u8; 16],
    /// The append id of the last record.
    pub append_id: u64,
}

impl Head {
    /// The head of a run that does not exist.
    pub const NONE: Self = Self {
        sequence: 0,
        chain: [0; 16],
        append_id: 0,
    };
}

/// The id of a writing process, drawn at random when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterId(pub u64);

/// One record to append, with everything that becomes durable with it.
#[derive(Clone, Debug)]
pub struct Append {
    /// The run whose log grows.
    pub run: RunId,
    /// Where the caller believes the log ends.
    pub head: Head,
    /// The process that writes.
    pub writer: WriterId,
    /// Which of the writer's appends this is; with `writer`, unique.
    pub append_id: u64,
    /// The record: a versioned envelope, opaque here.
    pub record: Vec<u8>,
    /// The run's row, when its status or wake-up time changed. Its `dead` field is ignored.
    pub row: Option<RunRow>,
    /// Claims that must be won, or nothing of this append happens.
    pub claims: Vec<Claim>,
    /// Resource links: the first wins, a duplicate is left out silently.
    pub resources: Vec<ResourceRow>,
    /// Values that the record refers to and that are not stored yet.
    pub blobs: Vec<Blob>,
    /// Values that the record refers to and that are stored already. If one is not, nothing
    /// of this append happens.
    pub uses: Vec<Digest>,
    /// Inbox keys that this record consumes. If one of them does not wait, nothing of this
    /// append happens: another process has refused it, or a record has consumed it.
    pub consumed: Vec<Box<str>>,
    /// Gates at which the run's place is free with this record; see [`crate::Places`].
    pub releases: Vec<Box<str>>,
    /// Attempts of the run, by instance and number, whose slots are free with this record; see
    /// [`crate::Pools`].
    pub slots: Vec<(u32, u32)>,
}

impl Append {
    /// An append with nothing but a record, `append_id` being the writer's own number for it.
    pub fn of_record(
        run: RunId,
        head: Head,
        (writer, append_id): (WriterId, u64),
        record: Vec<u8>,
    ) -> Self {
        Self {
            run,
            head,
            writer,
            append_id,
            record,
            row: None,
            claims: Vec::new(),
            resources: Vec::new(),
            blobs: Vec::new(),
            uses: Vec::new(),
            consumed: Vec::new(),
            releases: Vec::new(),
            slots: Vec::new(),
        }
    }
}

/// A successful append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The run's new head.
    pub head: Head,
}

/// Why an append did not happen.
#[derive(Clone, Debug)]
pub enum AppendError {
    /// The head has moved: another process owns the run now. Carries the present head.
    Conflict(Head),
    /// A claim is already held; its holder wrote this value.
    Held {
        /// The namespace of the claim.
        namespace: &'static str,
        /// The value of the holder.
        value: Vec<u8>,
    },
    /// The store cannot say whether the append happened; the process must stop or ask for the
    /// head. A backend that can answer that question gives the append back, so that the
    /// process can repeat it unchanged: the two together are written once.
    Unknown {
        /// Why.
        error: Error,
        /// The append; `None` if the store accepts nothing more.
        append: Option<Box<Append>>,
    },
    /// Nothing was written.
    Failed(Error),
}

/// A claim on a key in a namespace: the first value wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What kind of key, e.g. `request`.
    pub namespace: &'static str,
    /// The key.
    pub key: Box<str>,
    /// What the holder leaves for a later caller that claims the same key.
    pub value: Vec<u8>,
}

/// A value and its address.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.digest, self.bytes.len())
    }
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the run's log, from 1.
    pub sequence: u64,
    /// The process that wrote it.
    pub writer: WriterId,
    /// Which of the writer's appends it was.
    pub append_id: u64,
    /// Its checksum, chained over all records before it.
    pub chain: [u8; 16],
    /// The bytes given to `append`.
    pub bytes: Vec<u8>,
}

impl Record {
    /// The head of a run whose last record this is.
    pub fn head(&self) -> Head {
        Head {
            sequence: self.sequence,
            chain: self.chain,
            append_id: self.append_id,
        }
    }
}

/// A state that replaces the replay of a prefix of a run's log. It derives from the log:
/// losing it loses nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The head of the last record that it covers.
    pub head: Head,
    /// The state: a versioned envelope, opaque here.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sequence, length) = (self.head.sequence, self.bytes.len());
        write!(f, "Checkpoint(through {sequence}, {length} bytes)")
    }
}

/// What packing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The last record that is packed now; 0 if none is.
    pub through: u64,
    /// Records that were packed by this call.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes that they take now.
    pub packed_bytes: u64,
}

/// Something offered to a run from outside, which waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    /// Its place among what was offered to its run; later offers have greater ones.
    pub number: u64,
    /// Its key; the first per key won.
    pub key: Box<str>,
    /// What was offered.
    pub bytes: Vec<u8>,
}

/// A run as lists show it. Derives from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The run that the row describes.
    pub run: RunId,
    /// The tenant that the run belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The id of the workflow that the run executes.
    pub workflow: Box<str>,
    /// The workflow's version it started on; 0 for a frozen graph.
    pub version: u32,
    /// The id of the request that started it.
    pub request_id: Box<str>,
    /// Where it stands.
    pub status: RunStatus,
    /// From 0 to 9; higher first.
    pub priority: u8,
    /// Labels by which users find it.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When it was requested.
    pub created_at: Millis,
    /// When it started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When it must be woken next, if it sleeps.
    pub wake_at: Option<Millis>,
    /// Whether it sleeps: nothing of it is with a worker or ready, it waits for times,
    /// signals or children.
    pub asleep: bool,
    /// The code of its error, if it failed.
    pub error_code: Option<Box<str>>,
    /// The message of its error, if it failed, cut if it is long. Rows from before lists
    /// had messages have none.
    pub error_message: Option<Box<str>>,
    /// The codes of its root causes, each once, if it failed. Rows from before lists could be
    /// narrowed by them have none.
    pub cause_codes: Vec<Box<str>>,
    /// The run that started it, if it is a child.
    pub parent: Option<RunId>,
    /// The run that it was forked from. Rows from before lists had it have none.
    pub origin: Option<RunId>,
    /// The gate that it shares with runs which may not all go at once; `None` without a limit.
    pub gate: Option<Box<str>>,
    /// How many runs of its gate may go at once; 0 without a gate.
    pub limit: u32,
    /// Whether the engine gave it up, also after its dead letter was purged: no process
    /// begins, wakes or recovers it. This does not derive from the log: the store sets it, and
    /// ignores the value in an append or in `replace_rows`.
    pub dead: bool,
    /// The partition that it is in, fixed by its first record.
    pub partition: Partition,
}

impl RunRow {
    /// The row of a run that was requested and has not begun: the first version of its workflow,
    /// the usual priority, and nothing else.
    pub fn queued(run: RunId, workflow: &str, request_id: &str, created_at: Millis) -> Self {
        Self {
            run,
            tenant: None,
            workflow: workflow.into(),
            version: 1,
            request_id: request_id.into(),
            status: RunStatus::Pending,
            priority: 5,
            labels: BTreeMap::new(),
            created_at,
            started_at: None,
            ended_at: None,
            wake_at: None,
            asleep: false,
            error_code: None,
            error_message: None,
            cause_codes: Vec::new(),
            parent: None,
            origin: None,
            gate: None,
            limit: 0,
            dead: false,
            partition: Partition(0),
        }
    }

    /// Whether it has not ended and sleeps.
    pub fn sleeps(&self) -> bool {
        self.asleep && !self.status.is_final()
    }

    /// Whether it goes on and waits for a time or a signal alone.
    pub fn waits(&self) -> bool {
        self.asleep && self.status == RunStatus::Running && !self.dead
    }

    /// Whether it has a dead letter: the engine gave it up, and an operator has not ended it.
    pub fn is_dead_letter(&self) -> bool {
        self.dead && !self.status.is_final()
    }

    /// The codes that it can be found by: that of its error, and those of its root causes.
    pub fn codes(&self) -> impl Iterator<Item = &str> {
        let code = self.error_code.as_deref();
        let causes = self.cause_codes.iter().map(|code| &**code);
        code.into_iter()
            .chain(causes.filter(move |cause| Some(*cause) != code))
    }
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Of these tenants.
    pub tenant: TenantFilter,
    /// Of this workflow.
    pub workflow: Option<Box<str>>,
    /// That started on this version of their workflow.
    pub version: Option<u32>,
    /// In one of these statuses; empty is all.
    pub statuses: Vec<RunStatus>,
    /// With all of these labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Started by this run.
    pub parent: Option<RunId>,
    /// Forked from this run.
    pub origin: Option<RunId>,
    /// Failed with this code, or with a root cause of this code.
    pub error: Option<Box<str>>,
    /// Those that wait for a time or a signal alone; see [`RunRow::waits`].
    pub waiting: bool,
    /// Those that have a dead letter, or those that have none.
    pub dead: Option<bool>,
    /// Without those that another run started.
    pub roots: bool,
    /// Without those that were forked.
    pub unforked: bool,
    /// Created at or after.
    pub since: Option<Millis>,
    /// Older than this run: the cursor.
    pub before: Option<RunId>,
    /// At most this many; 0 means 50.
    pub limit: usize,
}

impl RunFilter {
    /// How many rows a page has.
    pub fn page(&self) -> usize {
        if self.limit == 0 { 50 } else { self.limit }
    }

    /// Whether a row matches the filter, its place relative to the cursor included. Whether it
    /// was forked is not in its row: a store looks for the forks.
    pub fn matches(&self, row: &RunRow) -> bool {
        self.tenant.matches(row.tenant.as_deref())
            && self.workflow.as_ref().is_none_or(|w| *w == row.workflow)
            && self.version.is_none_or(|version| version == row.version)
            && (self.statuses.is_empty() || self.statuses.contains(&row.status))
            && self
                .labels
                .iter()
                .all(|(key, value)| row.labels.get(key) == Some(value))
            && (self.parent.is_none() || self.parent == row.parent)
            && (self.origin.is_none() || self.origin == row.origin)
            && self
                .error
                .as_ref()
                .is_none_or(|error| row.codes().any(|code| code == &**error))
            && (!self.waiting || row.waits())
            && self.dead.is_none_or(|dead| dead == row.is_dead_letter())
            && (!self.roots || row.parent.is_none())
            && self.since.is_none_or(|since| row.created_at >= since)
            && self.before.is_none_or(|before| row.run < before)
    }
}

/// A page of runs.
#[derive(Clone, Debug, Default)]
pub struct RunPage {
    /// Newest first.
    pub rows: Vec<RunRow>,
    /// The cursor of the next page, if there is one.
    pub next: Option<RunId>,
}

/// Runs that belong to another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relatives {
    /// How many it started, at most [`Relatives::MOST_CHILDREN`].
    pub children: u32,
    /// Those that were forked from it, newest first, at most [`Relatives::MOST_FORKS`].
    pub forks: Vec<RunId>,
}

impl Relatives {
    /// More children are not counted.
    pub const MOST_CHILDREN: u32 = 1000;

    /// More forks are not named.
    pub const MOST_FORKS: usize = 3;
}

/// How many runs have each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts([u64; RunStatus::ALL.len()]);

impl StatusCounts {
    /// Runs with this status.
    pub fn of(&self, status: RunStatus) -> u64 {
        self.0[status as usize]
    }

    /// Counts so many more runs with a status.
    pub fn add(&mut self, status: RunStatus, count: u64) {
        self.0[status as usize] += count;
    }
}

/// A link to something an action made in another system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRow {
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The other system.
    pub system: Box<str>,
    /// What kind of thing.
    pub kind: Box<str>,
    /// Its id there.
    pub id: Box<str>,
    /// Where to look at it.
    pub url: Option<Box<str>>,
    /// The run that made it.
    pub run: RunId,
    /// The node instance that made it.
    pub node: Box<str>,
}

/// A definition to publish.
#[derive(Clone, Debug)]
pub struct NewDefinition {
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The workflow's id.
    pub workflow: Box<str>,
    /// A name for people.
    pub display_name: Option<Box<str>>,
    /// Digest of the text.
    pub digest: Digest,
    /// The definition as JSON.
    pub text: Arc<[u8]>,
    /// The graph's signature.
    pub signature: Digest,
    /// The time of publishing.
    pub at: Millis,
}

/// The answer to publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The version that holds the definition.
    pub version: u32,
    /// Whether it was made now.
    pub created: bool,
}

/// A published definition.
#[derive(Clone, Debug)]
pub struct DefinitionRow {
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The workflow's id.
    pub workflow: Box<str>,
    /// Its version, from 1.
    pub version: u32,
    /// Digest of the text.
    pub digest: Digest,
    /// The graph's signature.
    pub signature: Digest,
    /// When it was published.
    pub at: Millis,
    /// The definition as JSON; empty in lists.
    pub text: Vec<u8>,
}

/// A workflow in the catalogue.
#[derive(Clone, Debug)]
pub struct WorkflowRow {
    /// The tenant that it belongs to; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// Its id.
    pub workflow: Box<str>,
    /// A name for people.
    pub display_name: Option<Box<str>>,
    /// Its newest version.
    pub version: u32,
    /// Whether runs of it may be started.
    pub enabled: bool,
    /// When its newest version was published.
    pub updated_at: Millis,
    /// Why the workflow cannot be relied on, if the stored row is damaged: then the other
    /// fields hold what could still be read, or are empty. Only lists return such workflows.
    pub damage: Option<Box<str>>,
}

/// The state of a store.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Name and value of things worth knowing: size, pages, journal, versions.
    pub facts: Vec<(String, String)>,
}

/// Where stored data does not fit its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, table or stream.
    pub place: String,
    /// The run, if one is known.
    pub run: Option<RunId>,
    /// The record's sequence number, if one is known.
    pub sequence: Option<u64>,
    /// The byte offset in the file, if one is known.
    pub offset: Option<u64>,
    /// What does not fit.
    pub reason: String,
}

/// Why a store could not do its work. Backends collapse their errors to these.
#[derive(Clone, Debug)]
pub enum Error {
    /// It does not exist.
    NotFound(String),
    /// The store cannot be used now: read-only, busy, gone. Nothing was lost.
    Unavailable(String),
    /// There is no space left to write to. Nothing was lost, reading goes on, and so does
    /// writing once there is space again.
    Full(String),
    /// Stored data is damaged.
    Damaged(Box<Damage>),
    /// A sync failed: what is on the disk is unknown, and the process must stop.
    Fatal(String),
    /// The data was written by a newer version, which is named.
    TooNew(String),
    /// The query took longer than it may. Nothing is wrong; a narrower query may succeed.
    Timeout(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged", self.place)?;
        if let Some(run) = self.run {
            write!(f, ", run {run}")?;
        }
        if let Some(sequence) = self.sequence {
            write!(f, ", record {sequence}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", at byte {offset}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(what) => write!(f, "not found: {what}"),
            Self::Unavailable(why) => write!(f, "the store cannot be used: {why}"),
            Self::Full(why) => write!(f, "the store has no space left: {why}"),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Fatal(why) => write!(f, "the store failed and the process must stop: {why}"),
            Self::TooNew(what) => write!(f, "written by a newer version: {what}"),
            Self::Timeout(what) => write!(f, "given up: {what}"),
        }
    }
}

impl std::error::Error for Error {}
