//! Tables that derive from the log and are written behind it, for backends that people read with
//! SQL. The backend keeps them; what a record says is the engine's business, so the engine makes
//! the rows.

use windlass_core::{Digest, Millis, RunId};

use crate::{DefinitionRow, Error, Pending};

/// A value as a readable column shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectedValue {
    /// JSON text.
    Text(Box<str>),
    /// A value among the blobs.
    Blob {
        /// Its digest.
        digest: Digest,
        /// Its length in bytes.
        bytes: u64,
    },
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStatus {
    /// A worker has it.
    Running,
    /// It ended with an output.
    Succeeded,
    /// It failed, and no other attempt follows by itself.
    Failed,
    /// It failed, and another attempt follows.
    RetriableFailure,
    /// The action asked for its node to be skipped.
    Skipped,
    /// It was stopped, or its node ended without it.
    Cancelled,
}

impl AttemptStatus {
    /// Its name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::RetriableFailure => "RetriableFailure",
            Self::Skipped => "Skipped",
            Self::Cancelled => "Cancelled",
        }
    }
}

/// One attempt of a node instance.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// The path of the node instance.
    pub node: Box<str>,
    /// The number of the node instance within its run.
    pub instance: u32,
    /// The type of the action; for a node without one, its kind.
    pub action: Box<str>,
    /// How it stands.
    pub status: AttemptStatus,
    /// Its number, from 1.
    pub attempt: u32,
    /// Whether it undoes the node.
    pub compensation: bool,
    /// The node's ancestry, if the attempt ended the node.
    pub ancestry: Option<Digest>,
    /// The worker that had it.
    pub worker: Box<str>,
    /// The parameters as rendered, secrets redacted.
    pub parameters: Option<ProjectedValue>,
    /// The output of an attempt that succeeded.
    pub output: Option<ProjectedValue>,
    /// The error of an attempt that failed.
    pub error: Option<ProjectedValue>,
    /// When a worker started it.
    pub started: Millis,
    /// When it ended.
    pub ended: Option<Millis>,
}

/// One event of a run, as people read it.
#[derive(Clone, Debug)]
pub struct EventRow {
    /// Its place among the run's events, from 1.
    pub position: u64,
    /// When it happened.
    pub at: Millis,
    /// How much it matters.
    pub level: &'static str,
    /// The orchestrator, or the action that it comes from.
    pub category: Box<str>,
    /// What happened: JSON text.
    pub data: String,
}

/// What the row of a run shows beside what its appends write.
#[derive(Clone, Debug)]
pub struct RunDetails {
    /// What the run was started with.
    pub trigger: ProjectedValue,
    /// The id that ties it to other systems.
    pub correlation_id: Box<str>,
    /// What a run that has ended leaves.
    pub context: Option<RunContext>,
}

/// What a run has at its end.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    /// Its variables, by name.
    pub vars: Vec<(Box<str>, ProjectedValue)>,
    /// Its output, if it has one.
    pub output: Option<ProjectedValue>,
}

/// The rows that follow from a part of a run's log.
#[derive(Clone, Debug)]
pub struct ProjectedRun {
    /// The run.
    pub run: RunId,
    /// The last record that was projected before; if another process has gone further, nothing
    /// of this is written.
    pub from: u64,
    /// The last record that these rows follow from.
    pub through: u64,
    /// The last event.
    pub position: u64,
    /// Attempts, each once.
    pub attempts: Vec<AttemptRow>,
    /// Events.
    pub events: Vec<EventRow>,
    /// What its own row shows, where that may have changed.
    pub details: Option<RunDetails>,
    /// Why the run cannot be read, if it cannot: it is left alone until its log grows.
    pub problem: Option<String>,
}

/// A run whose log is longer than what is projected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprojectedRun {
    /// The run.
    pub run: RunId,
    /// The last record that is projected; 0 if none is.
    pub through: u64,
    /// The last record of its log when it was listed. What comes later has a change of its own.
    pub end: u64,
}

