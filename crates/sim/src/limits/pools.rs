//! Slots of pools between processes: what the store says is next in a line is told to its owner,
//! by a bell if that is another process.

use windlass_orchestrator::supervisor::RoomHint;
use windlass_store::{Bell, GivenSlots, PoolKey, SlotRequest, WorkKey};

use super::LimitsEvent;
use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::world::{Event, World};

/// How far the number of an attempt is away from that of its second count: a defect.
const GHOST: u32 = 1_000;

impl World {
    /// Asks for slots; the answers come in the order of the questions.
    pub(crate) fn take_slots(&mut self, id: ProcessId, requests: Vec<SlotRequest>) {
        let keys: Vec<WorkKey> = requests.iter().map(|it| it.attempt).collect();
        let asked = requests.clone();
        let held = self.count_twice(&requests);
        let taken = self.store.take_slots(requests);
        self.taken_in_order(&asked, &held);
        let waits = taken.granted.iter().filter(|granted| !**granted);
        self.counts.slots_waited += waits.count() as u64;
        let answers = keys.into_iter().zip(taken.granted).collect();
        let delay = match self.has_limits() {
            true => self.answer_after(id),
            false => self.moment(5),
        };
        self.after(delay, Event::Slots(id, answers));
        if self.has_limits() {
            for next in taken.next {
                if self.may_call(id, &next) {
                    self.call_first(id, next);
                }
            }
        }
    }

    /// After how long the next answer reaches a process: never before the one that was asked for
    /// first.
    pub(crate) fn answer_after(&mut self, id: ProcessId) -> u64 {
        let at = self.now.plus(self.random.below(20));
        let Some(limits) = &mut self.limits else {
            return 0;
        };
        let last = limits.answered_at.entry(id).or_default();
        *last = at.max(last.plus(1));
        u64::try_from(last.0 - self.now.0).unwrap_or(0)
    }

    /// The attempts that hold slots already. The defect: each question counts, so that one which
    /// comes twice takes twice.
    fn count_twice(&mut self, requests: &[SlotRequest]) -> Vec<WorkKey> {
        if !self.has_limits() {
            return Vec::new();
        }
        let held = requests
            .iter()
            .filter(|it| self.store.attempt_holds(&it.pool, it.attempt));
        let held: Vec<SlotRequest> = held.cloned().collect();
        if self.defect == Some(Defect::TakeTwice) {
            let mut again = held.clone();
            again.iter_mut().for_each(|it| it.attempt.attempt += GHOST);
            self.store.take_slots(again);
        }
        held.into_iter().map(|it| it.attempt).collect()
    }

    pub(crate) fn give_slots(&mut self, id: ProcessId, given: &[GivenSlots]) {
        let pools = self.store.give_slots(given);
        if !self.has_limits() {
            return self.look_at_pools();
        }
        for pool in pools {
            self.slots_freed(id, pool);
        }
    }

    /// A record has freed slots of a pool.
    pub(crate) fn slots_freed(&mut self, id: ProcessId, pool: PoolKey) {
        if !self.has_limits() {
            return self.look_at_pools();
        }
        let delay = self.moment(5);
        self.plan_limits(delay, id, LimitsEvent::Freed(pool));
    }

    pub(super) fn tell_first_in_line(&mut self, id: ProcessId, pool: &PoolKey) {
        if let Some(next) = self.store.next_in_line(pool) {
            self.call_first(id, next);
        }
    }

    /// Whether an attempt that an answer named is called: one of another process not too often.
    fn may_call(&mut self, id: ProcessId, next: &SlotRequest) -> bool {
        let (now, is_here) = (self.now, self.holds_partition(id, next.partition));
        let calls = self
            .limits
            .as_mut()
            .map(|it| it.calls.entry(id).or_default());
        is_here || calls.is_none_or(|calls| calls.tells(next, now))
    }

    fn call_first(&mut self, id: ProcessId, next: SlotRequest) {
        match RoomHint::of(Some(next.partition), |it| self.holds_partition(id, it)) {
            RoomHint::Ring(partition) => self.ring(Bell::Partition(partition)),
            RoomHint::Here => {
                let delay = self.moment(5);
                self.plan_limits(delay, id, LimitsEvent::Called(Box::new(next)));
            }
        }
    }

    /// The first of each line of a process ask.
    pub(crate) fn look_at_pools_of(&mut self, id: ProcessId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.shard.look_at_pools();
        }
        self.pump(id);
    }
}
