//! Which pending run begins next: tenants take turns, within a tenant the highest priority goes
//! first, then the oldest, and no run passes a full gate.
//!
//! One task decides, so that what it reads and what it decides fit together. It looks only when
//! a bell rings: a run came, a run ended, there is room again. Waiting runs stay in the store
//! and are read in pages; runs whose gate is full are parked there, and one of them is looked at
//! again when a run has left that gate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::RunId;
use windlass_store::{Error, RunRow};

use crate::engine::{Engine, Inner};
use crate::gates::{AcquireResult, Gates};
use crate::load::{LoadError, Unavailable};
use crate::shared::Tenant;

/// How many waiting runs of a tenant are read together.
const PAGE: usize = 128;

/// How many runs may be about to begin at once: reading them takes place beside the driver.
const MOST_BEGINNING: usize = 128;

/// How soon to look again when the store could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Begins pending runs until the engine is gone.
pub(crate) async fn admit(engine: Weak<Inner>, max_active: usize) {
    let mut queue = Queue::new(max_active);
    let mut known = false;
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        if engine.shared().look_at_all.swap(false, Ordering::AcqRel) || !known {
            known = queue.read_tenants(&engine).await.is_ok();
        }
        let wrong = !known || queue.fill(&engine).await.is_err();
        let shared = engine.shared().clone();
        let stop = engine.stop_token();
        drop(engine);
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.bell.notified() => {}
            () = tokio::time::sleep(AGAIN), if wrong => {}
        }
    }
}

/// A run that could begin, by its place in line.
type QueuePosition = (Reverse<u8>, RunId);

/// What is known of a tenant's runs that wait.
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
    fn look_on(&mut self, row: &RunRow, gates: &Gates) {
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

/// Gates that the store has just said are full, with their limits: not asked again for the
/// next run in line.
#[derive(Default)]
struct FullGates(HashSet<(Box<str>, u32)>);

impl FullGates {
    fn note(&mut self, row: &RunRow) {
        self.0
            .extend(row.gate.clone().map(|gate| (gate, row.limit)));
    }

    fn contains(&self, row: &RunRow) -> bool {
        let gate = row.gate.clone().map(|gate| (gate, row.limit));
        !self.0.is_empty() && gate.is_some_and(|gate| self.0.contains(&gate))
    }
}

/// What a tenant's turn came to.
enum Turn {
    /// This run may begin, and has its place at its gate.
    Begin(Box<RunRow>),
    /// Others come first, then it goes on.
    Later,
    /// Nothing of it waits.
    Nothing,
}

/// Everything that waits, as far as it is known.
struct Queue {
    max_active: usize,
    lines: HashMap<Tenant, Line>,
    /// Whose turn it is.
    turns: VecDeque<Tenant>,
    /// Runs to park.
    full: Vec<RunId>,
}

impl Queue {
    fn new(max_active: usize) -> Self {
        Self {
            max_active: max_active.max(1),
            lines: HashMap::new(),
            turns: VecDeque::new(),
            full: Vec::new(),
        }
    }

    async fn read_tenants(&mut self, engine: &Engine) -> Result<(), Error> {
        let partitions = engine.shared().owned.partitions();
        for tenant in engine.store().waiting_tenants(&partitions).await? {
            self.line(tenant).stale = true;
        }
        // The process before may not have looked at places that came free.
        for (tenant, gate) in engine.store().parked_gates(&partitions).await? {
            self.line(tenant).freed.insert(gate, 1);
        }
        Ok(())
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
    fn hear(&mut self, engine: &Engine) {
        for (tenant, priority) in engine.shared().arrived_since() {
            self.line(tenant).hear(priority);
        }
        for (tenant, gate) in engine.shared().gates.freed() {
            *self.line(tenant).freed.entry(gate).or_default() += 1;
        }
    }

    /// Begins what can begin.
    async fn fill(&mut self, engine: &Engine) -> Result<(), Error> {
        loop {
            self.hear(engine);
            if !self.has_room(engine) {
                break;
            }
            let Some(tenant) = self.turns.pop_front() else {
                break;
            };
            let mut line = self.lines.remove(&tenant).unwrap_or_default();
            let turn = self.turn(&tenant, &mut line, engine).await;
            if matches!(turn, Ok(Turn::Nothing)) {
                continue;
            }
            self.turns.push_back(tenant.clone());
            self.lines.insert(tenant, line);
            if let Turn::Begin(row) = turn? {
                engine.begin_beside(*row);
            }
        }
        self.park(engine).await
    }

    fn has_room(&self, engine: &Engine) -> bool {
        let shared = engine.shared();
        if shared.isolation.is_closed() {
            return false;
        }
        let loading = shared.loading.load(Ordering::Acquire);
        let active = shared.active() + loading;
        active < self.max_active && shared.gates.beginning() < MOST_BEGINNING
    }

    /// Finds a tenant's next run.
    async fn turn(
        &mut self,
        tenant: &Tenant,
        line: &mut Line,
        engine: &Engine,
    ) -> Result<Turn, Error> {
        self.read_freed(line, engine).await?;
        if line.stale || line.waiting == 0 {
            self.read_page(tenant, line, engine).await?;
        }
        if line.first.is_empty() {
            return Ok(Turn::Nothing);
        }
        let mut full = FullGates::default();
        while let Some((row, parked)) = line.pop() {
            let passage = match full.contains(&row) {
                true => AcquireResult::Full,
                false => match engine.pass(&row).await {
                    Ok(passage) => passage,
                    Err(error) => {
                        line.add(row, parked);
                        return Err(error);
                    }
                },
            };
            if passage == AcquireResult::Full && engine.shared().owned.is_shared() {
                full.note(&row);
            }
            match passage {
                AcquireResult::Free => {
                    if parked {
                        line.look_on(&row, &engine.shared().gates);
                    }
                    return Ok(Turn::Begin(Box::new(row)));
                }
                AcquireResult::Full if !parked => self.full.push(row.run),
                // A parked run is looked at again when its gate has room.
                AcquireResult::Full | AcquireResult::Beginning => {}
            }
        }
        Ok(Turn::Later)
    }

    /// Looks at the runs that are parked at gates that have room now.
    async fn read_freed(&mut self, line: &mut Line, engine: &Engine) -> Result<(), Error> {
        if line.freed.is_empty() {
            return Ok(());
        }
        // Runs that are about to be parked must be stored as parked before the store is asked.
        self.park(engine).await?;
        let gates = &engine.shared().gates;
        while let Some((gate, places)) = line.freed.first_key_value() {
            // Asked before the store is: one that has begun meanwhile still stands there.
            let beginning = gates.all_beginning();
            let suspects = &engine.shared().isolation;
            let limit = places + gates.beginning_at(gate) + suspects.count();
            engine.looked();
            for row in engine
                .store()
                .parked(&engine.shared().owned.partitions(), gate, limit)
                .await?
            {
                // A suspect is acquired alone, and not from here.
                if !beginning.contains(&row.run) && suspects.suspended(row.run).is_none() {
                    line.add(row, true);
                }
            }
            line.freed.pop_first();
        }
        engine.repair_beside();
        Ok(())
    }

    async fn read_page(
        &mut self,
        tenant: &Tenant,
        line: &mut Line,
        engine: &Engine,
    ) -> Result<(), Error> {
        self.park(engine).await?;
        // Those that are about to begin stand first, and are not meant. Asked before the
        // store is: one that has begun meanwhile may still stand there, and would take
        // another place.
        let beginning = engine.shared().gates.all_beginning();
        let suspects = &engine.shared().isolation;
        let limit = PAGE + beginning.len() + suspects.count();
        engine.looked();
        for row in engine
            .store()
            .waiting(
                &engine.shared().owned.partitions(),
                tenant.as_deref(),
                limit,
            )
            .await?
        {
            if !beginning.contains(&row.run) && suspects.suspended(row.run).is_none() {
                line.add(row, false);
            }
        }
        line.stale = false;
        engine.repair_beside();
        Ok(())
    }

    async fn park(&mut self, engine: &Engine) -> Result<(), Error> {
        if self.full.is_empty() {
            return Ok(());
        }
        engine.looked();
        engine.store().park(self.full.clone()).await?;
        self.full.clear();
        Ok(())
    }
}

/// Counts a run as being read for as long as it lives.
struct Loading(std::sync::Arc<crate::shared::Shared>);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.loading.fetch_sub(1, Ordering::AcqRel);
        self.0.bell.notify_one();
    }
}

