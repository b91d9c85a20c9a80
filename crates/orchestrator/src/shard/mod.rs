//! Many runs behind one synchronous face: `handle` takes inputs, `poll_append` and
//! `poll_effect` yield what to do, `next_deadline` says when to call again.

mod labels;
mod late;
mod lines;
mod ready;
mod release;
mod running;
mod slot;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use windlass_core::event::ReusedNode;
use windlass_core::event::{After, Queued};
use windlass_core::plan::Plan;
use windlass_core::run::{
    ChildEnd, ChildStart, Dispatch, Failure, INLINE_STEPS, Input as RunInput, Instance, Refusal,
    Report, Run, RunSummary, ValueLimits, WaitingNode,
};
use windlass_core::value::{Payload, ValueRef};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{
    Append, AppendError, Appended, Claim, GivenSlots, Head, PoolKey, SlotRequest, WriterId,
};

use crate::deadline::{Deadline, Deadlines};
use crate::evaluation::{Evaluated, Evaluation};
use lines::Lines;
use slot::Slot;

pub use labels::Labels;
pub use release::may_answer;

/// How a shard behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The writer's id, for the store's fence.
    pub writer: WriterId,
    /// How many nodes of a run may be with workers when its definition does not say.
    pub max_parallel: u32,
    /// An attempt that runs longer than this is recorded as started.
    pub still_running_ms: u64,
    /// A record that has grown to this size takes no further input. With the largest input, and
    /// with the rows that follow from it, it must fit into one message of NATS (1 MiB).
    pub record_bytes: usize,
    /// A run that sleeps for longer than this is released until it is woken.
    pub keep_asleep_ms: u64,
    /// A log that has grown by this many bytes, and by several times the state's own
    /// size, gets a checkpoint.
    pub checkpoint_bytes: usize,
    /// The labels of this process's workers.
    pub labels: Labels,
    /// The actions that this process calls itself; `None` means all. Other actions go to
    /// workers elsewhere, which have labels of their own.
    pub local_actions: Option<Arc<BTreeSet<Box<str>>>>,
    /// Whether attempts that require labels which this process lacks go to workers elsewhere.
    /// Otherwise they stay open for a process that has the labels.
    pub queues_unlabelled: bool,
    /// The name of this process in attempts.
    pub worker: Arc<str>,
    /// How large what runs make may be.
    pub limits: ValueLimits,
    /// A decision that takes more steps than this, or reads more bytes of values than
    /// `inline_bytes`, is computed elsewhere.
    pub inline_steps: u64,
    /// See `inline_steps`.
    pub inline_bytes: usize,
    /// Whether gates are counted in the store: the append that ends a run then frees its place.
    pub shared_gates: bool,
    /// The seed of the shard's random numbers.
    pub seed: u64,
}

impl Options {
    /// Whether this process calls an action itself.
    pub(crate) fn is_local(&self, action: &str) -> bool {
        let local = self.local_actions.as_ref();
        local.is_none_or(|local| local.contains(action))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writer: WriterId(0),
            max_parallel: 200,
            still_running_ms: 250,
            record_bytes: 256 * 1024,
            keep_asleep_ms: 1000,
            checkpoint_bytes: 1024 * 1024,
            labels: Labels::default(),
            local_actions: None,
            queues_unlabelled: false,
            worker: "local".into(),
            limits: ValueLimits::DEFAULT,
            inline_steps: INLINE_STEPS,
            inline_bytes: 16 * 1024,
            shared_gates: false,
            seed: 0,
        }
    }
}

/// The caller's name for a command, by which it finds the answer.
pub type CommandId = u64;

