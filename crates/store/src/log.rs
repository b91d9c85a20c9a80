//! The log of runs: the source of durability.

use windlass_core::RunId;

use crate::{Append, AppendError, Appended, Checkpoint, Compacted, Error, Head, Pending, Record};

/// The durable truth of runs: their records and claims; and what makes a long log cheap to
/// keep: checkpoints and packing.
pub trait Log: Send + Sync + 'static {
    /// Appends one record to each of several runs; one answer for each, in order.
    ///
    /// Each append stands alone: a conflict of one run does not abort the others.
    /// Before: the caller believes `append.head` is the run's head. After `Ok`: the
    /// record, its row, its claims and its blobs are durable together, and the new head
    /// is returned. After `Err`: nothing of that append is stored, except when the
    /// error is [`AppendError::Unknown`]. After a crash in between: all of it or nothing;
    /// the owner reads the head and compares `append_id`.
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>>;

    /// Gives back what this handle holds, so that another may open the same store: what was
    /// appended stays, further writes are refused. A backend that holds nothing does nothing.
    fn close(&self) {}

    /// The run's head, or [`Head::NONE`] for a run that does not exist.
    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>>;

    /// Records from sequence number `from` (the first record is 1), in order, until about
    /// `max_bytes` were read, at least one if there is one. Every record's checksum and
    /// its place in the chain are verified; damage is [`Error::Damaged`], naming the place.
    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>>;

    /// The value that holds a claim, if any. Claims are made by [`Append::claims`].
    fn claimed(&self, namespace: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;

    /// Stores a checkpoint for a run, in place of the one before. It is derived: not
    /// necessarily durable on return, never visible before the records it covers, and a
    /// crash leaves the old one, the new one, or none.
    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>>;

    /// The run's checkpoint, if there is one whose head lies on the run's chain. A damaged
    /// or foreign one is answered as `None`: the log is replayed instead.
    fn checkpoint(&self, run: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>>;

    /// Packs the records up to `through` that are not packed yet, in steps that do not hold up
    /// other callers for long.
    ///
    /// Nothing is lost: head and fence stay as they are, and `read` gives the same records
    /// byte for byte. `through` beyond the head means the head. Packing twice is harmless.
    /// After an error, or a crash in between: some of the records are packed, the others
    /// as they were, and the next call goes on from there.
    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>>;
}
