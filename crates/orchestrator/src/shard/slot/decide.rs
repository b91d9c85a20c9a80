//! Decides on what waits, records the decisions, and notes what follows once they are durable.

use std::sync::Arc;

use windlass_core::event::{Event, Grace, RequestKey, StopCause};
use windlass_core::run::{
    self, Change, Decision, Evaluations, Facts, Input as RunInput, Instance, PendingDecision,
    Refusal,
};
use windlass_core::{NodeStatus, RunStatus};

use super::{Consequence, ReadyOrder, Slot};
use crate::row::{gate_name, resource_rows};
use crate::shard::{ChildCommand, CommandId, Context, Effect};

/// A run makes this many decisions before other runs have their turn.
const DECISIONS_AT_ONCE: u32 = 1024;

impl Slot {
    /// Decides on everything that waits, as far as values are at hand and the record
    /// has room, then lets ready nodes go. Other runs have their turn after a while: what is
    /// left is decided once the record is stored.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) {
        self.has_more = false;
        let mut decisions = 0;
        while !self.is_waiting() && !self.closed {
            let has_room = self.record.len() < context.options.record_bytes;
            if !self.record.is_empty() && (decisions == DECISIONS_AT_ONCE || !has_room) {
                self.has_more = true;
                break;
            }
            decisions += 1;
            let pending_decision = self
                .run
                .pending_decision()
                .filter(|_| !self.is_urgent_next());
            // With one node at a time, a structure begins only at its turn among all that is
            // ready.
            let pending_decision = pending_decision.filter(|pending_decision| {
                !matches!(pending_decision, PendingDecision::Open(_)) || !self.is_sequential()
            });
            let next = match pending_decision {
                Some(pending_decision) => (RunInput::Pending(pending_decision), None),
                None => match self.inbox.pop_front() {
                    Some(next) => next,
                    None => break,
                },
            };
            if let Some(postponed) = self.decide(next, context) {
                self.inbox.push_front(postponed);
                break;
            }
        }
        if !self.is_waiting() {
            self.drop_loaded(&[]);
        }
        self.release(context);
    }

    /// Decides on one input, or gives it back if values must be loaded first.
    pub(super) fn decide(
        &mut self,
        (input, command): (RunInput, Option<CommandId>),
        context: &mut Context<'_>,
    ) -> Option<(RunInput, Option<CommandId>)> {
        let mut required = run::required_values(&self.run, &input);
        let weight = self.weight(&input, &required);
        self.drop_loaded(&required);
        required.retain(|want| !self.values.contains_key(&want.digest));
        if !required.is_empty() {
            self.loading = true;
            context.effects.push_back(Effect::Load {
                run: self.run.id(),
                values: required,
            });
            // The run asks for its own decisions again.
            return if matches!(input, RunInput::Pending(_)) {
                None
            } else {
                Some((input, command))
            };
        }
        let seed = context.random();
        let evaluations = Evaluations::up_to(context.options.inline_steps);
        if weight > context.options.inline_bytes {
            self.evaluate((input, command), seed, evaluations, context);
            return None;
        }
        let facts = Facts {
            now: context.now,
            seed,
            values: &self.values,
            running: self.running.nodes(),
            limits: &context.options.limits,
            evaluations: &evaluations,
        };
        let decided = run::decide(&self.run, &input, &facts);
        if evaluations.is_unfinished() {
            self.evaluate((input, command), seed, evaluations, context);
        } else {
            self.conclude((input, command), decided, context);
        }
        None
    }

    /// Records what was decided, or answers the refusal.
    pub(super) fn conclude(
        &mut self,
        (input, command): (RunInput, Option<CommandId>),
        decided: Result<Decision, Refusal>,
        context: &mut Context<'_>,
    ) {
        if let RunInput::Ended { node, attempt, .. } = &input {
            self.running.remove(*node, *attempt);
        }
        let ended = match &input {
            RunInput::Ended { node, .. } => Some(*node),
            _ => None,
        };
        let item = command.and_then(|id| self.items.remove(&id));
        let decided = match self.waiting_refusal(&input) {
            Some(refusal) => Err(refusal),
            None => decided,
        };
        match decided {
            Ok(decision) => {
                // What a repeated request asks for is in the log already; its item is not
                // consumed by a record of something else.
                self.consumed
                    .extend(item.filter(|_| !decision.events.is_empty()));
                // A repeated request leads to no event that would use the graph.
                if !decision.events.is_empty() {
                    self.bring_graph(&input);
                }
                decision
                    .blobs
                    .iter()
                    .for_each(|payload| self.hold_blob(payload));
                for event in &decision.events {
                    self.record_event(event, ended, context);
                }
                self.answer(command, None, Ok(()), context);
            }
            Err(refusal) => self.answer(command, input.request(), Err(refusal), context),
        }
        if let RunInput::Ended { node, attempt, .. } = input {
            self.free_slots(node, attempt, context);
        }
    }

    /// The refusal that a request got which comes again before that answer has gone out.
    fn waiting_refusal(&self, input: &RunInput) -> Option<Refusal> {
        let request = input.request().filter(|_| !self.refusals.is_empty())?;
        let mut waiting = self.refusals.iter();
        let (_, _, refusal) = waiting.find(|(_, key, _)| key == request)?;
        Some(refusal.clone())
    }

    /// The record that an answer waited for is durable.
    pub(super) fn answer_now(
        &mut self,
        id: CommandId,
        refusal: Option<Box<Refusal>>,
        context: &mut Context<'_>,
    ) {
        self.refusals.retain(|(waiting, ..)| *waiting != id);
        let result = refusal.map_or(Ok(()), |refusal| Err(*refusal));
        let run = self.run.id();
        context
            .effects
            .push_back(Effect::Answer { run, id, result });
    }

    /// Answers a command once everything that was decided is durable: a request that comes
    /// again may find the record of the first one in flight, and a refusal may rest on a record
    /// that the store does not take.
    fn answer(
        &mut self,
        command: Option<CommandId>,
        request: Option<&RequestKey>,
        result: Result<(), Refusal>,
        context: &mut Context<'_>,
    ) {
        let Some(id) = command else { return };
        let run = self.run.id();
        let gated = match &mut self.in_flight {
            _ if !self.record.is_empty() => &mut self.consequences,
            Some((_, consequences)) => consequences,
            None => {
                return context
                    .effects
                    .push_back(Effect::Answer { run, id, result });
            }
        };
        if let (Some(key), Err(refusal)) = (request, &result) {
            self.refusals.push((id, key.clone(), refusal.clone()));
        }
        gated.push(Consequence::Answer(id, result.err().map(Box::new)));
    }

    /// Records an event; the node is the one whose attempt ends with it, if it is known.
    pub(super) fn record_event(
        &mut self,
        event: &Event,
        ended: Option<Instance>,
        context: &mut Context<'_>,
    ) {
        let at = self.record.at(context.now);
        self.record.push(event, context.now);
        // Before the event is applied: it may end an iteration, whose nodes are then gone.
        self.hold_values(event, ended);
        self.note_failure(event);
        let mut changes = Vec::new();
        let went = is_going(&self.run);
        self.run_mut()
            .apply(event, at, &mut changes)
            .expect("an event that was just decided fits the state that decided it");
        if is_going(&self.run) != went {
            self.consequences.push(Consequence::ActiveChanged(!went));
            if went && context.options.shared_gates {
                self.releases.extend(gate_name(self.run.queued()));
            }
        }
        if event.sets_vars() {
            self.setting_vars += 1;
            self.consequences.push(Consequence::VarsSet);
        }
        self.consequences.reserve(changes.len());
        for change in changes {
            self.note(change);
        }
        match event {
            Event::Started {} => {
                self.row_changed = true;
                let recovered = false;
                self.consequences.push(Consequence::Began { recovered });
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
            Event::Healed { .. } | Event::Imported { .. } => {
                self.row_changed = true;
                self.ready.reorder(ReadyOrder::of(&self.run));
                // The event may change the run's own time as well.
                self.arm_timeout();
            }
            Event::Finished(_) => self.row_changed = true,
            Event::Compensating { .. }
            | Event::CompensationRetried { .. }
            | Event::CompensationSkipped { .. } => self.row_changed = true,
            Event::Reattempted { .. } | Event::SetByHand(_) => {
                self.row_changed = true;
                self.disown_reopened();
                self.go_on();
                self.arm_timeout();
            }
            Event::Recovered { grace, .. } => {
                let recovered = true;
                self.consequences.push(Consequence::Began { recovered });
                self.stop_again(grace.as_deref());
                self.open_all();
                self.arm_timeout();
            }
            _ => {}
        }
    }

    /// Workers outside the process may have attempts that were asked to stop: the shard asks them
    /// again, and the run waits for them until the grace is over.
    fn stop_again(&mut self, grace: Option<&Grace>) {
        let Some(grace) = grace else { return };
        for path in &grace.nodes {
            if let Some(node) = self.run.resolve(path) {
                let attempt = self.run.attempt(node);
                self.running.insert(node, attempt);
                self.consequences
                    .push(Consequence::StopAgain(node, attempt));
            }
        }
        self.consequences
            .push(Consequence::ArmGrace(grace.deadline));
    }

    /// Nodes that were asked to stop and whose action a worker outside the process executes.
    pub(super) fn told_remote(&self, context: &Context<'_>) -> Vec<Instance> {
        let run = &self.run;
        let is_told = |&node: &Instance| run.is_told_to_stop(node) && !run.is_structural(node);
        let is_remote = |&node: &Instance| !context.options.is_local(&run.called_action(node));
        let open = run.open_instances().into_iter();
        open.filter(is_told).filter(is_remote).collect()
    }

    /// What a change leads to once it is durable.
    pub(super) fn note(&mut self, change: Change) {
        let consequence = match change {
            Change::Ready(node, attempt) if self.run.is_structural(node) => {
                if self.is_sequential() {
                    self.consequences.push(Consequence::Open(node, attempt));
                }
                Consequence::Noted(node, NodeStatus::Queued)
            }
            Change::ChildStarted(node, attempt, child) => match self.run.child_start(node) {
                Some(start) => {
                    // The time that the node gives its child counts from here.
                    if let Some(due) = self.run.due(node) {
                        self.consequences
                            .push(Consequence::Wait(node, attempt, due));
                    }
                    let command = ChildCommand::Start(Box::new(start));
                    Consequence::child(node, attempt, child, command)
                }
                None => return,
            },
            Change::ChildLetGo(node, child) => {
                Consequence::child(node, 0, child, ChildCommand::Cancel)
            }
            Change::ChildUndone(node, attempt, child) => {
                Consequence::child(node, attempt, child, ChildCommand::Compensate)
            }
            Change::StopAsked(node, attempt) if self.run.child(node).is_some() => {
                let command = match self.run.stop_cause() {
                    Some(StopCause::Timeout) => ChildCommand::TimeOut,
                    _ => ChildCommand::Cancel,
                };
                match self.run.child(node) {
                    Some(child) => Consequence::child(node, attempt, child, command),
                    None => return,
                }
            }
            Change::IterationStarted(node, _) => Consequence::Noted(node, NodeStatus::Running),
            change => Consequence::Changed(change),
        };
        self.consequences.push(consequence);
    }

    /// Stages a new graph before the event that names it is applied.
    pub(super) fn bring_graph(&mut self, input: &RunInput) {
        if let Some((definition, plan)) = input.graph() {
            self.run_mut().stage(definition, Arc::clone(plan));
        }
    }

    pub(super) fn tell_children(&mut self, command: &ChildCommand) {
        let children: Vec<_> = self.run.open_children().collect();
        for (node, attempt, child) in children {
            let command = command.clone();
            self.consequences
                .push(Consequence::child(node, attempt, child, command));
        }
    }

    /// Once the record is durable, hands out every open attempt that no worker has.
    pub(super) fn go_on(&mut self) {
        self.resuming += 1;
        self.consequences.push(Consequence::Resumed);
        self.open_all();
    }

    /// Notes every open attempt that no worker has, and the time of each one that waits.
    pub(super) fn open_all(&mut self) {
        for consequence in self.open_ones() {
            self.consequences.push(consequence);
        }
    }

    pub(super) fn open_ones(&self) -> Vec<Consequence> {
        let mut found = Vec::new();
        let sequential = self.is_sequential();
        for node in self.run.open_instances() {
            if sequential && self.run.is_unopened(node) {
                found.push(Consequence::Open(node, self.run.attempt(node)));
            }
            let status = self.run.node_status(node);
            let is_open = matches!(status, NodeStatus::Queued | NodeStatus::Running);
            if is_open && !self.running.contains(node) && !self.run.is_structural(node) {
                found.push(match self.run.undone_child(node) {
                    Some(child) => {
                        let attempt = self.run.attempt(node);
                        Consequence::child(node, attempt, child, ChildCommand::Compensate)
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
                found.push(Consequence::child(node, attempt, child, command));
            }
        }
        found
    }

    pub(super) fn arm_timeout(&mut self) {
        if let Some(at) = self.run.timeout_at() {
            self.consequences.push(Consequence::ArmTimeout(at));
        }
    }

    /// Workers may have attempts of nodes that the reattempt runs again.
    pub(super) fn disown_reopened(&mut self) {
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
}

/// Whether a run has begun and has not ended.
fn is_going(run: &run::Run) -> bool {
    matches!(run.status(), RunStatus::Running | RunStatus::Paused)
}
