//! How a process finds the runs of its partitions: the walk of `PartitionRecovery` when it has
//! taken one, when a bell rings, and now and then by itself; and those that sleep, at their
//! time.

use windlass_core::event::After;
use windlass_core::{Millis, RunId};
use windlass_orchestrator::AcquireMode;
use windlass_orchestrator::supervisor::{PartitionRecovery, RECOVERY_PAGE, RecoveryStep};
use windlass_store::{Partition, Partitions};

use super::OwnersEvent;
use crate::oracle::ProcessId;
use crate::world::{Event, World};

impl World {
    /// Looks through a partition as one would that was taken from a process that stopped.
    pub(super) fn begin_walk(&mut self, id: ProcessId, partition: Partition) {
        self.plan_walk(id, partition, After::Stop);
    }

    pub(super) fn plan_walk(&mut self, id: ProcessId, partition: Partition, after: After) {
        let walk = PartitionRecovery::new(partition, after);
        let delay = self.moment(20);
        self.after(delay, Event::Owners(OwnersEvent::Walk(id, walk)));
    }

    /// One step; a process that has to wait for its lease waits.
    pub(super) fn walk(&mut self, id: ProcessId, mut walk: PartitionRecovery) {
        let partition = walk.partition();
        let cluster = self.cluster.as_ref();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get(&id)) else {
            return;
        };
        if !owner.machine.holds(partition) {
            return;
        }
        if !owner.machine.may_work(partition, owner.clock(self.now)) {
            return self.after(500, Event::Owners(OwnersEvent::Walk(id, walk)));
        }
        match walk.next_step() {
            RecoveryStep::ReadAwake(after) => {
                let runs: Vec<RunId> = self.recovered_runs(partition);
                let rest = runs
                    .into_iter()
                    .filter(|run| after.is_none_or(|after| *run > after));
                let page: Vec<RunId> = rest.take(RECOVERY_PAGE).collect();
                walk.page_read(&page);
            }
            RecoveryStep::Acquire(run, after) => {
                let process = &self.processes[&id];
                let has = process.shard.is_acquired(run) || process.dormant.contains(&run);
                if !has {
                    self.acquire(id, run, AcquireMode::Recover(after));
                }
            }
            RecoveryStep::ReadOffered(after) => {
                let only = Partitions::Only([partition].into());
                let mut page = self.store.offered(&only, after);
                page.truncate(RECOVERY_PAGE);
                walk.page_read(&page);
            }
            RecoveryStep::Consume(run) => self.consume_items(id, run),
            RecoveryStep::Done => {
                self.audit(id, partition);
                return self.wake_due_of(id);
            }
        }
        let delay = self.moment(5);
        self.after(delay, Event::Owners(OwnersEvent::Walk(id, walk)));
    }

    /// What is acquired at once: where admission begins runs, those that have begun.
    fn recovered_runs(&self, partition: Partition) -> Vec<RunId> {
        if self.has_limits() {
            let only = Partitions::Only([partition].into());
            let begun = self.store.begun(&only).into_iter();
            return begun.map(|row| row.run).collect();
        }
        self.runs_of(self.store.awake(), partition).collect()
    }

    /// A bell rang for a partition: something came, or there is room.
    pub(super) fn look_for_room(&mut self, id: ProcessId, partition: Partition) {
        if !self.holds_partition(id, partition) {
            return;
        }
        self.look_at_waiting(id);
        self.look_at_pools_of(id);
        let walk = PartitionRecovery::of_inbox(partition);
        let delay = self.moment(20);
        self.after(delay, Event::Owners(OwnersEvent::Walk(id, walk)));
    }

    fn runs_of(&self, runs: Vec<RunId>, partition: Partition) -> impl Iterator<Item = RunId> {
        let cluster = self.cluster.as_ref();
        runs.into_iter()
            .filter(move |run| cluster.is_some_and(|it| it.partition(*run) == partition))
    }

    /// What sleeps in the partitions of a process is looked at now.
    pub(super) fn wake_due_of(&mut self, id: ProcessId) {
        let now = self.now;
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        if owner.due_at.is_some_and(|at| at <= now) {
            owner.due_at = None;
        }
        if let Some(process) = self.processes.get_mut(&id) {
            process.waker.asleep(now);
        }
        self.wake_due(id);
    }

    /// A process looks at what sleeps at this moment, unless it does so before.
    pub(crate) fn plan_due_of(&mut self, id: ProcessId, at: Millis) {
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        if owner.due_at.is_none_or(|planned| at < planned) {
            owner.due_at = Some(at);
            let delay = self.until(at);
            self.after(delay, Event::Owners(OwnersEvent::Due(id)));
        }
    }

    /// Tells the runs of a process that follow a newer version of it, each once.
    pub(super) fn heal_own(&mut self, id: ProcessId) {
        for run in self.store.unfinished() {
            let state = self.oracle.history(run).and_then(|history| history.last());
            let Some(state) = state.filter(|state| state.can_heal()) else {
                continue;
            };
            let (workflow, version) = (state.queued().workflow.clone(), state.version());
            let newest = self.published.get(&workflow).copied().unwrap_or(0);
            if version >= newest || !self.may_work(id, run) {
                continue;
            }
            let cluster = self.cluster.as_mut();
            let owner = cluster.and_then(|cluster| cluster.owners.get_mut(&id));
            if owner.is_some_and(|owner| owner.healed.insert((run, newest))) {
                self.acquire(id, run, AcquireMode::ForCommand);
                self.heal(id, run, &workflow, newest);
            }
        }
    }
}
