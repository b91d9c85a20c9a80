//! Which pending run is begun next.

use windlass_core::RunId;

use crate::{Error, Partitions, Pending, RunRow};

/// A gate's tenant and its name.
pub type TenantGate = (Option<Box<str>>, Box<str>);

/// A gate's name, and how many active runs it has.
pub type GateCount = (Box<str>, u32);

/// Which pending run begins next: decided among rows by an index, never by scanning a queue.
/// The cost of a question does not depend on how many runs wait.
///
/// A run waits to begin while its row is `Pending` and not dead. Only [`Admission`] knows whether
/// it is parked; a run that is not pending, or is dead, is never parked.
pub trait Admission: Send + Sync + 'static {
    /// The tenants that have runs which wait to begin and are not parked, by name, those
    /// without a tenant first. A tenant with many such runs costs no more than one with one.
    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>>;

    /// Runs of a tenant that wait to begin and are not parked: highest priority first, then
    /// oldest.
    fn waiting(
        &self,
        partitions: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Parks runs because their gate is full. If this is lost, the runs are only looked
    /// at once more, so it need not be durable on return. Runs that do not wait to begin, or
    /// have no gate, stay as they are.
    fn park(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>>;

    /// Takes parked runs out of the lines of their gates, because their owner does not begin them
    /// for a while: no other process is to be told of room for them. They wait to begin as before.
    /// If this is lost, the owner repeats it, so it need not be durable on return.
    fn unpark(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>>;

    /// Runs that are parked at a gate: highest priority first, then oldest.
    fn parked(
        &self,
        partitions: &Partitions,
        gate: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// The gates where runs are parked, each once, with its tenant: what a process reads when
    /// it starts. A gate with many such runs costs no more than one with one.
    fn parked_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<TenantGate>, Error>>;

    /// Runs that have begun, have not ended and do not sleep, oldest first, after the given
    /// one: the runs that a serving process recovers. Runs that wait to begin add no cost.
    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Active runs (begun, not ended, not dead, also those that sleep) that have a gate and no place
    /// at it ([`crate::Places`]), oldest first, after the given one. Other runs add no cost.
    fn without_place(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// How many active runs each gate has, by its name: begun, not ended (`Running` or
    /// `Paused`), and not dead. Gates without such a run are left out.
    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>>;

    /// Active runs of a gate, at most `limit`: those that [`Self::gates`] counts.
    fn at_gate(&self, gate: &str, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Whether there may be anything for the owner of these partitions: a run that has begun and
    /// does not sleep, one that waits to begin or is due, something offered, a place at a gate,
    /// a slot of a pool. An idle owner asks this one question. `true` where that is not known.
    fn has_work(&self, _: &Partitions) -> Pending<'_, Result<bool, Error>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// How many runs wait to begin, parked or not, counted up to `most`.
    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>>;
}
