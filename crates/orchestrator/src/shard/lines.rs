//! The attempts of a shard that wait for slots of pools: in which order, and which of them ask
//! when there may be room. Whether one gets its slots is the store's decision, for all
//! processes: the line there is the one that counts.

use std::collections::BTreeMap;

use windlass_core::RunId;
use windlass_store::{GivenSlots, LinePlace, PoolKey, SlotRequest, WorkKey};

use super::slot::Slot;
use super::{Context, Effect, Shard, ShardInput};

/// How many attempts ask together.
const ASK: usize = 64;

/// The line of each pool, as far as this shard's runs stand in it.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pools: BTreeMap<PoolKey, BTreeMap<LinePlace, SlotRequest>>,
    /// Where an attempt stands here; in the store it keeps the place that it first had.
    places: BTreeMap<WorkKey, LinePlace>,
    /// Questions of attempts that the store has not answered.
    questions: BTreeMap<WorkKey, Questions>,
}

/// The questions of one attempt.
#[derive(Debug, Default)]
struct Questions {
    /// How many are not answered.
    open: usize,
    /// How many of them, the first, were asked before the attempt gave back what it had: their
    /// answers say nothing about what it has now.
    outdated: usize,
    /// The fence of the last one.
    fence: u64,
}

impl Lines {
    pub(super) fn insert(&mut self, request: &SlotRequest) {
        let line = self.pools.entry(request.pool.clone()).or_default();
        line.insert(request.place(), request.clone());
        self.places.insert(request.attempt, request.place());
    }

    pub(super) fn remove(&mut self, request: &SlotRequest) {
        self.places.remove(&request.attempt);
        if let Some(line) = self.pools.get_mut(&request.pool) {
            line.remove(&request.place());
            if line.is_empty() {
                self.pools.remove(&request.pool);
            }
        }
    }

    fn ask(&mut self, requests: &[SlotRequest]) {
        for request in requests {
            let questions = self.questions.entry(request.attempt).or_default();
            questions.open += 1;
            questions.fence = request.fence;
        }
    }

    fn give(&mut self, given: &[GivenSlots]) {
        for GivenSlots { attempt, .. } in given {
            if let Some(questions) = self.questions.get_mut(attempt) {
                questions.outdated = questions.open;
            }
        }
    }

    /// A question of an attempt is answered, the oldest; gives the fence that the attempt asked
    /// with, if the answer counts.
    pub(super) fn answered(&mut self, attempt: WorkKey) -> Option<u64> {
        let Some(questions) = self.questions.get_mut(&attempt) else {
            return Some(0);
        };
        questions.open -= 1;
        let (counts, fence) = (questions.outdated == 0, questions.fence);
        questions.outdated = questions.outdated.saturating_sub(1);
        if questions.open == 0 {
            self.questions.remove(&attempt);
        }
        counts.then_some(fence)
    }

    /// Those that ask now: the first of the line, and the one that the store named.
    fn first(&self, pool: &PoolKey, named: Option<&SlotRequest>) -> Vec<SlotRequest> {
        let Some(line) = self.pools.get(pool) else {
            return Vec::new();
        };
        let named = match named.map(|it| self.places.get(&it.attempt)) {
            Some(None) => {
                // Its run is not here, or does not wait any more: the audit sees to it.
                return Vec::new();
            }
            named => named.flatten().copied(),
        };
        let mut first: Vec<SlotRequest> = line.values().take(ASK).cloned().collect();
        if let Some(named) = named
            && first.iter().all(|it| it.place() != named)
        {
            first.extend(line.get(&named).cloned());
        }
        first
    }
}

impl Context<'_> {
    pub(super) fn take_slots(&mut self, requests: Vec<SlotRequest>) {
        self.lines.ask(&requests);
        self.effects.push_back(Effect::TakeSlots(requests));
    }

    /// Gives back what an attempt asked for while its run had no more than so many records.
    pub(super) fn give_slots(&mut self, attempt: WorkKey, fence: u64) {
        let given = GivenSlots { attempt, fence };
        self.lines.give(&[given]);
        self.effects.push_back(Effect::GiveSlots(vec![given]));
    }
}

impl Shard {
    /// There may be room in a pool: the first of its line ask again. `named` is the attempt that
    /// the store says is next.
    pub fn look_at_pool(&mut self, pool: &PoolKey, named: Option<&SlotRequest>) {
        let first = self.lines.first(pool, named);
        if !first.is_empty() {
            self.lines.ask(&first);
            self.effects.push_back(Effect::TakeSlots(first));
        }
    }

    /// There may be room in any pool.
    pub fn look_at_pools(&mut self) {
        let pools: Vec<PoolKey> = self.lines.pools.keys().cloned().collect();
        for pool in pools {
            self.look_at_pool(&pool, None);
        }
    }

    /// Whether an attempt needs the slots that the store says it has, or its place in line; none
    /// if the shard does not execute its run.
    pub fn needs_slots(&self, attempt: WorkKey) -> Option<bool> {
        let slot = self.slots.get(&attempt.run).filter(|it| it.is_acquired())?;
        Some(slot.needs_slots(attempt.instance, attempt.attempt))
    }

    /// The fence that an attempt asked with, if an input is its answer; none if the attempt has
    /// given back since what the answer is about.
    pub(super) fn answered(&mut self, input: &ShardInput) -> Option<u64> {
        match *input {
            ShardInput::SlotsAnswered {
                run, node, attempt, ..
            } => self.lines.answered(WorkKey {
                run,
                instance: node,
                attempt,
            }),
            _ => Some(0),
        }
    }

    /// Frees what no attempt needs of what the store says that attempts have, each with the fence
    /// that it was seen with. `is_over` says that the row of the run shows it, where the run is
    /// not here.
    pub fn audit_slots(&mut self, seen: Vec<(GivenSlots, bool)>) {
        let free = |(seen, is_over): (GivenSlots, bool)| match self.needs_slots(seen.attempt) {
            Some(true) => None,
            Some(false) => {
                let fence = self.slots.get(&seen.attempt.run)?.records();
                Some(GivenSlots { fence, ..seen })
            }
            // One that is only kept for a command is no other's, and executes nothing.
            None => (is_over && !self.holds(seen.attempt.run)).then_some(seen),
        };
        let freed: Vec<GivenSlots> = seen.into_iter().filter_map(free).collect();
        if !freed.is_empty() {
            self.lines.give(&freed);
            self.effects.push_back(Effect::GiveSlots(freed));
        }
    }

    /// A run that is dropped waits no more. What stands in the store is the next owner's, or
    /// given back where there is none.
    pub(super) fn leave_lines(&mut self, run: RunId, slot: &Slot) {
        let fence = slot.records();
        let waiting: Vec<GivenSlots> = slot
            .slot_requests()
            .map(|request| {
                self.lines.remove(request);
                let attempt = request.attempt;
                GivenSlots { attempt, fence }
            })
            .collect();
        debug_assert!(
            waiting.iter().all(|it| it.attempt.run == run),
            "its own attempts"
        );
        if !waiting.is_empty() && !self.options.shared_gates {
            self.lines.give(&waiting);
            self.effects.push_back(Effect::GiveSlots(waiting));
        }
    }
}