impl Engine {
    fn looked(&self) {
        self.shared().looks.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a run that has its place, on a task of its own.
    fn begin_beside(&self, row: RunRow) {
        let engine = self.clone();
        self.shared().loading.fetch_add(1, Ordering::AcqRel);
        let loading = Loading(self.shared().clone());
        tokio::spawn(async move {
            engine.begin_admitted(&row).await;
            drop(loading);
        });
    }

    /// Begins a run that has its place, and waits until the driver has it.
    pub(crate) async fn begin_admitted(&self, row: &RunRow) -> bool {
        // Known to the driver by then: it counts as held.
        let acquired = self.begin_or_dead_letter(row).await && self.is_acquired(row.run).await;
        if !acquired {
            self.shared().gates.give_up(row.run);
        }
        acquired
    }

    async fn begin_or_dead_letter(&self, row: &RunRow) -> bool {
        match self.begin(row.run).await {
            Ok(()) => true,
            Err(error) if self.is_unreadable(&error) => {
                // What the store cannot take now stays in line.
                let dead_lettered = self.dead_letter_unreadable(row, &error).await;
                if dead_lettered.is_err() {
                    self.look_again(row);
                }
                false
            }
            // Its owner begins it.
            Err(LoadError::Unavailable(Unavailable::Elsewhere)) => false,
            Err(_) => {
                self.look_again(row);
                false
            }
        }
    }

    /// A run that could not begin is tried again after a while.
    fn look_again(&self, row: &RunRow) {
        let (shared, stop) = (self.shared().clone(), self.stop_token());
        let (tenant, priority) = (row.tenant.clone(), row.priority);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(AGAIN) => shared.arrived(tenant, priority),
            }
        });
    }
}