/// What reaches a shard.
#[derive(Debug)]
pub enum ShardInput {
    /// A new run.
    Start(Box<Start>),
    /// A run whose state was folded from its log.
    Acquire {
        /// The state.
        run: Box<Run>,
        /// Where its log ends.
        head: Head,
        /// Whether to execute the run, or only to keep it in memory for a command.
        mode: AcquireMode,
    },
    /// A worker reports the end of an attempt.
    Ended {
        /// The run whose node the worker executed.
        run: RunId,
        /// The node instance that the attempt belongs to.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// How it ended.
        report: Box<Report>,
    },
    /// A child run ended.
    ChildEnded {
        /// The parent.
        run: RunId,
        /// The node that started the child, or undoes it.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// How it ended.
        end: Box<ChildEnd>,
    },
    /// A child run could not be started.
    ChildFailed {
        /// The parent.
        run: RunId,
        /// The node that started the child.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// Why the child did not start.
        failure: Box<Failure>,
    },
    /// The store answers an append.
    Appended {
        /// The run whose record was appended.
        run: RunId,
        /// Which append.
        append_id: u64,
        /// What the store answered; it may not know whether the record is durable.
        result: Result<Appended, AppendError>,
    },
    /// The head that an [`Effect::ReadHead`] asked for.
    HeadRead {
        /// The run whose append had an unclear answer.
        run: RunId,
        /// The head that the store has.
        result: Result<Head, windlass_store::Error>,
    },
    /// Values that an [`Effect::Load`] asked for.
    Loaded {
        /// The run that waits for the values.
        run: RunId,
        /// Digest and JSON text of each.
        values: Vec<(Digest, Arc<str>)>,
    },
    /// Values could not be read: the run cannot continue here.
    LoadFailed {
        /// The run that waits for the values.
        run: RunId,
        /// Why the store could not read them.
        error: windlass_store::Error,
    },
    /// The result of an [`Effect::Evaluate`].
    Evaluated(Box<Evaluated>),
    /// The store's answer to an attempt of an [`Effect::TakeSlots`].
    SlotsAnswered {
        /// The run whose node asked.
        run: RunId,
        /// The node instance that the attempt belongs to.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// Whether it holds its slots now; otherwise it waits in line.
        granted: bool,
    },
    /// A request, which is answered, to a run that this shard has in memory: a command, a newer
    /// version to follow, or the end of its parent's time.
    Command {
        /// The run that the command is for.
        run: RunId,
        /// The id to answer with.
        id: CommandId,
        /// The request.
        input: RunInput,
        /// The key of the inbox item that asks for it: the record that carries it out consumes
        /// the item.
        item: Option<Box<str>>,
    },
}

/// A new run.
#[derive(Debug)]
pub struct Start {
    /// Its id.
    pub run: RunId,
    /// Its graph.
    pub plan: Arc<Plan>,
    /// The request for it.
    pub queued: Queued,
    /// Values that `queued` refers to and that are not stored yet.
    pub blobs: Vec<Payload>,
    /// Claims to be won with the first record.
    pub claims: Vec<Claim>,
    /// Whether it begins now, or is only queued.
    pub begin: Begin,
    /// Results of the run that it is forked from.
    pub reused: Vec<ReusedNode>,
}

/// Why a shard acquires a run that it did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// The process that executed it before is gone, in this way.
    Recover(After),
    /// It slept: no process has an attempt of it, nor will have one; see
    /// [`AcquireMode::of_sleeper`].
    Wake,
    /// A command needs it; the shard does not execute it.
    ForCommand,
}

impl AcquireMode {
    /// The process that executed it before died, as far as is known.
    pub const RECOVER: Self = Self::Recover(After::Death);

    /// How a run that only waits is acquired. A waiting attempt is handed out at its time
    /// without a record. Unless this process wrote the last record, another process may have
    /// handed the attempt out, or may still do so: no clock can tell. So the recovery is recorded,
    /// and the attempt keeps its number, and with it its idempotency key. Every other wait ends
    /// with a record, which the store refuses from a process that is late. A run that this shard
    /// had to drop in the middle of something is recovered anyway.
    pub fn of_sleeper(run: &Run, wrote_last: bool) -> Self {
        if wrote_last || !run.awaits_attempt() {
            Self::Wake
        } else {
            // No process had an attempt of it when it went to sleep, so no death is counted.
            Self::Recover(After::Stop)
        }
    }
}

