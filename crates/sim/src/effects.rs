//! Carries out a shard's effects in a simulated way: workers execute, values load, and the
//! oracle hears of everything that can be observed from outside.

use std::sync::Arc;

use windlass_core::plan::NodeIndex;
use windlass_core::run::{Dispatch, Interrupt, Outcome, Refusal, Report, ValueSource};
use windlass_core::value::{Payload, ValueRef};
use windlass_core::{Digest, Millis, NodeStatus, RunId};
use windlass_orchestrator::supervisor::{AfterFence, ChildAnswer, ChildPlace, ChildWork};
use windlass_orchestrator::{Begin, CommandId, Effect, Evaluation, Pass, ShardInput, may_answer};
use windlass_store::WorkKey;

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::worker;
use crate::world::{Event, Executing, World};

impl World {
    pub(crate) fn effect(&mut self, id: ProcessId, effect: Effect) {
        let quiet = matches!(
            effect,
            Effect::Progress { .. } | Effect::Dispatch(_) | Effect::Began { .. }
        );
        if !quiet {
            self.trace.say(self.now, || format!("p{id} {effect:?}"));
        }
        let fenced = matches!(effect, Effect::Fenced { .. });
        match effect {
            Effect::Dispatch(dispatch) => self.dispatch(id, &dispatch),
            Effect::Stop {
                give_up,
                run,
                node,
                attempt,
            } => self.stop(id, run, (node, attempt), give_up),
            Effect::TakeSlots(requests) => self.take_slots(id, requests),
            Effect::GiveSlots(given) => self.give_slots(id, &given),
            Effect::SlotsFreed(pool) => self.slots_freed(id, pool),
            Effect::Load { run, values } => self.load(id, run, &values),
            Effect::Evaluate(evaluation) => self.evaluate(id, evaluation),
            Effect::Interrupt { run } => {
                let process = self.processes.get(&id);
                if let Some(interrupt) = process.and_then(|it| it.evaluations.get(&run)) {
                    interrupt.interrupt();
                }
            }
            Effect::Accepted { run } => self.accepted(id, run),
            Effect::Held { run, value } => {
                self.starting.remove(&run);
                let holder = <[u8; 16]>::try_from(value).ok().map(RunId::from_bytes);
                self.oracle.refused_start(run, holder);
                self.oracle.released(id, run);
            }
            Effect::Answer {
                run,
                id: number,
                result,
            } => self.command_answered(id, run, number, &result),
            Effect::Progress { .. } | Effect::Began { .. } => {}
            Effect::ActiveChanged {
                run,
                tenant,
                gate,
                going,
                ..
            } => self.active_changed(id, run, gate.map(|gate| (tenant, gate)), going),
            Effect::Finished {
                run,
                status,
                parent,
                ..
            } => {
                self.oracle.finished(id, run, status);
                self.forget_limits_of(id, run);
                if let Some(parent) = parent {
                    self.hand_job(id, run, ChildWork::Ended(parent));
                }
            }
            Effect::Asleep {
                run,
                wake_at,
                for_child,
            } => self.asleep(id, run, wake_at, for_child),
            Effect::Child {
                run,
                node,
                attempt,
                child,
                command,
            } => {
                let place = ChildPlace { run, node, attempt };
                self.hand_job(id, child, ChildWork::Command(place, command));
            }
            Effect::WakeParent { run } => {
                let delay = self.moment(5);
                self.after(delay, Event::WakeParent(id, run));
            }
            Effect::Checkpoint { .. } => {}
            Effect::ReadHead { run } => self.read_head(id, run),
            Effect::Quarantined { run, found, .. } => {
                let reason = format!("the store lost what it had acknowledged: {found:?}");
                self.oracle.record_verdict(run, Err(reason));
            }
            Effect::Fenced { run, parent } | Effect::Broken { run, parent, .. } => {
                if fenced && AfterFence::of(self.holds_lease(id, run)) == AfterFence::Reload {
                    self.counts.reloads += 1;
                    let delay = self.moment(20);
                    self.after(delay, Event::Reload(id, run));
                }
                self.lost(id, run);
                if let Some(parent) = parent {
                    self.hand_job(id, run, ChildWork::Ended(parent));
                }
            }
        }
    }

