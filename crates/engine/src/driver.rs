//! The loop that drives a shard: inputs in, appends and effects out. One task owns the
//! shard, so the state of runs needs no lock, and nothing is awaited while it changes.
//! What is shared with others (gates, followers, logs being packed) is locked briefly.

mod checkpoint;
mod commands;
mod fence;
mod hand_out;
mod release;
mod remote;
mod slots;
mod tell;
mod waits;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use windlass_core::run::{Dispatch, Input as RunInput, Instance, Interrupt, Report, RunSummary};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_orchestrator::supervisor::{ChildPlace, ChildWork};
use windlass_orchestrator::{AcquireMode, CommandId, Effect, Shard, ShardInput};
use windlass_store::{
    AppendError, Appended, Damage, Error, GivenSlots, Head, Partition, PoolKey, SlotRequest,
    WorkKey, crash,
};

use crate::attempt_tracker::{AppendWatch, AttemptTracker};
use crate::child_coordinator::{ChildCoordinator, CoordinatorJob};
use crate::engine_event::EngineEvent;
use crate::pool_slots::{SlotKeeper, SlotWork};
use crate::remote::RecordedReport;
use crate::shared::Shared;
use crate::timer::Timer;
use crate::worker::Workers;
pub(crate) use commands::CommandReply;
use commands::{PendingCommand, Request};
use release::Leased;
use waits::add_wait;

/// What an engine's handle or worker sends to its driver.
pub(crate) enum Message {
    Input(ShardInput),
    Start(
        Box<windlass_orchestrator::Start>,
        oneshot::Sender<StartAnswer>,
    ),
    Command {
        run: RunId,
        input: RunInput,
        /// The inbox item that asks for it, which its record consumes.
        item: Option<Box<str>>,
        reply: oneshot::Sender<CommandReply>,
    },
    /// Whether a worker outside the process may take these attempts, in their order.
    HandOut {
        worker: Box<str>,
        /// Whether it works on them already.
        resumes: bool,
        keys: Vec<WorkKey>,
        reply: oneshot::Sender<Vec<bool>>,
    },
    /// How an attempt ended, as a worker outside the process says; answered as a command is.
    Report(RecordedReport, RunInput, oneshot::Sender<CommandReply>),
    /// Whether the shard has a run in memory or, with `acquired`, executes it.
    Holds {
        run: RunId,
        acquired: bool,
        reply: oneshot::Sender<bool>,
    },
    Wait(RunId, oneshot::Sender<WaitAnswer>),
    /// A caller waits for a run that does not sleep: if the shard does not have it in memory, it
    /// will not come.
    Awake(RunId),
    /// Whether the shard executes a run, or knows that it will come back.
    Has(RunId, oneshot::Sender<bool>),
    /// The node of a run that has this child, or undoes it, with its attempt.
    ChildNode {
        parent: RunId,
        child: RunId,
        reply: oneshot::Sender<Option<(Instance, u32)>>,
    },
    /// A run that another process wrote to was read again, or could not be.
    Reloaded(RunId, Result<(), Error>),
    /// For each attempt that asked for slots of a pool, whether it holds them now.
    SlotsAnswered(Vec<(WorkKey, bool)>),
    /// An attempt is next in the line of its pool, and there is room for it.
    LookAtPool(Box<SlotRequest>),
    /// There may be room in pools for which this process got no bell.
    LookAtPools,
    /// A pool has another size.
    PoolChanged(PoolKey),
    /// Attempts that the store says hold slots or wait for them, and whether the row of their
    /// run shows that it needs none.
    AuditSlots(Vec<(GivenSlots, bool)>),
    /// What may be appended has changed.
    Poke,
    /// Sleeping runs may be due for which this process got no bell.
    LookAtSleepers,
    /// A partition is handed over: its runs are dropped once nothing of them is in flight.
    Release(Partition, oneshot::Sender<()>),
    /// No worker has an attempt that an earlier owner had open: it is called here.
    CallHere(Arc<Dispatch>),
    /// A run has become a dead letter.
    Drop(RunId),
    /// The lease is gone: every run is dropped at once.
    Forfeit,
    /// How many runs the shard has in memory.
    Count(oneshot::Sender<usize>),
}

