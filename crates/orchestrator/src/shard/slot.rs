//! One run in a shard: its state, which may be ahead of what is durable, the record
//! being built, the one in flight, and the effects that wait for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use windlass_core::definition::ExecutionMode;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{
    self, Change, Dispatch, Facts, Input as RunInput, Instance, Loaded, Refusal, Run, Source,
    Standing, Values,
};
use windlass_core::value::{Payload, Stored, ValueRef};
use windlass_core::{Digest, Millis, NodeStatus, RunStatus};
use windlass_store::{Append, AppendError, Appended, Blob, Claim, Error, Head, ResourceRow};

use super::ready::Ready;
use super::running::Running;
use super::{
    Adoption, Begin, ChildCommand, Command, CommandId, Context, Effect, Input, Options, Start,
};
use crate::codec::{self, RecordBuilder};
use crate::deadline::Deadline;
use crate::gate::{Gated, Proof};
use crate::row::{resource_rows, row};

/// Values that decisions may need later are kept in memory up to this size.
const KEPT_VALUE_BYTES: usize = 1024 * 1024;

/// One record tells of this many waits and loops; who looks cannot read more.
const MAX_STANDINGS: usize = 100;

/// The instance that no worker has and that a change is about.
fn touches(change: &Change) -> Option<Instance> {
    match *change {
        Change::Waiting(node, ..) | Change::IterationEnded(node, ..) => Some(node),
        _ => None,
    }
}

/// What happens once a record is durable. Each says all that it needs: the state may be
/// ahead by then.
#[derive(Debug)]
enum Consequence {
    /// A node changed.
    Changed(Change),
    /// A node that no worker has began or went on.
    Noted(Instance, NodeStatus),
    /// A child run is acted on.
    Child(Instance, u32, windlass_core::RunId, ChildCommand),
    Answer(CommandId),
    Accepted,
    /// An open attempt is handed out, as after a restart.
    Open(Instance, u32),
    /// A waiting node gets its timer again.
    Wait(Instance, u32, Millis),
    /// A worker has an attempt that a reattempt took back.
    Disown(Instance, u32),
    /// The run may go on.
    Resumed,
    /// A state that stands for the log up to the record.
    Checkpoint(Vec<u8>),
    ArmTimeout(Millis),
    ArmGrace(Millis),
    /// A value can be found in the store now; later decisions may still need it here.
    Stored(Digest, bool),
}

#[derive(Debug)]
pub(super) struct Slot {
    run: Run,
    head: Head,
    ready: Ready,
    running: Running,
    /// Resumes and reattempts that are not durable yet: nothing is handed out before.
    resuming: u32,
    inbox: VecDeque<(RunInput, Option<CommandId>)>,
    record: RecordBuilder,
    consequences: Gated<Consequence>,
    blobs: Vec<Blob>,
    claims: Vec<Claim>,
    resources: Vec<ResourceRow>,
    row_changed: bool,
    in_flight: Option<(u64, Gated<Consequence>)>,
    /// An [`Effect::Load`] is on its way.
    loading: bool,
    /// Values of records that are not durable yet, and those that decisions need.
    values: Values,
    /// How many records that are not durable yet name a value.
    undurable: BTreeMap<Digest, u32>,
    /// Values kept because decisions need them, oldest first, and their size together.
    kept: BTreeSet<Digest>,
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
    /// What its row says of that; unknown after another process wrote it.
    shown: Option<(bool, Option<Millis>)>,
    /// Whether the run goes on here; one adopted for a command only waits for it.
    carried: bool,
    /// Set when nothing must be appended any more.
    closed: bool,
}

