//! A process of a world: a shard, and what a driver does around it. It dies, is replaced,
//! or lives on as a zombie; its appends go to the store, which answers late, with errors or not
//! at all.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::RunId;
use windlass_core::run::Interrupt;
use windlass_orchestrator::supervisor::Waker;
use windlass_orchestrator::{Labels, Shard, ShardInput};
use windlass_store::{Append, AppendError, Appended, Error, Head, WriterId, checksum};

use crate::faults::{Defect, Faults};
use crate::oracle::ProcessId;
use crate::world::{Event, World, Write};

/// The bound on a run's running nodes where its definition has none.
pub(crate) const MAX_PARALLEL: u32 = 6;

pub(crate) struct Process {
    pub(crate) shard: Shard,
    /// Appends that the store has not answered.
    in_flight: BTreeMap<RunId, u64>,
    /// Runs that wait for a child and are not in memory.
    pub(crate) dormant: BTreeSet<RunId>,
    /// Evaluations that are on their way.
    pub(crate) evaluations: BTreeMap<RunId, Interrupt>,
    /// Its writer id in the records that it writes.
    pub(crate) writer: WriterId,
    /// When it wakes what sleeps.
    pub(crate) waker: Waker,
}

impl World {
    pub(crate) fn new_process(&mut self) {
        self.current += 1;
        let record_bytes = [400, 4_000, 512 * 1024][self.random.below(3) as usize];
        let writer = WriterId(self.random.number());
        let options = windlass_orchestrator::Options {
            writer,
            max_parallel: MAX_PARALLEL,
            record_bytes,
            labels: Labels::All,
            shared_gates: self.has_limits(),
            // Every other process has its decisions evaluated elsewhere, wherever it can.
            inline_steps: if writer.0.is_multiple_of(2) { 0 } else { 5_000 },
            seed: self.random.number(),
            ..Default::default()
        };
        let process = Process {
            shard: Shard::new(options),
            in_flight: BTreeMap::new(),
            dormant: BTreeSet::new(),
            evaluations: BTreeMap::new(),
            writer,
            waker: Waker::default(),
        };
        self.processes.insert(self.current, process);
        let current = self.current;
        self.trace.say(self.now, || format!("p{current} begins"));
    }

    pub(crate) fn crash(&mut self) {
        self.die(self.current);
        self.new_process();
        let delay = self.moment(200);
        self.after(delay, Event::Scan);
    }

    pub(crate) fn die(&mut self, id: ProcessId) {
        if self.processes.remove(&id).is_none() {
            return;
        }
        self.trace.say(self.now, || format!("p{id} dies"));
        self.counts.losses += 1;
        self.counts.crashes += 1;
        self.oracle.died(id);
        self.hang_up(id);
        self.forget_admitting(id);
        self.executing
            .retain(|_, executing| executing.process != id);
        self.lanes.retain(|&(owner, _), _| owner != id);
        self.settle_writes(id);
        self.ask_again(id);
        for (run, name, payload) in std::mem::take(&mut self.unanswered).into_values() {
            self.after(0, Event::Signal(run, name, payload));
        }
    }

    /// Users that asked for a run and got no answer ask again.
    fn ask_again(&mut self, id: ProcessId) {
        self.ask_again_for(id, None);
    }

    /// The same for one run, or all of a process.
    pub(crate) fn ask_again_for(&mut self, id: ProcessId, only: Option<RunId>) {
        let unanswered: Vec<RunId> = self
            .starting
            .iter()
            .filter(|&(run, &process)| process == id && only.is_none_or(|only| only == *run))
            .map(|(&run, _)| run)
            .collect();
        for run in unanswered {
            self.starting.remove(&run);
            let delay = self.moment(500);
            self.after(delay, Event::Start(self.request_of[&run]));
        }
    }

    /// A new process owns the runs; the old one does not know for a while.
    pub(crate) fn start_successor(&mut self, lives: u64) {
        self.after(lives, Event::Die(self.current));
        self.new_process();
        let delay = self.moment(50);
        self.after(delay, Event::Scan);
    }

    pub(crate) fn be_calm(&mut self) {
        self.trace.say(self.now, || "calm".into());
        self.calm = true;
        self.faults = Faults {
            actions: self.faults.actions.clone(),
            ..Faults::default()
        };
        let zombies: Vec<ProcessId> = self.processes.keys().copied().collect();
        for id in zombies {
            if id != self.current && self.cluster.is_none() {
                self.die(id);
            }
        }
        self.calm_owners();
        self.after(0, Event::Scan);
    }

