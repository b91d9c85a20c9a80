//! Places at gates (`concurrency`): which runs count for one, over all processes that share the
//! store. An engine that has its store to itself counts in memory and asks nothing here.
//!
//! A place is freed late, never early: with the append that ends its run
//! ([`crate::Append::releases`]), or by its owner, which audits the places of its partitions.

use windlass_core::RunId;

use crate::{Error, Partition, Partitions, Pending};

/// A run's place at a gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatePlace {
    /// The gate, as [`crate::RunRow::gate`] names it.
    pub gate: Box<str>,
    /// The run that takes the place.
    pub run: RunId,
    /// The partition that the run is in.
    pub partition: Partition,
}

/// A place that a run has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPlace {
    /// The place.
    pub place: GatePlace,
    /// How often it was taken, also by the run that had it already. A process that saw it before
    /// another took it frees nothing.
    pub takes: u64,
}

/// A question for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakePlace {
    /// The place.
    pub place: GatePlace,
    /// How many runs may have one at this gate; `None` takes it in any case, for a run that has
    /// begun without waiting.
    pub limit: Option<u32>,
}

/// The places at gates.
pub trait Places: Send + Sync + 'static {
    /// Takes places, each if fewer runs than its limit have one; for each, in order, how often it
    /// was taken by now ([`HeldPlace::takes`]), or `None` if the gate is full. A run that has the
    /// place already keeps it. Counting and taking are one step: several
    /// processes that ask at once never have more places than the limit. After an error, or a
    /// crash in between: some of them are taken.
    fn take_places(&self, places: Vec<TakePlace>) -> Pending<'_, Result<Vec<Option<u64>>, Error>>;

    /// Frees places without a record; those that are not taken, or were taken again since, are
    /// passed over. After a crash in between: some of them are freed.
    fn give_places(&self, places: Vec<HeldPlace>) -> Pending<'_, Result<(), Error>>;

    /// The places of runs in these partitions, by gate, then run, after the given one.
    fn places(
        &self,
        partitions: &Partitions,
        after: Option<&GatePlace>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<HeldPlace>, Error>>;
}
