//! Worlds with limits: concurrency keys of workflows, and pools with priorities of nodes, over
//! several processes that share a store. The supervisor and the shard decide which run begins
//! next, which attempt asks for slots, and what an owner mends, as in the engine; the places and
//! slots are those of the real store in memory. Here is what an engine does around them: calls that
//! take time, fail after they were carried out, or are lost with their process.

mod admission;
mod audit;
mod defects;
mod pools;
mod rules;
mod store;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Millis, RunId};
use windlass_orchestrator::supervisor::{AdmissionQueue, AdmissionStep, GateTable, PoolCalls};
use windlass_store::{GatePlace, Partition, PoolKey, RunRow, TakePlace, TenantGate, WorkKey};

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::owners::OwnersEvent;
use crate::world::{Event, World};

pub(crate) use workload::workload;

/// How soon a process asks again when the store did not answer.
const AGAIN: u64 = 1_000;

/// What the processes of a world do about limits, and what its rules know.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    admitting: BTreeMap<ProcessId, Admitting>,
    /// How many slots each pool has.
    pub(crate) pools: BTreeMap<PoolKey, u32>,
    /// Attempts that workers have, with what they hold, by the process that handed them out.
    out: BTreeMap<(ProcessId, WorkKey), (PoolKey, u32)>,
    /// Runs that wait for their gate before they begin.
    waits: BTreeSet<RunId>,
    /// Since when a process has looked at a partition without a break.
    looks_since: BTreeMap<(ProcessId, Partition), Millis>,
    /// When the last answer about slots reaches a process.
    answered_at: BTreeMap<ProcessId, Millis>,
    /// What processes told others of lines.
    calls: BTreeMap<ProcessId, PoolCalls>,
    /// What appends should have released, by run: a defect.
    owed: BTreeMap<RunId, Vec<defects::Owed>>,
}

/// The admission of one process.
#[derive(Debug)]
struct Admitting {
    queue: AdmissionQueue,
    gates: GateTable,
    arrived: BTreeMap<Option<Box<str>>, u8>,
    look_at_all: bool,
    /// Whether a step is under way: there is one task.
    is_busy: bool,
    /// Whether a bell rang meanwhile.
    rang: bool,
}

/// What happens about limits.
#[derive(Debug)]
pub(crate) enum LimitsEvent {
    /// Admission looks.
    Look,
    /// A step of admission reaches the store, and its answer the process.
    Step(AdmissionStep),
    /// A question for a place reaches the store, for a run that is to begin.
    TakePlace(Box<RunRow>),
    /// Its answer reaches the process; none if the call failed.
    PlaceTaken(Box<RunRow>, Option<bool>),
    /// A run that has its place begins.
    Begin(Box<RunRow>),
    /// The place of a run that waited for none reaches the store.
    Count(TakePlace),
    /// A run has left its gate.
    Left(TenantGate),
    /// Slots of a pool are free.
    Freed(PoolKey),
    /// The store named an attempt of this process that may have its slots.
    Called(Box<windlass_store::SlotRequest>),
}

impl LimitsEvent {
    /// Whether it happens in the process, and not at the store.
    pub(crate) fn is_in_process(&self) -> bool {
        !matches!(self, Self::TakePlace(_) | Self::Count(_))
    }
}

impl World {
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_some()
    }

    /// Limits that were drawn are made.
    pub(crate) fn make_pools(&mut self) {
        let pools = self.limits.as_ref().map(|limits| limits.pools.clone());
        for (pool, slots) in pools.into_iter().flatten() {
            self.store.put_pool(pool, slots);
        }
    }

    /// A process begins to admit runs.
    pub(crate) fn begin_admitting(&mut self, id: ProcessId) {
        let per_process = self.defect == Some(Defect::LimitPerProcess);
        let Some(limits) = &mut self.limits else {
            return;
        };
        let admitting = Admitting {
            queue: AdmissionQueue::new(!per_process),
            gates: match per_process {
                true => GateTable::default(),
                false => GateTable::in_store(),
            },
            arrived: BTreeMap::new(),
            look_at_all: true,
            is_busy: false,
            rang: false,
        };
        limits.admitting.insert(id, admitting);
    }

    fn admitting(&mut self, id: ProcessId) -> Option<&mut Admitting> {
        self.limits.as_mut()?.admitting.get_mut(&id)
    }

    pub(crate) fn plan_limits(&mut self, delay: u64, id: ProcessId, event: LimitsEvent) {
        self.after(delay, Event::Owners(OwnersEvent::Limits(id, event)));
    }

    pub(crate) fn limits_event(&mut self, id: ProcessId, event: LimitsEvent) {
        match event {
            LimitsEvent::Look => self.admit(id),
            LimitsEvent::Step(step) => self.admission_step(id, step),
            LimitsEvent::TakePlace(row) => self.take_place(id, row),
            LimitsEvent::PlaceTaken(row, taken) => self.place_taken(id, &row, taken),
            LimitsEvent::Begin(row) => self.begin_admitted(id, &row),
            LimitsEvent::Count(place) => {
                self.store.take_places(vec![place]);
            }
            LimitsEvent::Left(gate) => self.tell_first_waiter(id, gate),
            LimitsEvent::Freed(pool) => self.tell_first_in_line(id, &pool),
            LimitsEvent::Called(next) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.shard.look_at_pool(&next.pool, Some(&next));
                }
                self.pump(id);
            }
        }
    }

    /// A process is gone.
    pub(crate) fn forget_admitting(&mut self, id: ProcessId) {
        if let Some(limits) = &mut self.limits {
            limits.admitting.remove(&id);
            limits.calls.remove(&id);
            limits.out.retain(|(owner, _), _| *owner != id);
            limits.looks_since.retain(|(owner, _), _| *owner != id);
        }
    }

    /// A run does not go on in a process.
    pub(crate) fn forget_limits_of(&mut self, id: ProcessId, run: RunId) {
        if let Some(limits) = &mut self.limits {
            limits
                .out
                .retain(|(owner, key), _| (*owner, key.run) != (id, run));
        }
        if let Some(admitting) = self.admitting(id) {
            admitting.gates.give_up(run);
        }
    }

    /// A run has become active in a process, or has stopped being so.
    pub(crate) fn active_changed(
        &mut self,
        id: ProcessId,
        run: RunId,
        gate: Option<TenantGate>,
        going: bool,
    ) {
        let Some(admitting) = self.admitting(id) else {
            return;
        };
        let began = admitting.gates.went(run, gate.clone(), going);
        if let Some(gate) = gate {
            self.went_elsewhere(id, run, gate, (going, began));
        }
        self.ring_admission(id);
    }

    fn went_elsewhere(
        &mut self,
        id: ProcessId,
        run: RunId,
        gate: TenantGate,
        (going, began): (bool, bool),
    ) {
        let delay = self.moment(20);
        if !going {
            return self.plan_limits(delay, id, LimitsEvent::Left(gate));
        }
        let per_process = self.defect == Some(Defect::LimitPerProcess);
        // A run that admission began has its place.
        if !began && !per_process {
            let partition = self.partition_of(run);
            let gate = gate.1;
            let place = GatePlace {
                gate,
                run,
                partition,
            };
            let place = windlass_orchestrator::supervisor::in_any_case(place);
            self.plan_limits(delay, id, LimitsEvent::Count(place));
        }
    }
}
