//! What nobody could carry on.

use windlass_core::{Millis, RunId};

use crate::{Error, Pending, TenantFilter};

/// A run that nobody could carry on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The run.
    pub run: RunId,
    /// Whose it is.
    pub tenant: Option<Box<str>>,
    /// Its workflow.
    pub workflow: Box<str>,
    /// Why nobody could carry it on.
    pub reason: Box<str>,
    /// What it was about, as JSON, up to 64 KiB.
    pub payload: Vec<u8>,
    /// How often it was tried.
    pub deliveries: u32,
    /// When it was given up.
    pub at: Millis,
    /// Why it cannot be relied on, if the stored row is damaged: then the rest is what could
    /// still be read of it, or left out. Only lists give such.
    pub damage: Option<Box<str>>,
}

/// Runs that nobody could carry on. While one is dead, nobody begins, wakes or recovers it:
/// it is not among those that wait or are due, and its row says so.
pub trait DeadLetters: Send + Sync + 'static {
    /// Keeps a letter, in place of the run's one before, and makes the run dead with it.
    /// What has no log may have a letter too, but is not dead by it. Durable on return.
    fn bury(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>>;

    /// Letters, newest run first, those older than `before`.
    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>>;

    /// A run's letter.
    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>>;

    /// Removes a run's letter and lets it live again; `false` if it has none. Durable on
    /// return.
    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>>;

    /// Removes a run's letter; the run stays dead and is never carried on. `false` if it
    /// has none. Durable on return.
    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>>;
}
