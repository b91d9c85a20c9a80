//! Which pending run begins next: tenants take turns, within a tenant the highest priority goes
//! first, then the oldest, and no run passes a full gate.
//!
//! Waiting runs stay in the store and are read in pages; runs whose gate is full are parked there,
//! and one of them is looked at again when a run has left that gate.
//!
//! ```text
//! a tenant's turn:  places came free? ─▶ park, read parked, for each gate
//!                   nothing at hand? ──▶ park, read waiting
//!                   pass the gate … ──┬─ free ─▶ begin; the next tenant has its turn
//!                                     └─ full ─▶ to be parked; the next run of the line
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass_core::RunId;
use windlass_store::{RunRow, TenantGate};

use super::gates::{AcquireResult, GateTable};

/// How many waiting runs of a tenant are read together.
const PAGE: usize = 128;

/// A tenant, by its name, if it has one.
type Tenant = Option<Box<str>>;

/// A run that could begin, by its place in line.
type QueuePosition = (Reverse<u8>, RunId);

/// What admission asks of its process: all of it is at hand.
pub trait AdmissionFacts {
    /// The tenants of which something new waits, with its highest priority, since the last call.
    fn arrived(&mut self) -> Vec<(Option<Box<str>>, u8)>;
    /// Whether another run may begin now.
    fn has_room(&mut self) -> bool;
    /// How many runs are acquired alone, and not from here.
    fn suspects(&mut self) -> usize;
    /// Whether a run is one of them.
    fn is_suspect(&mut self, run: RunId) -> bool;
    /// Asks the gates of the process.
    fn gates<T>(&mut self, ask: impl FnOnce(&mut GateTable) -> T) -> T;
}

/// What to do next; each but `Wait` is answered, or failed ([`AdmissionQueue::failed`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionStep {
    /// Park these runs; answer with [`AdmissionQueue::parked`].
    Park(Vec<RunId>),
    /// Read runs that are parked at a gate; answer with [`AdmissionQueue::rows_read`].
    ReadParked {
        /// The gate.
        gate: Box<str>,
        /// How many at most.
        limit: usize,
    },
    /// Read waiting runs of a tenant that are not parked; answer with [`AdmissionQueue::rows_read`].
    ReadWaiting {
        /// The tenant.
        tenant: Option<Box<str>>,
        /// How many at most.
        limit: usize,
    },
    /// Take a place for this run; answer with [`AdmissionQueue::passed`].
    Pass(Box<RunRow>),
    /// Nothing, until something has changed.
    Wait,
}

/// What is known of a tenant's runs that wait.
#[derive(Debug)]
struct Line {
    /// Runs that were read, with whether they had been parked.
    first: BTreeMap<QueuePosition, (RunRow, bool)>,
    /// How many of them had not been parked.
    waiting: usize,
    /// Whether there may be runs in the store that belong before one of these.
    stale: bool,
    /// Gates where places came free, and how many.
    freed: BTreeMap<Box<str>, usize>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            first: BTreeMap::new(),
            waiting: 0,
            // Nothing of it was read.
            stale: true,
            freed: BTreeMap::new(),
        }
    }
}

impl Line {
    /// A run of this priority has come.
    fn hear(&mut self, priority: u8) {
        let last = self.first.last_key_value();
        self.stale |= last.is_some_and(|((Reverse(lowest), _), _)| priority > *lowest);
    }

    fn add(&mut self, row: RunRow, parked: bool) {
        let place = (Reverse(row.priority), row.run);
        let before = self.first.insert(place, (row, parked));
        let waited = |was_parked: bool| usize::from(!was_parked);
        self.waiting += waited(parked);
        self.waiting -= before.map_or(0, |(_, parked)| waited(parked));
    }

    /// A parked run has passed its gate: if the gate has room for another, look for that one.
    fn look_on(&mut self, row: &RunRow, gates: &GateTable) {
        if let Some(gate) = row.gate.as_ref().filter(|gate| gates.has_room(gate)) {
            self.freed.insert(gate.clone(), 1);
        }
    }

