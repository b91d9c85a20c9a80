//! Wake-ups: hints that something may have changed. They may be lost, come late, come twice or
//! stand for several changes; a process that never hears one must still find everything by
//! looking.

use windlass_core::RunId;

use crate::{Error, InboxItem, Partition, Pending};

/// What may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bell {
    /// Sessions or what they hold.
    Sessions,
    /// A run of this partition: it was started, or there may be room for it.
    Partition(Partition),
    /// Something was offered to this run of this partition.
    Offered(Partition, RunId),
    /// This run, which a client of some process watches, or waits for an answer of.
    Run(RunId),
    /// A client of some process watches this run of this partition: its owner rings
    /// [`Bell::Run`] for its records for a while.
    Watch(Partition, RunId),
    /// The definitions of some workflow.
    Definitions,
    /// The work queue: an item waits, or a place is free.
    Work,
    /// Something waits for a process with the scheduler role: a request for a run that came by
    /// SQL, a schedule that has changed, a job over many runs.
    Requests,
}

/// Sends wake-ups ("rings bells") and receives them.
pub trait Wakes: Send + Sync + 'static {
    /// Rings bells for all listeners, this process included, after the change that they tell of
    /// is durable. [`crate::Inbox::offer`] and [`crate::WorkQueue::push`] ring by themselves. After an
    /// error, or a crash in between: some listeners hear it, or none.
    fn ring(&self, bells: &[Bell]) -> Pending<'_, Result<(), Error>>;

    /// Begins to listen; earlier bells are not heard.
    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>>;
}

/// A listener. Bells that ring between two calls are kept, each once.
pub trait Listener: Send {
    /// Waits until a bell has rung, and gives those that have, in order, each once. Dropping
    /// the future loses nothing. An error means that bells may have been lost: look at
    /// everything, and call again.
    fn hear(&mut self) -> Pending<'_, Result<Vec<Bell>, Error>>;

    /// The items that came with the bells of the last answer, which a caller need not read. Others
    /// may wait, and one of these may be gone.
    fn brought(&mut self) -> Vec<(RunId, InboxItem)> {
        Vec::new()
    }
}