impl Message {
    /// A command that no inbox item asks for.
    pub(crate) fn command(
        run: RunId,
        input: RunInput,
        reply: oneshot::Sender<CommandReply>,
    ) -> Self {
        Self::Command {
            run,
            input,
            item: None,
            reply,
        }
    }
}

/// How a start went.
pub(crate) enum StartAnswer {
    Accepted,
    Held(Vec<u8>),
    Broken(Error),
}

/// How a wait ended; nothing if the shard does not have the run in memory.
pub(crate) type WaitAnswer = Result<Option<RunStatus>, Error>;

type AppendAnswer = (Vec<(RunId, u64)>, Vec<Result<Appended, AppendError>>);

/// How many rounds of appends are made before messages are looked at again.
const ROUNDS_AT_ONCE: usize = 8;

/// How many inputs are taken before appends and effects are looked at again.
const INPUTS_AT_ONCE: usize = 1024;

pub(crate) struct Driver {
    shard: Shard,
    workers: Arc<Workers>,
    inbox: mpsc::Receiver<Message>,
    /// For workers and loads to answer through.
    outbox: mpsc::Sender<Message>,
    appends: FuturesUnordered<BoxFuture<'static, AppendAnswer>>,
    starts: HashMap<RunId, oneshot::Sender<StartAnswer>>,
    commands: HashMap<CommandId, PendingCommand>,
    /// Attempts under way, until their end is durable and the observer has been notified.
    attempts: AttemptTracker,
    waits: HashMap<RunId, Vec<oneshot::Sender<WaitAnswer>>>,
    tasks: HashMap<(RunId, Instance), Task>,
    /// Decisions that evaluators compute.
    evaluations: HashMap<RunId, Interrupt>,
    next_command: CommandId,
    /// Runs that wait for a child and are not in memory.
    dormant: HashSet<RunId>,
    /// Runs that are read again because another process wrote to them.
    reloading: HashSet<RunId>,
    /// Runs whose log is being packed.
    packing: Arc<Mutex<HashSet<RunId>>>,
    /// Acts on child runs.
    coordinator: Option<ChildCoordinator>,
    /// Wakes sleeping runs.
    sleepers: Option<mpsc::UnboundedSender<Millis>>,
    shared: Arc<Shared>,
    /// Asks the store for slots of pools.
    slot_keeper: mpsc::UnboundedSender<SlotWork>,
    leased: Leased,
    /// Whether the shard wants more done than one turn allows.
    has_more: bool,
    /// Whether admission may find room where there was none.
    made_room: bool,
}

struct Task {
    dispatch: Arc<Dispatch>,
    attempt: u32,
    stop: CancellationToken,
    abort: AbortHandle,
}

