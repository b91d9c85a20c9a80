//! Which runs of a process are active at each gate, and which are about to begin. A gate is
//! counted by durable records: a run that has begun counts, whichever process began it; a run
//! that is about to begin counts already.
//!
//! Every active run counts for its gate, and only the runs that admission begins wait for one:
//! a child that waited for a gate that its own parent holds would wait for ever.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{RunId, RunStatus};
use windlass_store::{RunRow, TenantGate};

/// Whether a run may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireResult {
    /// It has a place now.
    Free,
    /// All places are taken.
    Full,
    /// It is being begun already.
    Beginning,
}

/// The gates of one process.
#[derive(Debug, Default)]
pub struct GateTable {
    gates: BTreeMap<Box<str>, Count>,
    /// Runs that are being begun, with their gates: neither begun durably nor given up.
    beginning: BTreeMap<RunId, Option<TenantGate>>,
    freed: Vec<TenantGate>,
    /// Runs among the dead letters: they hold no place, whatever becomes of them.
    dead: BTreeSet<RunId>,
    /// The store counts, for several processes: every run passes here.
    counted_in_store: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    going: u32,
    beginning: u32,
    /// How many runs may be active, and the version that says so: the newest version of any run
    /// at this gate.
    limit: u32,
    version: u32,
}

impl Count {
    fn has_room(&self) -> bool {
        self.going + self.beginning < self.limit.max(1)
    }

    /// Takes the limit of a run's version unless a newer one is known; true if the limit has
    /// grown.
    fn hear(&mut self, row: &RunRow) -> bool {
        if self.limit != 0 && row.version < self.version {
            return false;
        }
        let before = std::mem::replace(&mut self.limit, row.limit.max(1));
        self.version = row.version;
        before != 0 && before < self.limit
    }
}

impl GateTable {
    /// The gates as the store counts them.
    pub fn new(counts: Vec<(Box<str>, u32)>) -> Self {
        let count = |going| Count {
            going,
            ..Count::default()
        };
        let counts = counts.into_iter();
        Self {
            gates: counts.map(|(gate, going)| (gate, count(going))).collect(),
            ..Self::default()
        }
    }

    /// Gates that the store counts, for all processes that share it.
    pub fn in_store() -> Self {
        Self {
            counted_in_store: true,
            ..Self::default()
        }
    }

    /// Takes a place for a run, if there is one.
    pub fn acquire(&mut self, row: &RunRow) -> AcquireResult {
        if self.beginning.contains_key(&row.run) {
            return AcquireResult::Beginning;
        }
        let gate = row.gate.clone().map(|gate| (row.tenant.clone(), gate));
        if let Some((tenant, gate)) = &gate {
            let count = self.gates.entry(gate.clone()).or_default();
            let more = count.hear(row);
            let free = self.counted_in_store || count.has_room();
            count.beginning += u32::from(free);
            if more {
                // Parked runs have not seen the new limit.
                self.freed.push((tenant.clone(), gate.clone()));
            }
            if !free {
                return AcquireResult::Full;
            }
        }
        self.beginning.insert(row.run, gate);
        AcquireResult::Free
    }

    /// Whether another could pass the gate of a run that has passed.
    pub fn has_room(&self, gate: &str) -> bool {
        self.counted_in_store || self.gates.get(gate).is_some_and(Count::has_room)
    }

    /// Whether a run is being begun.
    pub fn is_beginning(&self, run: RunId) -> bool {
        self.beginning.contains_key(&run)
    }

    /// A run that was to begin found no place in the store.
    pub fn withdraw(&mut self, run: RunId) {
        if let Some(gate) = self.settle(run) {
            self.tidy(&gate.1);
        }
    }

    /// A run has left a gate, maybe one of another process.
    pub fn has_left(&mut self, gate: TenantGate) {
        self.freed.push(gate);
    }

    /// A run has become active, or has ended, durably. Gives whether it was being begun here.
    pub fn went(&mut self, run: RunId, gate: Option<TenantGate>, going: bool) -> bool {
        let began = self.beginning.contains_key(&run);
        if going {
            self.settle(run);
        }
        let Some(gate) = gate else { return began };
        if self.counted_in_store {
            self.tidy(&gate.1);
            return began;
        }
        if self.dead.contains(&run) {
            return began;
        }
        if going {
            self.gates.entry(gate.1).or_default().going += 1;
        } else {
            self.leave(gate);
        }
        began
    }

    /// A run is among the dead letters now; an active one gives its place up.
    pub fn dead_letter(&mut self, row: &RunRow) {
        let is_new = self.dead.insert(row.run);
        let went = matches!(row.status, RunStatus::Running | RunStatus::Paused) && !row.dead;
        if let Some(gate) = row.gate.clone().filter(|_| is_new && went) {
            self.leave((row.tenant.clone(), gate));
        }
    }

    /// A run is among the dead letters no more; one that had begun takes a place again.
    pub fn restore(&mut self, row: &RunRow) {
        self.dead.remove(&row.run);
        let goes = matches!(row.status, RunStatus::Running | RunStatus::Paused);
        if let Some(gate) = row.gate.clone().filter(|_| goes) {
            self.gates.entry(gate).or_default().going += 1;
        }
    }

    /// A run that was to begin did not: its place is free again. Harmless where it did.
    pub fn give_up(&mut self, run: RunId) {
        if let Some(gate) = self.settle(run) {
            self.tidy(&gate.1);
            self.freed.push(gate);
        }
    }

    /// The gates that runs have left since the last call.
    pub fn freed(&mut self) -> Vec<TenantGate> {
        std::mem::take(&mut self.freed)
    }

    /// How many runs are being begun.
    pub fn beginning(&self) -> usize {
        self.beginning.len()
    }

    /// The runs that are being begun.
    pub fn all_beginning(&self) -> BTreeSet<RunId> {
        self.beginning.keys().copied().collect()
    }

    /// How many runs of a gate are being begun.
    pub fn beginning_at(&self, gate: &str) -> usize {
        let count = self.gates.get(gate);
        count.map_or(0, |count| count.beginning as usize)
    }

    /// A run is not about to begin any more; gives the gate that it held a place at.
    fn settle(&mut self, run: RunId) -> Option<TenantGate> {
        let gate = self.beginning.remove(&run)??;
        if let Some(count) = self.gates.get_mut(&gate.1) {
            count.beginning = count.beginning.saturating_sub(1);
        }
        Some(gate)
    }

    fn leave(&mut self, gate: TenantGate) {
        if let Some(count) = self.gates.get_mut(&gate.1) {
            count.going = count.going.saturating_sub(1);
        }
        self.tidy(&gate.1);
        self.freed.push(gate);
    }

    /// Forgets a gate without runs: the number of keys is unbounded.
    fn tidy(&mut self, gate: &str) {
        let count = self.gates.get(gate).copied().unwrap_or_default();
        if count.going + count.beginning == 0 {
            self.gates.remove(gate);
        }
    }
}
