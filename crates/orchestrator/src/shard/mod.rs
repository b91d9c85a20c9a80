//! Many runs behind one synchronous face: `handle` takes inputs, `poll_append` and
//! `poll_effect` yield what to do, `next_deadline` says when to call again.

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
    About, ChildEnd, ChildStart, Dispatch, Failure, INLINE_STEPS, Input as RunInput, Instance,
    Refusal, Report, Run, Standing, ValueLimits,
};
use windlass_core::value::{Payload, ValueRef};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{Append, AppendError, Appended, Claim, Head, WriterId};

use crate::deadline::{Deadline, Deadlines};
use crate::evaluation::{Evaluated, Evaluation};
use slot::Slot;

/// How a shard behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who writes, for the store's fence.
    pub writer: WriterId,
    /// How many nodes of a run may be with workers when its definition does not say.
    pub max_parallel: u32,
    /// An attempt that runs longer than this is recorded as started.
    pub still_running_ms: u64,
    /// A record that has grown to this size takes no further input.
    pub record_bytes: usize,
    /// A run that sleeps for longer than this is let go until it is woken.
    pub keep_asleep_ms: u64,
    /// A log that has grown by this many bytes, and by several times the state's own
    /// size, gets a checkpoint.
    pub checkpoint_bytes: usize,
    /// What this process's workers have, for nodes that require it.
    pub labels: Labels,
    /// The actions that this process calls itself; where it is none, all of them. What calls
    /// another action is given to a worker elsewhere, which has labels of its own.
    pub local_actions: Option<Arc<BTreeSet<Box<str>>>>,
    /// This process, as attempts name it.
    pub worker: Arc<str>,
    /// How large what runs make may be.
    pub limits: ValueLimits,
    /// A decision that takes more steps than this, or reads more bytes of values than
    /// `inline_bytes`, is computed elsewhere.
    pub inline_steps: u64,
    /// See `inline_steps`.
    pub inline_bytes: usize,
    /// Where randomness begins.
    pub seed: u64,
}

impl Options {
    /// Whether this process calls an action itself.
    pub(crate) fn is_local(&self, action: &str) -> bool {
        let local = self.local_actions.as_ref();
        local.is_none_or(|local| local.contains(action))
    }
}

/// What workers have, for nodes that require it.
#[derive(Clone, Debug)]
pub enum Labels {
    /// Whatever is asked for: a rehearsal.
    All,
    /// These and no other.
    Only(Arc<[Box<str>]>),
}

impl Default for Labels {
    fn default() -> Self {
        Self::Only(Arc::default())
    }
}

impl Labels {
    /// The first of these labels that is lacking.
    pub fn lacking<'a>(&self, required: &'a [Box<str>]) -> Option<&'a str> {
        match self {
            Self::All => None,
            Self::Only(labels) => required
                .iter()
                .find(|label| !labels.contains(label))
                .map(|label| &**label),
        }
    }
}

impl<L: Into<Box<str>>> FromIterator<L> for Labels {
    fn from_iter<I: IntoIterator<Item = L>>(labels: I) -> Self {
        Self::Only(labels.into_iter().map(Into::into).collect())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writer: WriterId(0),
            max_parallel: 200,
            still_running_ms: 250,
            record_bytes: 512 * 1024,
            keep_asleep_ms: 1000,
            checkpoint_bytes: 1024 * 1024,
            labels: Labels::default(),
            local_actions: None,
            worker: "local".into(),
            limits: ValueLimits::DEFAULT,
            inline_steps: INLINE_STEPS,
            inline_bytes: 16 * 1024,
            seed: 0,
        }
    }
}

/// What a caller names a command by, to find its answer.
pub type CommandId = u64;