/// Changes that are waiting to be projected.
#[derive(Clone, Debug, Default)]
pub struct ProjectionBatch {
    /// The runs that changed, each once.
    pub runs: Vec<UnprojectedRun>,
    /// The watermark behind which the changes are; [`Projections::projected`] takes it. Empty if
    /// nothing waits.
    pub watermark: String,
}

/// What a look at everything that waits has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectionLook {
    /// Whether the caller projects.
    pub holds: bool,
    /// Whether a change waits to be projected.
    pub changes: bool,
    /// The age of the oldest change that waits, in milliseconds.
    pub age_ms: u64,
    /// Whether a definition has no plan yet.
    pub definitions: bool,
    /// Whether a request for a run waits.
    pub requests: bool,
}

/// How far the projection is behind the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectionLag {
    /// Changes that wait, counted up to 100,000.
    pub waiting: u64,
    /// The age of the oldest, in milliseconds; 0 if none waits.
    pub age_ms: u64,
    /// The process that projects, if one does.
    pub holder: Option<String>,
    /// Runs that cannot be projected, counted up to 1,000.
    pub problems: u64,
}

/// A request for a run that came by SQL.
#[derive(Clone, Debug)]
pub struct RequestedRun {
    /// The id that the request was answered with.
    pub run: RunId,
    /// The tenant of the run.
    pub tenant: Option<Box<str>>,
    /// The workflow.
    pub workflow: Box<str>,
    /// The request id, which is claimed for the run.
    pub request_id: Box<str>,
    /// The trigger: JSON text.
    pub trigger: String,
}

/// Projections, and what SQL asks for. Several processes may call it at once: the lease avoids
/// double work, and each row is fenced by how far its run is projected.
pub trait Projections: Send + Sync + 'static {
    /// Takes the lease of the projector if it is free, or prolongs it if the caller has it, and
    /// says what waits. One statement.
    fn look(&self, holder: &str, term_ms: u64) -> Pending<'_, Result<ProjectionLook, Error>>;

    /// Gives the lease up, so that another process can take it at once.
    fn leave_projection(&self, holder: &str) -> Pending<'_, Result<(), Error>>;

    /// The oldest changes that wait, about a thousand, of transactions before which no other can
    /// appear any more.
    fn changes(&self) -> Pending<'_, Result<ProjectionBatch, Error>>;

    /// Forgets the changes behind a watermark, once their runs are projected.
    fn projected(&self, watermark: &str) -> Pending<'_, Result<(), Error>>;

    /// Runs whose logs are longer than what is projected of them, by id, after the given one: what
    /// a process walks when it begins to project.
    fn unprojected(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<UnprojectedRun>, Error>>;

    /// Writes rows, in one transaction; says for each run whether it was written. A run that is
    /// gone, or that another process has projected meanwhile, is not. Writing the same rows twice
    /// is harmless.
    fn project(&self, runs: Vec<ProjectedRun>) -> Pending<'_, Result<Vec<bool>, Error>>;

    /// Definitions without a plan.
    fn unplanned(&self, limit: usize) -> Pending<'_, Result<Vec<DefinitionRow>, Error>>;

    /// Keeps the plan of a definition, as JSON text.
    fn put_plan(&self, definition: &DefinitionRow, plan: String) -> Pending<'_, Result<(), Error>>;

    /// Requests for runs that wait, oldest first; those that are at least this old.
    fn requested_runs(
        &self,
        age_ms: u64,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RequestedRun>, Error>>;

    /// A requested run has its first record: the request is forgotten, and its claim says what
    /// the program's own claims say.
    fn request_started(&self, run: RunId, claim: Vec<u8>) -> Pending<'_, Result<(), Error>>;

    /// A requested run cannot be started. Its request is kept until its dead letter is requeued
    /// or purged.
    fn request_refused(&self, run: RunId) -> Pending<'_, Result<(), Error>>;

    /// How far the projection is behind.
    fn projection_lag(&self) -> Pending<'_, Result<ProjectionLag, Error>>;
}
