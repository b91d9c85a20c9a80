//! One run in a shard: its state, which may be ahead of what is durable, the record
//! being built, the one in flight, and the effects that wait for it.

mod decide;
mod doubt;
mod effects;
mod evaluate;
mod failures;
mod pools;
mod sleep;
mod values;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windlass_core::definition::ExecutionMode;
use windlass_core::event::{After, Event, RequestKey};
use windlass_core::id::{DigestMap, DigestSet};
use windlass_core::plan::NodeKind;
use windlass_core::run::{
    Change, Input as RunInput, Instance, Loaded, Recovery, Refusal, Run, Values,
};
use windlass_core::{Digest, Millis, NodeStatus, RunStatus};
use windlass_store::{Append, Blob, Claim, Error, Head, ResourceRow};

use super::ready::{Ready, ReadyOrder};
use super::running::Running;
use super::{
    AcquireMode, Begin, ChildCommand, CommandId, Context, Effect, FailedAttempt, Options,
    ShardInput, Start,
};
use crate::codec::{self, RecordBuilder};
use crate::deadline::Deadline;
use crate::gate::Gated;
use crate::row::row;
use doubt::Doubt;
use evaluate::{Evaluating, is_urgent};
use pools::Pooled;

/// Values that decisions may need later are kept in memory up to this size.
const KEPT_VALUE_BYTES: usize = 1024 * 1024;

/// What a kept value costs besides its text: its parsed form, and its places in the maps.
const KEPT_ENTRY_BYTES: usize = 320;

/// One record reports this many waits and loops; an observer cannot read more.
const MAX_STANDINGS: usize = 100;

/// The instance that a change is about, if no worker has it.
fn touches(change: &Change) -> Option<Instance> {
    match *change {
        Change::Waiting(node, ..) | Change::IterationEnded(node, ..) => Some(node),
        _ => None,
    }
}

/// What happens once a record is durable. Each carries all that it needs, because the state
/// may be ahead by then.
#[derive(Debug)]
enum Consequence {
    /// A node changed.
    Changed(Change),
    /// A node that no worker has began or continued.
    Noted(Instance, NodeStatus),
    /// An attempt failed.
    Failed(Box<FailedAttempt>),
    /// A command to a child run.
    Child(Box<ToChild>),
    /// A command is answered: it was carried out, or refused for this reason.
    Answer(CommandId, Option<Box<Refusal>>),
    Accepted,
    /// The run began, or was recovered.
    Began {
        recovered: bool,
    },
    /// An open attempt is handed out, as after a restart.
    Open(Instance, u32),
    /// An attempt that was asked to stop may be with a worker that outlived its process.
    StopAgain(Instance, u32),
    /// The timer of a waiting node is set again.
    Wait(Instance, u32, Millis),
    /// A worker has an attempt that a reattempt took back.
    Disown(Instance, u32),
    /// The run may go on.
    Resumed,
    /// A state that replaces the replay of the log up to the record.
    Checkpoint(Vec<u8>),
    /// The run became active, or stopped being so.
    ActiveChanged(bool),
    ArmTimeout(Millis),
    ArmGrace(Millis),
    /// The store has a value now; later decisions may still need it here.
    Stored(Digest, bool),
    /// Workers may be given the variables that the record sets.
    VarsSet,
    /// The record has freed the slots that an attempt held of a pool.
    SlotsFreed(Instance, u32, windlass_store::PoolKey),
}

/// A command to a child run.
#[derive(Debug)]
struct ToChild {
    /// The node that has it, and its attempt.
    node: Instance,
    attempt: u32,
    child: windlass_core::RunId,
    command: ChildCommand,
}

impl Consequence {
    fn child(
        node: Instance,
        attempt: u32,
        child: windlass_core::RunId,
        command: ChildCommand,
    ) -> Self {
        Self::Child(Box::new(ToChild {
            node,
            attempt,
            child,
            command,
        }))
    }
}