/// What reaches a shard.
#[derive(Debug)]
pub enum Input {
    /// A new run.
    Start(Box<Start>),
    /// A run whose state was folded from its log.
    Adopt {
        /// The state.
        run: Box<Run>,
        /// Where its log ends.
        head: Head,
        /// Whether to carry it on; otherwise it only waits for a command.
        adoption: Adoption,
    },
    /// A worker reports the end of an attempt.
    Ended {
        /// The run.
        run: RunId,
        /// The node.
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
        /// Why.
        failure: Box<Failure>,
    },
    /// The store answers an append.
    Appended {
        /// The run.
        run: RunId,
        /// Which append.
        append_id: u64,
        /// The answer.
        result: Result<Appended, AppendError>,
    },
    /// The head that an [`Effect::ReadHead`] asked for.
    HeadRead {
        /// The run.
        run: RunId,
        /// The head that the store has.
        result: Result<Head, windlass_store::Error>,
    },
    /// Values that an [`Effect::Load`] asked for.
    Loaded {
        /// The run.
        run: RunId,
        /// Digest and JSON text of each.
        values: Vec<(Digest, Arc<str>)>,
    },
    /// Values could not be read: the run cannot go on here.
    LoadFailed {
        /// The run.
        run: RunId,
        /// Why.
        error: windlass_store::Error,
    },
    /// What an [`Effect::Evaluate`] came to.
    Evaluated(Box<Evaluated>),
    /// Something is asked of a run that this shard holds, and is answered: a command, a newer
    /// version to follow, or the end of its parent's time.
    Command {
        /// The run.
        run: RunId,
        /// By what name to answer.
        id: CommandId,
        /// What is asked.
        input: RunInput,
    },
}

/// A new run.
#[derive(Debug)]
pub struct Start {
    /// Its id.
    pub run: RunId,
    /// Its graph.
    pub plan: Arc<Plan>,
    /// What it is asked for with.
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

/// Why a shard takes on a run that it did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Whoever carried it before is gone, in this way.
    Recover(After),
    /// It slept, and nobody has anything of it, nor will: see [`Adoption::of_sleeper`].
    Wake,
    /// Only for a command.
    Hold,
}

impl Adoption {
    /// Whoever carried it before died, as far as anybody knows.
    pub const RECOVER: Self = Self::Recover(After::Death);

    /// How a run is taken up that only waits. An attempt that waits for its time is handed
    /// out then without a record. Unless the last record is this process's own, another
    /// may have done so, or may yet: no clock tells. So it is recorded that the run was
    /// taken over, and the attempt keeps its number, and with that its idempotency key.
    /// Every other wait ends with a record, which the store refuses from whoever is late.
    /// A run that this shard had to let go in the middle of something is recovered anyway.
    pub fn of_sleeper(run: &Run, wrote_last: bool) -> Self {
        if wrote_last || !run.awaits_attempt() {
            Self::Wake
        } else {
            // Nobody had it in hand when it went to sleep, so no death is counted.
            Self::Recover(After::Stop)
        }
    }
}

/// Whether a new run begins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// In the same record.
    Now,
    /// When somebody adopts it.
    Later,
}

/// What a parent wants of a child run.
#[derive(Clone, Debug)]
pub enum ChildCommand {
    /// Start it: nothing of it exists, or all of it does.
    Start(Box<ChildStart>),
    /// End it.
    Cancel,
    /// End it as its parent ends: its time is over.
    TimeOut,
    /// Start nothing more.
    Pause,
    /// Go on.
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
    /// Why.
    pub failure: Failure,
    /// Whether another attempt follows.
    pub again: bool,
}

/// An attempt that a worker of another process takes.
#[derive(Clone, Copy, Debug)]
pub struct HandOut<'a> {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: Instance,
    /// The attempt's number.
    pub attempt: u32,
    /// The worker, as the attempt names it.
    pub worker: &'a str,
    /// Whether it works on the attempt already, and only its lease was lost.
    pub resumes: bool,
}

