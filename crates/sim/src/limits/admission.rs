//! How a process begins runs that wait: the steps of `AdmissionQueue` go to the store, one at a
//! time, and between any two of them the process may die, be stopped or lose its lease.

use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::AcquireMode;
use windlass_orchestrator::supervisor::{
    AcquireResult, AdmissionFacts, AdmissionStep, GateTable, RoomHint, in_any_case, place_of,
    within_limit,
};
use windlass_store::{Bell, HeldPlace, Partitions, RunRow, TenantGate};

use super::{AGAIN, Admitting, LimitsEvent};
use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::world::World;

/// What admission asks of its process.
struct Facts<'a> {
    gates: &'a mut GateTable,
    arrived: &'a mut std::collections::BTreeMap<Option<Box<str>>, u8>,
}

impl AdmissionFacts for Facts<'_> {
    fn arrived(&mut self) -> Vec<(Option<Box<str>>, u8)> {
        std::mem::take(self.arrived).into_iter().collect()
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn suspects(&mut self) -> usize {
        0
    }

    fn is_suspect(&mut self, _run: RunId) -> bool {
        false
    }

    fn gates<T>(&mut self, ask: impl FnOnce(&mut GateTable) -> T) -> T {
        ask(self.gates)
    }
}

impl Admitting {
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut windlass_orchestrator::supervisor::AdmissionQueue, &mut Facts<'_>) -> T,
    ) -> T {
        let mut facts = Facts {
            gates: &mut self.gates,
            arrived: &mut self.arrived,
        };
        ask(&mut self.queue, &mut facts)
    }
}

impl World {
    /// Something came, or there is room.
    pub(crate) fn ring_admission(&mut self, id: ProcessId) {
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        if std::mem::replace(&mut admitting.is_busy, true) {
            admitting.rang = true;
            return;
        }
        let delay = self.moment(5);
        self.plan_limits(delay, id, LimitsEvent::Look);
    }

    /// A run may wait to begin for which the process got no bell.
    pub(crate) fn look_at_waiting(&mut self, id: ProcessId) {
        if let Some(admitting) = self.admitting(id) {
            admitting.look_at_all = true;
            self.ring_admission(id);
        }
    }

    /// A process accepted a run that waits to begin.
    pub(crate) fn arrived(&mut self, id: ProcessId, run: RunId) {
        let Some(row) = self.store.row(run) else {
            return;
        };
        if let Some(admitting) = self.admitting(id) {
            let highest = admitting.arrived.entry(row.tenant).or_default();
            *highest = row.priority.max(*highest);
            self.ring_admission(id);
        }
    }

    fn held_partitions(&self, id: ProcessId) -> Partitions {
        let all = (0..crate::owners::PARTITIONS).map(windlass_store::Partition);
        Partitions::Only(all.filter(|it| self.holds_partition(id, *it)).collect())
    }

    pub(super) fn admit(&mut self, id: ProcessId) {
        let partitions = self.held_partitions(id);
        let (tenants, gates) = self.store.waiting(&partitions);
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        admitting.rang = false;
        if std::mem::take(&mut admitting.look_at_all) {
            admitting.queue.look_at_all(tenants, gates);
        }
        self.admit_on(id);
    }

    /// Plans the next step; without one the process waits for a bell.
    fn admit_on(&mut self, id: ProcessId) {
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        let step = admitting.ask(|queue, facts| queue.next_step(facts));
        if step != AdmissionStep::Wait {
            let delay = self.moment(5);
            return self.plan_limits(delay, id, LimitsEvent::Step(step));
        }
        admitting.is_busy = false;
        if std::mem::take(&mut admitting.rang) {
            self.ring_admission(id);
        }
    }

    /// The store did not answer.
    fn admission_failed(&mut self, id: ProcessId) {
        if let Some(admitting) = self.admitting(id) {
            admitting.queue.failed();
            self.plan_limits(AGAIN, id, LimitsEvent::Look);
        }
    }

    pub(super) fn admission_step(&mut self, id: ProcessId, step: AdmissionStep) {
        if self.call_fails() {
            return self.admission_failed(id);
        }
        let partitions = self.held_partitions(id);
        let rows = match &step {
            AdmissionStep::ReadParked { gate, limit } => {
                self.store.parked(&partitions, gate, *limit)
            }
            AdmissionStep::ReadWaiting { tenant, limit } => {
                self.store
                    .waiting_runs(&partitions, tenant.as_deref(), *limit)
            }
            AdmissionStep::Park(runs) => {
                self.counts.parked += runs.len() as u64;
                self.store.park(runs.clone());
                Vec::new()
            }
            AdmissionStep::Pass(_) | AdmissionStep::Wait => Vec::new(),
        };
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        match step {
            AdmissionStep::Pass(row) => return self.pass(id, row),
            AdmissionStep::Park(_) => admitting.queue.parked(),
            _ => admitting.ask(|queue, facts| queue.rows_read(rows, facts)),
        }
        self.admit_on(id);
    }