/// Whether a new run begins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// In the same record.
    Now,
    /// When a process acquires it.
    Later,
}

/// What a parent tells a child run to do.
#[derive(Clone, Debug)]
pub enum ChildCommand {
    /// Start it. After a crash either nothing of it exists, or all of it does.
    Start(Box<ChildStart>),
    /// Cancel it.
    Cancel,
    /// End it because the parent's time is over.
    TimeOut,
    /// Start nothing more.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Undo what it did.
    Compensate,
}

/// An attempt that failed: of an action, a loop, a wait or a child run.
#[derive(Debug)]
pub struct FailedAttempt {
    /// The node instance.
    pub path: Box<str>,
    /// Whether it was to compensate the node.
    pub undo: bool,
    /// The code and the message of the failure.
    pub failure: Failure,
    /// Whether another attempt follows.
    pub again: bool,
    /// How many of the changes that are reported with it come before it in the log.
    pub changes_before: usize,
}

/// An attempt that a worker of another process takes.
#[derive(Clone, Copy, Debug)]
pub struct HandOut<'a> {
    /// The run that hands the attempt out.
    pub run: RunId,
    /// The node instance that the attempt belongs to.
    pub node: Instance,
    /// The attempt's number.
    pub attempt: u32,
    /// The worker, as the attempt names it.
    pub worker: &'a str,
    /// Whether it works on the attempt already, and only its lease was lost.
    pub resumes: bool,
    /// Whether it is only asked if a worker may take the attempt.
    pub asks: bool,
    /// When the first worker got the attempt, if that is known.
    pub since: Option<Millis>,
}

