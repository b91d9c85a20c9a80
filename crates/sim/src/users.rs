//! What people ask of a world, and how its owner finds the runs they mean: by loading
//! them from the log when no shard holds them.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::command::{Command, CommandBody, NewGraph, RunCommand};
use windlass_core::event::{Actor, Queued, RULES, RequestKey};
use windlass_core::run::{Input as RunInput, Instance, Run};
use windlass_core::value::{Payload, Stored};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_orchestrator::supervisor::{LoadedRunFacts, WakeStep, acquire};
use windlass_orchestrator::{AcquireMode, Begin, CommandId, ShardInput, Start};
use windlass_store::{Bell, Claim};

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::structured::SIGNALS;
use crate::workload::{ChildAction, UserAction};
use crate::world::{Event, World};

/// The user who gives a command, named by the command's number.
pub(crate) fn actor(number: CommandId) -> Actor {
    Actor {
        by: Some(format!("c{number}").into()),
        ..Actor::default()
    }
}

impl World {
    /// A request is one run, however often it was sent.
    pub(crate) fn one_run_for_each_request(&mut self) {
        for index in 0..self.requests.len() {
            let runs = self.request_of.iter();
            let with_log = runs
                .filter(|&(_, &of)| of == index)
                .filter(|&(&run, _)| self.oracle.history(run).is_some())
                .count();
            if with_log != 1 && self.violation.is_none() {
                let reason = format!("request {index} has {with_log} runs");
                self.violation = Some(reason);
            }
        }
    }

    /// The owner recovers runs that no process executes, and knows when to wake those that sleep. A
    /// paused run may stay a row; a run that waits for its child is notified of the child's end.
    pub(crate) fn scan(&mut self) {
        if self.cluster.is_some() {
            return;
        }
        for run in self.store.awake() {
            let process = &self.processes[&self.current];
            if process.shard.is_acquired(run) || process.dormant.contains(&run) {
                continue;
            }
            let state = self.oracle.history(run).and_then(|history| history.last());
            let paused = state.is_some_and(|state| state.status() == RunStatus::Paused);
            if !(paused && self.random.chance(50)) {
                self.acquire(self.current, run, AcquireMode::RECOVER);
            }
        }
        self.wake_at(self.current, self.now);
    }

    /// Carries out what a process decides about the runs that sleep.
    pub(crate) fn wake_due(&mut self, id: ProcessId) {
        let now = self.now;
        while let Some(process) = self.processes.get_mut(&id) {
            match process.waker.next_step(now) {
                WakeStep::Wake(run) => self.wake(id, run),
                WakeStep::ReadDue {
                    after,
                    until,
                    limit,
                } => {
                    let mut page = self.store.due(after, until);
                    page.retain(|(run, _)| self.may_work(id, *run));
                    page.truncate(limit);
                    if let Some(process) = self.processes.get_mut(&id) {
                        process.waker.page_read(&page);
                    }
                }
                WakeStep::Sleep(None) => return,
                WakeStep::Sleep(Some(at)) => return self.plan_due(id, at),
            }
        }
    }

    /// A run of this process sleeps until a time; or something may have to be woken at once.
    /// Without leases the process that took the others' place gets the time, whichever wrote it.
    pub(crate) fn wake_at(&mut self, id: ProcessId, at: Millis) {
        let id = match self.cluster {
            Some(_) => id,
            None => self.current,
        };
        if let Some(process) = self.processes.get_mut(&id) {
            process.waker.asleep(at);
            self.plan_due(id, at);
        }
    }

    fn plan_due(&mut self, id: ProcessId, at: Millis) {
        if self.cluster.is_some() {
            return self.plan_due_of(id, at);
        }
        let delay = u64::try_from(at.0 - self.now.0).unwrap_or(0);
        self.after(delay, Event::Wake);
    }

    /// A run's state as its log has it.
    pub(crate) fn load_run(&self, run: RunId) -> Option<Run> {
        let graph = |digest: &Digest| self.catalogue.graph(digest);
        let (state, _) = self.store.replay(run, graph).ok()?;
        Some(state)
    }

