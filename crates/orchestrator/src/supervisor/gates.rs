//! What becomes of a place at a gate that its run's owner looks at: places are taken before runs
//! begin and freed with the append that ends them, and what a crash left in between is mended
//! here. A place is freed late, never early.

use windlass_core::RunStatus;
use windlass_store::RunRow;

/// What the owner does about the place of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceAudit {
    /// Nothing: the run has a place and needs it, or has none and needs none.
    Keep,
    /// Free it: the run has ended, is dead or gone, or does not begin now.
    Free,
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
    match (is_active, has_place) {
        (true, true) | (false, false) => PlaceAudit::Keep,
        (true, false) => PlaceAudit::Take,
        (false, true) => PlaceAudit::Free,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windlass_core::{Millis, RunId};
    use windlass_store::Partition;

    use super::*;

    fn row(status: RunStatus, dead: bool) -> RunRow {
        RunRow {
            run: RunId::from_bytes([1; 16]),
            tenant: None,
            workflow: "w".into(),
            version: 1,
            request_id: "r".into(),
            status,
            priority: 5,
            labels: BTreeMap::new(),
            created_at: Millis(1),
            started_at: None,
            ended_at: None,
            wake_at: None,
            asleep: false,
            error_code: None,
            error_message: None,
            parent: None,
            gate: Some("g".into()),
            limit: 1,
            dead,
            partition: Partition(0),
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
        for status in [RunStatus::Pending, RunStatus::Succeeded, RunStatus::Failed] {
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