    pub(crate) fn handle(&mut self, id: ProcessId, input: ShardInput) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.shard.handle(input, self.now);
        self.pump(id);
    }

    /// Carries out the shard's effects. Appends are sometimes left for a moment, so that more
    /// decisions go into one record.
    pub(crate) fn pump(&mut self, id: ProcessId) {
        let lingers = !self.exact && self.random.chance(15);
        if lingers {
            let delay = self.random.below(5);
            self.after(delay, Event::Poll(id));
        } else {
            self.poll_appends(id);
        }
        self.let_through(id);
        while let Some(process) = self.processes.get_mut(&id) {
            let Some(effect) = process.shard.poll_effect() else {
                break;
            };
            if let Some(effect) = self.under_lease(id, effect) {
                self.effect(id, effect);
            }
        }
        if !lingers {
            self.show_quiet(id);
        }
    }

    fn poll_appends(&mut self, id: ProcessId) {
        let batch = self.appends_of(id);
        for append in batch {
            self.check_lease(id, append.run, "appends to a run");
            self.submit(id, append);
        }
    }

    /// A run with nothing in flight must look like the replay of its log.
    fn show_quiet(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        if self.exact {
            return;
        }
        for run in self.oracle.runs_of(id) {
            if let Some(state) = process.shard.run(run)
                && !process.in_flight.contains_key(&run)
                && self.may_work(id, run)
            {
                self.oracle.quiet(id, state);
            }
        }
    }

    fn submit(&mut self, id: ProcessId, append: Append) {
        let (run, append_id) = (append.run, append.append_id);
        if self.defect == Some(Defect::DispatchBeforeDurable) {
            self.dispatch_early(id, run);
        }
        if let Some(process) = self.processes.get_mut(&id) {
            process.in_flight.insert(run, append_id);
        }
        self.submitted += 1;
        let slow = self.random.chance(self.faults.append_slow);
        let most = if slow { 3_000 } else { 4 };
        let (delay, answer) = (self.moment(most), self.moment(most));
        let mut write = Write {
            process: id,
            append,
            submitted: self.now,
            tenure: self.oracle.tenure(id, run),
            number: self.submitted,
            answer_after: Some(answer),
        };
        let unavailable = || Error::Unavailable("as drawn".to_owned());
        if self.random.chance(self.faults.append_fails) {
            let result = Box::new(Err(AppendError::Failed(unavailable())));
            self.after(delay, answer_to(id, run, append_id, result));
            return;
        }
        if self.random.chance(self.faults.append_unknown) {
            let unknown = AppendError::Unknown {
                error: unavailable(),
                append: Some(Box::new(write.append.clone())),
            };
            let result = Box::new(Err(match self.defect {
                Some(Defect::LateCommitDenied) => {
                    self.oracle.denied(write.number);
                    AppendError::Failed(unavailable())
                }
                _ => unknown,
            }));
            self.after(answer, answer_to(id, run, append_id, result));
            write.answer_after = None;
            if self.random.chance(30) {
                return;
            }
        } else if self.defect == Some(Defect::AnswerBeforeDurable) {
            let head = checksum::next_head(&write.append);
            let result = Box::new(Ok(Appended { head }));
            self.after(0, answer_to(id, run, append_id, result));
            write.answer_after = None;
        }
        self.after(delay, Event::Durable(Box::new(write)));
    }

    pub(crate) fn answer(
        &mut self,
        id: ProcessId,
        run: RunId,
        append_id: u64,
        result: Result<Appended, AppendError>,
    ) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        // What the shard made of it is ahead of the log until the head tells.
        let unknown = matches!(result, Err(AppendError::Unknown { .. }));
        let awaited = process.in_flight.get(&run) == Some(&append_id);
        if awaited && !unknown {
            process.in_flight.remove(&run);
        }
        // A run that was dropped, and maybe acquired again, has nothing to do with it.
        let dropped = self.cluster.is_some() && !awaited;
        if result.is_ok() {
            self.release_owed(run);
        }
        match &result {
            _ if dropped => {}
            Ok(appended) => self.oracle.answered(id, run, appended.head.sequence),
            Err(AppendError::Conflict(found)) if found.append_id == append_id => {
                self.found_mine(id, run, *found);
            }
            Err(_) => {}
        }
        let input = ShardInput::Appended {
            run,
            append_id,
            result,
        };
        self.handle(id, input);
        self.go_on_releasing(id);
    }
}

impl Process {
    pub(crate) fn has_in_flight(&self, run: RunId) -> bool {
        self.in_flight.contains_key(&run)
    }

    /// Drops a run with all that is known of it.
    pub(crate) fn drop_run(&mut self, run: RunId) {
        self.shard.release(run);
        self.in_flight.remove(&run);
        self.dormant.remove(&run);
        self.evaluations.remove(&run);
    }
}

impl World {
    /// What may be appended now: where several processes share the store, only under a lease.
    fn appends_of(&mut self, id: ProcessId) -> Vec<Append> {
        let (cluster, now) = (&self.cluster, self.now);
        let Some(process) = self.processes.get_mut(&id) else {
            return Vec::new();
        };
        match cluster {
            None => process.shard.poll_append(),
            Some(cluster) => process
                .shard
                .poll_append_of(|run| cluster.may_work(id, run, now)),
        }
    }

    /// A process asks where a run's log ends; the answer is as old as its way is long.
    pub(crate) fn read_head(&mut self, id: ProcessId, run: RunId) {
        self.counts.doubts += 1;
        let fails = self.random.chance(self.faults.append_fails);
        let result = match fails {
            true => Err(Error::Unavailable("as drawn".to_owned())),
            false => Ok(self.store.head(run)),
        };
        let delay = self.moment(30);
        self.after(delay, Event::HeadRead(id, run, result));
    }

    pub(crate) fn head_read(&mut self, id: ProcessId, run: RunId, result: Result<Head, Error>) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        match &result {
            Ok(found) if process.in_flight.get(&run) == Some(&found.append_id) => {
                self.found_mine(id, run, *found);
            }
            Ok(_) => {}
            Err(_) => drop(process.in_flight.remove(&run)),
        }
        self.handle(id, ShardInput::HeadRead { run, result });
    }

    /// A record that a process has in flight turns out to be durable.
    fn found_mine(&mut self, id: ProcessId, run: RunId, found: Head) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        // What it knows of the head may be outdated by now; its own write is certain.
        let record = self.store.record(run, found.sequence);
        if record.is_some_and(|record| record.writer == process.writer) {
            process.in_flight.remove(&run);
            self.oracle.answered(id, run, found.sequence);
        }
    }
}

fn answer_to(
    process: ProcessId,
    run: RunId,
    append_id: u64,
    result: Box<Result<Appended, AppendError>>,
) -> Event {
    Event::Answer {
        process,
        run,
        append_id,
        result,
    }
}