impl Slot {
    pub(super) fn start(start: Start, context: &mut Context<'_>) -> Result<Self, Error> {
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
            slot.record_event(&Event::Reused(start.reused), context);
        }
        if start.begin == Begin::Now {
            slot.inbox.push_back((RunInput::Begin, None));
        }
        slot.advance(context);
        Ok(slot)
    }

    pub(super) fn adopt(
        run: Run,
        head: Head,
        adoption: Adoption,
        context: &mut Context<'_>,
    ) -> Self {
        let mut slot = Self::new(run, head);
        // An ended run has nothing to recover: what opens it again goes on at once.
        slot.carried = slot.run.status().is_final();
        slot.carry_on(adoption, context);
        slot
    }

    /// Carries an adopted run on, once.
    pub(super) fn carry_on(&mut self, adoption: Adoption, context: &mut Context<'_>) {
        if adoption == Adoption::Hold || std::mem::replace(&mut self.carried, true) {
            return;
        }
        match (self.run.status(), adoption) {
            (RunStatus::Pending, _) => self.inbox.push_back((RunInput::Begin, None)),
            (RunStatus::Running | RunStatus::Paused, Adoption::Recover) => {
                self.inbox.push_back((RunInput::Recover, None));
            }
            (RunStatus::Running | RunStatus::Paused, _) => self.wake(context),
            _ => {}
        }
        self.advance(context);
    }

    /// Takes up a run that slept: nobody had anything of it, so nothing is recorded.
    fn wake(&mut self, context: &mut Context<'_>) {
        self.slept = (true, self.run.wake_at());
        let waiting = self.open_ones();
        self.carry_out(waiting, context);
        let run = self.run.id();
        if let Some(at) = self.run.timeout_at() {
            context.deadlines.set(at, run, Deadline::Timeout);
        }
        if let Some(at) = self.run.grace_deadline() {
            context.deadlines.set(at, run, Deadline::Grace);
        }
    }

    fn new(run: Run, head: Head) -> Self {
        Self {
            run,
            head,
            ready: Ready::default(),
            running: Running::default(),
            resuming: 0,
            inbox: VecDeque::new(),
            record: RecordBuilder::default(),
            consequences: Gated::default(),
            blobs: Vec::new(),
            claims: Vec::new(),
            resources: Vec::new(),
            row_changed: false,
            in_flight: None,
            loading: false,
            values: Values::new(),
            undurable: BTreeMap::new(),
            kept: BTreeSet::new(),
            kept_order: VecDeque::new(),
            kept_bytes: 0,
            loaded: Vec::new(),
            idle_since: None,
            since_checkpoint: 0,
            checkpoint_size: 0,
            slept: (false, None),
            shown: None,
            carried: true,
            closed: false,
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    /// A command on a run that nobody carries on makes this shard do so; one that was
    /// never begun stays queued.
    fn take_over(&mut self) {
        if self.carried || self.run.status() == RunStatus::Pending {
            return;
        }
        self.carried = true;
        if !self.run.status().is_final() {
            self.inbox.push_back((RunInput::Recover, None));
        }
    }

    /// The run that started it, if it is a child.
    fn parent(&self) -> Option<windlass_core::RunId> {
        let parent = self.run.queued().parent.as_ref();
        parent.map(|parent| parent.execution_id)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn is_carried(&self) -> bool {
        self.carried
    }

    pub(super) fn is_running(&self, node: Instance, attempt: u32) -> bool {
        self.running.attempt(node) == Some(attempt)
    }

    /// Takes an input; `false` when the shard should let the run go.
    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> bool {
        self.idle_since = None;
        match input {
            Input::Ended {
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
            Input::ChildEnded {
                node, attempt, end, ..
            } => {
                let input = RunInput::ChildEnded { node, attempt, end };
                self.inbox.push_back((input, None));
            }
            Input::ChildFailed {
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
            Input::Command { id, command, .. } => {
                self.take_over();
                if let Command::Import { text, .. } = &command {
                    self.hold_blob(text);
                }
                self.inbox.push_back((command.into(), Some(id)));
            }
            Input::Loaded { values, .. } => {
                self.loading = false;
                for (digest, text) in values {
                    self.loaded.push(digest);
                    self.values.insert(digest, Loaded::new(text));
                }
            }
            Input::Appended {
                append_id, result, ..
            } => {
                if !self.appended(append_id, result, context) {
                    return false;
                }
            }
            Input::LoadFailed { run, error } => {
                let parent = self.parent();
                context
                    .effects
                    .push_back(Effect::Broken { run, parent, error });
                self.closed = true;
            }
            Input::Start(_) | Input::Adopt { .. } => {}
        }
        self.advance(context);
        self.let_go_at_the_end(context);
        !self.closed
    }

    /// The run has ended, not begun or sleeps, everything of it is durable, and nothing waits.
    fn let_go_at_the_end(&mut self, context: &mut Context<'_>) {
        let quiet = self.record.is_empty() && self.in_flight.is_none() && self.inbox.is_empty();
        if !quiet || self.closed || self.loading {
            return;
        }
        let (run, status) = (self.run.id(), self.run.status());
        if status.is_final() || status == RunStatus::Pending {
            if status.is_final() {
                let parent = self.parent();
                context.effects.push_back(Effect::Finished {
                    run,
                    status,
                    parent,
                });
            }
            self.closed = true;
            return;
        }
        let nobody = self.running.len() == 0 && self.ready.is_empty() && self.resuming == 0;
        let far = context.now.plus(context.options.keep_asleep_ms);
        if self.carried && nobody && self.slept.0 && self.slept.1.is_none_or(|at| at > far) {
            let wake_at = self.slept.1;
            let for_child = self.run.open_children().next().is_some();
            // Children often end soon, and reading a run back for each would cost more.
            if for_child && !self.has_been_idle(context) {
                return;
            }
            context.effects.push_back(Effect::Asleep {
                run,
                wake_at,
                for_child,
            });
            self.closed = true;
        }
    }

    /// Whether nothing has happened for a while; if not, it is asked again then.
    fn has_been_idle(&mut self, context: &mut Context<'_>) -> bool {
        let keep = context.options.keep_asleep_ms;
        match self.idle_since {
            Some(since) => since.plus(keep) <= context.now,
            None => {
                self.idle_since = Some(context.now);
                let at = context.now.plus(keep);
                context.deadlines.set(at, self.run.id(), Deadline::Idle);
                keep == 0
            }
        }
    }

    /// Whether the run waits for nothing that is here, and when it wants to be woken.
    fn sleep(&self) -> (bool, Option<Millis>) {
        let paused = self.run.status() == RunStatus::Paused && self.running.len() == 0;
        let asleep = (self.run.is_asleep() || paused) && self.inbox.is_empty() && !self.loading;
        let begun = !matches!(self.run.status(), RunStatus::Pending);
        if asleep && begun && !self.run.status().is_final() {
            (true, self.run.wake_at())
        } else {
            (false, None)
        }
    }

    pub(super) fn handle_deadline(&mut self, deadline: Deadline, context: &mut Context<'_>) {
        match deadline {
            Deadline::Due(node, attempt) => self.due(node, attempt),
            Deadline::Idle => {}
            Deadline::Grace => self.inbox.push_back((RunInput::GraceEnded, None)),
            Deadline::Timeout => self.inbox.push_back((RunInput::TimedOut, None)),
            Deadline::StillRunning(node, attempt) => {
                if self.is_running(node, attempt) {
                    let delay = i64::try_from(context.options.still_running_ms).unwrap_or(0);
                    let started = windlass_core::Millis(context.now.0 - delay);
                    let worker = "local".into();
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
        self.let_go_at_the_end(context);
    }

    fn due(&mut self, node: Instance, attempt: u32) {
        let waits = self.run.is_open(node, attempt) && !self.running.contains(node);
        // While the run is paused, its timers wait for the resume.
        if !waits || self.run.status() != RunStatus::Running {
            return;
        }
        if self.run.is_structural(node) {
            self.inbox
                .push_back((RunInput::Due { node, attempt }, None));
        } else {
            let ordered = self.is_sequential().then_some(&self.run);
            self.ready.insert(node, attempt, ordered);
        }
    }

    fn is_sequential(&self) -> bool {
        self.run.plan().execution_mode() == ExecutionMode::Sequential
    }

    pub(super) fn poll_append(&mut self, options: &Options, append_id: u64) -> Option<Append> {
        if self.in_flight.is_some() || self.record.is_empty() || self.closed {
            return None;
        }
        self.run.seal();
        self.since_checkpoint += self.record.len();
        self.take_checkpoint(options);
        let consequences = std::mem::take(&mut self.consequences);
        self.in_flight = Some((append_id, consequences));
        let sleep = self.sleep();
        self.slept = sleep;
        // Whether a sleeping run waits for a child changes its row as well.
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
            consumed: Vec::new(),
        })
    }

    /// Once the log has grown enough, the state as it is after the present record stands
    /// for all of it. It is worth taking only now and then: its cost is the state's size.
    fn take_checkpoint(&mut self, options: &Options) {
        // Before the first its size can only be guessed.
        let size = self.checkpoint_size.max(self.run.size_hint());
        let enough = options.checkpoint_bytes.max(size * 4);
        if self.since_checkpoint < enough || self.run.status().is_final() {
            return;
        }
        self.since_checkpoint = 0;
        if let Some(state) = self.run.snapshot() {
            self.checkpoint_size = state.len();
            let bytes = codec::checkpoint(&state);
            self.consequences.push(Consequence::Checkpoint(bytes));
        }
    }

    /// Decides on everything that waits, as far as values are at hand and the record
    /// has room, then lets ready nodes go.
    fn advance(&mut self, context: &mut Context<'_>) {
        while !self.loading && !self.closed {
            let has_room = self.record.len() < context.options.record_bytes;
            let next = match self.run.todo() {
                Some(todo) => (RunInput::Todo(todo), None),
                None if has_room => match self.inbox.pop_front() {
                    Some(next) => next,
                    None => break,
                },
                None => break,
            };
            if let Some(postponed) = self.decide(next, context) {
                self.inbox.push_front(postponed);
                break;
            }
        }
        self.release(context);
    }

    /// Decides on one input, or gives it back if values must be loaded first.
    fn decide(
        &mut self,
        (input, command): (RunInput, Option<CommandId>),
        context: &mut Context<'_>,
    ) -> Option<(RunInput, Option<CommandId>)> {
        let missing: Vec<_> = run::wants(&self.run, &input)
            .into_iter()
            .filter(|want| !self.values.contains_key(&want.digest))
            .collect();
        if !missing.is_empty() {
            self.loading = true;
            context.effects.push_back(Effect::Load {
                run: self.run.id(),
                values: missing,
            });
            // What the run itself asks for it will ask for again.
            return if matches!(input, RunInput::Todo(_)) {
                None
            } else {
                Some((input, command))
            };
        }
        let facts = Facts {
            now: context.now,
            seed: context.random(),
            values: &self.values,
            running: self.running.nodes(),
        };
        let decided = run::decide(&self.run, &input, &facts);
        if let RunInput::Ended { node, attempt, .. } = &input {
            self.running.remove(*node, *attempt);
        }
        self.drop_loaded();
        match decided {
            Ok(decision) => {
                self.bring_graph(input);
                decision
                    .blobs
                    .iter()
                    .for_each(|payload| self.hold_blob(payload));
                for event in &decision.events {
                    self.record_event(event, context);
                }
                if let Some(id) = command {
                    self.consequences.push(Consequence::Answer(id));
                }
            }
            Err(refusal) => refused(command, refusal, context),
        }
        None
    }

    fn record_event(&mut self, event: &Event, context: &mut Context<'_>) {
        let at = self.record.at(context.now);
        self.record.push(event, context.now);
        let mut changes = Vec::new();
        self.run
            .apply(event, at, &mut changes)
            .expect("an event that was just decided fits the state that decided it");
        for change in changes {
            self.note(change);
        }
        self.hold_values(event);
        match event {
            Event::Started {} => {
                self.row_changed = true;
                self.arm_timeout();
            }
            Event::AttemptEnded(ended) => {
                self.resources.extend(resource_rows(&self.run, ended));
            }
            Event::Stopping(stopping) => {
                let deadline = stopping.deadline;
                self.consequences.push(Consequence::ArmGrace(deadline));
            }
            Event::Paused(_) => {
                self.row_changed = true;
                self.tell_children(&ChildCommand::Pause);
            }
            Event::Resumed(_) => {
                self.row_changed = true;
                self.tell_children(&ChildCommand::Resume);
                self.go_on();
            }
            Event::Finished(_) | Event::Healed { .. } | Event::Imported { .. } => {
                self.row_changed = true;
            }
            Event::Compensating { .. }
            | Event::CompensationRetried { .. }
            | Event::CompensationSkipped { .. } => self.row_changed = true,
            Event::Reattempted { .. } | Event::SetByHand(_) => {
                self.row_changed = true;
                self.disown_reopened();
                self.go_on();
                self.arm_timeout();
            }
            Event::Recovered {} => {
                self.open_all();
                self.arm_timeout();
            }
            _ => {}
        }
    }

    /// What a change leads to once it is durable.
    fn note(&mut self, change: Change) {
        let consequence = match change {
            Change::Ready(node, _) if self.run.is_structural(node) => {
                Consequence::Noted(node, NodeStatus::Queued)
            }
            Change::ChildStarted(node, attempt, child) => match self.run.child_start(node) {
                Some(start) => {
                    let command = ChildCommand::Start(Box::new(start));
                    Consequence::Child(node, attempt, child, command)
                }
                None => return,
            },
            Change::ChildLetGo(node, child) => {
                Consequence::Child(node, 0, child, ChildCommand::Cancel)
            }
            Change::ChildUndone(node, attempt, child) => {
                Consequence::Child(node, attempt, child, ChildCommand::Compensate)
            }
            Change::StopAsked(node, attempt) if self.run.child(node).is_some() => {
                match self.run.child(node) {
                    Some(child) => Consequence::Child(node, attempt, child, ChildCommand::Cancel),
                    None => return,
                }
            }
            Change::IterationStarted(node, _) => Consequence::Noted(node, NodeStatus::Running),
            change => Consequence::Changed(change),
        };
        self.consequences.push(consequence);
    }

    /// A new graph is at hand before the event that names it is applied.
    fn bring_graph(&mut self, input: RunInput) {
        if let RunInput::Heal {
            definition, plan, ..
        }
        | RunInput::Import {
            definition, plan, ..
        } = input
        {
            self.run.stage(definition, plan);
        }
    }

    fn tell_children(&mut self, command: &ChildCommand) {
        let children: Vec<_> = self.run.open_children().collect();
        for (node, attempt, child) in children {
            let command = command.clone();
            self.consequences
                .push(Consequence::Child(node, attempt, child, command));
        }
    }

    /// Once the record is durable, what is open and with nobody is handed out.
    fn go_on(&mut self) {
        self.resuming += 1;
        self.consequences.push(Consequence::Resumed);
        self.open_all();
    }

    /// Notes every open attempt that no worker has, and every time that one is due.
    fn open_all(&mut self) {
        for consequence in self.open_ones() {
            self.consequences.push(consequence);
        }
    }

    fn open_ones(&self) -> Vec<Consequence> {
        let mut found = Vec::new();
        for node in self.run.open_instances() {
            let status = self.run.node_status(node);
            let is_open = matches!(status, NodeStatus::Queued | NodeStatus::Running);
            if is_open && !self.running.contains(node) && !self.run.is_structural(node) {
                found.push(match self.run.undone_child(node) {
                    Some(child) => {
                        let attempt = self.run.attempt(node);
                        Consequence::Child(node, attempt, child, ChildCommand::Compensate)
                    }
                    None => Consequence::Open(node, self.run.attempt(node)),
                });
            }
        }
        for (node, due) in self.run.due_nodes() {
            if !self.running.contains(node) {
                let attempt = self.run.attempt(node);
                found.push(Consequence::Wait(node, attempt, due));
            }
        }
        for (node, attempt, child) in self.run.open_children() {
            if let Some(start) = self.run.child_start(node) {
                let command = ChildCommand::Start(Box::new(start));
                found.push(Consequence::Child(node, attempt, child, command));
            }
        }
        found
    }

    fn arm_timeout(&mut self) {
        if let Some(at) = self.run.timeout_at() {
            self.consequences.push(Consequence::ArmTimeout(at));
        }
    }

    /// Workers may have attempts of nodes that the reattempt runs again.
    fn disown_reopened(&mut self) {
        let run = &self.run;
        let reopened: Vec<_> = self
            .running
            .iter()
            .filter(|&(node, attempt)| !run.is_open(node, attempt))
            .collect();
        for (node, attempt) in reopened {
            self.running.disown(node);
            self.consequences.push(Consequence::Disown(node, attempt));
        }
    }

    fn appended(
        &mut self,
        append_id: u64,
        result: Result<Appended, AppendError>,
        context: &mut Context<'_>,
    ) -> bool {
        let Some((_, consequences)) = self.in_flight.take_if(|(id, _)| *id == append_id) else {
            return true;
        };
        let run = self.run.id();
        let effect = match result {
            Ok(appended) => {
                let proof = Proof::new(appended);
                self.head = proof.head();
                self.carry_out(consequences.release(&proof), context);
                return true;
            }
            Err(AppendError::Conflict(_)) => Effect::Fenced {
                run,
                parent: self.parent(),
            },
            Err(AppendError::Held { value, .. }) => Effect::Held { run, value },
            Err(AppendError::Unknown(error) | AppendError::Failed(error)) => {
                let parent = self.parent();
                Effect::Broken { run, parent, error }
            }
        };
        self.closed = true;
        context.effects.push_back(effect);
        false
    }

    fn carry_out(&mut self, consequences: Vec<Consequence>, context: &mut Context<'_>) {
        let run = self.run.id();
        let mut progress = Vec::new();
        let mut touched = BTreeSet::new();
        for consequence in consequences {
            match consequence {
                Consequence::Changed(change) => {
                    touched.extend(touches(&change));
                    self.changed(change, &mut progress, context);
                }
                Consequence::Noted(node, status) => {
                    touched.insert(node);
                    progress.push((node, status));
                }
                Consequence::Child(node, attempt, child, command) => {
                    if let ChildCommand::Start(_) = command {
                        touched.insert(node);
                        progress.push((node, NodeStatus::Running));
                    }
                    context.effects.push_back(Effect::Child {
                        run,
                        node,
                        attempt,
                        child,
                        command,
                    });
                }
                Consequence::Answer(id) => {
                    context
                        .effects
                        .push_back(Effect::Answer { id, result: Ok(()) });
                }
                Consequence::Accepted => context.effects.push_back(Effect::Accepted { run }),
                Consequence::Open(node, attempt) => self.make_ready(node, attempt),
                Consequence::Wait(node, attempt, due) => {
                    let deadline = Deadline::Due(node, attempt);
                    context.deadlines.set(due, run, deadline);
                }
                Consequence::Disown(node, attempt) => self.give_up(node, attempt, context),
                Consequence::Resumed => self.resuming -= 1,
                Consequence::Checkpoint(bytes) => context.effects.push_back(Effect::Checkpoint {
                    run,
                    head: self.head,
                    bytes,
                }),
                Consequence::ArmTimeout(at) => context.deadlines.set(at, run, Deadline::Timeout),
                Consequence::ArmGrace(at) => context.deadlines.set(at, run, Deadline::Grace),
                Consequence::Stored(digest, wanted) => self.stored(digest, wanted),
            }
        }
        let standings = self.standings(&touched);
        if !progress.is_empty() || !standings.is_empty() {
            context.effects.push_back(Effect::Progress {
                run,
                nodes: progress,
                standings,
            });
        }
    }

    /// How these stand now; of loops inside loops only the outermost is told.
    fn standings(&self, touched: &BTreeSet<Instance>) -> Vec<Standing> {
        let run = &self.run;
        let is_told = |&&node: &&Instance| match run.find_status(node) {
            Some(NodeStatus::Running) => !run.kind_of(node).is_loop() || run.owner(node).is_none(),
            status => status == Some(NodeStatus::Waiting),
        };
        let told = touched.iter().filter(is_told).take(MAX_STANDINGS);
        told.filter_map(|&node| run.standing(node)).collect()
    }

    fn make_ready(&mut self, node: Instance, attempt: u32) {
        let ordered = self.is_sequential().then_some(&self.run);
        self.ready.insert(node, attempt, ordered);
    }

    fn changed(
        &mut self,
        change: Change,
        progress: &mut Vec<(Instance, NodeStatus)>,
        context: &mut Context<'_>,
    ) {
        match change {
            Change::Ready(node, attempt) => {
                self.make_ready(node, attempt);
                progress.push((node, NodeStatus::Queued));
            }
            Change::Waiting(node, attempt, due) => {
                if let Some(due) = due {
                    let deadline = Deadline::Due(node, attempt);
                    context.deadlines.set(due, self.run.id(), deadline);
                }
                progress.push((node, NodeStatus::Waiting));
            }
            Change::Ended(node, attempt, status) => {
                if status == NodeStatus::Cancelled {
                    self.ready.remove(node);
                    self.give_up(node, attempt, context);
                }
                progress.push((node, status));
            }
            Change::StopAsked(node, attempt) => {
                if self.is_running(node, attempt) {
                    self.tell_to_stop(node, attempt, false, context);
                }
            }
            Change::IterationStarted(..)
            | Change::IterationEnded(..)
            | Change::ChildStarted(..)
            | Change::ChildLetGo(..)
            | Change::ChildUndone(..) => {}
        }
    }

    fn give_up(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) {
        if self.running.remove(node, attempt) {
            self.tell_to_stop(node, attempt, true, context);
        }
    }

    fn tell_to_stop(&self, node: Instance, attempt: u32, give_up: bool, context: &mut Context<'_>) {
        let run = self.run.id();
        context.effects.push_back(Effect::Stop {
            give_up,
            run,
            node,
            attempt,
        });
    }

    /// Hands ready nodes out, as far as the run's bound allows.
    fn release(&mut self, context: &mut Context<'_>) {
        if self.run.status() != RunStatus::Running || self.resuming > 0 || self.closed {
            return;
        }
        let plan = self.run.plan().clone();
        let sequential = plan.execution_mode() == ExecutionMode::Sequential;
        // One at a time means in definition order, so what an undecided or undurable
        // record may still make ready must be known first.
        if sequential && (self.in_flight.is_some() || !self.record.is_empty() || self.loading) {
            return;
        }
        let own = plan
            .max_parallel()
            .unwrap_or(context.options.max_parallel)
            .max(1);
        let limit = if sequential { 1 } else { own as usize };
        let mut postponed = Vec::new();
        while self.running.len() < limit {
            let Some((node, attempt)) = self.ready.pop() else {
                break;
            };
            let may_go = self.run.is_open(node, attempt) && self.run.may_hand_out(node);
            if !may_go || self.running.contains(node) {
                continue;
            }
            let dispatch = self.run.dispatch(node, context.now);
            if self.names_undurable(&dispatch) {
                postponed.push((node, attempt));
                continue;
            }
            self.running.insert(node, attempt);
            let noted_at = context.now.plus(context.options.still_running_ms);
            context
                .deadlines
                .note_start(noted_at, dispatch.run, node, attempt);
            context
                .effects
                .push_back(Effect::Dispatch(Box::new(dispatch)));
        }
        for (node, attempt) in postponed {
            self.make_ready(node, attempt);
        }
    }

    /// Whether a worker could not find a value that the parameters name.
    fn names_undurable(&self, dispatch: &Dispatch) -> bool {
        let is_undurable = |value: &ValueRef| {
            if value.is_blob() {
                self.undurable.contains_key(&value.digest)
            } else {
                u64::from(value.record) > self.head.sequence
            }
        };
        dispatch.sources.iter().any(|source| match source {
            Source::Stored(value) | Source::Error { value, .. } | Source::Item(value, _) => {
                is_undurable(value)
            }
            Source::Vars(vars) => vars
                .iter()
                .filter_map(|(_, held)| held.blob())
                .any(|value| is_undurable(&value)),
            Source::Undefined | Source::Text(_) | Source::Secret(_) => false,
        })
    }

    /// Until its record is durable a value can be found nowhere else.
    fn hold(&mut self, digest: Digest, text: Arc<str>, wanted: bool) {
        self.values
            .entry(digest)
            .or_insert_with(|| Loaded::new(text));
        *self.undurable.entry(digest).or_default() += 1;
        self.consequences.push(Consequence::Stored(digest, wanted));
    }

    fn hold_blob(&mut self, payload: &Payload) {
        let bytes = Arc::from(payload.text().as_bytes());
        self.blobs.push(Blob {
            digest: payload.digest(),
            bytes,
        });
        self.hold(payload.digest(), Arc::clone(payload.text()), false);
    }

    /// Holds what stands in the record; what is too large for it is held as a blob.
    fn hold_values(&mut self, event: &Event) {
        if let Event::AttemptEnded(ended) = event {
            self.hold_result(ended);
            return;
        }
        for value in event.values() {
            if let Stored::Inline(raw) = value {
                self.hold(value.digest(), Arc::from(raw.get()), true);
            }
        }
    }

    fn hold_result(&mut self, ended: &AttemptEnded) {
        let node = self.run.resolve(&ended.node);
        if let AttemptResult::Succeeded(Stored::Inline(raw))
        | AttemptResult::Failed(Stored::Inline(raw)) = &ended.result
        {
            let wanted = node.is_some_and(|node| self.run.is_decided_on(node));
            self.hold(ended.digest, Arc::from(raw.get()), wanted);
        }
        // What undoes a node may name its parameters.
        if let Some(Stored::Inline(raw)) = &ended.parameters
            && node.is_some_and(|node| self.run.is_compensated(node))
        {
            let digest = Digest::of(raw.get().as_bytes());
            self.hold(digest, Arc::from(raw.get()), false);
        }
    }

    /// Keeps a small value that later decisions need, and drops any other.
    fn stored(&mut self, digest: Digest, wanted: bool) {
        let Some(count) = self.undurable.get_mut(&digest) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.undurable.remove(&digest);
        self.keep_or_drop(digest, wanted);
    }

    /// The decision is made: what was loaded for it is kept as far as there is room.
    fn drop_loaded(&mut self) {
        for digest in std::mem::take(&mut self.loaded) {
            self.keep_or_drop(digest, true);
        }
    }

    fn keep_or_drop(&mut self, digest: Digest, wanted: bool) {
        if self.kept.contains(&digest) || self.undurable.contains_key(&digest) {
            return;
        }
        let size = self.size_of(&digest);
        let pinned = self.run.is_pinned(&digest);
        if !pinned && (!wanted || size > KEPT_VALUE_BYTES) {
            self.values.remove(&digest);
            return;
        }
        self.kept.insert(digest);
        self.kept_order.push_back(digest);
        self.kept_bytes += size;
        // The oldest make room, except lists that an open loop still goes over.
        let mut rounds = self.kept_order.len();
        while self.kept_bytes > KEPT_VALUE_BYTES && rounds > 1 {
            rounds -= 1;
            let Some(oldest) = self.kept_order.pop_front() else {
                break;
            };
            if self.run.is_pinned(&oldest) {
                self.kept_order.push_back(oldest);
                continue;
            }
            self.kept.remove(&oldest);
            self.kept_bytes -= self.size_of(&oldest);
            if !self.undurable.contains_key(&oldest) {
                self.values.remove(&oldest);
            }
        }
    }

    fn size_of(&self, digest: &Digest) -> usize {
        self.values
            .get(digest)
            .map_or(0, |value| value.text().len())
    }
}

impl From<Command> for RunInput {
    fn from(command: Command) -> Self {
        match command {
            Command::Cancel { hand, compensate } => Self::Cancel { hand, compensate },
            Command::Pause(hand) => Self::Pause(hand),
            Command::Resume(hand) => Self::Resume(hand),
            Command::Reattempt(nodes, hand) => Self::Reattempt(nodes, hand),
            Command::Signal {
                name,
                payload,
                hand,
            } => Self::Signal {
                name,
                payload,
                hand,
            },
            Command::SetResult { node, output, hand } => Self::SetResult { node, output, hand },
            Command::Compensate(hand) => Self::Compensate(hand),
            Command::RetryCompensation(nodes, hand) => Self::RetryCompensation(nodes, hand),
            Command::SkipCompensation(nodes, hand) => Self::SkipCompensation(nodes, hand),
            Command::Heal {
                version,
                definition,
                plan,
            } => Self::Heal {
                version,
                definition,
                plan,
            },
            Command::Import {
                definition,
                plan,
                hand,
                ..
            } => Self::Import {
                definition,
                plan,
                hand,
            },
        }
    }
}

fn refused(command: Option<CommandId>, refusal: Refusal, context: &mut Context<'_>) {
    if let Some(id) = command {
        context.effects.push_back(Effect::Answer {
            id,
            result: Err(refusal),
        });
    }
}