#[derive(Debug)]
pub(in crate::shard) struct Slot {
    run: Arc<Run>,
    head: Head,
    ready: Ready,
    running: Running,
    /// Resumes and reattempts that are not durable yet: nothing is handed out before.
    resuming: u32,
    inbox: VecDeque<(RunInput, Option<CommandId>)>,
    /// The items of the store's inbox that commands came from, until they are decided.
    items: BTreeMap<CommandId, Box<str>>,
    /// Refusals that wait for a record, with the keys of their requests: a request that comes
    /// again meanwhile gets the same answer.
    refusals: Vec<(CommandId, RequestKey, Refusal)>,
    /// Those that the record consumes.
    consumed: Vec<Box<str>>,
    /// The gates that the run leaves with the record.
    releases: Vec<Box<str>>,
    /// Attempts whose slots are free with the record.
    freed: Vec<(Instance, u32)>,
    pooled: Pooled,
    record: RecordBuilder,
    consequences: Gated<Consequence>,
    blobs: Vec<Blob>,
    /// Values that the record refers to and that another run stored.
    uses: Vec<Digest>,
    claims: Vec<Claim>,
    resources: Vec<ResourceRow>,
    row_changed: bool,
    in_flight: Option<(u64, Gated<Consequence>)>,
    /// The record in flight, once the store could not say what became of it.
    doubt: Option<Box<Doubt>>,
    /// An [`Effect::Load`] is on its way.
    loading: bool,
    /// An [`Effect::Evaluate`] is on its way. Until it is answered the state does not change.
    evaluating: Option<Evaluating>,
    /// The run has more to decide than it may in one turn.
    has_more: bool,
    /// Values of records that are not durable yet, and those that decisions need.
    values: Values,
    /// How many records that are not durable yet name a value.
    undurable: DigestMap<u32>,
    /// Records that are not durable yet and set variables.
    setting_vars: u32,
    /// Values kept because decisions need them, oldest first, and their size together.
    kept: DigestSet,
    kept_order: VecDeque<Digest>,
    kept_bytes: usize,
    /// Values that were loaded for the decision at hand.
    loaded: Vec<Digest>,
    /// Since when the run only waits for children.
    idle_since: Option<Millis>,
    /// Bytes of records since the last checkpoint, and that one's size.
    since_checkpoint: usize,
    checkpoint_size: usize,
    /// Whether the run only waits, and until when.
    slept: (bool, Option<Millis>),
    /// What its row says about that; unknown after another process wrote the row.
    shown: Option<(bool, Option<Millis>)>,
    /// Whether this shard executes the run; a run acquired for a command only waits for it.
    acquired: bool,
    /// Where the log ended, if the run had ended when it was acquired.
    found_ended: Option<Head>,
    /// The shard drops it because something could not be stored or read.
    broken: bool,
    /// Set when nothing may be appended any more.
    closed: bool,
}

impl Slot {
    pub(in crate::shard) fn start(start: Start, context: &mut Context<'_>) -> Result<Self, Error> {
        let queued = start.queued;
        let event = Event::Queued(Box::new(queued.clone()));
        let run = Run::new(start.run, start.plan, queued, context.now)
            .map_err(|corrupt| Error::TooNew(corrupt.to_string()))?;
        let mut slot = Self::new(run, Head::NONE);
        slot.claims = start.claims;
        start
            .blobs
            .iter()
            .for_each(|payload| slot.hold_blob(payload));
        slot.row_changed = true;
        slot.record.push(&event, context.now);
        slot.consequences.push(Consequence::Accepted);
        if !start.reused.is_empty() {
            slot.record_event(&Event::Reused(start.reused), None, context);
        }
        if start.begin == Begin::Now {
            slot.inbox.push_back((RunInput::Begin, None));
        }
        slot.advance(context);
        Ok(slot)
    }

    pub(in crate::shard) fn acquire(
        run: Run,
        head: Head,
        mode: AcquireMode,
        context: &mut Context<'_>,
    ) -> Self {
        let mut slot = Self::new(run, head);
        // An ended run has nothing to recover; a command that reopens it continues it at once.
        slot.acquired = slot.run.status().is_final();
        slot.found_ended = slot.acquired.then_some(head);
        slot.execute_as(mode, context);
        slot
    }

    /// Begins to execute an acquired run, once.
    pub(in crate::shard) fn execute_as(&mut self, mode: AcquireMode, context: &mut Context<'_>) {
        if mode == AcquireMode::ForCommand || std::mem::replace(&mut self.acquired, true) {
            return;
        }
        match (self.run.status(), mode) {
            (RunStatus::Pending, _) => self.inbox.push_back((RunInput::Begin, None)),
            (RunStatus::Running | RunStatus::Paused, AcquireMode::Recover(after)) => {
                self.recover(after, context);
            }
            (RunStatus::Running | RunStatus::Paused, _) => self.wake(context),
            _ => {}
        }
        self.advance(context);
    }

    fn new(run: Run, head: Head) -> Self {
        Self {
            run: Arc::new(run),
            head,
            ready: Ready::default(),
            running: Running::default(),
            resuming: 0,
            inbox: VecDeque::new(),
            items: BTreeMap::new(),
            refusals: Vec::new(),
            consumed: Vec::new(),
            releases: Vec::new(),
            freed: Vec::new(),
            pooled: Pooled::default(),
            record: RecordBuilder::default(),
            consequences: Gated::default(),
            blobs: Vec::new(),
            uses: Vec::new(),
            claims: Vec::new(),
            resources: Vec::new(),
            row_changed: false,
            in_flight: None,
            doubt: None,
            loading: false,
            evaluating: None,
            has_more: false,
            values: Values::default(),
            undurable: DigestMap::default(),
            setting_vars: 0,
            kept: DigestSet::default(),
            kept_order: VecDeque::new(),
            kept_bytes: 0,
            loaded: Vec::new(),
            idle_since: None,
            since_checkpoint: 0,
            checkpoint_size: 0,
            slept: (false, None),
            shown: None,
            acquired: true,
            found_ended: None,
            broken: false,
            closed: false,
        }
    }