/// What the shard asks its driver to do. What a record decided comes only once the record is
/// durable, and so does the refusal of a command that came after it; loads and the loss of a run
/// need no record of their own.
#[derive(Debug)]
pub enum Effect {
    /// Hand an attempt to a worker.
    Dispatch(Arc<Dispatch>),
    /// Ask for slots of pools and answer with [`ShardInput::SlotsAnswered`], one for each. This
    /// and [`Effect::GiveSlots`] are carried out in the order in which they come.
    TakeSlots(Vec<SlotRequest>),
    /// Free slots, and places in line, of attempts that need them no more.
    GiveSlots(Vec<GivenSlots>),
    /// A durable record has freed slots of a pool: the first of its line may go.
    SlotsFreed(PoolKey),
    /// Act on a child run.
    Child {
        /// The parent.
        run: RunId,
        /// The node that has the child.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// The child run that the command is for.
        child: RunId,
        /// What to do.
        command: ChildCommand,
    },
    /// A state that replaces the replay of the log up to here, to be stored beside the log.
    Checkpoint {
        /// The run whose state it is.
        run: RunId,
        /// The last record that it covers.
        head: Head,
        /// The state, in its envelope.
        bytes: Vec<u8>,
    },
    /// The run waits for a time, a signal or a child, and the shard has released it.
    Asleep {
        /// The run that sleeps.
        run: RunId,
        /// When it must be woken; `None` if no time does.
        wake_at: Option<Millis>,
        /// Whether it waits for a child, whose end wakes it.
        for_child: bool,
    },
    /// A child's end came for a run that is not here: it must be woken, and asks for it again.
    WakeParent {
        /// The parent, which sleeps.
        run: RunId,
    },
    /// Tell a worker to stop, or give its work up.
    Stop {
        /// The grace is over: the run does not wait for the result any more.
        give_up: bool,
        /// The run that asks for the stop.
        run: RunId,
        /// The node instance that the attempt belongs to.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
    },
    /// Load values and answer with [`ShardInput::Loaded`].
    Load {
        /// The run whose decision reads the values.
        run: RunId,
        /// Where they are.
        values: Vec<ValueRef>,
    },
    /// Compute a decision where no other run waits, and answer with [`ShardInput::Evaluated`].
    Evaluate(Box<Evaluation>),
    /// End the run's evaluation early: something more urgent has come.
    Interrupt {
        /// The run whose evaluation is under way.
        run: RunId,
    },
    /// The run's first record is durable.
    Accepted {
        /// The run that was started.
        run: RunId,
    },
    /// The run was not started: a claim is held, with this value.
    Held {
        /// The run that was not started.
        run: RunId,
        /// The value that the holder of the claim left.
        value: Vec<u8>,
    },
    /// The run began, or was recovered from a process that is gone.
    Began {
        /// A summary of it.
        about: Box<RunSummary>,
        /// Whether it had begun before, in a process that is gone.
        recovered: bool,
    },
    /// A command was carried out, or refused.
    Answer {
        /// The run that the command is for.
        run: RunId,
        /// The id that the command came with.
        id: CommandId,
        /// Whether it was carried out.
        result: Result<(), Refusal>,
    },
    /// Durable progress: the new status of nodes.
    Progress {
        /// The run whose nodes these are.
        run: RunId,
        /// Nodes whose status changed, with what they are now.
        nodes: Vec<(Instance, windlass_core::NodeStatus)>,
        /// How loops of the top level and waits stand, where that changed. These may be ahead
        /// of what is durable: they are for display only.
        waiting_nodes: Vec<WaitingNode>,
        /// The attempts that failed.
        failures: Vec<FailedAttempt>,
    },
    /// The run became active or stopped being so: it began, was opened again, or ended,
    /// durably.
    ActiveChanged {
        /// The run that is active now, or was.
        run: RunId,
        /// The tenant that the run belongs to, if any.
        tenant: Option<Box<str>>,
        /// The id of the workflow that the run executes.
        workflow: Box<str>,
        /// The gate that it passed, if it had to pass one, by its full name.
        gate: Option<Box<str>>,
        /// Whether it is active now.
        going: bool,
    },
    /// The run has ended, durably, and the shard has released it.
    Finished {
        /// The run that has ended.
        run: RunId,
        /// The status that it ended with.
        status: RunStatus,
        /// The run that started it, if it is a child.
        parent: Option<RunId>,
        /// A summary of it.
        about: Box<RunSummary>,
        /// Whether it ended here; otherwise it had ended before a command or its parent asked
        /// for it.
        here: bool,
    },
    /// Read the run's head and answer with [`ShardInput::HeadRead`]: the store could not say
    /// whether a record was appended.
    ReadHead {
        /// The run whose append had an unclear answer.
        run: RunId,
    },
    /// Records of this run that were acknowledged are gone: nothing may be appended to what
    /// is left, and the run is not loaded again.
    Quarantined {
        /// The run that lost records.
        run: RunId,
        /// The run that started it, if it is a child.
        parent: Option<RunId>,
        /// The head that was acknowledged.
        acknowledged: Head,
        /// The head that the store has.
        found: Head,
    },
    /// Another process wrote to the run, and this one has dropped it. The owner of its partition
    /// reads it again.
    Fenced {
        /// The run that another process wrote to.
        run: RunId,
        /// The run that started it, if it is a child: its end may be durable.
        parent: Option<RunId>,
    },
    /// A record could not be stored: nothing more is acknowledged for this run.
    Broken {
        /// The run whose record was not stored.
        run: RunId,
        /// The run that started it, if it is a child: its end may be durable.
        parent: Option<RunId>,
        /// Why the store did not take the record.
        error: windlass_store::Error,
    },
}

/// Many runs behind one synchronous interface; it does no I/O.
#[derive(Debug)]
pub struct Shard {
    options: Options,
    slots: BTreeMap<RunId, Slot>,
    /// Runs that may have a record to append.
    dirty: BTreeSet<RunId>,
    /// Runs that were dropped in the middle of something, until they are acquired again.
    broken: BTreeSet<RunId>,
    /// Runs in quarantine, with the head that was acknowledged: a run is not acquired again from a
    /// shorter log.
    quarantined: BTreeMap<RunId, Head>,
    effects: VecDeque<Effect>,
    /// Attempts that wait for slots of pools.
    lines: Lines,
    deadlines: Deadlines,
    next_append: u64,
    next_evaluation: u64,
    random: u64,
}

