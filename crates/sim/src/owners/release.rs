//! What a process does with runs that are not its own any more: those of a partition that it
//! hands over are dropped once nothing of them is in flight, those of a session that is over
//! at once. And what it may not do while its lease is in doubt: effects wait.

use windlass_core::RunId;
use windlass_orchestrator::Effect;
use windlass_orchestrator::supervisor::OwnershipInput;
use windlass_store::Partition;

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::world::World;

impl World {
    /// The effect, if it may be carried out now.
    pub(crate) fn under_lease(&mut self, id: ProcessId, effect: Effect) -> Option<Effect> {
        let now = self.now;
        let run = effect.run().filter(|_| effect.acts());
        let (Some(cluster), Some(run)) = (&mut self.cluster, run) else {
            return Some(effect);
        };
        let may = cluster.may_work(id, run, now);
        let Some(owner) = cluster.owners.get_mut(&id) else {
            return Some(effect);
        };
        let waits = owner.withheld.iter().any(|it| it.run() == Some(run));
        if may && !waits {
            return Some(effect);
        }
        owner.withheld.push_back(effect);
        None
    }

    /// Carries out what waited and may be done now, in order.
    pub(crate) fn let_through(&mut self, id: ProcessId) {
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        for effect in std::mem::take(&mut owner.withheld) {
            if let Some(effect) = self.under_lease(id, effect) {
                self.effect(id, effect);
            }
        }
    }

    /// The lease was renewed: what waited for it goes on.
    pub(super) fn release_withheld(&mut self, id: ProcessId) {
        self.pump(id);
        self.wake_due_of(id);
    }

    /// Hands a partition over: nothing more is appended, and what has nothing in flight goes.
    pub(super) fn release(&mut self, id: ProcessId, partition: Partition) {
        self.counts.hand_overs += 1;
        let defect = self.defect == Some(Defect::HandOverAppends);
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        if defect {
            owner.kept.insert(partition);
            return self.tell_owner(id, OwnershipInput::Released(partition));
        }
        owner.releasing.insert(partition);
        self.go_on_releasing(id);
    }

    /// Drops the runs of partitions that are handed over, as soon as they have nothing in
    /// flight; a partition without any is given.
    pub(crate) fn go_on_releasing(&mut self, id: ProcessId) {
        let cluster = self.cluster.as_ref();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get(&id)) else {
            return;
        };
        for partition in owner.releasing.clone() {
            let runs = self.runs_held(id, partition);
            let process = &self.processes[&id];
            let (waits, ready): (Vec<RunId>, Vec<RunId>) = runs
                .into_iter()
                .partition(|run| process.has_in_flight(*run));
            ready.into_iter().for_each(|run| self.drop_run(id, run));
            if waits.is_empty() {
                self.forget_partition(id, partition);
                self.tell_owner(id, OwnershipInput::Released(partition));
            }
        }
    }

    /// The time for releasing partitions is over.
    pub(super) fn drop_rest(&mut self, id: ProcessId, partitions: &[Partition]) {
        if self.defect == Some(Defect::HandOverAppends) {
            return;
        }
        for &partition in partitions {
            for run in self.runs_held(id, partition) {
                self.drop_run(id, run);
            }
            self.forget_partition(id, partition);
        }
    }

    fn runs_held(&self, id: ProcessId, partition: Partition) -> Vec<RunId> {
        let (Some(cluster), Some(process)) = (&self.cluster, self.processes.get(&id)) else {
            return Vec::new();
        };
        let known = self.oracle.runs_of(id).into_iter();
        let mut runs: Vec<RunId> = process.shard.runs().chain(known).collect();
        runs.sort_unstable();
        runs.dedup();
        runs.retain(|run| cluster.partition(*run) == partition);
        runs
    }

    /// What a process had still to do for a partition.
    fn forget_partition(&mut self, id: ProcessId, partition: Partition) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let of = |cluster: &super::Cluster, run: RunId| cluster.partition(run) == partition;
        self.lanes
            .retain(|&(owner, child), _| owner != id || !of(cluster, child));
        if let Some(process) = self.processes.get_mut(&id) {
            process.dormant.retain(|run| !of(cluster, *run));
        }
        if let Some(owner) = cluster.owners.get_mut(&id) {
            owner.releasing.remove(&partition);
        }
        self.looks_no_more(id, partition);
    }

    fn drop_run(&mut self, id: ProcessId, run: RunId) {
        self.trace.say(self.now, || format!("p{id} drops {run}"));
        if let Some(process) = self.processes.get_mut(&id) {
            process.drop_run(run);
        }
        self.counts.losses += 1;
        self.oracle.released(id, run);
        self.forget_limits_of(id, run);
        if let Some(owner) = self
            .cluster
            .as_mut()
            .and_then(|cluster| cluster.owners.get_mut(&id))
        {
            owner.withheld.retain(|effect| effect.run() != Some(run));
            owner.healed.retain(|(of, _)| *of != run);
        }
        self.ask_again_for(id, Some(run));
    }

    /// The session is over: everything is dropped at once, whatever is in flight.
    pub(super) fn forfeit(&mut self, id: ProcessId) {
        self.counts.forfeits += 1;
        for partition in 0..super::PARTITIONS {
            for run in self.runs_held(id, Partition(partition)) {
                self.drop_run(id, run);
            }
            self.forget_partition(id, Partition(partition));
        }
    }
}