    /// Makes sure that a process has a run in memory and, if asked, executes it.
    pub(crate) fn acquire(&mut self, id: ProcessId, run: RunId, mode: AcquireMode) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        let holds = process.shard.holds(run);
        if process.shard.is_acquired(run) || (mode == AcquireMode::ForCommand && holds) {
            return;
        }
        if !self.may_work(id, run) {
            return;
        }
        let Some(row) = self.store.row(run) else {
            return;
        };
        let graph = |digest: &Digest| self.catalogue.graph(digest);
        let records = self.store.head(run).sequence;
        let checkpoint = match self.exact {
            false => self.random.below(4 * records + 1),
            true => 0,
        };
        let (state, head) = match self.store.replay_from(run, checkpoint, graph) {
            Ok(loaded) => loaded,
            Err(reason) => return self.oracle.record_verdict(run, Err(reason)),
        };
        let wrote_last = self.store.last_writer(run) == Some(process.writer);
        let (workflow, definition) = (state.queued().workflow.clone(), state.definition());
        let newest = self.published.get(&workflow).copied().unwrap_or(0);
        let newer = self.catalogue.version(&workflow, newest);
        let differs = newer.is_some_and(|newer| newer.digest != definition);
        let parent = state.queued().parent.as_ref();
        let parent = parent.and_then(|parent| self.load_run(parent.execution_id));
        let acquisition = acquire(LoadedRunFacts {
            wanted: mode,
            run: &state,
            asleep: row.asleep,
            wrote_last,
            outdated: differs,
            parent: parent.as_ref(),
        });
        let mode = acquisition.mode;
        self.busy();
        self.trace
            .say(self.now, || format!("p{id} adopts {run}: {mode:?}"));
        if holds {
            self.oracle.acquired(id, run);
        } else {
            self.oracle.held(id, run, head.sequence);
        }
        if let Some(process) = self.processes.get_mut(&id) {
            process.dormant.remove(&run);
        }
        let input = ShardInput::Acquire {
            run: Box::new(state),
            head,
            mode,
        };
        self.handle(id, input);
        if acquisition.heals {
            self.heal(id, run, &workflow, newest);
        }
        if acquisition.orphaned {
            self.cancel_orphan(id, run);
        }
    }

    fn cancel_orphan(&mut self, id: ProcessId, run: RunId) {
        let number = self.next_command();
        let cancel = RunCommand::Cancel { compensate: false };
        let input = RunInput::command(cancel, actor(number));
        self.oracle.commanded(id, run, number, format!("c{number}"));
        self.send(id, run, number, input);
    }

    /// A newer version is published: runs that follow it get the command to do so.
    pub(crate) fn publish(&mut self, workflow: &str) {
        let newest = self.published.entry(workflow.into()).or_default();
        *newest = (*newest + 1).min(self.catalogue.versions(workflow));
        let newest = *newest;
        self.trace
            .say(self.now, || format!("publish {workflow} version {newest}"));
        if self.cluster.is_some() {
            return self.ring(Bell::Definitions);
        }
        for run in self.store.unfinished() {
            let state = self.oracle.history(run).and_then(|history| history.last());
            let follows = state.is_some_and(|state| {
                &*state.queued().workflow == workflow
                    && state.can_heal()
                    && state.version() < newest
            });
            if follows {
                self.acquire(self.current, run, AcquireMode::ForCommand);
                self.heal(self.current, run, workflow, newest);
            }
        }
    }

    pub(crate) fn heal(&mut self, id: ProcessId, run: RunId, workflow: &str, version: u32) {
        let Some(newer) = self.catalogue.version(workflow, version) else {
            return;
        };
        let input = RunInput::Heal {
            version,
            definition: newer.digest,
            plan: Arc::clone(&newer.plan),
        };
        let number = self.next_command();
        self.oracle
            .commanded(id, run, number, format!("v{version}"));
        self.send(id, run, number, input);
    }

    pub(crate) fn start(&mut self, index: usize) {
        let request = self.requests[index].clone();
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.random.number().to_le_bytes());
        self.vary_partition(&mut bytes);
        let run = RunId::new(self.now, bytes);
        self.request_of.insert(run, index);
        let (process, begin) = self.door(run, request.begin);
        self.starting.insert(run, process);
        self.trace
            .say(self.now, || format!("start w{index} as {run}"));
        let trigger = Payload::new(request.trigger.as_str());
        let stored = trigger.stored();
        let is_blob = matches!(stored, Stored::Blob { .. });
        let number = self.published.get(&request.workflow).copied().unwrap_or(1);
        let newest = self.catalogue.version(&request.workflow, number);
        let newest = newest.map(|newest| newest.digest);
        let (number, definition) = match (&request.fork, newest) {
            (Some(fork), _) => (fork.version, fork.definition),
            (None, newest) => (number, newest.expect("what is asked for is there")),
        };
        let plan = self.catalogue.graph(&definition);
        let claim = Claim {
            namespace: "request",
            key: format!("r{index}").into(),
            value: run.as_bytes().to_vec(),
        };
        let plan = plan.expect("every graph is in the catalogue");
        let mut queued = queued(index, &request.workflow, (number, definition), stored);
        queued.gate.clone_from(&request.gate);
        queued.priority = request.priority;
        queued.partition = self.recorded_partition(run);
        if begin == Begin::Later {
            self.waits_for_gate(run);
        }
        let mut blobs = if is_blob { vec![trigger] } else { Vec::new() };
        // Drawn runs set theirs with their nodes; a user's definition means its own.
        for (name, value) in plan.vars().iter().filter(|_| self.script.is_some()) {
            let payload = Payload::new(value.get());
            let stored = payload.stored();
            if matches!(stored, Stored::Blob { .. }) {
                blobs.push(payload);
            }
            queued.vars.insert(name.clone(), stored);
        }
        queued.defaults.clone_from(&self.defaults);
        if let Some(fork) = &request.fork {
            queued.origin = Some(fork.origin.clone());
            queued.frozen = fork.frozen;
        }
        let reused = request.fork.as_ref().map(|fork| fork.reused.clone());
        let start = Start {
            run,
            plan,
            queued,
            blobs,
            claims: vec![claim],
            begin,
            reused: reused.unwrap_or_default(),
        };
        self.oracle.held(process, run, 0);
        self.handle(process, ShardInput::Start(Box::new(start)));
    }

    /// The run that a request led to.
    fn run_of(&self, index: usize) -> Option<RunId> {
        let mut runs = self.request_of.iter();
        let found = runs.find(|&(&run, &of)| of == index && self.oracle.history(run).is_some());
        found.map(|(&run, _)| run)
    }

    pub(crate) fn user_action(&mut self, index: usize, user_action: UserAction) {
        let Some(run) = self.run_of(index).filter(|_| !self.calm) else {
            return;
        };
        match user_action {
            UserAction::OfChild(number, user_action) => {
                let children = self.store.children(run);
                if let Some(&child) = children.get(number as usize % children.len().max(1)) {
                    self.command(child, of_child(user_action));
                }
            }
            UserAction::Fork(number) => self.fork(run, number),
            user_action => self.command(run, user_action),
        }
    }

    pub(crate) fn next_command(&mut self) -> CommandId {
        self.next_command += 1;
        self.next_command
    }

    /// Gives a command to the owner, which loads the run first if it must.
    pub(crate) fn command(&mut self, run: RunId, user_action: UserAction) {
        let Some(state) = self.oracle.history(run).and_then(|history| history.last()) else {
            return;
        };
        let nodes: Vec<Instance> = state.instances().collect();
        let pick = |number: u32| nodes[number as usize % nodes.len()];
        let workflow = state.queued().workflow.clone();
        let steps: Vec<Instance> = match state.undo() {
            Some(undo) => undo.steps().map(|(node, _)| node).collect(),
            None => Vec::new(),
        };
        let step = |number: u32| {
            let step = steps.get(number as usize % steps.len().max(1));
            vec![step.copied().unwrap_or(0)]
        };
        let number = self.next_command();
        let (command, body) = match user_action {
            UserAction::Cancel | UserAction::CancelAndUndo => {
                let compensate = user_action == UserAction::CancelAndUndo;
                (RunCommand::Cancel { compensate }, CommandBody::None)
            }
            UserAction::Pause => (RunCommand::Pause, CommandBody::None),
            UserAction::Resume => (RunCommand::Resume, CommandBody::None),
            UserAction::ReattemptOne(node) => {
                let nodes = vec![pick(node)];
                (RunCommand::Reattempt { nodes }, CommandBody::None)
            }
            UserAction::ReattemptAll => {
                let nodes = Vec::new();
                (RunCommand::Reattempt { nodes }, CommandBody::None)
            }
            UserAction::Signal(signal) => signal_of(signal, number),
            UserAction::SetResult(node) => {
                let node = pick(node);
                let output = Payload::new("\"by hand\"");
                (RunCommand::SetResult { node }, output.into())
            }
            UserAction::Skip(node) => (RunCommand::Skip { node: pick(node) }, CommandBody::None),
            UserAction::Compensate => (RunCommand::Compensate, CommandBody::None),
            UserAction::RetryCompensation(number) => {
                let nodes = step(number);
                (RunCommand::RetryCompensation { nodes }, CommandBody::None)
            }
            UserAction::SkipCompensation(number) => {
                let nodes = step(number);
                (RunCommand::SkipCompensation { nodes }, CommandBody::None)
            }
            UserAction::Import(number) => {
                let Some(graph) = self.catalogue.import(&workflow, number) else {
                    return;
                };
                let graph = NewGraph {
                    definition: graph.digest,
                    plan: Arc::clone(&graph.plan),
                    text: Payload::new(Arc::clone(&graph.text)),
                };
                (RunCommand::Import, graph.into())
            }
            UserAction::Fork(_) | UserAction::OfChild(..) => return,
        };
        let mut actor = actor(number);
        actor.request = self.request_key(number, user_action).map(Box::new);
        let command = command.by(actor).with(body);
        self.trace.say(self.now, || {
            format!("command {number} to {run}: {user_action:?}")
        });
        if self.repeats {
            self.repeat_later(run, number, &command);
        }
        self.ask_at_door(run, (number, number), command);
    }

    /// Gives a command to a process: to one that owns the run, or to another, which offers it
    /// to the owner.
    fn ask_at_door(&mut self, run: RunId, numbers: (CommandId, CommandId), command: Command) {
        if let Some((door, command)) = self.offers_to_owner(run, numbers, command) {
            self.ask_as(door, run, numbers, command.into());
        }
    }

    /// The idempotency key that a user gives a command, in worlds where users repeat them.
    fn request_key(&self, number: CommandId, user_action: UserAction) -> Option<RequestKey> {
        // The defect: keys are not looked at.
        let looked_at = self.defect != Some(Defect::RepeatCommand);
        (self.repeats && looked_at).then(|| RequestKey {
            key: format!("k{number}").into(),
            command: Digest::of(format!("{user_action:?}").as_bytes()),
        })
    }

    /// Users repeat a command at any time: before its record is written, while that is in
    /// flight, after a crash, after the answer, and when another process owns the run.
    fn repeat_later(&mut self, run: RunId, first: CommandId, command: &Command) {
        for _ in 0..self.random.below(3) {
            let most = if self.random.chance(50) { 50 } else { 8_000 };
            let delay = self.random.below(most);
            let again = Box::new((first, command.clone()));
            self.after(delay, Event::Repeat(run, again));
        }
    }

    /// A user repeats a command.
    pub(crate) fn repeat(&mut self, run: RunId, first: CommandId, command: Command) {
        if self.calm {
            return;
        }
        let number = self.next_command();
        self.trace.say(self.now, || {
            format!("command {number} to {run} repeats command {first}")
        });
        self.ask_at_door(run, (number, first), command);
    }

    /// Asks something of a run in a process, which loads it first if it must.
    pub(crate) fn ask(&mut self, id: ProcessId, run: RunId, number: CommandId, input: RunInput) {
        self.ask_as(id, run, (number, number), input);
    }

    /// As `ask`, in the name of another command, which this one repeats.
    fn ask_as(
        &mut self,
        id: ProcessId,
        run: RunId,
        (number, first): (CommandId, CommandId),
        input: RunInput,
    ) {
        // What is opened again goes on here, and with it everything that was open.
        let continues = match &input {
            RunInput::Command(asked) => {
                asked.command == RunCommand::Resume || asked.command.reopens()
            }
            _ => false,
        };
        let mut mode = if continues || self.random.chance(30) {
            AcquireMode::RECOVER
        } else {
            AcquireMode::ForCommand
        };
        if self.waits_to_begin(run) {
            mode = AcquireMode::ForCommand;
        }
        self.acquire(id, run, mode);
        self.oracle.commanded(id, run, number, format!("c{first}"));
        self.send(id, run, number, input);
    }

    fn send(&mut self, id: ProcessId, run: RunId, number: CommandId, input: RunInput) {
        let item = None;
        let input = ShardInput::Command {
            run,
            id: number,
            input,
            item,
        };
        self.handle(id, input);
    }
}

