//! The rules of limits: never more at once than a limit allows, in the order that the semantics
//! give, and nothing held once everything has ended.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use windlass_core::event::{Event as RunEvent, Transition};
use windlass_core::run::Dispatch;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::gate_name;
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{Partition, Partitions, PoolKey, RunRow, SlotRequest, WorkKey};

use crate::oracle::ProcessId;
use crate::world::World;

impl World {
    /// Whether a run waits for its turn: a command does not begin it before that.
    pub(crate) fn waits_to_begin(&self, run: RunId) -> bool {
        let row = || self.store.row(run);
        self.has_limits() && row().is_some_and(|row| row.status == RunStatus::Pending)
    }

    /// A process begins to look at a partition.
    pub(crate) fn looks_from_now(&mut self, id: ProcessId, partition: Partition) {
        let now = self.now;
        if let Some(limits) = &mut self.limits {
            limits.looks_since.insert((id, partition), now);
        }
    }

    /// A process was stopped for a while.
    pub(crate) fn looks_again(&mut self, id: ProcessId) {
        let now = self.now;
        let looks = self.limits.iter_mut().flat_map(|it| &mut it.looks_since);
        looks
            .filter(|((owner, _), _)| *owner == id)
            .for_each(|(_, at)| *at = now);
    }

    /// A process does not look at a partition any more.
    pub(crate) fn looks_no_more(&mut self, id: ProcessId, partition: Partition) {
        if let Some(limits) = &mut self.limits {
            limits.looks_since.remove(&(id, partition));
        }
    }

    /// A run was requested that waits for its gate.
    pub(crate) fn waits_for_gate(&mut self, run: RunId) {
        if let Some(limits) = &mut self.limits {
            limits.waits.insert(run);
        }
    }

