//! Several processes over one store: each holds a session and works on its share of the
//! partitions, as `Ownership` decides. They die, stop, or are paused past their lease and go
//! on; calls of the leases fail or lose their answers; wake-ups are lost, late and doubled.
//!
//! What a process may do is asked of `Ownership` alone; what the backend says of leases is
//! compared with it (`lease.rs`), and decides nothing here.

mod acquire;
mod commands;
mod ends;
mod faults;
mod lease;
mod pause;
mod release;
mod workload;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::{Millis, RunId};
use windlass_orchestrator::supervisor::{
    LeaseOptions, OfferStep, Ownership, OwnershipEffect, OwnershipInput, PartitionRecovery,
    partition_of,
};
use windlass_orchestrator::{Begin, CommandId, Effect};
use windlass_store::{Bell, MemoryStore, Partition, SessionId};

use crate::faults::Defect;
use crate::limits::LimitsEvent;
use crate::oracle::ProcessId;
use crate::random::Random;
use crate::world::{Event, World};

use commands::Commands;

pub(crate) use ends::differs;
pub(crate) use faults::OwnerFaults;
pub(crate) use workload::{limited_workload, workload};

/// How many partitions these worlds have.
pub(crate) const PARTITIONS: u32 = 8;

/// The processes of a world that share its store.
pub(crate) struct Cluster {
    leases: MemoryStore,
    /// What the leases' clock shows.
    clock: Arc<AtomicU64>,
    owners: BTreeMap<ProcessId, Owner>,
    /// The process that only takes requests.
    front: ProcessId,
    of_run: BTreeMap<RunId, Partition>,
    /// Which process began each session.
    sessions: BTreeMap<SessionId, ProcessId>,
    faults: OwnerFaults,
    /// When something last happened that leases and looks do not make by themselves.
    busy_at: Millis,
    /// Whether what actions do depends on nothing but the run and the node.
    pub(crate) determinate: bool,
    /// Processes do not stop by their own clock: a defect.
    pub(crate) ignores_lease: bool,
    /// Milliseconds that leases were spared, because nothing else happened in them.
    skipped: u64,
    /// Commands between processes.
    commands: Commands,
}

/// One of the processes.
struct Owner {
    machine: Ownership,
    born: Millis,
    /// How fast its own clock is, in thousandths.
    rate: u64,
    paused: bool,
    /// What reaches it once it goes on.
    deferred: Vec<Event>,
    /// Effects that came when the lease could not be relied on.
    withheld: VecDeque<Effect>,
    releasing: BTreeSet<Partition>,
    /// Handed over, and worked on all the same: a defect.
    kept: BTreeSet<Partition>,
    tick_at: Option<Millis>,
    due_at: Option<Millis>,
    /// Runs that got the command to follow a newer version.
    healed: BTreeSet<(RunId, u32)>,
}

/// What happens between processes.
#[derive(Debug)]
pub(crate) enum OwnersEvent {
    /// A deadline of a process's leases.
    Tick(ProcessId),
    /// A call reaches the backend.
    Call(ProcessId, OwnershipEffect),
    /// Its answer reaches the process.
    Answer(ProcessId, OwnershipInput),
    /// A process hears a bell.
    Rung(ProcessId, Bell),
    /// One step of the walk over a partition.
    Walk(ProcessId, PartitionRecovery),
    /// Sleeping runs of a process may be due.
    Due(ProcessId),
    /// A process begins.
    Join,
    /// The number picks a process that dies.
    Kill(u64),
    /// The number picks a process that stops in good order.
    Stop(u64),
    /// The number picks a process that is stopped for so long.
    Pause(u64, u64),
    /// It goes on.
    Resume(ProcessId),
    /// A caller at this process does the next step of its command for another process.
    Caller(ProcessId, CommandId, OfferStep),
    /// An owner takes an item out of the inbox that a run refused.
    Settle(ProcessId, RunId, Box<str>),
    /// What a process does about limits.
    Limits(ProcessId, LimitsEvent),
}

