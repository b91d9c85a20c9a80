//! Which runs are active at each gate (`concurrency`), and which are about to begin. A gate is
//! counted by durable records: a run that has begun counts, whichever process began it; a run
//! that is about to begin counts already.
//!
//! Every active run counts for its gate, and only the runs that admission begins wait for one:
//! a child that waited for a gate that its own parent holds would wait for ever.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use windlass_core::{RunId, RunStatus};
use windlass_store::RunRow;

/// The tenant and the name of a gate that a run has left.
pub(crate) type Freed = (Option<Box<str>>, Box<str>);

/// The gates of one engine.
#[derive(Default)]
pub(crate) struct Gates {
    state: Mutex<State>,
    /// The store counts, for several processes: every run passes here.
    counted_in_store: bool,
}

#[derive(Default)]
struct State {
    gates: HashMap<Box<str>, Count>,
    /// Runs that are being begun, with their gates: neither begun durably nor given up.
    beginning: HashMap<RunId, Option<Freed>>,
    freed: Vec<Freed>,
    /// Runs among the dead letters: they hold no place, whatever becomes of them.
    dead: HashSet<RunId>,
}

#[derive(Clone, Copy, Default)]
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

/// Whether a run may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireResult {
    /// It has a place now.
    Free,
    /// All places are taken.
    Full,
    /// It is being begun already.
    Beginning,
}

impl Gates {
    /// The gates as the store counts them.
    pub(crate) fn new(counts: Vec<(Box<str>, u32)>) -> Self {
        let count = |going| Count {
            going,
            ..Count::default()
        };
        let counts = counts.into_iter();
        let state = State {
            gates: counts.map(|(gate, going)| (gate, count(going))).collect(),
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            counted_in_store: false,
        }
    }

    /// Gates that the store counts, for all processes that share it.
    pub(crate) fn in_store() -> Self {
        Self {
            counted_in_store: true,
            ..Self::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the gates")
    }

    /// Takes a place for a run, if there is one.
    pub(crate) fn acquire(&self, row: &RunRow) -> AcquireResult {
        let mut state = self.state();
        if state.beginning.contains_key(&row.run) {
            return AcquireResult::Beginning;
        }
        let gate = row.gate.clone().map(|gate| (row.tenant.clone(), gate));
        if let Some((tenant, gate)) = &gate {
            let count = state.gates.entry(gate.clone()).or_default();
            let more = count.hear(row);
            let free = self.counted_in_store || count.has_room();
            count.beginning += u32::from(free);
            if more {
                // Parked runs have not seen the new limit.
                state.freed.push((tenant.clone(), gate.clone()));
            }
            if !free {
                return AcquireResult::Full;
            }
        }
        state.beginning.insert(row.run, gate);
        AcquireResult::Free
    }

    /// Whether another could pass the gate of a run that has passed.
    pub(crate) fn has_room(&self, gate: &str) -> bool {
        let state = self.state();
        self.counted_in_store || state.gates.get(gate).is_some_and(Count::has_room)
    }

    /// Whether a run is being begun.
    pub(crate) fn is_beginning(&self, run: RunId) -> bool {
        self.state().beginning.contains_key(&run)
    }

    /// A run that was to begin found no place in the store.
    pub(crate) fn withdraw(&self, run: RunId) {
        let mut state = self.state();
        if let Some(gate) = state.settle(run) {
            state.tidy(&gate.1);
        }
    }

    /// A run has left a gate, maybe one of another process.
    pub(crate) fn has_left(&self, gate: Freed) {
        self.state().freed.push(gate);
    }

    /// A run has become active, or has ended, durably. Gives whether it was being begun here.
    pub(crate) fn went(&self, run: RunId, gate: Option<Freed>, going: bool) -> bool {
        let mut state = self.state();
        let began = state.beginning.contains_key(&run);
        if going {
            state.settle(run);
        }
        let Some(gate) = gate else { return began };
        if self.counted_in_store {
            state.tidy(&gate.1);
            return began;
        }
        if state.dead.contains(&run) {
            return began;
        }
        if going {
            state.gates.entry(gate.1).or_default().going += 1;
        } else {
            state.leave(gate);
        }
        began
    }

    /// A run is among the dead letters now; an active one gives its place up.
    pub(crate) fn dead_letter(&self, row: &RunRow) {
        let mut state = self.state();
        let is_new = state.dead.insert(row.run);
        let went = matches!(row.status, RunStatus::Running | RunStatus::Paused) && !row.dead;
        if let Some(gate) = row.gate.clone().filter(|_| is_new && went) {
            state.leave((row.tenant.clone(), gate));
        }
    }

    /// A run is among the dead letters no more; one that had begun takes a place again.
    pub(crate) fn restore(&self, row: &RunRow) {
        let mut state = self.state();
        state.dead.remove(&row.run);
        let goes = matches!(row.status, RunStatus::Running | RunStatus::Paused);
        if let Some(gate) = row.gate.clone().filter(|_| goes) {
            state.gates.entry(gate).or_default().going += 1;
        }
    }

    /// A run that was to begin did not: its place is free again. Harmless where it did.
    pub(crate) fn give_up(&self, run: RunId) {
        let mut state = self.state();
        if let Some(gate) = state.settle(run) {
            state.tidy(&gate.1);
            state.freed.push(gate);
        }
    }

    /// The gates that runs have left since the last call.
    pub(crate) fn freed(&self) -> Vec<Freed> {
        std::mem::take(&mut self.state().freed)
    }

    /// How many runs are being begun.
    pub(crate) fn beginning(&self) -> usize {
        self.state().beginning.len()
    }

    /// The runs that are being begun.
    pub(crate) fn all_beginning(&self) -> HashSet<RunId> {
        self.state().beginning.keys().copied().collect()
    }

    /// How many runs of a gate are being begun.
    pub(crate) fn beginning_at(&self, gate: &str) -> usize {
        let state = self.state();
        state
            .gates
            .get(gate)
            .map_or(0, |count| count.beginning as usize)
    }
}

impl State {
    /// A run is not about to begin any more; gives the gate that it held a place at.
    fn settle(&mut self, run: RunId) -> Option<Freed> {
        let gate = self.beginning.remove(&run)??;
        if let Some(count) = self.gates.get_mut(&gate.1) {
            count.beginning = count.beginning.saturating_sub(1);
        }
        Some(gate)
    }

    fn leave(&mut self, gate: Freed) {
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
