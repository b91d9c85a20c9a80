//! One world: a virtual clock, a queue of what will happen, the processes, and the store.
//! A seed draws everything; nothing here reads a clock or starts a thread.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::command::Command;
use windlass_core::defaults::Defaults;
use windlass_core::event::After;
use windlass_core::run::{self, ChildEnd, Instance as NodeIndex, Interrupt, Report};
use windlass_core::value::Payload;
use windlass_core::{Digest, Millis, RunId};
use windlass_orchestrator::supervisor::ChildPlace;
use windlass_orchestrator::{AcquireMode, CommandId, Evaluation};
use windlass_store::{Append, AppendError, Appended, Error, Head, WorkKey};

use crate::catalogue::WorkflowCatalogue;
use crate::child_coordinator::Lanes;
use crate::faults::{Defect, Faults, Side};
use crate::limits::Limits;
use crate::oracle::{Oracle, ProcessId};
use crate::owners::{self, Cluster, OwnersEvent};
use crate::process::Process;
use crate::random::Random;
use crate::script::BehaviourScript;
use crate::store::SimStore;
use crate::trace::Trace;
use crate::workload::{RunRequest, UserAction, Workload, WorkloadKind};

pub use crate::world_counts::WorldCounts;

/// When worlds begin.
pub(crate) const EPOCH: i64 = 1_000_000;

/// A world that needs more steps than this is going in circles.
const MAX_STEPS: u64 = 30_000;

/// Percent of worlds in which users repeat commands.
const REPEATS: u64 = 40;

/// How to run a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What kind of definitions it has.
    pub kind: WorkloadKind,
    /// Whether to keep a trace.
    pub trace: bool,
    /// A defect to put in.
    pub defect: Option<Defect>,
}

/// How a world went.
#[derive(Clone, Debug, Default)]
pub struct WorldOutcome {
    /// Where everything came from.
    pub seed: u64,
    /// The first rule that was broken.
    pub violation: Option<String>,
    /// Every run's records, in order: the bytes that must be the same each time.
    pub logs: Vec<u8>,
    /// The trace, if it was asked for.
    pub trace: Vec<String>,
    /// What happened, counted.
    pub counts: WorldCounts,
    /// How each run ended, where that depends on nothing but what was asked for.
    pub ends: Option<BTreeMap<String, String>>,
}

/// Runs the world of a seed.
pub fn run_seed(seed: u64, options: Options) -> WorldOutcome {
    let mut outcome = run_world(World::new(seed, options));
    if let (Some(ends), None) = (&outcome.ends, &outcome.violation) {
        let options = Options {
            defect: None,
            ..options
        };
        let undisturbed = run_world(World::of_owners(seed, options, true));
        let there = undisturbed.ends.unwrap_or_default();
        let differs = owners::differs(ends, &there);
        outcome.violation = undisturbed.violation.or(differs);
    }
    outcome
}

fn run_world(mut world: World) -> WorldOutcome {
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let reason = format!("panicked: {}", text.unwrap_or("without words"));
        world.violation.get_or_insert(reason);
    }
    world.into_outcome()
}

