//! What reaches a run's owner from outside.

use windlass_core::RunId;

use crate::{Error, InboxItem, Pending};

/// What was offered to runs and is not consumed yet.
pub trait Inbox: Send + Sync + 'static {
    /// Offers something from outside to a run's owner. Durable on return; the first
    /// per key wins, and `false` says that there was one already.
    fn offer(&self, run: RunId, key: &str, bytes: &[u8]) -> Pending<'_, Result<bool, Error>>;

    /// What was offered to a run and not yet consumed, oldest first. An item is consumed
    /// by naming its key in [`Append::consumed`].
    fn inbox(&self, run: RunId) -> Pending<'_, Result<Vec<InboxItem>, Error>>;

    /// Runs that have something in their inbox, by id, after the given one, whether or not
    /// they have a log: what recovery walks.
    fn offered(&self, after: Option<RunId>, limit: usize)
    -> Pending<'_, Result<Vec<RunId>, Error>>;
}
