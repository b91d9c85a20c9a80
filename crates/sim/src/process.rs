//! A process of a world: a shard, and what a driver does around it. Inputs go in, appends
//! and effects come out; the process dies, is replaced, or lives on as a zombie.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::event::{Hand, Queued, RULES};
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Dispatch, Outcome, Report};
use windlass_core::value::{Payload, Stored, ValueRef};
use windlass_core::{Digest, NodeStatus, RunId, RunStatus};
use windlass_orchestrator::{Begin, Command, Effect, Input, Shard, Start};
use windlass_store::{Append, AppendError, Appended, Claim, Error, WriterId, checksum};

use crate::faults::{Defect, Faults};
use crate::oracle::ProcessId;
use crate::worker;
use crate::workload::Wish;
use crate::world::{Event, Executing, World, Write};

/// The bound on a run's running nodes where its definition has none.
pub(crate) const MAX_PARALLEL: u32 = 6;

pub(crate) struct Process {
    pub(crate) shard: Shard,
    /// Appends that the store has not answered.
    in_flight: BTreeMap<RunId, u64>,
}

impl World {
    pub(crate) fn new_process(&mut self) {
        self.current += 1;
        let record_bytes = [400, 4_000, 512 * 1024][self.random.below(3) as usize];
        let options = windlass_orchestrator::Options {
            writer: WriterId(self.random.next()),
            max_parallel: MAX_PARALLEL,
            record_bytes,
            seed: self.random.next(),
            ..Default::default()
        };
        let process = Process {
            shard: Shard::new(options),
            in_flight: BTreeMap::new(),
        };
        self.processes.insert(self.current, process);
        let current = self.current;
        self.trace.say(self.now, || format!("p{current} begins"));
    }

    pub(crate) fn crash(&mut self) {
        self.die(self.current);
        self.new_process();
        let delay = self.random.below(200);
        self.after(delay, Event::Scan);
    }

    pub(crate) fn die(&mut self, id: ProcessId) {
        if self.processes.remove(&id).is_none() {
            return;
        }
        self.trace.say(self.now, || format!("p{id} dies"));
        self.counts.crashes += 1;
        self.oracle.died(id);
        self.executing
            .retain(|_, executing| executing.process != id);
        self.settle_writes(id);
        self.ask_again(id);
    }

    /// Whoever asked for a run and got no answer asks again.
    fn ask_again(&mut self, id: ProcessId) {
        let unanswered: Vec<RunId> = self
            .starting
            .iter()
            .filter(|&(_, &process)| process == id)
            .map(|(&run, _)| run)
            .collect();
        for run in unanswered {
            self.starting.remove(&run);
            let delay = self.random.below(500);
            self.after(delay, Event::Start(self.request_of[&run]));
        }
    }