    /// A run has answered a command; what its process may not tell, the next owner decides.
    fn command_answered(
        &mut self,
        id: ProcessId,
        run: RunId,
        number: CommandId,
        result: &Result<(), Refusal>,
    ) {
        if !may_answer(result, self.may_work(id, run)) {
            self.oracle.gave_up(number);
            return self.parent_command(id, number, ChildAnswer::Lost);
        }
        self.item_answered(id, number, result);
        self.oracle.command_answered(number, result);
        self.unanswered.remove(&number);
        let answer = match result {
            Ok(()) => ChildAnswer::Accepted,
            Err(_) => ChildAnswer::Refused,
        };
        self.parent_command(id, number, answer);
    }

    fn accepted(&mut self, id: ProcessId, run: RunId) {
        self.starting.remove(&run);
        self.oracle.accepted(id, run);
        self.ring_start(id, run);
        self.child_answered(id, run, false);
        if self.waits_to_begin(run) && self.may_work(id, run) {
            self.arrived(id, run);
        }
        let request = self.request_of.get(&run);
        let later = |&request: &usize| self.requests[request].begin == Begin::Later;
        if request.is_some_and(later) {
            let delay = self.moment(300);
            self.after(delay, Event::Scan);
        }
    }

    /// Slots are free: every process may ask for its first.
    pub(crate) fn look_at_pools(&mut self) {
        let delay = self.moment(5);
        self.after(delay, Event::LookAtPools);
    }

    pub(crate) fn slots_answered(&mut self, id: ProcessId, answers: Vec<(WorkKey, bool)>) {
        for (key, granted) in answers {
            let (run, node, attempt) = (key.run, key.instance, key.attempt);
            let answer = ShardInput::SlotsAnswered {
                run,
                node,
                attempt,
                granted,
            };
            self.handle(id, answer);
        }
    }

    pub(crate) fn ask_pools(&mut self) {
        let ids: Vec<ProcessId> = self.processes.keys().copied().collect();
        for id in ids {
            if let Some(process) = self.processes.get_mut(&id) {
                process.shard.look_at_pools();
            }
            self.pump(id);
        }
    }

    /// The run is a row now; it is woken at its time, or by its child.
    fn asleep(&mut self, id: ProcessId, run: RunId, wake_at: Option<Millis>, for_child: bool) {
        self.counts.sleeps += 1;
        self.oracle.asleep(id, run, wake_at);
        if let Some(process) = self.processes.get_mut(&id).filter(|_| for_child) {
            process.dormant.insert(run);
        }
        if let Some(at) = wake_at.filter(|_| self.defect != Some(Defect::LoseWake)) {
            self.wake_at(id, at);
        }
    }