    pub(in crate::shard) fn run(&self) -> &Run {
        &self.run
    }

    /// A command makes this shard execute a run that it only has in memory; a run that has not
    /// begun stays queued.
    fn recover_for_command(&mut self, context: &Context<'_>) {
        if self.acquired || self.run.status() == RunStatus::Pending {
            return;
        }
        self.acquired = true;
        if !self.run.status().is_final() {
            // The caller of the command has seen the run, so this recovery counts no death.
            self.recover(After::Stop, context);
        }
    }

    /// Records that this process has the run now.
    fn recover(&mut self, after: After, context: &Context<'_>) {
        let remote = self.told_remote(context);
        let recovery = Recovery { after, remote };
        self.inbox.push_back((RunInput::Recover(recovery), None));
    }

    fn command(&mut self, id: CommandId, input: RunInput, context: &mut Context<'_>) {
        let request = input.request();
        if request.is_some_and(|request| !matches!(self.run.answer_to(request), Ok(None))) {
            // It gets the first answer and does nothing, so the run is not recovered for it.
            self.inbox.push_back((input, Some(id)));
            return;
        }
        // A run that is given up must not be handed out once more: it may have crashed
        // processes.
        if !matches!(input, RunInput::Abandon { .. }) {
            self.recover_for_command(context);
        }
        if let RunInput::Command(command) = &input
            && let Some(graph) = command.graph()
        {
            self.hold_blob(&graph.text);
        }
        match is_urgent(&input) {
            true => self.enqueue_urgent(input, Some(id), context),
            false => self.inbox.push_back((input, Some(id))),
        }
    }

    /// The run that started it, if it is a child.
    fn parent(&self) -> Option<windlass_core::RunId> {
        let parent = self.run.queued().parent.as_ref();
        parent.map(|parent| parent.execution_id)
    }

    /// How many records the run has, as far as this shard knows.
    pub(in crate::shard) fn records(&self) -> u64 {
        self.head.sequence
    }

    pub(in crate::shard) fn values_held(&self) -> usize {
        self.values.len()
    }

    pub(in crate::shard) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the run is dropped in the middle of something: attempts that it handed out, and
    /// their results, may not be recorded.
    pub(in crate::shard) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(in crate::shard) fn is_acquired(&self) -> bool {
        self.acquired
    }

    pub(in crate::shard) fn is_running(&self, node: Instance, attempt: u32) -> bool {
        self.running.attempt(node) == Some(attempt)
    }

    /// Takes an input; `false` when the shard should drop the run.
    pub(in crate::shard) fn handle(
        &mut self,
        input: ShardInput,
        context: &mut Context<'_>,
    ) -> bool {
        self.idle_since = None;
        match input {
            ShardInput::Ended {
                node,
                attempt,
                report,
                ..
            } => {
                self.inbox.push_back((
                    RunInput::Ended {
                        node,
                        attempt,
                        report,
                    },
                    None,
                ));
            }
            ShardInput::ChildEnded {
                node, attempt, end, ..
            } => {
                let input = RunInput::ChildEnded { node, attempt, end };
                self.inbox.push_back((input, None));
            }
            ShardInput::ChildFailed {
                node,
                attempt,
                failure,
                ..
            } => {
                let input = RunInput::ChildFailed {
                    node,
                    attempt,
                    failure,
                };
                self.inbox.push_back((input, None));
            }
            ShardInput::Command {
                id, input, item, ..
            } => {
                if let Some(item) = item {
                    self.items.insert(id, item);
                }
                self.command(id, input, context);
            }
            ShardInput::Loaded { values, .. } => {
                self.loading = false;
                for (digest, text) in values {
                    self.loaded.push(digest);
                    self.values.insert(digest, Loaded::new(text));
                }
            }
            ShardInput::Appended {
                append_id, result, ..
            } => {
                if !self.appended(append_id, result, context) {
                    return false;
                }
            }
            ShardInput::HeadRead { result, .. } => {
                if !self.head_read(result, context) {
                    return false;
                }
            }
            ShardInput::LoadFailed { run, error } => {
                let parent = self.parent();
                context
                    .effects
                    .push_back(Effect::Broken { run, parent, error });
                self.broken = true;
                self.closed = true;
            }
            ShardInput::Evaluated(evaluated) => self.evaluated(*evaluated, context),
            ShardInput::SlotsAnswered {
                node,
                attempt,
                granted,
                ..
            } => self.slots_answered((node, attempt), granted, context),
            ShardInput::Start(_) | ShardInput::Acquire { .. } => {}
        }
        self.advance(context);
        self.release_at_the_end(context);
        !self.closed
    }