    fn pass(&mut self, id: ProcessId, row: Box<RunRow>) {
        let (defect, is_full) = (self.defect, self.looks_full(&row));
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        let passage = admitting.gates.acquire(&row);
        let asks = within_limit(&row).is_some() && defect != Some(Defect::LimitPerProcess);
        if passage != AcquireResult::Free || !asks {
            return self.passed(id, passage);
        }
        if defect == Some(Defect::CountUnlocked) && is_full {
            admitting.gates.withdraw(row.run);
            return self.passed(id, AcquireResult::Full);
        }
        let delay = self.moment(20);
        self.plan_limits(delay, id, LimitsEvent::TakePlace(row));
    }

    /// Whether a gate is full, as it looks without taking a place.
    fn looks_full(&self, row: &RunRow) -> bool {
        let places = self.store.places(&Partitions::All);
        let at_gate = places
            .iter()
            .filter(|it| Some(&it.place.gate) == row.gate.as_ref());
        at_gate.count() >= row.limit.max(1) as usize
    }

    /// The question reaches the store, which answers or not; it may have been carried out.
    pub(super) fn take_place(&mut self, id: ProcessId, row: Box<RunRow>) {
        let fails = self.call_fails();
        let carried_out = !fails || self.random.chance(50);
        let place = match self.defect {
            // What was counted before is what counts.
            Some(Defect::CountUnlocked) => place_of(&row).map(in_any_case),
            _ => within_limit(&row),
        };
        let taken = place.filter(|_| carried_out);
        let taken = taken.map(|place| self.store.take_places(vec![place])[0].is_some());
        let answer = taken.filter(|_| !fails);
        let delay = self.moment(20);
        self.plan_limits(delay, id, LimitsEvent::PlaceTaken(row, answer));
    }

    pub(super) fn place_taken(&mut self, id: ProcessId, row: &RunRow, taken: Option<bool>) {
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        if taken != Some(true) {
            admitting.gates.withdraw(row.run);
        }
        match taken {
            Some(true) => self.passed(id, AcquireResult::Free),
            Some(false) => self.passed(id, AcquireResult::Full),
            None => self.admission_failed(id),
        }
    }

    fn passed(&mut self, id: ProcessId, passage: AcquireResult) {
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        let begins = admitting.ask(|queue, facts| queue.passed(passage, facts));
        if let Some(row) = begins {
            self.goes_in_order(id, &row);
            self.begin_beside(id, row);
        }
        self.admit_on(id);
    }

    /// A run that has its place begins.
    pub(super) fn begin_with_place(&mut self, id: ProcessId, row: RunRow) {
        let admitting = self.admitting(id);
        let passage = admitting.map(|it| it.gates.acquire(&row));
        if passage == Some(AcquireResult::Free) {
            self.begin_beside(id, row);
        }
    }

    pub(super) fn begin_beside(&mut self, id: ProcessId, row: RunRow) {
        self.trace
            .say(self.now, || format!("p{id} admits {}", row.run));
        let delay = self.moment(20);
        self.plan_limits(delay, id, LimitsEvent::Begin(Box::new(row)));
    }

    pub(super) fn begin_admitted(&mut self, id: ProcessId, row: &RunRow) {
        let found = self.store.row(row.run);
        let is_over = found.is_none_or(|row| row.status.is_final());
        if !is_over {
            self.acquire(id, row.run, AcquireMode::RECOVER);
        }
        let process = self.processes.get(&id);
        // A start that is kept for a command is here as well, and has not begun.
        let state = process.and_then(|it| it.shard.run(row.run));
        let has_begun = state.is_some_and(|run| run.status() != RunStatus::Pending);
        let is_acquired = process.is_some_and(|it| it.shard.is_acquired(row.run)) && has_begun;
        // Its first record is not answered here yet: it begins once it is.
        let is_acquired = is_acquired && !self.starting.contains_key(&row.run);
        if let Some(admitting) = self.admitting(id).filter(|_| !is_acquired) {
            admitting.gates.give_up(row.run);
            if let Some(place) = place_of(row).filter(|_| is_over) {
                let taken = self.store.take_places(vec![in_any_case(place.clone())]);
                if let [Some(takes)] = taken[..] {
                    self.audit_one(id, HeldPlace { place, takes });
                }
            }
        }
        self.ring_admission(id);
    }

    /// A run has left its gate: the owner of the one that waits first is told.
    pub(super) fn tell_first_waiter(&mut self, id: ProcessId, gate: TenantGate) {
        let first = self.store.parked(&Partitions::All, &gate.1, 1);
        let first = first.first().map(|row| row.partition);
        match RoomHint::of(first, |it| self.holds_partition(id, it)) {
            RoomHint::Ring(partition) => self.ring(Bell::Partition(partition)),
            RoomHint::Here => {
                if let Some(admitting) = self.admitting(id) {
                    admitting.gates.has_left(gate);
                    self.ring_admission(id);
                }
            }
        }
    }

    /// Whether a call of the store fails now.
    pub(super) fn call_fails(&mut self) -> bool {
        let percent = self.lease_fails();
        self.random.chance(percent)
    }
}