    /// A new process owns the runs; the old one does not know for a while.
    pub(crate) fn take_over(&mut self, lives: u64) {
        self.after(lives, Event::Die(self.current));
        self.new_process();
        let delay = self.random.below(50);
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
            if id != self.current {
                self.die(id);
            }
        }
        self.after(0, Event::Scan);
    }

    /// The owner carries on what nobody does. A paused run may stay a row.
    pub(crate) fn scan(&mut self) {
        for run in self.store.unfinished() {
            if self.processes[&self.current].shard.holds(run) {
                continue;
            }
            let paused = self.oracle.history(run).and_then(|history| history.last());
            let paused = paused.is_some_and(|state| state.status() == RunStatus::Paused);
            if !(paused && self.random.chance(50)) {
                self.adopt(run, true);
            }
        }
    }

    fn adopt(&mut self, run: RunId, recover: bool) {
        let request = &self.requests[self.request_of[&run]];
        let plan = Arc::clone(&request.plan);
        match self.store.replay(run, Arc::clone(&plan)) {
            Ok((state, head)) => {
                self.trace
                    .say(self.now, || format!("adopt {run}, recover {recover}"));
                self.oracle.held(self.current, run, &plan, head.sequence);
                let state = Box::new(state);
                let input = Input::Adopt {
                    run: state,
                    head,
                    recover,
                };
                self.handle(self.current, input);
            }
            Err(reason) => self.oracle.judge(run, Err(reason)),
        }
    }

    pub(crate) fn start(&mut self, index: usize) {
        let request = self.requests[index].clone();
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.random.next().to_le_bytes());
        let run = RunId::new(self.now, bytes);
        self.request_of.insert(run, index);
        self.starting.insert(run, self.current);
        self.trace
            .say(self.now, || format!("start w{index} as {run}"));
        let trigger = Payload::new(request.trigger.as_str());
        let stored = trigger.stored();
        let is_blob = matches!(stored, Stored::Blob { .. });
        let claim = Claim {
            namespace: "request",
            key: format!("r{index}").into(),
            value: run.as_bytes().to_vec(),
        };
        let start = Start {
            run,
            plan: Arc::clone(&request.plan),
            queued: queued(index, stored),
            blobs: if is_blob { vec![trigger] } else { Vec::new() },
            claims: vec![claim],
            begin: request.begin,
        };
        self.oracle.held(self.current, run, &request.plan, 0);
        self.handle(self.current, Input::Start(Box::new(start)));
    }

    pub(crate) fn wish(&mut self, index: usize, wish: Wish) {
        let run = self
            .request_of
            .iter()
            .find(|&(&run, &of)| of == index && self.oracle.history(run).is_some())
            .map(|(&run, _)| run);
        if let Some(run) = run.filter(|_| !self.calm) {
            self.command(run, wish);
        }
    }

    /// Gives a command to the owner, which loads the run first if it must.
    pub(crate) fn command(&mut self, run: RunId, wish: Wish) {
        if !self.processes[&self.current].shard.holds(run) {
            let state = self.oracle.history(run).and_then(|history| history.last());
            let recover = match state.map(|state| state.status()) {
                Some(RunStatus::Paused) => self.random.chance(50),
                Some(RunStatus::Running) => true,
                _ => false,
            };
            self.adopt(run, recover);
        }
        self.next_command += 1;
        let id = self.next_command;
        let hand = Hand {
            by: Some(format!("c{id}").into()),
            reason: None,
        };
        let nodes = self.requests[self.request_of[&run]].plan.len() as u32;
        let command = match wish {
            Wish::Cancel => Command::Cancel(hand),
            Wish::Pause => Command::Pause(hand),
            Wish::Resume => Command::Resume(hand),
            Wish::ReattemptOne(node) => Command::Reattempt(vec![node % nodes], hand),
            Wish::ReattemptAll => Command::Reattempt(Vec::new(), hand),
        };
        self.trace
            .say(self.now, || format!("command {id} to {run}: {wish:?}"));
        self.oracle.commanded(self.current, run, id);
        self.handle(self.current, Input::Command { run, id, command });
    }

    pub(crate) fn handle(&mut self, id: ProcessId, input: Input) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.shard.handle(input, self.now);
        self.pump(id);
    }

    /// Does what the shard wants done. Appends are sometimes left for a moment, so that
    /// more is decided into one record.
    pub(crate) fn pump(&mut self, id: ProcessId) {
        let lingers = self.random.chance(15);
        if lingers {
            let delay = self.random.below(5);
            self.after(delay, Event::Poll(id));
        } else {
            self.poll_appends(id);
        }
        while let Some(process) = self.processes.get_mut(&id) {
            let Some(effect) = process.shard.poll_effect() else {
                break;
            };
            self.effect(id, effect);
        }
        if !lingers {
            self.show_quiet(id);
        }
    }

    fn poll_appends(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let batch = process.shard.poll_append();
        for append in batch {
            self.submit(id, append);
        }
    }

    /// A run with nothing in flight must look like the replay of its log.
    fn show_quiet(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        for &run in self.request_of.keys() {
            if let Some(state) = process.shard.run(run)
                && !process.in_flight.contains_key(&run)
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
        let slow = self.random.chance(self.faults.append_slow);
        let most = if slow { 3_000 } else { 4 };
        let (delay, answer) = (self.random.below(most), self.random.below(most));
        let mut write = Write {
            process: id,
            append,
            submitted: self.now,
            answer_after: Some(answer),
        };
        let unavailable = || Error::Unavailable("as drawn".to_owned());
        if self.random.chance(self.faults.append_fails) {
            let result = Box::new(Err(AppendError::Failed(unavailable())));
            self.after(delay, answer_to(id, run, append_id, result));
            return;
        }
        if self.random.chance(self.faults.append_unknown) {
            let result = Box::new(Err(AppendError::Unknown(unavailable())));
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
        if process.in_flight.get(&run) == Some(&append_id) {
            process.in_flight.remove(&run);
        }
        if let Ok(appended) = &result {
            self.oracle.answered(id, run, appended.head.sequence);
        }
        let input = Input::Appended {
            run,
            append_id,
            result,
        };
        self.handle(id, input);
    }

    fn effect(&mut self, id: ProcessId, effect: Effect) {
        if !matches!(effect, Effect::Progress { .. } | Effect::Dispatch(_)) {
            self.trace.say(self.now, || format!("p{id} {effect:?}"));
        }
        match effect {
            Effect::Dispatch(dispatch) => self.dispatch(id, &dispatch),
            Effect::Stop {
                give_up,
                run,
                node,
                attempt,
            } => self.stop(id, run, (node, attempt), give_up),
            Effect::Load { run, values } => self.load(id, run, &values),
            Effect::Accepted { run } => {
                self.starting.remove(&run);
                self.oracle.accepted(id, run);
                if self.requests[self.request_of[&run]].begin == Begin::Later {
                    let delay = self.random.below(300);
                    self.after(delay, Event::Scan);
                }
            }
            Effect::Held { run, value } => {
                self.starting.remove(&run);
                let holder = <[u8; 16]>::try_from(value).ok().map(RunId::from_bytes);
                self.oracle.refused_start(run, holder);
                self.oracle.let_go(id, run);
            }
            Effect::Answer { id, result } => self.oracle.command_answered(id, &result),
            Effect::Progress { .. } => {}
            Effect::Finished { run, status } => self.oracle.finished(id, run, status),
            Effect::Fenced { run } | Effect::Broken { run, .. } => self.lost(id, run),
        }
    }

    /// The process does not hold the run any more and cannot say what is durable.
    fn lost(&mut self, id: ProcessId, run: RunId) {
        self.oracle.let_go(id, run);
        let delay = self.random.below(300);
        if self.starting.remove(&run).is_some() {
            self.after(delay, Event::Start(self.request_of[&run]));
        }
        self.after(delay, Event::Scan);
    }

    fn dispatch(&mut self, id: ProcessId, dispatch: &Dispatch) {
        self.counts.dispatches += 1;
        self.trace.say(self.now, || {
            let (path, attempt) = (&dispatch.path, dispatch.attempt);
            format!("p{id} dispatch {} {path} #{attempt}", dispatch.run)
        });
        self.oracle.dispatched(id, dispatch, self.now);
        if self.defect == Some(Defect::DispatchTwice) {
            self.oracle.dispatched(id, dispatch, self.now);
        }
        let execution = worker::draw(&mut self.random, &self.faults.actions, dispatch);
        self.next_execution += 1;
        let number = self.next_execution;
        let executing = Executing {
            process: id,
            run: dispatch.run,
            node: dispatch.node,
            attempt: dispatch.attempt,
            started: self.now,
            outcome: execution.outcome,
            stops_after: execution.stops_after,
        };
        self.executing.insert(number, executing);
        let ends = Event::Ends {
            execution: number,
            stopped: false,
        };
        self.after(execution.takes, ends);
    }

    fn dispatch_early(&mut self, id: ProcessId, run: RunId) {
        let Some(state) = self.processes[&id].shard.run(run) else {
            return;
        };
        let queued = (0..state.plan().len() as NodeIndex)
            .find(|&node| state.node_status(node) == NodeStatus::Queued);
        if let Some(node) = queued {
            let dispatch = state.dispatch(node, self.now);
            self.oracle.dispatched(id, &dispatch, self.now);
        }
    }

    fn stop(&mut self, id: ProcessId, run: RunId, attempt: (NodeIndex, u32), give_up: bool) {
        self.oracle.stopped(id, run, attempt, give_up);
        let found = self.executing.iter().find(|(_, executing)| {
            executing.process == id
                && executing.run == run
                && (executing.node, executing.attempt) == attempt
        });
        let Some((&execution, executing)) = found else {
            return;
        };
        if let Some(delay) = executing.stops_after {
            let stopped = true;
            self.after(delay, Event::Ends { execution, stopped });
        }
    }

    pub(crate) fn execution_ends(&mut self, execution: u64, stopped: bool) {
        let Some(executing) = self.executing.remove(&execution) else {
            return;
        };
        let Executing {
            process,
            run,
            node,
            attempt,
            ..
        } = executing;
        let mut outcome = if stopped {
            worker::stopped()
        } else {
            executing.outcome
        };
        let digest = worker::digest(&outcome);
        self.oracle.executed(run, node, attempt, digest);
        if self.defect == Some(Defect::InventOutcome) && self.random.chance(20) {
            outcome = Outcome::Succeeded(Payload::new("\"invented\""));
        }
        let report = worker::report(&mut self.random, executing.started, self.now, outcome);
        if self.defect == Some(Defect::DropResults) && self.random.chance(30) {
            return;
        }
        if self.random.chance(self.faults.duplicates) {
            let delay = self.random.below(2_000);
            let report = Box::new(report.clone());
            let again = Event::Reported {
                process,
                run,
                node,
                attempt,
                report,
            };
            self.after(delay, again);
        }
        self.report(process, run, (node, attempt), Box::new(report));
    }

    pub(crate) fn report(
        &mut self,
        id: ProcessId,
        run: RunId,
        (node, attempt): (NodeIndex, u32),
        report: Box<Report>,
    ) {
        self.trace.say(self.now, || {
            format!(
                "p{id} report {run} node {node} #{attempt}: {:?}",
                report.outcome
            )
        });
        self.oracle.reported(id, run, node, attempt);
        let input = Input::Ended {
            run,
            node,
            attempt,
            report,
        };
        self.handle(id, input);
    }

    /// Only what is durable can be loaded.
    fn load(&mut self, process: ProcessId, run: RunId, wanted: &[ValueRef]) {
        let mut values = Vec::new();
        for value in wanted {
            match self.store.value(run, value) {
                Some(text) => values.push((value.digest, text)),
                None => {
                    let reason = format!("a load of {value:?}, which is not durable");
                    self.oracle.judge(run, Err(reason));
                }
            }
        }
        let delay = self.random.below(30);
        let loaded = Event::Loaded {
            process,
            run,
            values,
        };
        self.after(delay, loaded);
    }

    pub(crate) fn loaded(&mut self, id: ProcessId, run: RunId, values: Vec<(Digest, Arc<str>)>) {
        self.handle(id, Input::Loaded { run, values });
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

fn queued(index: usize, trigger: Stored) -> Queued {
    Queued {
        rules: RULES,
        workflow: format!("w{index}").into(),
        version: 1,
        definition: Digest([0; 32]),
        request_id: format!("r{index}").into(),
        tenant: None,
        correlation_id: format!("r{index}").into(),
        priority: 5,
        labels: BTreeMap::new(),
        trigger,
        vars: BTreeMap::new(),
        parent: None,
    }
}