fn of_child(user_action: ChildAction) -> UserAction {
    match user_action {
        ChildAction::Cancel => UserAction::Cancel,
        ChildAction::Pause => UserAction::Pause,
        ChildAction::Resume => UserAction::Resume,
        ChildAction::ReattemptAll => UserAction::ReattemptAll,
        ChildAction::Signal(number) => UserAction::Signal(number),
    }
}

/// Signals repeat, so that their values must distinguish them; one name is unknown.
fn signal_of(signal: u32, number: CommandId) -> (RunCommand<Instance>, CommandBody) {
    let known = SIGNALS.get(signal as usize / 2).copied();
    let name = known.unwrap_or("unknown").into();
    let payload = Payload::new(number.to_string());
    (RunCommand::Signal { name }, payload.into())
}

fn queued(
    index: usize,
    workflow: &str,
    (version, definition): (u32, Digest),
    trigger: Stored,
) -> Queued {
    Queued {
        rules: RULES,
        workflow: workflow.into(),
        version,
        definition,
        request_id: format!("r{index}").into(),
        tenant: None,
        correlation_id: format!("r{index}").into(),
        priority: 5,
        labels: BTreeMap::new(),
        trigger,
        vars: BTreeMap::new(),
        parent: None,
        depth: 0,
        origin: None,
        frozen: false,
        gate: None,
        traceparent: None,
        partition: 0,
        defaults: None,
    }
}