/// What a slot borrows from its shard.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) effects: &'a mut VecDeque<Effect>,
    pub(crate) lines: &'a mut Lines,
    pub(crate) deadlines: &'a mut Deadlines,
    pub(crate) random: &'a mut u64,
    pub(crate) next_evaluation: &'a mut u64,
    pub(crate) now: Millis,
}

impl Context<'_> {
    /// SplitMix64: good enough for jitter, and the same everywhere.
    pub(crate) fn random(&mut self) -> u64 {
        *self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Shard {
    /// An empty shard.
    pub fn new(options: Options) -> Self {
        Self {
            random: options.seed,
            options,
            slots: BTreeMap::new(),
            dirty: BTreeSet::new(),
            broken: BTreeSet::new(),
            quarantined: BTreeMap::new(),
            effects: VecDeque::new(),
            lines: Lines::default(),
            deadlines: Deadlines::default(),
            next_append: 0,
            next_evaluation: 0,
        }
    }

    /// Whether the shard has this run in memory, to execute it or for a command.
    pub fn holds(&self, run: RunId) -> bool {
        self.slots.contains_key(&run)
    }

    /// Whether the shard executes this run, and does not only keep it for a command.
    pub fn is_acquired(&self, run: RunId) -> bool {
        self.slots.get(&run).is_some_and(Slot::is_acquired)
    }

    /// The runs that the shard has in memory.
    pub fn runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.slots.keys().copied()
    }

    /// How many runs the shard has in memory.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the shard has no run in memory.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The state of a run, which may be ahead of what is durable.
    pub fn run(&self, run: RunId) -> Option<&Run> {
        self.slots.get(&run).map(Slot::run)
    }

    /// How many values the shard holds for a run: those of records that are not durable
    /// yet, and small ones that later decisions may need.
    pub fn values_held(&self, run: RunId) -> usize {
        self.slots.get(&run).map_or(0, Slot::values_held)
    }

    /// Takes an input.
    pub fn handle(&mut self, input: ShardInput, now: Millis) {
        let Some(asked) = self.answered(&input) else {
            return;
        };
        let run = match &input {
            ShardInput::Start(start) => start.run,
            ShardInput::Acquire { run, .. } => run.id(),
            ShardInput::Ended { run, .. }
            | ShardInput::ChildEnded { run, .. }
            | ShardInput::ChildFailed { run, .. }
            | ShardInput::Appended { run, .. }
            | ShardInput::HeadRead { run, .. }
            | ShardInput::Loaded { run, .. }
            | ShardInput::LoadFailed { run, .. }
            | ShardInput::SlotsAnswered { run, .. }
            | ShardInput::Command { run, .. } => *run,
            ShardInput::Evaluated(evaluated) => evaluated.run(),
        };
        let mut context = Context {
            options: &self.options,
            effects: &mut self.effects,
            lines: &mut self.lines,
            deadlines: &mut self.deadlines,
            random: &mut self.random,
            next_evaluation: &mut self.next_evaluation,
            now,
        };
        let keep = match input {
            ShardInput::Start(start) => match Slot::start(*start, &mut context) {
                Ok(slot) => {
                    self.slots.insert(run, slot);
                    true
                }
                Err(error) => {
                    let parent = None;
                    self.effects
                        .push_back(Effect::Broken { run, parent, error });
                    return;
                }
            },
            ShardInput::Acquire {
                run: state,
                head,
                mode,
            } => {
                if let Some(&acknowledged) = self.quarantined.get(&run)
                    && head.sequence < acknowledged.sequence
                {
                    let parent = state.queued().parent.as_ref();
                    self.effects.push_back(Effect::Quarantined {
                        run,
                        parent: parent.map(|parent| parent.execution_id),
                        acknowledged,
                        found: head,
                    });
                    return;
                }
                let was_broken = mode != AcquireMode::ForCommand && self.broken.remove(&run);
                let mode = match mode {
                    AcquireMode::Wake if was_broken => AcquireMode::Recover(After::Stop),
                    mode => mode,
                };
                match self.slots.get_mut(&run) {
                    // The state in the slot may be ahead of the one that was read.
                    Some(slot) if mode != AcquireMode::ForCommand => {
                        slot.execute_as(mode, &mut context);
                    }
                    Some(_) => {}
                    None => {
                        let slot = Slot::acquire(*state, head, mode, &mut context);
                        self.slots.insert(run, slot);
                    }
                }
                true
            }
            other => match self.slots.get_mut(&run) {
                Some(slot) => slot.handle(other, &mut context),
                None => {
                    // One that was dropped is another process's, or is acquired again.
                    let was_dropped = self.broken.contains(&run);
                    late::refuse(other, was_dropped, asked, &mut context);
                    return;
                }
            },
        };
        if keep {
            self.dirty.insert(run);
            return;
        }
        self.remove(run);
        if let Some(&Effect::Quarantined {
            run, acknowledged, ..
        }) = self.effects.back()
        {
            self.quarantined.insert(run, acknowledged);
        }
    }

    /// Drops a run that another process executes, or none.
    fn remove(&mut self, run: RunId) {
        if let Some(slot) = self.slots.remove(&run) {
            if slot.is_broken() {
                self.broken.insert(run);
            }
            self.leave_lines(run, &slot);
        }
    }

    /// A worker of another process is about to take an attempt that was dispatched. `false` if
    /// it must not: the attempt has ended, is to stop, or the run is paused; then it is
    /// dispatched again when the run is executed again.
    pub fn hand_out(&mut self, taken: &HandOut<'_>, now: Millis) -> bool {
        let mut context = Context {
            options: &self.options,
            effects: &mut self.effects,
            lines: &mut self.lines,
            deadlines: &mut self.deadlines,
            random: &mut self.random,
            next_evaluation: &mut self.next_evaluation,
            now,
        };
        let slot = self.slots.get_mut(&taken.run);
        slot.is_some_and(|slot| slot.hand_out(taken, &mut context))
    }

    /// Fires the deadlines that have passed.
    pub fn handle_deadlines(&mut self, now: Millis) {
        while let Some((run, deadline)) = self.deadlines.pop_due(now) {
            let Some(slot) = self.slots.get_mut(&run) else {
                continue;
            };
            let mut context = Context {
                options: &self.options,
                effects: &mut self.effects,
                lines: &mut self.lines,
                deadlines: &mut self.deadlines,
                random: &mut self.random,
                next_evaluation: &mut self.next_evaluation,
                now,
            };
            slot.handle_deadline(deadline, &mut context);
            if slot.is_closed() {
                self.remove(run);
            } else {
                self.dirty.insert(run);
            }
        }
    }

    /// Records to append now: at most one for each run, and none while the run's last
    /// is in flight. What is decided meanwhile goes into the next.
    pub fn poll_append(&mut self) -> Vec<Append> {
        let mut batch = Vec::new();
        for run in std::mem::take(&mut self.dirty) {
            let Some(slot) = self.slots.get_mut(&run) else {
                continue;
            };
            if let Some(append) = slot.poll_append(&self.options, self.next_append + 1) {
                self.next_append += 1;
                batch.push(append);
            }
        }
        batch
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call `handle_deadlines` next.
    pub fn next_deadline(&mut self) -> Option<Millis> {
        let slots = &self.slots;
        self.deadlines
            .next(|run, deadline| match (slots.get(&run), deadline) {
                (None, _) => true,
                (Some(slot), Deadline::StillRunning(node, attempt)) => {
                    !slot.is_running(node, attempt)
                }
                (Some(_), _) => false,
            })
    }
}