/// What will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A write reaches the disk.
    Durable(Box<Write>),
    /// The store answers.
    Answer {
        process: ProcessId,
        run: RunId,
        append_id: u64,
        result: Box<Result<Appended, AppendError>>,
    },
    /// An execution ends by itself, or because it was asked to.
    Ends {
        execution: u64,
        stopped: bool,
    },
    /// A worker's report reaches its process.
    Reported {
        process: ProcessId,
        run: RunId,
        node: NodeIndex,
        attempt: u32,
        report: Box<Report>,
    },
    /// An evaluation goes on.
    Evaluate(ProcessId, Box<Evaluation>, Interrupt),
    /// A process hears where a run's log ends.
    HeadRead(ProcessId, RunId, Result<Head, Error>),
    Slots(ProcessId, Vec<(WorkKey, bool)>),
    LookAtPools,
    /// A process reads a run again that another wrote to.
    Reload(ProcessId, RunId),
    /// Values come from the store.
    Loaded {
        process: ProcessId,
        run: RunId,
        values: Vec<(Digest, Arc<str>)>,
    },
    /// The child coordinator's next job about a child.
    Job(ProcessId, RunId),
    /// A parent hears how its child ended.
    ChildEnd(ProcessId, ChildPlace, Box<ChildEnd>),
    /// A parent hears that its child could not be started.
    ChildFailed(ProcessId, ChildPlace, Box<run::Failure>),
    /// A child's end came for a run that sleeps.
    WakeParent(ProcessId, RunId),
    /// Sleeping runs may be due.
    Wake,
    /// A newer version of a workflow is published.
    Publish(Box<str>),
    /// A user sends a signal.
    Signal(RunId, Box<str>, Payload),
    /// The clock jumps ahead.
    Jump(u64),
    /// A process looks at what it has to append.
    Poll(ProcessId),
    Start(usize),
    UserAction(usize, UserAction),
    /// A user repeats the command of this number.
    Repeat(RunId, Box<(CommandId, Command)>),
    Crash,
    Takeover {
        lives: u64,
    },
    Die(ProcessId),
    /// The owner looks for runs that no process executes.
    Scan,
    /// Nothing goes wrong any more.
    Calm,
    /// What happens between processes that share the store.
    Owners(OwnersEvent),
}

/// An append on its way to the disk.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) process: ProcessId,
    pub(crate) append: Append,
    pub(crate) submitted: Millis,
    /// In which tenure of the process.
    pub(crate) tenure: u64,
    /// Which of all writes: a record that is appended again is another write.
    pub(crate) number: u64,
    /// After how long the store answers, if it does.
    pub(crate) answer_after: Option<u64>,
}

/// An action that is being executed.
#[derive(Debug)]
pub(crate) struct Executing {
    pub(crate) process: ProcessId,
    pub(crate) run: RunId,
    pub(crate) node: NodeIndex,
    pub(crate) attempt: u32,
    pub(crate) started: Millis,
    pub(crate) outcome: run::Outcome,
    pub(crate) stops_after: Option<u64>,
    pub(crate) parameters: Option<Payload>,
}

