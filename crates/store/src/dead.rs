//! Dead letters: runs that no process may acquire.

use windlass_core::{Millis, RunId};

use crate::{Error, Pending, TenantFilter};

/// A run that no process may acquire any more, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The run that no process may acquire.
    pub run: RunId,
    /// The run's tenant; `None` if it has none.
    pub tenant: Option<Box<str>>,
    /// The id of the run's workflow.
    pub workflow: Box<str>,
    /// Why the engine gave it up.
    pub reason: Box<str>,
    /// The run's data at that time, as JSON, up to 64 KiB.
    pub payload: Vec<u8>,
    /// How often it was tried.
    pub deliveries: u32,
    /// When the engine gave it up.
    pub at: Millis,
    /// Why the letter cannot be relied on, if the stored row is damaged: then the other fields
    /// hold what could still be read, or are empty. Only lists return such letters.
    pub damage: Option<Box<str>>,
}

/// Dead letters. While a run is dead, no process begins, wakes or recovers it: it is not among
/// the runs that wait or are due, and its row says that it is dead.
pub trait DeadLetters: Send + Sync + 'static {
    /// Keeps a letter, in place of the run's earlier one, and marks the run dead. A run
    /// without a log may have a letter too, but is not marked dead. Durable on return.
    fn add_dead_letter(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>>;

    /// Letters, newest run first, those older than `before`.
    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>>;

    /// A run's letter.
    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>>;

    /// Removes a run's letter and lets processes acquire the run again; `false` if it has none.
    /// Durable on return.
    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>>;

    /// Removes a run's letter; the run stays dead and is never acquired. `false` if it
    /// has none. Durable on return.
    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>>;
}