    /// A record is durable: a run that waited for its gate and begins is one of as many active ones
    /// as the limit allows. Those that never wait are not counted here: the limit is not theirs.
    pub(crate) fn follow_gates(&mut self, run: RunId, transition: &Transition) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        let ends = |event: &RunEvent| matches!(event, RunEvent::Finished(_));
        if transition.events.iter().any(ends) {
            // Opened again by hand, it waits no more.
            limits.waits.remove(&run);
            return;
        }
        let begins = |event: &RunEvent| matches!(event, RunEvent::Started {});
        if !transition.events.iter().any(begins) || !limits.waits.contains(&run) {
            return;
        }
        let state = |run: RunId| self.oracle.history(run).and_then(|history| history.last());
        let gate_of = |run: RunId| gate_name(state(run)?.queued());
        let Some(gate) = gate_of(run) else {
            return;
        };
        let is_active = |run: &RunId| {
            let status = state(*run).map(windlass_core::run::Run::status);
            matches!(status, Some(RunStatus::Running | RunStatus::Paused))
        };
        let at_gate = limits.waits.iter().filter(|it| is_active(it));
        let active = at_gate
            .filter(|it| gate_of(**it).as_ref() == Some(&gate))
            .count();
        let limit = state(run).and_then(|it| it.queued().gate.as_ref().map(|gate| gate.limit));
        let limit = limit.unwrap_or(0).max(1) as usize;
        if active > limit {
            let reason = format!("it is one of {active} at a gate with limit {limit}");
            self.oracle.record_verdict(run, Err(reason));
        }
    }

    /// A run that admission begins goes before others of its gate that the process has had in view
    /// for long enough to know them, whatever wake-up was lost.
    pub(super) fn goes_in_order(&mut self, id: ProcessId, row: &RunRow) {
        let (Some(limits), Some(_)) = (&self.limits, &row.gate) else {
            return;
        };
        let options = LeaseOptions::default();
        let around = i64::try_from(2 * options.sweep_ms + options.duration_ms).unwrap_or(0);
        let since = |at: windlass_core::Millis| self.now.0 - at.0 > around;
        let place = |row: &RunRow| (Reverse(row.priority), row.run);
        let is_earlier = |other: &RunRow| {
            other.gate == row.gate && place(other) < place(row) && since(other.created_at)
        };
        let is_in_view = |other: &RunRow| {
            let looks = limits.looks_since.get(&(id, other.partition));
            looks.is_some_and(|at| since(*at))
        };
        let places = self.store.places(&Partitions::All);
        let has_place = |other: &RunRow| places.iter().any(|it| it.place.run == other.run);
        let waiting = self
            .store
            .waiting_runs(&Partitions::All, row.tenant.as_deref(), usize::MAX);
        let gate = row.gate.as_deref().unwrap_or_default();
        let parked = self.store.parked(&Partitions::All, gate, usize::MAX);
        let mut others = waiting.into_iter().chain(parked);
        let passed = others.find(|it| is_earlier(it) && is_in_view(it) && !has_place(it));
        if let Some(other) = passed {
            let other = other.run;
            let reason = format!("it begins before {other}, which waits longer or is more urgent");
            self.oracle.record_verdict(row.run, Err(reason));
        }
    }

    /// A process wrote to a run. Others that handed out attempts of it have lost their leases, and
    /// their workers were stopped by that; what these report is refused. Their attempts use no
    /// slots any more: one that the process hands out again is its own.
    pub(crate) fn follow_owner(&mut self, id: ProcessId, run: RunId) {
        if let Some(limits) = &mut self.limits {
            limits
                .out
                .retain(|(owner, it), _| *owner == id || it.run != run);
        }
    }

    /// An attempt is handed out: it holds its slots, and all that workers have hold no more than
    /// there are.
    pub(crate) fn within_pool(&mut self, id: ProcessId, dispatch: &Dispatch) {
        let (Some(limits), Some(pool)) = (&mut self.limits, &dispatch.pool) else {
            return;
        };
        let key = WorkKey {
            run: dispatch.run,
            instance: dispatch.node,
            attempt: dispatch.attempt,
        };
        let name = PoolKey::new(dispatch.tenant.as_deref(), &pool.name);
        limits
            .out
            .insert((id, key), (name.clone(), pool.slots.max(1)));
        let is_open = |it: &WorkKey| {
            let state = self.oracle.history(it.run).and_then(|it| it.last());
            state.is_some_and(|state| state.is_open(it.instance, it.attempt))
        };
        let of_pool = limits.out.iter().filter(|(_, (it, _))| *it == name);
        let out: BTreeMap<WorkKey, u32> = of_pool
            .filter(|((_, it), _)| is_open(it))
            .map(|((_, it), (_, slots))| (*it, *slots))
            .collect();
        let used: u32 = out.values().sum();
        let size = limits.pools.get(&name).copied().unwrap_or(u32::MAX);
        let path = &dispatch.path;
        let verdict = match () {
            () if used > size => Err(format!("{path} makes {used} of {size} slots of a pool")),
            () if !self.store.attempt_holds(&name, key) => {
                Err(format!("{path} goes without its slots"))
            }
            () => Ok(()),
        };
        self.oracle.record_verdict(dispatch.run, verdict);
    }

    /// Slots were taken: no more than there are by the store's own count, and by no attempt that
    /// one before it in line waits behind. `held` are those that held theirs before.
    pub(super) fn taken_in_order(&mut self, asked: &[SlotRequest], held: &[WorkKey]) {
        let Some(limits) = &self.limits else {
            return;
        };
        let mut verdicts = Vec::new();
        for (pool, &size) in &limits.pools {
            let usage = self.store.pool_use(pool);
            if usage.used > u64::from(size) {
                let used = usage.used;
                let run = asked.first().map(|it| it.attempt.run);
                verdicts.push((run, format!("{used} slots of a pool with {size} are held")));
            }
            // Rank, priority and age, as the semantics give them.
            let place = |it: &SlotRequest| (it.rank, Reverse(it.priority), it.since);
            let first = usage.waiters.iter().filter(|it| it.slots <= size);
            let first = first.map(place).min();
            let is_new = |it: &&SlotRequest| {
                !held.contains(&it.attempt) && asked.iter().any(|a| a.attempt == it.attempt)
            };
            for granted in usage.holders.iter().filter(is_new) {
                if first.is_some_and(|first| first < place(granted)) {
                    let node = &granted.node;
                    let reason = format!("{node} has slots before one that is before it in line");
                    verdicts.push((Some(granted.attempt.run), reason));
                }
            }
        }
        for (run, reason) in verdicts {
            let run = run.unwrap_or(RunId::from_bytes([0; 16]));
            self.oracle.record_verdict(run, Err(reason));
        }
    }

    /// What is held in the end, for a reader.
    pub(crate) fn tell_held(&mut self) {
        if self.has_limits() {
            let store = &self.store;
            self.trace.say(self.now, || {
                let places = store.places(&Partitions::All);
                let slots = store.slots(&Partitions::All);
                format!("held in the end: {places:?} {slots:?}")
            });
        }
    }

    /// After everything nothing is held and nothing waits.
    pub(crate) fn nothing_is_held(&mut self) {
        if !self.has_limits() || self.violation.is_some() {
            return;
        }
        if let Some(held) = self.store.places(&Partitions::All).first() {
            let place = &held.place;
            let reason = format!("its place at {} is never freed", place.gate);
            self.oracle.record_verdict(place.run, Err(reason));
        }
        if let Some(held) = self.store.slots(&Partitions::All).first() {
            let reason = format!("slots of {} are never freed", held.node);
            self.oracle.record_verdict(held.attempt.run, Err(reason));
        }
    }
}