/// What the shard wants done. What a record decided comes only once the record is durable;
/// loads, refused answers and the loss of a run need no record of their own.
#[derive(Debug)]
pub enum Effect {
    /// Hand an attempt to a worker.
    Dispatch(Arc<Dispatch>),
    /// Act on a child run.
    Child {
        /// The parent.
        run: RunId,
        /// The node that has the child.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// The child.
        child: RunId,
        /// What to do.
        command: ChildCommand,
    },
    /// A state that stands for the log up to here, to be kept beside it.
    Checkpoint {
        /// The run.
        run: RunId,
        /// The last record that it stands for.
        head: Head,
        /// The state, in its envelope.
        bytes: Vec<u8>,
    },
    /// The run waits for a time, a signal or a child, and the shard has let it go.
    Asleep {
        /// The run.
        run: RunId,
        /// When it wants to be woken.
        wake_at: Option<Millis>,
        /// Whether it waits for a child, whose end wakes it.
        for_child: bool,
    },
    /// A child's end came for a run that is not here: it must be woken, and asks again.
    Wanted {
        /// The run.
        run: RunId,
    },
    /// Tell a worker to stop, or give its work up.
    Stop {
        /// The grace is over: nobody waits for the result any more.
        give_up: bool,
        /// The run.
        run: RunId,
        /// The node.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
    },
    /// Load values and answer with [`Input::Loaded`].
    Load {
        /// The run.
        run: RunId,
        /// Where they are.
        values: Vec<ValueRef>,
    },
    /// Compute a decision where no other run waits, and answer with [`Input::Evaluated`].
    Evaluate(Box<Evaluation>),
    /// End the run's evaluation early: something more urgent has come.
    Interrupt {
        /// The run.
        run: RunId,
    },
    /// The run's first record is durable.
    Accepted {
        /// The run.
        run: RunId,
    },
    /// The run was not started: a claim is held, with this value.
    Held {
        /// The run that was not started.
        run: RunId,
        /// What the holder left.
        value: Vec<u8>,
    },
    /// The run began, or was taken over from a process that is gone.
    Began {
        /// What it is.
        about: Box<About>,
        /// Whether it was taken over.
        recovered: bool,
    },
    /// A command was carried out, or refused.
    Answer {
        /// The command's name.
        id: CommandId,
        /// How it went.
        result: Result<(), Refusal>,
    },
    /// Durable progress: how many nodes stand where now.
    Progress {
        /// The run.
        run: RunId,
        /// Nodes whose status changed, with what they are now.
        nodes: Vec<(Instance, windlass_core::NodeStatus)>,
        /// How loops of the top level and waits stand, where that changed. These may be
        /// ahead of what is durable: they are for people to look at.
        standings: Vec<Standing>,
        /// The attempts that failed.
        failures: Vec<FailedAttempt>,
    },
    /// The run goes now, or does no more: it began, was opened again, or ended, durably.
    Going {
        /// The run.
        run: RunId,
        /// Whose it is.
        tenant: Option<Box<str>>,
        /// Its workflow.
        workflow: Box<str>,
        /// The gate that it passed, if it had to pass one, by its full name.
        gate: Option<Box<str>>,
        /// Whether it goes.
        going: bool,
    },
    /// The run has ended, durably, and the shard has let it go.
    Finished {
        /// The run.
        run: RunId,
        /// How.
        status: RunStatus,
        /// The run that started it, if it is a child.
        parent: Option<RunId>,
        /// What it is.
        about: Box<About>,
        /// Whether it ended here; else it had ended before somebody wanted something of it.
        here: bool,
    },
    /// Read the run's head and answer with [`Input::HeadRead`]: the store could not say
    /// whether a record was appended.
    ReadHead {
        /// The run.
        run: RunId,
    },
    /// Records of this run that were acknowledged are gone: nothing may be appended to what
    /// is left, and the run is not loaded again.
    Quarantined {
        /// The run.
        run: RunId,
        /// The run that started it, if it is a child.
        parent: Option<RunId>,
        /// The head that was acknowledged.
        acknowledged: Head,
        /// The head that the store has.
        found: Head,
    },
    /// Another process wrote to the run; this one has let it go. Who holds its lease reads
    /// it again.
    Fenced {
        /// The run.
        run: RunId,
        /// The run that started it, if it is a child: its end may be durable.
        parent: Option<RunId>,
    },
    /// A record could not be stored: nothing more is acknowledged for this run.
    Broken {
        /// The run.
        run: RunId,
        /// The run that started it, if it is a child: its end may be durable.
        parent: Option<RunId>,
        /// Why.
        error: windlass_store::Error,
    },
}

/// Many runs.
#[derive(Debug)]
pub struct Shard {
    options: Options,
    slots: BTreeMap<RunId, Slot>,
    /// Runs that may have a record to append.
    dirty: BTreeSet<RunId>,
    /// Runs that were let go in the middle of something, until they are taken up again.
    broken: BTreeSet<RunId>,
    /// Runs in quarantine, with the head that was acknowledged: they are not taken up from
    /// less than that.
    quarantined: BTreeMap<RunId, Head>,
    effects: VecDeque<Effect>,
    deadlines: Deadlines,
    next_append: u64,
    next_evaluation: u64,
    random: u64,
}