/// Everything that is decided about a world before it begins.
pub(crate) struct Setup {
    pub(crate) random: Random,
    pub(crate) horizon: u64,
    pub(crate) faults: Faults,
    pub(crate) workload: Workload,
    /// What actions do, where a script says so and it is not drawn.
    pub(crate) script: Option<Arc<BehaviourScript>>,
    /// The most steps before the world is given up.
    pub(crate) max_steps: u64,
    /// The moment after which the world is given up.
    pub(crate) until: Option<Millis>,
    /// The processes, where several share the store.
    pub(crate) cluster: Option<Box<Cluster>>,
    /// Its concurrency limits and pools.
    pub(crate) limits: Option<Box<Limits>>,
    /// What the configuration gives to each run.
    pub(crate) defaults: Option<Box<Defaults>>,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) now: Millis,
    queue: BTreeMap<(Millis, u64, u64), Event>,
    sequence: u64,
    pub(crate) faults: Faults,
    pub(crate) defect: Option<Defect>,
    pub(crate) catalogue: Arc<WorkflowCatalogue>,
    /// The newest version of each workflow that is published.
    pub(crate) published: BTreeMap<Box<str>, u32>,
    pub(crate) script: Option<Arc<BehaviourScript>>,
    /// Whether only actions and timers take time.
    pub(crate) exact: bool,
    max_steps: u64,
    until: Option<Millis>,
    /// Whether the world is given up before its end.
    pub(crate) stopped: Option<Arc<AtomicBool>>,
    pub(crate) lanes: Lanes,
    pub(crate) requests: Vec<RunRequest>,
    /// Which request each run id was made for.
    pub(crate) request_of: BTreeMap<RunId, usize>,
    /// Starts without an answer yet: run and process.
    pub(crate) starting: BTreeMap<RunId, ProcessId>,
    pub(crate) store: SimStore,
    pub(crate) processes: BTreeMap<ProcessId, Process>,
    pub(crate) current: ProcessId,
    pub(crate) executing: BTreeMap<u64, Executing>,
    pub(crate) next_execution: u64,
    pub(crate) next_command: u64,
    /// Whether users give their commands idempotency keys and repeat them.
    pub(crate) repeats: bool,
    /// Signals that are sent again if their process dies before it has answered.
    pub(crate) unanswered: BTreeMap<u64, (RunId, Box<str>, Payload)>,
    pub(crate) oracle: Oracle,
    pub(crate) trace: Trace,
    pub(crate) counts: WorldCounts,
    pub(crate) calm: bool,
    pub(crate) cluster: Option<Box<Cluster>>,
    pub(crate) limits: Option<Box<Limits>>,
    pub(crate) defaults: Option<Box<Defaults>>,
    writes: u64,
    pub(crate) submitted: u64,
    pub(crate) violation: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        if matches!(options.kind, WorkloadKind::Owners | WorkloadKind::Limits) {
            return Self::of_owners(seed, options, false);
        }
        let mut random = Random::new(seed);
        let horizon = [1_500, 8_000, 30_000][random.below(3) as usize];
        let mut faults = Faults::draw(&mut random, horizon, options.kind);
        if options.defect == Some(Defect::LoseChildCancel) {
            // Where a process was lost, its last words to a child may be lost as well.
            faults.be_lossless();
        }
        let workload = Workload::draw(&mut random, horizon, options.kind);
        let setup = Setup {
            random,
            horizon,
            faults,
            workload,
            script: None,
            max_steps: MAX_STEPS,
            until: None,
            cluster: None,
            limits: None,
            defaults: None,
        };
        Self::with(seed, setup, options)
    }

    pub(crate) fn with(seed: u64, setup: Setup, options: Options) -> Self {
        let catalogue = Arc::new(setup.workload.catalogue);
        let exact = setup.script.is_some();
        let names = catalogue.names().map(|name| (name.into(), 1));
        let mut world = Self {
            seed,
            random: setup.random,
            now: Millis(EPOCH),
            queue: BTreeMap::new(),
            sequence: 0,
            faults: setup.faults,
            defect: options.defect,
            published: names.collect(),
            oracle: Oracle::new(crate::process::MAX_PARALLEL, Arc::clone(&catalogue), !exact),
            catalogue,
            script: setup.script,
            exact,
            max_steps: setup.max_steps,
            until: setup.until,
            stopped: None,
            lanes: Lanes::new(),
            requests: setup.workload.requests,
            request_of: BTreeMap::new(),
            starting: BTreeMap::new(),
            store: SimStore::default(),
            processes: BTreeMap::new(),
            current: 0,
            executing: BTreeMap::new(),
            next_execution: 0,
            next_command: 0,
            // Drawn apart, so that the other worlds stay as they were.
            repeats: !exact && Random::new(!seed).chance(REPEATS),
            unanswered: BTreeMap::new(),
            trace: Trace::new(options.trace),
            counts: WorldCounts::default(),
            calm: false,
            cluster: setup.cluster,
            limits: setup.limits,
            defaults: setup.defaults,
            writes: 0,
            submitted: 0,
            violation: None,
        };
        match world.cluster {
            Some(_) => world.begin_owners(),
            None => world.new_process(),
        }
        for (at, workflow) in setup.workload.publications {
            world.after(at, Event::Publish(workflow));
        }
        world.schedule_all(setup.horizon);
        world
    }

    fn schedule_all(&mut self, horizon: u64) {
        for index in 0..self.requests.len() {
            let request = self.requests[index].clone();
            for &at in &request.starts {
                self.after(at, Event::Start(index));
            }
            for &(at, user_action) in &request.user_actions {
                self.after(at, Event::UserAction(index, user_action));
            }
        }
        for name in self.catalogue.names() {
            for number in 1..=self.catalogue.versions(name) {
                self.trace.say(self.now, || {
                    let text = self.catalogue.version(name, number).map(|it| &*it.text);
                    format!("{name} version {number}: {}", text.unwrap_or_default())
                });
            }
        }
        let faults = self.faults.clone();
        self.trace.say(self.now, || format!("{faults:?}"));
        for &at in &faults.crash_times {
            self.after(at, Event::Crash);
        }
        for &(at, lives) in &faults.takeovers {
            self.after(at, Event::Takeover { lives });
        }
        for &(at, by) in &faults.jumps {
            self.after(at, Event::Jump(by));
        }
        if self.exact {
            return;
        }
        for at in (0..horizon).step_by(3_000) {
            self.after(at, Event::Scan);
        }
        self.after(horizon, Event::Calm);
    }

    /// A short while, where the world itself takes time.
    pub(crate) fn moment(&mut self, most: u64) -> u64 {
        if self.exact {
            0
        } else {
            self.random.below(most)
        }
    }

    /// Lets something happen after a while; what happens at one moment has no order.
    pub(crate) fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        let key = (self.now.plus(delay), self.random.number(), self.sequence);
        self.queue.insert(key, event);
    }

    pub(crate) fn run(&mut self) {
        while self.oracle.violation().is_none() && self.violation.is_none() && self.step() {
            self.counts.steps += 1;
            if self.counts.steps > self.max_steps {
                let steps = self.max_steps;
                self.violation = Some(format!("no end after {steps} steps"));
                return;
            }
            let stopped = self.stopped.as_ref();
            if self.until.is_some_and(|until| self.now > until)
                || stopped.is_some_and(|it| it.load(Ordering::Relaxed))
            {
                return;
            }
        }
        self.tell_held();
        if self.violation.is_some() || self.exact {
            return;
        }
        if self.oracle.violation().is_none() {
            self.oracle.settled();
            self.every_offer_is_decided();
            self.nothing_is_held();
            self.one_run_for_each_request();
        }
    }

    /// Lets the next thing happen; false when there is none.
    fn step(&mut self) -> bool {
        if self.is_idle() {
            match self.next_planned() {
                None => {
                    self.busy();
                    return self.unblock();
                }
                Some(at) if at.0 - self.now.0 > 5_000 => {
                    let idle = u64::try_from(at.0 - self.now.0).unwrap_or(0);
                    self.spare_leases(idle - 1_000);
                    return true;
                }
                Some(_) => {}
            }
        }
        let event = self.queue.keys().next().map(|&(at, ..)| at);
        let deadline = self.next_deadline();
        match (event, deadline) {
            (None, None) => return self.unblock(),
            (None, Some((at, process))) => self.deadline(at, process),
            (Some(event), Some((at, process))) if at <= event => {
                // Wake-ups come late now and then.
                if !self.exact && self.random.chance(10) {
                    self.next_event();
                } else {
                    self.deadline(at, process);
                }
            }
            (Some(_), _) => self.next_event(),
        }
        true
    }

    fn next_deadline(&mut self) -> Option<(Millis, ProcessId)> {
        let stopped: Vec<ProcessId> = match &self.cluster {
            Some(_) => self.processes.keys().copied().collect(),
            None => Vec::new(),
        };
        let stopped: Vec<ProcessId> = stopped
            .into_iter()
            .filter(|id| self.is_paused(*id))
            .collect();
        let deadlines = self.processes.iter_mut().filter_map(|(&id, process)| {
            if stopped.contains(&id) {
                return None;
            }
            let deadline = process.shard.next_deadline()?;
            Some((deadline, id))
        });
        let (at, id) = deadlines.min()?;
        if self.defect == Some(Defect::ClockAhead) {
            return Some((Millis(at.0 - 5000), id));
        }
        Some((at, id))
    }

    fn deadline(&mut self, at: Millis, id: ProcessId) {
        self.set_now(at);
        self.busy();
        let mut now = self.now;
        if self.defect == Some(Defect::ClockAhead) {
            now = now.plus(5000);
        }
        if let Some(process) = self.processes.get_mut(&id) {
            process.shard.handle_deadlines(now);
        }
        self.trace.say(self.now, || format!("p{id} deadline"));
        self.pump(id);
    }

    fn next_event(&mut self) {
        let Some((key, event)) = self.queue.pop_first() else {
            return;
        };
        self.set_now(key.0);
        if event.is_foreground() {
            self.busy();
        }
        if let Some(event) = self.unless_paused(event) {
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Durable(write) => self.durable(*write),
            Event::Answer {
                process,
                run,
                append_id,
                result,
            } => self.answer(process, run, append_id, *result),
            Event::Ends { execution, stopped } => self.execution_ends(execution, stopped),
            Event::Reported {
                process,
                run,
                node,
                attempt,
                report,
            } => self.report(process, run, (node, attempt), report),
            Event::Loaded {
                process,
                run,
                values,
            } => self.loaded(process, run, values),
            Event::Evaluate(process, evaluation, interrupt) => {
                self.evaluate_on(process, evaluation, interrupt);
            }
            Event::HeadRead(process, run, result) => self.head_read(process, run, result),
            Event::Slots(process, answers) => self.slots_answered(process, answers),
            Event::LookAtPools => self.ask_pools(),
            Event::Reload(process, run) => {
                self.acquire(process, run, AcquireMode::Recover(After::Stop));
            }
            Event::Job(process, child) => self.next_job(process, child),
            Event::ChildEnd(process, place, end) => self.child_ended(process, place, end),
            Event::ChildFailed(process, place, failure) => {
                self.child_failed(process, place, *failure);
            }
            Event::WakeParent(process, run) => self.wake(process, run),
            Event::Wake if self.defect == Some(Defect::LoseWake) => {}
            Event::Wake => self.wake_due(self.current),
            Event::Publish(workflow) => self.publish(&workflow),
            Event::Signal(run, name, payload) => self.send_signal(run, name, payload),
            Event::Jump(by) => self.set_now(self.now.plus(by)),
            Event::Poll(process) => self.pump(process),
            Event::Start(request) => self.start(request),
            Event::UserAction(request, user_action) => self.user_action(request, user_action),
            Event::Repeat(run, again) => self.repeat(run, again.0, again.1),
            Event::Crash if !self.calm => self.crash(),
            Event::Takeover { lives } if !self.calm => self.start_successor(lives),
            Event::Crash | Event::Takeover { .. } => {}
            Event::Die(process) => self.die(process),
            Event::Scan => self.scan(),
            Event::Calm => self.be_calm(),
            Event::Owners(event) => self.owners_event(event),
        }
    }

    /// A write reaches the disk, or the process dies just before or after.
    fn durable(&mut self, write: Write) {
        self.writes += 1;
        let crash = self.faults.crash_writes.iter();
        let crash = crash
            .filter(|&&(at, _)| at == self.writes)
            .filter(|_| self.cluster.is_some() || write.process == self.current)
            .map(|&(_, side)| side)
            .next()
            .filter(|_| !self.calm);
        if crash == Some(Side::Before) {
            self.trace.say(self.now, || "crash before a write".into());
            return self.crash_of(write.process);
        }
        let process = write.process;
        self.make_durable(write);
        if crash == Some(Side::After) {
            self.trace.say(self.now, || "crash after a write".into());
            self.crash_of(process);
        }
    }

    fn crash_of(&mut self, process: ProcessId) {
        match self.cluster {
            Some(_) => self.kill_process(process),
            None => self.crash(),
        }
    }

    /// When something happens next that does not come round for ever.
    fn next_planned(&mut self) -> Option<Millis> {
        let mut planned = self.queue.iter().filter(|(_, event)| event.is_foreground());
        let event = planned.next().map(|(&(at, ..), _)| at);
        let deadline = self.next_deadline().map(|(at, _)| at);
        event.into_iter().chain(deadline).min()
    }

    /// What comes round for ever comes so much later.
    pub(crate) fn delay_background(&mut self, millis: u64) {
        for (key, event) in std::mem::take(&mut self.queue) {
            let (mut at, draw, sequence) = key;
            if !event.is_foreground() {
                at = at.plus(millis);
            }
            self.queue.insert((at, draw, sequence), event);
        }
    }

    /// Takes some writes back that a process has not sent.
    pub(crate) fn take_unsent(&mut self, process: ProcessId) -> Vec<Event> {
        let of_process =
            |event: &Event| matches!(event, Event::Durable(write) if write.process == process);
        let queued = self.queue.iter().filter(|(_, event)| of_process(event));
        let keys: Vec<_> = queued.map(|(&key, _)| key).collect();
        let mut unsent = Vec::new();
        for key in keys {
            if self.random.chance(50) {
                unsent.extend(self.queue.remove(&key));
            }
        }
        unsent
    }

    pub(crate) fn make_durable(&mut self, mut write: Write) {
        let (process, run) = (write.process, write.append.run);
        let append_id = write.append.append_id;
        let forgets = self.inject_defect(&mut write);
        let result = if forgets {
            let head = windlass_store::checksum::next_head(&write.append);
            Ok(Appended { head })
        } else {
            self.store.append(write.append)
        };
        match &result {
            Ok(_) if forgets => {}
            Ok(appended) => {
                self.counts.records += 1;
                self.oracle.wrote(process, run, write.number, write.tenure);
                self.follow_owner(process, run);
                let sequence = appended.head.sequence;
                let said = self.store.said(run, sequence);
                let said = said.expect("what is durable was decoded").clone();
                self.trace.say(self.now, || {
                    format!("durable {run} #{sequence} by p{process}: {said:?}")
                });
                let row = self.store.row(run);
                match said {
                    Ok(transition) => {
                        transition.events.iter().for_each(|it| self.counts.note(it));
                        let submitted = write.submitted;
                        self.oracle
                            .durable(run, &transition, submitted, row.as_ref());
                        self.follow_gates(run, &transition);
                        self.waiting(run, &transition);
                    }
                    Err(error) => self.oracle.record_verdict(run, Err(error)),
                }
            }
            Err(error) => {
                self.counts.conflicts += 1;
                self.trace.say(self.now, || {
                    format!("refused {run} by p{process}: {error:?}")
                });
            }
        }
        if write.answer_after.is_none() || !self.processes.contains_key(&process) {
            // No process learns of this write, so the owner must look for it.
            self.after(500, Event::Scan);
        }
        if let Some(delay) = write.answer_after {
            let result = Box::new(result);
            let answer = Event::Answer {
                process,
                run,
                append_id,
                result,
            };
            self.after(delay, answer);
        }
    }

    /// In-flight writes of a dead process are lost, durable, or still on their way.
    pub(crate) fn settle_writes(&mut self, process: ProcessId) {
        let of_process =
            |event: &Event| matches!(event, Event::Durable(write) if write.process == process);
        let keys: Vec<_> = self
            .queue
            .iter()
            .filter(|(_, event)| of_process(event))
            .map(|(&key, _)| key)
            .collect();
        for key in keys {
            match self.random.below(3) {
                0 => {
                    self.queue.remove(&key);
                }
                1 => {
                    if let Some(Event::Durable(write)) = self.queue.remove(&key) {
                        self.make_durable(*write);
                    }
                }
                _ => {}
            }
        }
    }

    fn into_outcome(mut self) -> WorldOutcome {
        let mut logs = Vec::new();
        for (run, _) in self.oracle.histories() {
            logs.extend_from_slice(run.as_bytes());
            for record in self.store.records(run) {
                logs.extend_from_slice(&record.chain);
                logs.extend_from_slice(&record.bytes);
            }
            self.counts.runs += 1;
        }
        let violation = self.oracle.violation().map(str::to_owned);
        let ends = self.ends();
        WorldOutcome {
            seed: self.seed,
            violation: violation.or(self.violation),
            logs,
            trace: self.trace.into_lines(),
            ends,
            counts: self.counts,
        }
    }
}