    fn pop(&mut self) -> Option<(RunRow, bool)> {
        let (_, (row, parked)) = self.first.pop_first()?;
        self.waiting -= usize::from(!parked);
        Some((row, parked))
    }
}

/// A tenant's turn.
#[derive(Debug)]
struct Turn {
    tenant: Tenant,
    line: Line,
    /// Whether everything is read that the turn needs.
    is_read: bool,
    /// The runs that were being begun before the store was asked: one that has begun meanwhile
    /// still stands there, and would take another place.
    beginning: BTreeSet<RunId>,
    /// Gates that the store has just said are full, with their limits: not asked again for the
    /// next run in line.
    full_gates: BTreeSet<(Box<str>, u32)>,
    /// The run that is to pass its gate, with whether it had been parked.
    passing: Option<(RunRow, bool)>,
}

impl Turn {
    fn is_full(&self, row: &RunRow) -> bool {
        let gate = row.gate.clone().map(|gate| (gate, row.limit));
        !self.full_gates.is_empty() && gate.is_some_and(|gate| self.full_gates.contains(&gate))
    }
}

/// Everything that waits, as far as it is known.
#[derive(Debug, Default)]
pub struct AdmissionQueue {
    /// Whether the store counts the gates, for several processes.
    counted_in_store: bool,
    lines: BTreeMap<Tenant, Line>,
    /// Whose turn it is.
    turns: VecDeque<Tenant>,
    turn: Option<Turn>,
    /// Runs to park.
    full: Vec<RunId>,
}

impl AdmissionQueue {
    /// Knows of nothing that waits; [`Self::look_at_all`] comes first.
    pub fn new(counted_in_store: bool) -> Self {
        Self {
            counted_in_store,
            ..Self::default()
        }
    }

    /// Everything that waits is looked at again: these are the tenants with runs that wait, and
    /// the gates where runs are parked. The process before may not have looked at places that
    /// came free.
    pub fn look_at_all(&mut self, tenants: Vec<Option<Box<str>>>, parked: Vec<TenantGate>) {
        for tenant in tenants {
            self.line(tenant).stale = true;
        }
        for (tenant, gate) in parked {
            self.line(tenant).freed.insert(gate, 1);
        }
    }

    /// A tenant's line; a new one is the last to have its turn.
    fn line(&mut self, tenant: Tenant) -> &mut Line {
        let turns = &mut self.turns;
        self.lines.entry(tenant).or_insert_with_key(|tenant| {
            turns.push_back(tenant.clone());
            Line::default()
        })
    }

    /// Takes in what has happened since the last look.
    fn hear(&mut self, facts: &mut impl AdmissionFacts) {
        for (tenant, priority) in facts.arrived() {
            self.line(tenant).hear(priority);
        }
        for (tenant, gate) in facts.gates(GateTable::freed) {
            *self.line(tenant).freed.entry(gate).or_default() += 1;
        }
    }

    /// What to do now, so that everything begins that can.
    pub fn next_step(&mut self, facts: &mut impl AdmissionFacts) -> AdmissionStep {
        loop {
            let Some(mut turn) = self.turn.take() else {
                if !self.begin_turn(facts) {
                    return match self.full.is_empty() {
                        true => AdmissionStep::Wait,
                        false => AdmissionStep::Park(self.full.clone()),
                    };
                }
                continue;
            };
            if let Some(read) = self.next_read(&mut turn, facts) {
                self.turn = Some(turn);
                return read;
            }
            turn.is_read = true;
            let Some((row, parked)) = turn.line.pop() else {
                self.end_turn(turn);
                continue;
            };
            if turn.is_full(&row) {
                self.found_full(&row, parked);
                self.turn = Some(turn);
                continue;
            }
            turn.passing = Some((row.clone(), parked));
            self.turn = Some(turn);
            return AdmissionStep::Pass(Box::new(row));
        }
    }

