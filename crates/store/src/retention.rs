//! Removing runs that have ended, and giving their space back.

use windlass_core::{Digest, Millis, RunId};

use crate::{Error, Pending, RunRow};

/// The namespace of request ids among claims.
pub const REQUEST_CLAIM: &str = "request";

/// The key of a request among claims: unique per tenant and workflow. The value of such a
/// claim begins with the id of the run that holds it, as text.
pub fn request_key(tenant: Option<&str>, workflow: &str, request_id: &str) -> Box<str> {
    // Workflow ids hold no newline, so the parts cannot run into each other.
    format!("{}\n{workflow}\n{request_id}", tenant.unwrap_or_default()).into()
}

/// Removing runs that are not kept any longer.
///
/// A run can be forgotten when it has ended, or is dead, and no other run needs its result: if
/// another run started it, that one has ended too, is dead, or is gone.
pub trait Retention: Send + Sync + 'static {
    /// Runs that ended before a moment and can be forgotten, longest ended first.
    fn ended(&self, before: Millis, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// How many runs have ended.
    fn ended_count(&self) -> Pending<'_, Result<u64, Error>>;

    /// Forgets runs: row, log, checkpoint, resource links, labels, inbox, dead letter, and the
    /// values that no other run's log refers to; also the claim on the request id, unless
    /// `keep_request_ids` is set. Runs that cannot be forgotten are skipped; returns how many
    /// were forgotten. A run is removed completely or not at all, also after a crash. Durable
    /// on return.
    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>>;

    /// The bytes that everything stored takes, without values that nothing but a hold keeps
    /// ([`Blobs::hold_blob`](crate::Blobs::hold_blob)): forgetting runs does not free them.
    fn bytes(&self) -> Pending<'_, Result<u64, Error>>;

    /// Gives the space of forgotten runs, and of what a crash left behind, back to the system,
    /// in steps that do not hold up other callers for long.
    fn vacuum(&self) -> Pending<'_, Result<(), Error>>;

    /// Removes values that no log refers to and nothing holds, and what else a crash left behind,
    /// once it is old enough; says how many. It is needed also where no run is ever forgotten; a
    /// store in which crashes leave nothing behind has nothing to do.
    fn sweep(&self) -> Pending<'_, Result<u64, Error>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Whether a run's log refers to a value that is stored under its digest.
    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>>;
}