    /// The process has released the run and cannot say what is durable.
    fn lost(&mut self, id: ProcessId, run: RunId) {
        self.counts.losses += 1;
        self.oracle.released(id, run);
        self.forget_limits_of(id, run);
        self.lanes_lost(id, run);
        // A run that waits for it may have missed its end.
        if let Some(process) = self.processes.get_mut(&id) {
            process.dormant.clear();
        }
        let delay = self.moment(300);
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
        self.check_lease(id, dispatch.run, "hands out an attempt");
        self.oracle.dispatched(id, dispatch, self.now);
        self.within_pool(id, dispatch);
        if self.defect == Some(Defect::DispatchTwice) {
            self.oracle.dispatched(id, dispatch, self.now);
        }
        self.can_render(dispatch);
        if self.defect == Some(Defect::UndoEarly) && dispatch.undo {
            self.undo_early(id, dispatch);
        }
        let execution = match self.script.clone() {
            Some(script) => {
                let path = self.scripted_path(dispatch.run, &dispatch.path);
                script.play(&mut self.random, &path, dispatch, &self.store)
            }
            None => match self.fate(dispatch) {
                Some(mut fate) => worker::draw(&mut fate, &self.faults.actions, dispatch),
                None => worker::draw(&mut self.random, &self.faults.actions, dispatch),
            },
        };
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
            parameters: execution.parameters,
        };
        self.executing.insert(number, executing);
        let ends = Event::Ends {
            execution: number,
            stopped: false,
        };
        self.after(execution.takes, ends);
    }

    /// A worker finds everything that the parameters name.
    fn can_render(&mut self, dispatch: &Dispatch) {
        for source in &dispatch.sources {
            let wanted: Vec<ValueRef> = match source {
                ValueSource::Stored(value)
                | ValueSource::Error { value, .. }
                | ValueSource::Item(value, _) => {
                    vec![*value]
                }
                ValueSource::Vars(vars) => {
                    vars.iter().filter_map(|(_, held)| held.blob()).collect()
                }
                ValueSource::Undefined | ValueSource::Text(_) | ValueSource::Secret(_) => {
                    Vec::new()
                }
            };
            for value in wanted {
                if self.store.value(dispatch.run, &value).is_none() {
                    let path = &dispatch.path;
                    let reason = format!("{path} needs {value:?}, which is not durable");
                    self.oracle.record_verdict(dispatch.run, Err(reason));
                }
            }
        }
    }

    /// Hands out what is undone next, before it is its turn.
    fn undo_early(&mut self, id: ProcessId, dispatch: &Dispatch) {
        let Some(state) = self.processes[&id].shard.run(dispatch.run) else {
            return;
        };
        let next = dispatch.node + 1;
        if state.undone(next).is_some() {
            let dispatch = state.dispatch(next, self.now);
            self.oracle.dispatched(id, &dispatch, self.now);
        }
    }

    pub(crate) fn dispatch_early(&mut self, id: ProcessId, run: RunId) {
        let Some(state) = self.processes[&id].shard.run(run) else {
            return;
        };
        let queued = state
            .instances()
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
            worker::stopped(&mut self.random)
        } else {
            executing.outcome
        };
        let digest = worker::digest(&outcome);
        self.oracle.executed(run, node, attempt, digest);
        if self.defect == Some(Defect::InventOutcome) && self.random.chance(20) {
            outcome = Outcome::Succeeded(Payload::new("\"invented\""));
        }
        let mut report = worker::report(&mut self.random, executing.started, self.now, outcome);
        if self.script.is_some() {
            (report.parameters, report.resources) = (executing.parameters, Vec::new());
        }
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
        let input = ShardInput::Ended {
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
                    self.oracle.record_verdict(run, Err(reason));
                }
            }
        }
        let delay = self.moment(30);
        let loaded = Event::Loaded {
            process,
            run,
            values,
        };
        self.after(delay, loaded);
    }

    fn evaluate(&mut self, id: ProcessId, evaluation: Box<Evaluation>) {
        self.counts.evaluations += 1;
        let interrupt = Interrupt::new();
        if let Some(process) = self.processes.get_mut(&id) {
            process
                .evaluations
                .insert(evaluation.run(), interrupt.clone());
        }
        let delay = self.moment(30);
        self.after(delay, Event::Evaluate(id, evaluation, interrupt));
    }

    /// One pass of an evaluation; another comes later.
    pub(crate) fn evaluate_on(
        &mut self,
        id: ProcessId,
        evaluation: Box<Evaluation>,
        interrupt: Interrupt,
    ) {
        match evaluation.pass(&interrupt) {
            Pass::Done(evaluated) => self.handle(id, ShardInput::Evaluated(evaluated)),
            Pass::Again(evaluation) => {
                let delay = self.moment(30);
                self.after(delay, Event::Evaluate(id, evaluation, interrupt));
            }
        }
    }

    pub(crate) fn loaded(&mut self, id: ProcessId, run: RunId, values: Vec<(Digest, Arc<str>)>) {
        self.handle(id, ShardInput::Loaded { run, values });
    }
}
