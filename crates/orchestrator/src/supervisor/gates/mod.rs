//! Gates (`concurrency`): what a process knows of them (`table.rs`), what it asks of the store
//! where that counts for several processes, and what becomes of a place that its run's owner looks
//! at. Places are taken before runs begin and freed with the append that ends them; what a crash
//! left in between is mended here. A place is freed late, never early.

mod table;

use windlass_core::RunStatus;
use windlass_store::{GatePlace, Partition, RunRow, TakePlace};

pub use table::{AcquireResult, GateTable};

/// The place that a run needs, if it has to pass a gate.
pub fn place_of(row: &RunRow) -> Option<GatePlace> {
    let gate = row.gate.clone()?;
    Some(GatePlace {
        gate,
        run: row.run,
        partition: row.partition,
    })
}

/// The question for the place of a run that is to begin, within its limit.
pub fn within_limit(row: &RunRow) -> Option<TakePlace> {
    let place = place_of(row)?;
    let limit = Some(row.limit.max(1));
    Some(TakePlace { place, limit })
}

/// The question for the place of a run that has begun, whatever the limit says.
pub fn in_any_case(place: GatePlace) -> TakePlace {
    TakePlace { place, limit: None }
}

/// Which process is told that there may be room, at a gate or in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomHint {
    /// This one.
    Here,
    /// The owner of this partition.
    Ring(Partition),
}

impl RoomHint {
    /// `first` is the partition of the run that waits first; none if no run is known to wait:
    /// one may have found the gate full and not be parked yet, so this process looks.
    pub fn of(first: Option<Partition>, holds: impl Fn(Partition) -> bool) -> Self {
        match first {
            Some(partition) if !holds(partition) => Self::Ring(partition),
            Some(_) | None => Self::Here,
        }
    }
}

/// What the owner does about the place of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceAudit {
    /// Nothing: the run has a place and needs it, or has none and needs none.
    Keep,
    /// Free it: the run has ended, is dead or gone.
    Free,
    /// Begin the run: it waits, and a process took its place that did not begin it. The record by
    /// which that process began it may still become durable, so the place is not free.
    Begin,
    /// Take one, whatever the limit says: the run is active.
    Take,
}

/// Compares a run with its place. `row` is `None` if the run is gone; `is_beginning` says whether
/// this process begins it now.
pub fn audit_place(row: Option<&RunRow>, has_place: bool, is_beginning: bool) -> PlaceAudit {
    if is_beginning {
        return PlaceAudit::Keep;
    }
    let is_active = row.is_some_and(|row| {
        !row.dead && matches!(row.status, RunStatus::Running | RunStatus::Paused)
    });
    let waits = row.is_some_and(|row| !row.dead && row.status == RunStatus::Pending);
    match (is_active, has_place) {
        (true, true) | (false, false) => PlaceAudit::Keep,
        (true, false) => PlaceAudit::Take,
        (false, true) if waits => PlaceAudit::Begin,
        (false, true) => PlaceAudit::Free,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use windlass_core::{Millis, RunId};

    use super::*;

    pub(in crate::supervisor) fn row(status: RunStatus, dead: bool) -> RunRow {
        RunRow {
            status,
            gate: Some("g".into()),
            limit: 1,
            dead,
            ..RunRow::queued(RunId::from_bytes([1; 16]), "w", "r", Millis(1))
        }
    }

    #[test]
    fn a_place_is_kept_by_active_runs_and_by_those_that_begin() {
        let audit = |status, dead, has_place, begins| {
            audit_place(Some(&row(status, dead)), has_place, begins)
        };
        for status in [RunStatus::Running, RunStatus::Paused] {
            assert_eq!(audit(status, false, true, false), PlaceAudit::Keep);
            assert_eq!(audit(status, false, false, false), PlaceAudit::Take);
            assert_eq!(audit(status, true, true, false), PlaceAudit::Free);
            assert_eq!(audit(status, true, false, false), PlaceAudit::Keep);
        }
        assert_eq!(
            audit(RunStatus::Pending, false, true, false),
            PlaceAudit::Begin
        );
        assert_eq!(
            audit(RunStatus::Pending, true, true, false),
            PlaceAudit::Free
        );
        assert_eq!(
            audit(RunStatus::Pending, false, false, false),
            PlaceAudit::Keep
        );
        for status in [RunStatus::Succeeded, RunStatus::Failed] {
            assert_eq!(audit(status, false, true, false), PlaceAudit::Free);
            assert_eq!(audit(status, false, false, false), PlaceAudit::Keep);
        }
        assert_eq!(
            audit(RunStatus::Pending, false, true, true),
            PlaceAudit::Keep
        );
        assert_eq!(audit_place(None, true, false), PlaceAudit::Free);
    }
}
