//! Runs under leases: nothing is appended or handed out for a partition that is not this
//! process's, and its runs are dropped when another process works on them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::run::{Instance, Report};
use windlass_core::{NodeStatus, RunId};
use windlass_orchestrator::{Effect, ShardInput};
use windlass_store::{Append, Error, GatePlace, Partition, TenantGate, WorkKey};

use super::{Driver, StartAnswer, Task};
use crate::remote::{BegunAttempt, LeftBehind, key_of, leave_behind};
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
    /// How attempts of this process's own workers ended, until a record of it is durable.
    ends: HashMap<(RunId, Instance), (u32, Box<Report>)>,
    /// Attempts that go on here while another process has their run, and where their end is
    /// waited for.
    left_behind: HashMap<WorkKey, oneshot::Sender<Box<Report>>>,
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
        let Some(run) = effect.run().filter(|_| effect.acts()) else {
            return Some(effect);
        };
        let waits = |effect: &Effect| effect.run() == Some(run);
        if self.may_work(run) && !self.leased.withheld.iter().any(waits) {
            return Some(effect);
        }
        self.leased.withheld.push_back(effect);
        None
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
    pub(super) fn went_elsewhere(
        &self,
        run: RunId,
        gate: TenantGate,
        (going, began): (bool, bool),
    ) {
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
            let left = self.left_behind(partition);
            self.drop_runs(Some(partition));
            match left {
                Some(left) => {
                    let (workers, shared) = (Arc::clone(&self.workers), Arc::clone(&self.shared));
                    tokio::spawn(async move {
                        leave_behind(&workers, &shared, left).await;
                        let _ = reply.send(());
                    });
                }
                None => drop(reply.send(())),
            }
        }
    }

    /// What workers of this process have begun in a partition that is handed over: it continues.
    fn left_behind(&mut self, partition: Partition) -> Option<LeftBehind> {
        let session = self.shared.owned.session()?;
        let now = self.workers.options.clock.now();
        let (of_run, at_work) = (&self.leased.of_run, &self.workers.at_work);
        let is_meant = |run: &RunId| of_run.get(run) == Some(&partition);
        let since = |key: &(RunId, Instance), task: &Task| at_work.since(*key, task.attempt);
        let begun = self
            .tasks
            .extract_if(|key, task| is_meant(&key.0) && since(key, task).is_some());
        let awaited = &mut self.leased.left_behind;
        awaited.retain(|_, ended| !ended.is_closed());
        let begun = begun.map(|(key, task)| {
            let began = since(&key, &task).unwrap_or(now);
            let (sender, ended) = oneshot::channel();
            awaited.insert(key_of(&task.dispatch), sender);
            BegunAttempt {
                dispatch: task.dispatch,
                begun_ms: u64::try_from(now.0 - began.0).unwrap_or(0),
                stop: task.stop,
                abort: task.abort,
                ended,
            }
        });
        let begun = begun.collect();
        let ends = self.leased.ends.extract_if(|(run, _), _| is_meant(run));
        let ended = ends.map(|((run, instance), (attempt, report))| {
            let key = WorkKey {
                run,
                instance,
                attempt,
            };
            (key, report)
        });
        let left = LeftBehind {
            partition,
            session,
            begun,
            ended: ended.collect(),
        };
        (!left.is_empty()).then_some(left)
    }

    /// An input, unless it is the end of an attempt whose run another process has by now: that
    /// is offered to it.
    pub(super) fn not_handed_over(&mut self, input: ShardInput) -> Option<ShardInput> {
        let ShardInput::Ended {
            run,
            node,
            attempt,
            report,
        } = input
        else {
            return Some(input);
        };
        let key = WorkKey {
            run,
            instance: node,
            attempt,
        };
        let awaited = self.leased.left_behind.remove(&key);
        match awaited {
            Some(awaited) => {
                // Without a listener it was given up.
                let _ = awaited.send(report);
                None
            }
            None => Some(ShardInput::Ended {
                run,
                node,
                attempt,
                report,
            }),
        }
    }

    /// A worker of this process ended an attempt. Until that is durable, another process that
    /// gets the run has to be told.
    pub(super) fn note_own_end(&mut self, key: (RunId, Instance), attempt: u32, report: &Report) {
        let is_own = |task: &Task| task.attempt == attempt;
        if self.is_shared() && self.tasks.get(&key).is_some_and(is_own) {
            let end = (attempt, Box::new(report.clone()));
            self.leased.ends.insert(key, end);
        }
    }

    /// These changes are durable.
    pub(super) fn forget_durable_ends(&mut self, run: RunId, nodes: &[(Instance, NodeStatus)]) {
        if self.leased.ends.is_empty() {
            return;
        }
        for &(node, status) in nodes {
            if status == NodeStatus::Waiting || status.is_final() {
                self.leased.ends.remove(&(run, node));
            }
        }
    }

    /// The run is not here any more.
    pub(super) fn forget_ends(&mut self, run: RunId) {
        if !self.leased.ends.is_empty() {
            self.leased.ends.retain(|(of, _), _| *of != run);
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

    /// Ends what this process's own workers do for a run that is not executed here any more: a
    /// process that acquires it dispatches its open attempts again.
    pub(super) fn end_tasks(&mut self, run: RunId) {
        let tasks = self.tasks.extract_if(|(of, _), _| *of == run);
        for (_, task) in tasks {
            task.stop.cancel();
            task.abort.abort();
        }
    }

    /// Another process works on the run, or will: nothing of it stays here.
    pub(super) fn drop_run(&mut self, run: RunId) {
        self.end_tasks(run);
        if let Some(interrupt) = self.evaluations.remove(&run) {
            interrupt.interrupt();
        }
        self.shard.release(run);
        self.leased
            .withheld
            .retain(|effect| effect.run() != Some(run));
        self.leased.of_run.remove(&run);
        self.forget_ends(run);
        self.dormant.remove(&run);
        self.reloading.remove(&run);
        self.attempts.forget(run);
        self.workers.at_work.forget(run);
        self.forget_remote(run);
        self.shared.gates.lock().give_up(run);
        self.drop_commands(run);
        let elsewhere = || Error::Unavailable("another process works on the run".to_owned());
        self.answer_start(run, StartAnswer::Broken(elsewhere()));
        self.answer_waits(run, &Ok(None));
    }
}