impl Driver {
    pub(crate) fn new(
        shard: Shard,
        workers: Arc<Workers>,
        inbox: mpsc::Receiver<Message>,
        outbox: mpsc::Sender<Message>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            slot_keeper: SlotKeeper::start(&workers.store, shared, &outbox, &workers.options.clock),
            shared: Arc::clone(shared),
            leased: Leased::default(),
            made_room: false,
            has_more: false,
            shard,
            workers,
            inbox,
            outbox,
            appends: FuturesUnordered::new(),
            starts: HashMap::new(),
            commands: HashMap::new(),
            attempts: AttemptTracker::default(),
            waits: HashMap::new(),
            tasks: HashMap::new(),
            evaluations: HashMap::new(),
            next_command: 0,
            dormant: HashSet::new(),
            reloading: HashSet::new(),
            packing: Arc::default(),
            coordinator: None,
            sleepers: None,
        }
    }

    /// The same driver, with the tasks that act on other runs.
    pub(crate) fn with_others(
        self,
        coordinator: ChildCoordinator,
        sleepers: mpsc::UnboundedSender<Millis>,
    ) -> Self {
        Self {
            coordinator: Some(coordinator),
            sleepers: Some(sleepers),
            ..self
        }
    }

    /// Drives until asked to shut down. Appends in flight are awaited, so that what was decided is
    /// known; actions under way are asked to stop and their attempts stay open. Returns the number
    /// of unfinished runs that it leaves behind.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> usize {
        let mut messages = Vec::with_capacity(INPUTS_AT_ONCE);
        let mut timer = pin!(Timer::default());
        loop {
            if let Some(wait) = self.next_deadline() {
                timer.as_mut().ring_within(wait);
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(answer) = self.appends.next() => self.handle_appended(answer),
                count = self.inbox.recv_many(&mut messages, INPUTS_AT_ONCE) => {
                    if count == 0 {
                        break;
                    }
                }
                () = timer.as_mut().rung() => {}
                () = std::future::ready(()), if self.has_more => {}
            }
            while let Some(Some(answer)) = self.appends.next().now_or_never() {
                self.handle_appended(answer);
            }
            // One time for all that came together.
            let now = self.workers.options.clock.now();
            for message in messages.drain(..) {
                self.handle(message, now);
            }
            self.shard
                .handle_deadlines(self.workers.options.clock.now());
            self.carry_out();
            self.tell_counts();
        }
        for task in self.tasks.values() {
            task.stop.cancel();
        }
        for interrupt in self.evaluations.values() {
            interrupt.interrupt();
        }
        while let Some(answer) = self.appends.next().await {
            self.handle_appended(answer);
            self.answer_all();
        }
        self.shard.len()
    }

    /// Publishes how much there is to do, so that other tasks need not ask.
    fn tell_counts(&mut self) {
        let held = self.shard.len();
        let before = self.shared.held.swap(held, Ordering::AcqRel);
        self.shared
            .actions
            .store(self.tasks.len(), Ordering::Release);
        if std::mem::take(&mut self.made_room) || held < before {
            self.shared.bell.notify_one();
        }
    }

    fn next_deadline(&mut self) -> Option<Duration> {
        let deadline = self.shard.next_deadline()?;
        let wait = deadline.0 - self.workers.options.clock.now().0;
        Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
    }

    fn handle(&mut self, message: Message, now: Millis) {
        match message {
            Message::Input(input) => self.handle_input(input, now),
            Message::Start(start, reply) => {
                self.starts.insert(start.run, reply);
                let run = start.run;
                self.begin(run, ShardInput::Start(start), now);
            }
            Message::Command { run, reply, .. } if !self.shard.holds(run) => {
                let _ = reply.send(CommandReply::NotHere);
            }
            Message::Command {
                run,
                input,
                item,
                reply,
            } => {
                self.next_command += 1;
                let id = self.next_command;
                let asked = PendingCommand {
                    run,
                    request: Request::Command(input.clone()),
                    reply,
                };
                self.commands.insert(id, asked);
                let input = ShardInput::Command {
                    run,
                    id,
                    input,
                    item,
                };
                self.shard.handle(input, now);
            }
            Message::HandOut {
                worker,
                resumes,
                keys,
                reply,
            } => {
                // A question while the lease is in doubt has no answer: the attempts are not over.
                let is_sure = |key: &WorkKey| self.may_work(key.run);
                if !worker.is_empty() || keys.iter().all(is_sure) {
                    let _ = reply.send(self.may_hand_out(&keys, (&worker, resumes), now));
                }
            }
            Message::Report(report, input, reply) => self.handle_report(report, input, reply, now),
            Message::Holds {
                run,
                acquired: false,
                reply,
            } => {
                let _ = reply.send(self.shard.holds(run));
            }
            Message::Holds { run, reply, .. } => {
                // A caller that learns that a run has come may rely on the count.
                self.shared.held.store(self.shard.len(), Ordering::Release);
                let _ = reply.send(self.shard.is_acquired(run));
            }
            Message::Has(run, reply) => {
                self.answer_all();
                let _ = reply.send(self.shard.is_acquired(run) || self.comes_back(run));
            }
            Message::Awake(run) => {
                if !self.shard.holds(run) && !self.comes_back(run) {
                    self.answer_waits(run, &Ok(None));
                }
            }
            Message::ChildNode {
                parent,
                child,
                reply,
            } => {
                let run = self.shard.run(parent);
                let _ = reply.send(run.and_then(|run| run.node_of_child(child)));
            }
            Message::Reloaded(run, result) => self.reloaded(run, result),
            Message::Poke => {}
            Message::SlotsAnswered(answers) => self.slots_answered(answers, now),
            Message::LookAtPool(next) => self.shard.look_at_pool(&next.pool, Some(&next)),
            Message::LookAtPools => self.shard.look_at_pools(),
            Message::PoolChanged(pool) => self.pool_changed(pool),
            Message::AuditSlots(seen) => self.audit_slots(seen),
            Message::LookAtSleepers => {
                if let Some(sleepers) = &self.sleepers {
                    let _ = sleepers.send(now);
                }
            }
            Message::Release(partition, reply) => self.release(partition, reply),
            Message::CallHere(dispatch) => self.call_reopened(dispatch, now),
            Message::Drop(run) => self.drop_run(run),
            Message::Forfeit => self.forfeit(),
            Message::Count(reply) => {
                let _ = reply.send(self.shard.len());
            }
            Message::Wait(run, reply) => {
                // The waker learns only then that a run that was just released sleeps.
                self.answer_all();
                add_wait(self.waits.entry(run).or_default(), reply);
                if !self.shard.holds(run) && !self.comes_back(run) {
                    self.end_waits_unless_asleep(run);
                }
            }
        }
    }

    /// Begins a run, unless another process works on its partition.
    fn begin(&mut self, run: RunId, input: ShardInput, now: Millis) {
        if self.note_partition(&input) {
            self.shard.handle(input, now);
        } else {
            let gone = Error::Unavailable("another process works on the run".to_owned());
            self.answer_start(run, StartAnswer::Broken(gone));
        }
    }

    fn handle_input(&mut self, input: ShardInput, now: Millis) {
        let Some(input) = self.not_handed_over(input) else {
            return;
        };
        if let ShardInput::Ended {
            run,
            node,
            attempt,
            report,
        } = &input
        {
            self.note_own_end((*run, *node), *attempt, report);
            self.note_end((*run, *node), *attempt, report);
        }
        let recovers = matches!(
            input,
            ShardInput::Acquire {
                mode: AcquireMode::Recover(_),
                ..
            }
        );
        if recovers {
            crash::point("before-recovery");
        }
        if let ShardInput::Acquire { run, .. } = &input {
            self.dormant.remove(&run.id());
        }
        if let ShardInput::Evaluated(evaluated) = &input {
            self.evaluations.remove(&evaluated.run());
        }
        if !self.note_partition(&input) {
            return;
        }
        self.shard.handle(input, now);
        if recovers {
            crash::point("in-recovery");
        }
    }

    fn note_end(&mut self, key: (RunId, Instance), attempt: u32, report: &Report) {
        if let Entry::Occupied(task) = self.tasks.entry(key)
            && task.get().attempt == attempt
        {
            task.remove();
        }
        self.attempts.report(key, attempt, report);
    }

    fn handle_appended(&mut self, (keys, results): AppendAnswer) {
        let now = self.workers.options.clock.now();
        for ((run, append_id), result) in keys.into_iter().zip(results) {
            self.landed(run);
            if let Ok(appended) = &result {
                self.shared.recorded(run, appended.head.sequence);
            }
            self.shard.handle(
                ShardInput::Appended {
                    run,
                    append_id,
                    result,
                },
                now,
            );
        }
    }

    /// Hands out everything the shard wants done. A store that answers at once could keep it
    /// here for as long as a run goes on by itself, so messages have their turn in between.
    fn carry_out(&mut self) {
        self.has_more = true;
        for _ in 0..ROUNDS_AT_ONCE {
            self.answer_all();
            let batch = self.poll_append();
            if batch.is_empty() {
                self.has_more = false;
                break;
            }
            let keys = batch
                .iter()
                .map(|append| (append.run, append.append_id))
                .collect();
            let store = Arc::clone(&self.workers.store);
            let watch = AppendWatch::new(self.workers.options.observer.as_ref());
            self.appends.push(
                async move {
                    let results = store.append(batch).await;
                    watch.tell(results.len());
                    (keys, results)
                }
                .boxed(),
            );
            // Polling hands the batch to the store; the answer comes by the select.
            while let Some(Some(answer)) = self.appends.next().now_or_never() {
                self.handle_appended(answer);
            }
        }
    }

    fn answer_all(&mut self) {
        self.let_through();
        while let Some(effect) = self.shard.poll_effect() {
            if let Some(effect) = self.withhold(effect) {
                self.execute_effect(effect);
            }
        }
        self.release_landed();
    }

    fn execute_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Dispatch(dispatch) => self.dispatch(dispatch),
            Effect::Stop {
                run,
                node,
                attempt,
                give_up,
            } => self.stop(run, node, attempt, give_up),
            Effect::TakeSlots(requests) => self.slot_work(SlotWork::Take(requests)),
            Effect::GiveSlots(given) => self.slot_work(SlotWork::Give(given)),
            Effect::SlotsFreed(pool) => self.slot_work(SlotWork::Look(pool)),
            Effect::Load { run, values } => self.load(run, values),
            Effect::Evaluate(evaluation) => self.evaluate(evaluation),
            Effect::Interrupt { run } => self.interrupt(run),
            Effect::Accepted { run } => {
                crash::point("after-accept");
                self.answer_start(run, StartAnswer::Accepted);
            }
            Effect::Held { run, value } => self.answer_start(run, StartAnswer::Held(value)),
            Effect::Answer { id, result, .. } => self.answer_command(id, result),
            Effect::Progress {
                run,
                nodes,
                waiting_nodes,
                failures,
            } => {
                self.tell_changes(run, &nodes, &waiting_nodes, &failures);
                self.tell_ends(run, &nodes);
                self.workers.at_work.ended(run, &nodes);
                self.forget_durable_ends(run, &nodes);
                self.close_remote(run, &nodes);
            }
            Effect::Child {
                run,
                node,
                attempt,
                child,
                command,
            } => {
                let place = ChildPlace { run, node, attempt };
                self.submit_job(CoordinatorJob::Child(
                    child,
                    ChildWork::Command(place, command),
                ));
            }
            Effect::Checkpoint { run, head, bytes } => self.keep_checkpoint(run, head, bytes),
            Effect::Asleep {
                run,
                wake_at,
                for_child,
            } => {
                if for_child {
                    self.dormant.insert(run);
                }
                self.slept(run, wake_at);
            }
            Effect::WakeParent { run } => self.submit_job(CoordinatorJob::Wake(run)),
            Effect::ActiveChanged {
                run,
                tenant,
                workflow,
                gate,
                going,
            } => self.went(run, tenant, &workflow, gate, going),
            Effect::Finished {
                run,
                status,
                parent,
                about,
                here,
            } => self.finished(run, status, parent, here.then_some(&*about)),
            Effect::Began { about, recovered } => self.observe(&EngineEvent::Began {
                about: &about,
                recovered,
            }),
            Effect::ReadHead { run } => self.read_head(run),
            Effect::Fenced { run, parent } => self.fenced(run, parent),
            Effect::Quarantined {
                run,
                parent,
                acknowledged,
                found,
            } => self.quarantined(run, parent, &lost_commits(run, acknowledged, found)),
            Effect::Broken { run, parent, error } => {
                self.end_tasks(run);
                self.fail_commands(run, &error);
                self.lost(run, parent);
                self.shared.interrupt(run, &error);
                self.answer_start(run, StartAnswer::Broken(error.clone()));
                self.answer_waits(run, &Err(error));
            }
        }
    }

    /// A run has ended; `about` describes it, if it was in this shard.
    fn finished(
        &mut self,
        run: RunId,
        status: RunStatus,
        parent: Option<RunId>,
        about: Option<&RunSummary>,
    ) {
        if let Some(parent) = parent {
            self.submit_job(CoordinatorJob::Child(run, ChildWork::Ended(parent)));
        }
        crash::point("at-finish");
        self.forget_remote(run);
        self.forget_ends(run);
        self.shared.gates.lock().give_up(run);
        self.attempts.forget(run);
        self.workers.at_work.forget(run);
        if let Some(about) = about {
            self.observe(&EngineEvent::Finished { run, status, about });
        }
        // First those that wait here: they need not look at the row.
        self.answer_waits(run, &Ok(Some(status)));
        self.shared.waiters.changed(run, false);
    }

    fn slept(&mut self, run: RunId, wake_at: Option<Millis>) {
        self.forget_remote(run);
        if let (Some(sleepers), Some(at)) = (&self.sleepers, wake_at) {
            // The waker is gone only when the engine is.
            let _ = sleepers.send(at);
        }
        self.observe(&EngineEvent::Asleep { run, wake_at });
    }

    /// This process stops executing a run that has not ended.
    fn lost(&mut self, run: RunId, parent: Option<RunId>) {
        if let Some(interrupt) = self.evaluations.remove(&run) {
            interrupt.interrupt();
        }
        self.attempts.forget(run);
        self.workers.at_work.forget(run);
        self.forget_remote(run);
        self.forget_ends(run);
        self.shared.gates.lock().give_up(run);
        self.hear_of(run, parent);
        self.drop_commands(run);
    }

    /// A run began, was opened again, or ended.
    fn went(
        &mut self,
        run: RunId,
        tenant: Option<Box<str>>,
        workflow: &str,
        gate: Option<Box<str>>,
        going: bool,
    ) {
        self.made_room = true;
        let count = match going {
            true => &self.shared.begun,
            false => &self.shared.ended,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if going {
            let tenant = tenant.as_deref();
            self.observe(&EngineEvent::Started {
                run,
                tenant,
                workflow,
            });
        }
        let gate = gate.map(|gate| (tenant, gate));
        let began = self.shared.gates.lock().went(run, gate.clone(), going);
        if let Some(gate) = gate.filter(|_| self.shared.owned.is_shared()) {
            self.went_elsewhere(run, gate, (going, began));
        }
    }

    /// A child left this process without an end being reported: it may have ended all the same.
    fn hear_of(&self, child: RunId, parent: Option<RunId>) {
        if let Some(parent) = parent {
            self.submit_job(CoordinatorJob::Child(child, ChildWork::Ended(parent)));
        }
    }

    fn submit_job(&self, job: CoordinatorJob) {
        if let Some(coordinator) = &self.coordinator {
            coordinator.submit_job(job);
        }
    }

    /// A run that is not in the shard is waited for only if it sleeps. Its row says so; one
    /// that wakes meanwhile ends the wait by itself.
    fn end_waits_unless_asleep(&self, run: RunId) {
        let (store, outbox) = (Arc::clone(&self.workers.store), self.outbox.clone());
        tokio::spawn(async move {
            let row = store.run(run).await.ok().flatten();
            if !row.is_some_and(|row| row.asleep) {
                let _ = outbox.send(Message::Awake(run)).await;
            }
        });
    }

    fn answer_start(&mut self, run: RunId, answer: StartAnswer) {
        if let Some(reply) = self.starts.remove(&run) {
            let _ = reply.send(answer);
        }
    }

    fn answer_waits(&mut self, run: RunId, answer: &WaitAnswer) {
        for reply in self.waits.remove(&run).into_iter().flatten() {
            let _ = reply.send(answer.clone());
        }
    }
}

/// Records that the store acknowledged, and does not have.
fn lost_commits(run: RunId, acknowledged: Head, found: Head) -> Error {
    let (had, has) = (acknowledged.sequence, found.sequence);
    Error::Damaged(Box::new(Damage {
        place: "the log".to_owned(),
        run: Some(run),
        sequence: Some(has + 1),
        offset: None,
        reason: format!("the store acknowledged record {had}, and its log ends at {has} now"),
    }))
}