impl Owner {
    /// What its own clock shows.
    fn clock(&self, now: Millis) -> u64 {
        u64::try_from(now.0 - self.born.0).unwrap_or(0) * self.rate / 1_000
    }

    /// When its own clock will show this.
    fn moment(&self, at: u64) -> Millis {
        self.born.plus(at.saturating_mul(1_000).div_ceil(self.rate))
    }
}

impl Cluster {
    /// Draws what goes wrong between processes; with `undisturbed`, nothing does.
    pub(crate) fn draw(random: &mut Random, horizon: u64, undisturbed: bool) -> Self {
        let drawn = OwnerFaults::draw(random, horizon);
        let faults = match undisturbed {
            true => OwnerFaults::default(),
            false => drawn,
        };
        let (leases, clock) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        leases.set_partitions(PARTITIONS);
        let shown = Arc::clone(&clock);
        leases.set_lease_clock(move || shown.load(Ordering::Relaxed));
        Self {
            leases,
            clock,
            owners: BTreeMap::new(),
            front: 0,
            of_run: BTreeMap::new(),
            sessions: BTreeMap::new(),
            faults,
            busy_at: Millis::default(),
            determinate: false,
            ignores_lease: false,
            skipped: 0,
            commands: Commands::default(),
        }
    }

    fn partition(&self, run: RunId) -> Partition {
        let known = self.of_run.get(&run).copied();
        known.unwrap_or_else(|| partition_of(run, None, PARTITIONS))
    }

    /// Whether a process may append to a run, and carry out what follows, as it believes.
    pub(crate) fn may_work(&self, id: ProcessId, run: RunId, now: Millis) -> bool {
        let Some(owner) = self.owners.get(&id) else {
            return id == self.front;
        };
        let partition = self.partition(run);
        let ignored = self.ignores_lease && owner.machine.holds(partition);
        let kept = ignored || owner.kept.contains(&partition);
        kept || owner.machine.may_work(partition, owner.clock(now))
    }
}

impl World {
    /// The world's clock goes on.
    pub(crate) fn set_now(&mut self, now: Millis) {
        self.now = self.now.max(now);
        if let Some(cluster) = &self.cluster {
            let shown = u64::try_from(self.now.0).unwrap_or(0) - cluster.skipped;
            cluster.clock.store(shown, Ordering::Relaxed);
        }
    }

    /// Begins with so many processes, and plans what goes wrong.
    pub(crate) fn begin_owners(&mut self) {
        self.set_now(self.now);
        self.make_pools();
        self.new_process();
        let front = self.current;
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.front = front;
        cluster.busy_at = self.now;
        let faults = cluster.faults.clone();
        for _ in 0..faults.owners.max(1) {
            let delay = self.moment(faults.owners * 500 + 1);
            self.after(delay, Event::Owners(OwnersEvent::Join));
        }
        for &(at, pick) in &faults.kills {
            self.after(at, Event::Owners(OwnersEvent::Kill(pick)));
        }
        for &(at, pick) in &faults.stops {
            self.after(at, Event::Owners(OwnersEvent::Stop(pick)));
        }
        for &(at, pick, millis) in &faults.pauses {
            self.after(at, Event::Owners(OwnersEvent::Pause(pick, millis)));
        }
    }

    pub(crate) fn owners_event(&mut self, event: OwnersEvent) {
        match event {
            OwnersEvent::Tick(id) => self.lease_tick(id),
            OwnersEvent::Call(id, call) => self.lease_call(id, call),
            OwnersEvent::Answer(id, answer) => self.lease_answer(id, answer),
            OwnersEvent::Rung(id, bell) => self.heard(id, bell),
            OwnersEvent::Walk(id, walk) => self.walk(id, walk),
            OwnersEvent::Due(id) => self.wake_due_of(id),
            OwnersEvent::Join => self.owner_joins(),
            OwnersEvent::Kill(pick) => self.kill(pick),
            OwnersEvent::Stop(pick) => self.stop_cleanly(pick),
            OwnersEvent::Pause(pick, millis) => self.pause(pick, millis),
            OwnersEvent::Resume(id) => self.resume(id),
            OwnersEvent::Caller(id, number, step) => self.caller_step(id, number, step),
            OwnersEvent::Settle(id, run, item) => self.settle_item(id, run, item),
            OwnersEvent::Limits(id, event) => self.limits_event(id, event),
        }
    }