    pub(in crate::shard) fn handle_deadline(
        &mut self,
        deadline: Deadline,
        context: &mut Context<'_>,
    ) {
        match deadline {
            Deadline::Due(node, attempt) => self.due(node, attempt, context.now),
            Deadline::Idle => {}
            Deadline::Grace => self.inbox.push_back((RunInput::GraceEnded, None)),
            Deadline::Timeout => self.enqueue_urgent(RunInput::TimedOut, None, context),
            Deadline::StillRunning(node, attempt) => {
                if self.is_running(node, attempt) {
                    let delay = i64::try_from(context.options.still_running_ms).unwrap_or(0);
                    let started = windlass_core::Millis(context.now.0 - delay);
                    let (worker, since) = self
                        .running
                        .worker(node)
                        .unwrap_or((&context.options.worker, None));
                    let (worker, started) = (Box::from(worker), since.unwrap_or(started));
                    let input = RunInput::StillRunning {
                        node,
                        attempt,
                        started,
                        worker,
                    };
                    self.inbox.push_back((input, None));
                }
            }
        }
        self.advance(context);
        self.release_at_the_end(context);
    }

    /// The time of a node has come. The deadline may be an old one of an attempt that was given up
    /// and whose number a newer one has, which may not be durable: that one does not wait, or
    /// for another time.
    fn due(&mut self, node: Instance, attempt: u32, now: Millis) {
        let waits = self.run.is_open(node, attempt) && !self.running.contains(node);
        // While the run is paused, its timers wait for the resume.
        if !waits || self.run.status() != RunStatus::Running {
            return;
        }
        // A child that is started again waits for its turn, as a call does.
        let starts = self.run.kind_of(node) == NodeKind::Subworkflow
            && self.run.node_status(node) == NodeStatus::Waiting
            && self.is_sequential();
        if self.run.is_structural(node) && !starts {
            self.inbox
                .push_back((RunInput::Due { node, attempt }, None));
        } else if self.run.node_status(node) == NodeStatus::Waiting
            && self.run.due(node).is_none_or(|due| due <= now)
        {
            self.make_ready(node, attempt);
        }
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.run.plan().execution_mode() == ExecutionMode::Sequential
    }

    pub(in crate::shard) fn poll_append(
        &mut self,
        options: &Options,
        append_id: u64,
    ) -> Option<Append> {
        if self.in_flight.is_some() {
            return self.repeated();
        }
        if self.record.is_empty() || self.closed {
            return None;
        }
        self.run.finish_record();
        self.since_checkpoint += self.record.len();
        if self.evaluating.is_none() {
            self.take_checkpoint(options);
        }
        let consequences = std::mem::take(&mut self.consequences);
        self.in_flight = Some((append_id, consequences));
        let sleep = self.sleep();
        self.slept = sleep;
        // A sleeping run that waits for a child has another row than one that does not.
        let asleep = sleep.0 && self.run.open_children().next().is_none();
        let shown = (asleep, sleep.1);
        let sleep_changed = self.shown.replace(shown) != Some(shown);
        let changed = std::mem::take(&mut self.row_changed) || sleep_changed;
        let row = changed.then(|| row(&self.run, sleep));
        Some(Append {
            run: self.run.id(),
            head: self.head,
            writer: options.writer,
            append_id,
            record: std::mem::take(&mut self.record).finish(),
            row,
            claims: std::mem::take(&mut self.claims),
            resources: std::mem::take(&mut self.resources),
            blobs: std::mem::take(&mut self.blobs),
            uses: std::mem::take(&mut self.uses),
            consumed: std::mem::take(&mut self.consumed),
            releases: std::mem::take(&mut self.releases),
            slots: std::mem::take(&mut self.freed),
        })
    }

    /// Takes a checkpoint of the state after the present record, once the log has grown
    /// enough. It costs as much as the state is large, so it is taken only now and then.
    fn take_checkpoint(&mut self, options: &Options) {
        // Before the first checkpoint, its size can only be guessed.
        let size = self.checkpoint_size.max(self.run.size_hint());
        let enough = options.checkpoint_bytes.max(size * 4);
        if self.since_checkpoint < enough || self.run.status().is_final() {
            return;
        }
        self.since_checkpoint = 0;
        if let Some(state) = self.run_mut().snapshot() {
            self.checkpoint_size = state.len();
            // It changes nothing in the state, so it need not be applied here.
            self.record.push(&Event::Checkpointed {}, Millis::default());
            let bytes = codec::checkpoint(&state);
            self.consequences.push(Consequence::Checkpoint(bytes));
        }
    }
}
