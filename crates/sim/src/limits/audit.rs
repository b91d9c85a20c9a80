//! What an owner mends in the partitions that it looks through: places and slots that a crash left.

use std::collections::BTreeSet;

use windlass_core::RunId;
use windlass_orchestrator::supervisor::{
    PlaceAudit, audit_place, frees_slots, in_any_case, place_of,
};
use windlass_store::{
    GivenSlots, HeldPlace, Partition, Partitions, RunRow, SlotRequest, TakePlace,
};

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::world::World;

impl World {
    /// A partition was looked through: what waits in it is looked at, and what is held compared.
    pub(crate) fn audit(&mut self, id: ProcessId, partition: Partition) {
        if !self.has_limits() {
            return;
        }
        self.look_at_waiting(id);
        // These count without rows that could be compared.
        let counts_alone = matches!(
            self.defect,
            Some(Defect::ReleaseLater | Defect::TakeTwice | Defect::LimitPerProcess)
        );
        if !counts_alone {
            self.audit_places(id, partition);
            self.audit_slots(id, partition);
        }
        self.look_at_pools_of(id);
    }

    fn audit_places(&mut self, id: ProcessId, partition: Partition) {
        let only = Partitions::Only(BTreeSet::from([partition]));
        for place in self.store.places(&only) {
            self.audit_one(id, place);
        }
        let without = self.store.without_place(&only);
        let missing = without
            .iter()
            .filter(|row| self.audit_of(id, row.run, Some(row), false) == PlaceAudit::Take);
        let missing: Vec<TakePlace> = missing.filter_map(place_of).map(in_any_case).collect();
        self.store.take_places(missing);
    }

    /// Compares one place with its run.
    pub(super) fn audit_one(&mut self, id: ProcessId, held: HeldPlace) {
        let place = held.place.clone();
        let row = self.store.row(place.run);
        match (self.audit_of(id, place.run, row.as_ref(), true), row) {
            (PlaceAudit::Free, row) => {
                let run = place.run;
                self.counts.places_mended += 1;
                self.trace
                    .say(self.now, || format!("p{id} frees the place of {run}"));
                let gate = (row.and_then(|row| row.tenant), place.gate.clone());
                self.store.give_places(vec![held]);
                self.tell_first_waiter(id, gate);
            }
            (PlaceAudit::Begin, Some(row)) => {
                self.counts.places_mended += 1;
                self.begin_with_place(id, row);
            }
            _ => {}
        }
    }
    fn audit_of(
        &self,
        id: ProcessId,
        run: RunId,
        row: Option<&RunRow>,
        has_place: bool,
    ) -> PlaceAudit {
        let admitting = self.limits.as_ref().and_then(|it| it.admitting.get(&id));
        let is_beginning = admitting.is_some_and(|it| it.gates.is_beginning(run));
        audit_place(row, has_place, is_beginning)
    }

    fn audit_slots(&mut self, id: ProcessId, partition: Partition) {
        let only = Partitions::Only(BTreeSet::from([partition]));
        let rows = self.store.slots(&only);
        let dormant = self.processes.get(&id).map(|process| &process.dormant);
        let seen = rows.into_iter().map(|it| {
            let run = it.attempt.run;
            let row = self.store.row(run);
            // A run that only waits for its child has nothing with workers.
            let is_dormant = dormant.is_some_and(|dormant| dormant.contains(&run));
            let is_over = is_dormant || frees_slots(row.as_ref(), self.now);
            let SlotRequest { attempt, fence, .. } = it;
            (GivenSlots { attempt, fence }, is_over)
        });
        let seen: Vec<(GivenSlots, bool)> = seen.collect();
        if let Some(process) = self.processes.get_mut(&id) {
            process.shard.audit_slots(seen);
        }
        self.pump(id);
    }
}