    fn begin_turn(&mut self, facts: &mut impl AdmissionFacts) -> bool {
        self.hear(facts);
        if !facts.has_room() {
            return false;
        }
        let Some(tenant) = self.turns.pop_front() else {
            return false;
        };
        self.turn = Some(Turn {
            line: self.lines.remove(&tenant).unwrap_or_default(),
            tenant,
            is_read: false,
            beginning: BTreeSet::new(),
            full_gates: BTreeSet::new(),
            passing: None,
        });
        true
    }

    /// Other tenants come first, then this one continues.
    fn end_turn(&mut self, turn: Turn) {
        self.turns.push_back(turn.tenant.clone());
        self.lines.insert(turn.tenant, turn.line);
    }

    /// What a turn must read before runs pass their gates. Runs that are about to be parked must
    /// be stored as parked before the store is asked.
    fn next_read(
        &mut self,
        turn: &mut Turn,
        facts: &mut impl AdmissionFacts,
    ) -> Option<AdmissionStep> {
        if turn.is_read {
            return None;
        }
        let line = &turn.line;
        let freed = line.freed.first_key_value();
        if freed.is_none() && !line.stale && line.waiting > 0 {
            return None;
        }
        if !self.full.is_empty() {
            return Some(AdmissionStep::Park(self.full.clone()));
        }
        turn.beginning = facts.gates(|gates| gates.all_beginning());
        let suspects = facts.suspects();
        Some(match freed {
            Some((gate, places)) => AdmissionStep::ReadParked {
                gate: gate.clone(),
                limit: places + facts.gates(|gates| gates.beginning_at(gate)) + suspects,
            },
            // Those that are about to begin stand first, and are not meant.
            None => AdmissionStep::ReadWaiting {
                tenant: turn.tenant.clone(),
                limit: PAGE + turn.beginning.len() + suspects,
            },
        })
    }

    /// The runs that were to be parked are.
    pub fn parked(&mut self) {
        self.full.clear();
    }

    /// What the last step was to read.
    pub fn rows_read(&mut self, rows: Vec<RunRow>, facts: &mut impl AdmissionFacts) {
        let Some(turn) = &mut self.turn else {
            return;
        };
        let parked = turn.line.freed.pop_first().is_some();
        for row in rows {
            if !turn.beginning.contains(&row.run) && !facts.is_suspect(row.run) {
                turn.line.add(row, parked);
            }
        }
        if !parked {
            turn.line.stale = false;
            turn.is_read = !turn.line.first.is_empty();
            if !turn.is_read {
                // Nothing of the tenant waits.
                self.turn = None;
            }
        }
    }

    /// Whether a run has passed its gate; gives the run that begins now.
    pub fn passed(
        &mut self,
        passage: AcquireResult,
        facts: &mut impl AdmissionFacts,
    ) -> Option<RunRow> {
        let mut turn = self.turn.take()?;
        let Some((row, parked)) = turn.passing.take() else {
            self.turn = Some(turn);
            return None;
        };
        if passage == AcquireResult::Free {
            if parked {
                facts.gates(|gates| turn.line.look_on(&row, gates));
            }
            self.end_turn(turn);
            return Some(row);
        }
        if passage == AcquireResult::Full {
            if self.counted_in_store {
                let gate = row.gate.clone().map(|gate| (gate, row.limit));
                turn.full_gates.extend(gate);
            }
            self.found_full(&row, parked);
        }
        self.turn = Some(turn);
        None
    }

    /// A parked run is looked at again when its gate has room.
    fn found_full(&mut self, row: &RunRow, parked: bool) {
        if !parked {
            self.full.push(row.run);
        }
    }

    /// The store could not do the last step: it is tried again with the tenant's next turn.
    pub fn failed(&mut self) {
        if let Some(mut turn) = self.turn.take() {
            if let Some((row, parked)) = turn.passing.take() {
                turn.line.add(row, parked);
            }
            self.end_turn(turn);
        }
    }
}