/// What a slot needs of its shard.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) effects: &'a mut VecDeque<Effect>,
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
            deadlines: Deadlines::default(),
            next_append: 0,
            next_evaluation: 0,
        }
    }

    /// Whether the shard holds this run.
    pub fn holds(&self, run: RunId) -> bool {
        self.slots.contains_key(&run)
    }

    /// Whether the shard carries this run on, and does not only hold it for a command.
    pub fn carries(&self, run: RunId) -> bool {
        self.slots.get(&run).is_some_and(Slot::is_carried)
    }

    /// The runs that the shard holds.
    pub fn runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.slots.keys().copied()
    }

    /// How many runs the shard holds.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the shard holds no run.
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
    pub fn handle(&mut self, input: Input, now: Millis) {
        let run = match &input {
            Input::Start(start) => start.run,
            Input::Adopt { run, .. } => run.id(),
            Input::Ended { run, .. }
            | Input::ChildEnded { run, .. }
            | Input::ChildFailed { run, .. }
            | Input::Appended { run, .. }
            | Input::HeadRead { run, .. }
            | Input::Loaded { run, .. }
            | Input::LoadFailed { run, .. }
            | Input::Command { run, .. } => *run,
            Input::Evaluated(evaluated) => evaluated.run(),
        };
        let mut context = Context {
            options: &self.options,
            effects: &mut self.effects,
            deadlines: &mut self.deadlines,
            random: &mut self.random,
            next_evaluation: &mut self.next_evaluation,
            now,
        };
        let keep = match input {
            Input::Start(start) => match Slot::start(*start, &mut context) {
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
            Input::Adopt {
                run: state,
                head,
                adoption,
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
                let was_broken = adoption != Adoption::Hold && self.broken.remove(&run);
                let adoption = match adoption {
                    Adoption::Wake if was_broken => Adoption::Recover(After::Stop),
                    adoption => adoption,
                };
                match self.slots.get_mut(&run) {
                    // What the slot knows may be ahead of what was read.
                    Some(slot) if adoption != Adoption::Hold => {
                        slot.carry_on(adoption, &mut context);
                    }
                    Some(_) => {}
                    None => {
                        let slot = Slot::adopt(*state, head, adoption, &mut context);
                        self.slots.insert(run, slot);
                    }
                }
                true
            }
            other => match self.slots.get_mut(&run) {
                Some(slot) => slot.handle(other, &mut context),
                None => {
                    refuse(other, &mut context);
                    return;
                }
            },
        };
        if keep {
            self.dirty.insert(run);
            return;
        }
        if self.slots.remove(&run).is_some_and(|slot| slot.is_broken()) {
            self.broken.insert(run);
        }
        if let Some(&Effect::Quarantined {
            run, acknowledged, ..
        }) = self.effects.back()
        {
            self.quarantined.insert(run, acknowledged);
        }
    }

    /// A worker of another process is about to take an attempt that was dispatched. `false` if
    /// it must not: the attempt has ended, is to stop, or the run is paused; then it is
    /// dispatched again when the run goes on.
    pub fn hand_out(&mut self, taken: &HandOut<'_>, now: Millis) -> bool {
        let mut context = Context {
            options: &self.options,
            effects: &mut self.effects,
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
                deadlines: &mut self.deadlines,
                random: &mut self.random,
                next_evaluation: &mut self.next_evaluation,
                now,
            };
            slot.handle_deadline(deadline, &mut context);
            if slot.is_closed() {
                self.slots.remove(&run);
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

    /// When `handle_deadlines` wants to be called next.
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

/// Nobody is there to take it: a command is answered, who sleeps for a child is woken,
/// anything else is late.
fn refuse(input: Input, context: &mut Context<'_>) {
    match input {
        Input::Command { id, .. } => context.effects.push_back(Effect::Answer {
            id,
            result: Err(Refusal::RunEnded),
        }),
        Input::ChildEnded { run, .. } | Input::ChildFailed { run, .. } => {
            context.effects.push_back(Effect::Wanted { run });
        }
        _ => {}
    }
}
