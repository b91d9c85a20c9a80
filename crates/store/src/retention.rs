//! Giving space back.

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

/// Runs that are not kept any longer.
///
/// A run can be forgotten when it has ended, or is dead, and nobody needs its result: if
/// another run started it, that one has ended too, or is gone.
pub trait Retention: Send + Sync + 'static {
    /// Runs that ended before a moment and can be forgotten, longest ended first.
    fn ended(&self, before: Millis, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// How many runs have ended.
    fn ended_count(&self) -> Pending<'_, Result<u64, Error>>;

    /// Forgets runs: row, log, checkpoint, resource links, labels, inbox, dead letter, and
    /// the values that no other run's log refers to; the claim on its request id unless
    /// that is to be kept. Those that cannot be forgotten are left out; says how many were.
    /// Each is gone whole or there whole, also after a crash. Durable on return.
    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>>;

    /// What everything that is stored takes, in bytes.
    fn bytes(&self) -> Pending<'_, Result<u64, Error>>;

    /// Gives the space of what was forgotten, and of what a crash left behind, back to the
    /// system, in steps that hold up nobody else for long.
    fn give_back(&self) -> Pending<'_, Result<(), Error>>;

    /// Whether a run's log refers to a value that is stored under its digest.
    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>>;
}