    fn owner_joins(&mut self) {
        self.new_process();
        let (id, now) = (self.current, self.now);
        let rate = self.random.between(950, 1_050);
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let owner = Owner {
            machine: Ownership::new(LeaseOptions::default()),
            born: now,
            rate,
            paused: false,
            deferred: Vec::new(),
            withheld: VecDeque::new(),
            releasing: BTreeSet::new(),
            kept: BTreeSet::new(),
            tick_at: None,
            due_at: None,
            healed: BTreeSet::new(),
        };
        cluster.owners.insert(id, owner);
        self.begin_admitting(id);
        self.tell_owner(id, OwnershipInput::Start);
    }

    /// Where a request for a new run is taken, and whether it begins there. A process that
    /// does not own the run appends its first record, and rings the owner.
    pub(crate) fn door(&mut self, run: RunId, begin: Begin) -> (ProcessId, Begin) {
        let Some(cluster) = &mut self.cluster else {
            return (self.current, begin);
        };
        cluster
            .of_run
            .insert(run, partition_of(run, None, PARTITIONS));
        let running = cluster.owners.iter().filter(|(_, owner)| !owner.paused);
        let running: Vec<ProcessId> = running.map(|(&id, _)| id).collect();
        let pick = self.random.below(running.len() as u64 + 1) as usize;
        match running.get(pick) {
            Some(&id) if cluster.may_work(id, run, self.now) => (id, begin),
            _ => (cluster.front, Begin::Later),
        }
    }

    /// The process that works on a run, and can be asked something.
    pub(crate) fn steward(&self, run: RunId) -> Option<ProcessId> {
        let Some(cluster) = &self.cluster else {
            return Some(self.current);
        };
        let mut owners = cluster.owners.iter().filter(|(_, owner)| !owner.paused);
        let found = owners.find(|&(&id, _)| cluster.may_work(id, run, self.now));
        found.map(|(&id, _)| id)
    }

