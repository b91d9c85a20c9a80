//! Runs under leases: nothing is appended or handed out for a partition that is not this
//! process's, and its runs are dropped when another process works on them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_orchestrator::{Effect, ShardInput};
use windlass_store::{Append, Error, GatePlace, Partition};

use super::{Driver, StartAnswer};
use crate::gates::Freed;
use crate::shared_gates::{count_begun, left_gate};

/// What the driver knows of partitions; nothing where it has its store to itself.
#[derive(Default)]
pub(super) struct Leased {
    /// The partitions of runs that came here.
    of_run: HashMap<RunId, Partition>,
    /// Appends that are not answered yet.
    in_flight: HashMap<Partition, usize>,
    /// Attempts and children that were to be started when the lease could not be relied on.
    withheld: VecDeque<Effect>,
    /// Partitions to be released once nothing of them is in flight.
    releasing: Vec<(Partition, oneshot::Sender<()>)>,
}

impl Driver {
    fn is_shared(&self) -> bool {
        self.shared.owned.is_shared()
    }

    /// Notes the partition of a run that comes here; `false` if that was handed over while
    /// the run was read.
    pub(super) fn note_partition(&mut self, input: &ShardInput) -> bool {
        if !self.is_shared() {
            return true;
        }
        let (run, queued) = match input {
            ShardInput::Start(start) => (start.run, &start.queued),
            ShardInput::Acquire { run, .. } => (run.id(), run.queued()),
            _ => return true,
        };
        let partition = Partition(queued.partition);
        if !self.shared.owned.holds(partition) {
            return false;
        }
        let of_run = &mut self.leased.of_run;
        of_run.insert(run, partition);
        if of_run.len() > 64 + 2 * (self.shard.len() + self.waits.len() + self.dormant.len()) {
            let (shard, waits, dormant) = (&self.shard, &self.waits, &self.dormant);
            let is_known = |run| shard.holds(run) || waits.contains_key(&run);
            of_run.retain(|run, _| is_known(*run) || dormant.contains(run));
        }
        true
    }

    /// Whether this process may act for a run now.
    pub(super) fn may_work(&self, run: RunId) -> bool {
        let partition = self.leased.of_run.get(&run);
        partition.is_none_or(|partition| self.shared.owned.may_work(*partition))
    }

    /// Whether a run is in a partition of this process.
    pub(super) fn holds_lease(&self, run: RunId) -> bool {
        let partition = self.leased.of_run.get(&run);
        partition.is_none_or(|partition| self.shared.owned.holds(*partition))
    }

    /// Records to append now, of runs that this process may append to.
    pub(super) fn poll_append(&mut self) -> Vec<Append> {
        if !self.is_shared() {
            return self.shard.poll_append();
        }
        let (of_run, owned) = (&self.leased.of_run, &self.shared.owned);
        let may_work = |run| {
            let partition = of_run.get(&run);
            partition.is_none_or(|partition| owned.may_work(*partition))
        };
        let batch = self.shard.poll_append_of(may_work);
        for append in &batch {
            if let Some(partition) = of_run.get(&append.run) {
                *self.leased.in_flight.entry(*partition).or_default() += 1;
            }
        }
        batch
    }

    /// An append was answered.
    pub(super) fn landed(&mut self, run: RunId) {
        let partition = self.leased.of_run.get(&run);
        if let Some(count) = partition.and_then(|it| self.leased.in_flight.get_mut(it)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Keeps an effect back that acts for a run which this process may not act for now.
    pub(super) fn withhold(&mut self, effect: Effect) -> Option<Effect> {
        let acts = matches!(effect, Effect::Dispatch(_) | Effect::Child { .. });
        match effect.run() {
            Some(run) if acts && !self.may_work(run) => {
                self.leased.withheld.push_back(effect);
                None
            }
            _ => Some(effect),
        }
    }

    /// What was kept back and may be done now.
    pub(super) fn let_through(&mut self) {
        for effect in std::mem::take(&mut self.leased.withheld) {
            if let Some(effect) = self.withhold(effect) {
                self.execute_effect(effect);
            }
        }
    }

    /// A partition is handed over: its runs are dropped once nothing of them is in flight.
    pub(super) fn release(&mut self, partition: Partition, reply: oneshot::Sender<()>) {
        self.leased.releasing.push((partition, reply));
        self.release_landed();
    }

    /// A run at a gate that several processes share has begun, or has left it.
    pub(super) fn went_elsewhere(&self, run: RunId, gate: Freed, (going, began): (bool, bool)) {
        let store = Arc::clone(&self.workers.store);
        match (going, self.leased.of_run.get(&run)) {
            (false, _) => left_gate(store, Arc::clone(&self.shared), gate),
            // A run that admission began has its place.
            (true, Some(&partition)) if !began => {
                let gate = gate.1;
                count_begun(
                    store,
                    GatePlace {
                        gate,
                        run,
                        partition,
                    },
                );
            }
            (true, _) => {}
        }
    }

    /// Drops the runs of partitions that are handed over and have nothing in flight.
    pub(super) fn release_landed(&mut self) {
        let in_flight = &self.leased.in_flight;
        let lands =
            |partition: &Partition| in_flight.get(partition).is_some_and(|count| *count > 0);
        let releasing = std::mem::take(&mut self.leased.releasing);
        let (waiting, landed) = releasing.into_iter().partition(|(it, _)| lands(it));
        self.leased.releasing = waiting;
        let landed: Vec<(Partition, oneshot::Sender<()>)> = landed;
        for (partition, reply) in landed {
            self.drop_runs(Some(partition));
            let _ = reply.send(());
        }
    }

    /// The lease is gone: every run is dropped, whatever is in flight.
    pub(super) fn forfeit(&mut self) {
        self.drop_runs(None);
        for (_, reply) in std::mem::take(&mut self.leased.releasing) {
            let _ = reply.send(());
        }
    }

    fn drop_runs(&mut self, partition: Option<Partition>) {
        let of_run = self.leased.of_run.iter();
        let is_meant = |it: Partition| partition.is_none_or(|partition| partition == it);
        let runs = of_run.filter(|(_, it)| is_meant(**it)).map(|(run, _)| *run);
        for run in runs.collect::<Vec<RunId>>() {
            self.drop_run(run);
        }
    }

    /// Another process works on the run, or will: nothing of it stays here.
    fn drop_run(&mut self, run: RunId) {
        let tasks = self.tasks.extract_if(|(of, _), _| *of == run);
        for (_, task) in tasks {
            task.stop.cancel();
            task.abort.abort();
        }
        if let Some(interrupt) = self.evaluations.remove(&run) {
            interrupt.interrupt();
        }
        self.shard.release(run);
        self.leased
            .withheld
            .retain(|effect| effect.run() != Some(run));
        self.leased.of_run.remove(&run);
        self.dormant.remove(&run);
        self.reloading.remove(&run);
        self.attempts.forget(run);
        self.forget_remote(run);
        self.shared.gates.give_up(run);
        self.drop_commands(run);
        let elsewhere = || Error::Unavailable("another process works on the run".to_owned());
        self.answer_start(run, StartAnswer::Broken(elsewhere()));
        self.answer_waits(run, &Ok(None));
    }
}
