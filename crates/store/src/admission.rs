//! Which pending run is begun next.

use windlass_core::RunId;

use crate::{Error, Partitions, Pending, RunRow};

/// Whose gate, and its name.
pub type Gate = (Option<Box<str>>, Box<str>);

/// A gate's name, and how many runs go there.
pub type GateCount = (Box<str>, u32);

/// Which pending run is begun next: decided among rows by an index, never by scanning a
/// queue. The cost of a question does not depend on how many runs wait.
///
/// A run waits to begin while its row is `Pending` and not dead. It is aside or not, which
/// only [`Admission`] knows; a run that is not pending, or dead, is never aside.
pub trait Admission: Send + Sync + 'static {
    /// The tenants that have runs which wait to begin and are not aside, by name, those
    /// without a tenant first. A tenant with many such runs costs no more than one with one.
    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>>;

    /// Runs of a tenant that wait to begin and are not aside: highest priority first, then
    /// oldest.
    fn waiting(
        &self,
        partitions: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// Puts runs aside because their gate is full. Losing it costs a look, so it need not
    /// be durable on return. Runs that do not wait to begin, or have no gate, stay as they
    /// are.
    fn put_aside(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>>;

    /// Runs that were put aside at a gate: highest priority first, then oldest.
    fn aside(
        &self,
        partitions: &Partitions,
        gate: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// The gates where runs are aside, each once, with whose it is: what a process begins
    /// with. A gate with many costs no more than one with one.
    fn aside_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<Gate>, Error>>;

    /// Runs that have begun, have not ended and do not sleep, oldest first, after the given
    /// one: what a process that serves carries on. Those that wait to begin cost nothing.
    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// How many runs go at each gate, by its name: begun, not ended (`Running` or
    /// `Paused`), and not dead. Gates where none goes are left out.
    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>>;

    /// Runs that go at a gate, at most `limit`: those that [`Self::gates`] counts.
    fn at_gate(&self, gate: &str, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>>;

    /// How many runs wait to begin, aside or not, counted up to `most`.
    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>>;
}