    pub(crate) fn may_work(&self, id: ProcessId, run: RunId) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.may_work(id, run, self.now))
    }

    /// Whether a process holds the lease of a run, as it believes: then what another wrote
    /// is read again.
    pub(crate) fn holds_lease(&self, id: ProcessId, run: RunId) -> bool {
        match &self.cluster {
            None => id == self.current,
            Some(cluster) => {
                let owner = cluster.owners.get(&id);
                owner.is_some_and(|owner| owner.machine.holds(cluster.partition(run)))
            }
        }
    }

    /// Whether a process holds a partition, as it believes.
    pub(crate) fn holds_partition(&self, id: ProcessId, partition: Partition) -> bool {
        let cluster = self.cluster.as_ref();
        let owner = cluster.and_then(|cluster| cluster.owners.get(&id));
        owner.is_some_and(|owner| owner.machine.holds(partition))
    }

    /// The partition of a run.
    pub(crate) fn partition_of(&self, run: RunId) -> Partition {
        let cluster = self.cluster.as_ref();
        cluster.map_or(Partition(0), |cluster| cluster.partition(run))
    }

    /// The partition that a run's first record names, where it matters.
    pub(crate) fn recorded_partition(&self, run: RunId) -> u32 {
        match self.has_limits() {
            true => self.partition_of(run).0,
            false => 0,
        }
    }

    /// Percent of calls of the leases, and of places, that fail.
    pub(crate) fn lease_fails(&self) -> u64 {
        let cluster = self.cluster.as_ref();
        cluster.map_or(0, |cluster| cluster.faults.lease_fails)
    }

    /// A child is in its parent's partition.
    pub(crate) fn note_child(&mut self, parent: RunId, child: RunId) {
        if let Some(cluster) = &mut self.cluster {
            let partition = cluster.partition(parent);
            let partition = partition_of(child, Some(partition), PARTITIONS);
            cluster.of_run.insert(child, partition);
        }
    }

    /// Something happened that leases and looks do not make by themselves.
    pub(crate) fn busy(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.busy_at = self.now;
        }
    }

    /// Whether nothing but leases and looks has gone on for longer than a look takes to come
    /// round: nothing will happen by itself before the next planned moment.
    pub(crate) fn is_idle(&self) -> bool {
        let options = LeaseOptions::default();
        let around = i64::try_from(2 * options.sweep_ms + options.duration_ms).unwrap_or(i64::MAX);
        let idle = |cluster: &Cluster| self.calm && self.now.0 - cluster.busy_at.0 > around;
        self.cluster.as_deref().is_some_and(idle)
    }

    /// Leases stand still for so long: whatever runs wait for, leases would only be renewed.
    pub(crate) fn spare_leases(&mut self, millis: u64) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.skipped += millis;
        for owner in cluster.owners.values_mut() {
            owner.born = owner.born.plus(millis);
            owner.tick_at = owner.tick_at.map(|at| at.plus(millis));
        }
        self.delay_background(millis);
        self.set_now(self.now.plus(millis));
    }

    /// Runs of these worlds are in all partitions.
    pub(crate) fn vary_partition(&mut self, bytes: &mut [u8; 10]) {
        if self.cluster.is_some() {
            bytes[9] = self.random.below(256) as u8;
        }
    }

    /// Wakes every process, with what is drawn of loss, delay and doubling.
    pub(crate) fn ring(&mut self, bell: Bell) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let faults = cluster.faults.clone();
        let ids: Vec<ProcessId> = cluster.owners.keys().copied().collect();
        for id in ids {
            let times = match () {
                () if self.random.chance(faults.rings_lost) => 0,
                () if self.random.chance(faults.rings_doubled) => 2,
                () => 1,
            };
            self.counts.lost_rings += u64::from(times == 0);
            for _ in 0..times {
                let late = self.random.chance(faults.rings_late);
                let delay = self.moment(if late { 20_000 } else { 10 });
                self.after(delay, Event::Owners(OwnersEvent::Rung(id, bell)));
            }
        }
    }

    fn heard(&mut self, id: ProcessId, bell: Bell) {
        match bell {
            Bell::Sessions => self.tell_owner(id, OwnershipInput::Rung),
            Bell::Partition(partition) | Bell::Offered(partition, _) if self.has_limits() => {
                self.look_for_room(id, partition);
            }
            Bell::Partition(partition) | Bell::Offered(partition, _) => {
                self.begin_walk(id, partition);
            }
            Bell::Definitions => self.heal_own(id),
            Bell::Run(_) | Bell::Watch(..) | Bell::Work | Bell::Requests => {}
        }
    }

    /// A process accepted a run that it does not execute.
    pub(crate) fn ring_start(&mut self, id: ProcessId, run: RunId) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        if id == cluster.front {
            let partition = cluster.partition(run);
            self.ring(Bell::Partition(partition));
        }
    }

    /// Nothing goes wrong between processes any more.
    pub(crate) fn calm_owners(&mut self) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.faults = OwnerFaults::default();
        cluster.busy_at = self.now;
        let paused = cluster.owners.iter().filter(|(_, owner)| owner.paused);
        let paused: Vec<ProcessId> = paused.map(|(&id, _)| id).collect();
        for id in paused {
            self.after(0, Event::Owners(OwnersEvent::Resume(id)));
        }
        // However many have stopped: one more comes, and finds all the rest.
        self.after(0, Event::Owners(OwnersEvent::Join));
    }

    pub(crate) fn rests_on_wake_ups(&self) -> bool {
        self.defect == Some(Defect::RestOnWakeUps)
    }
}
