//! What happens once a record is durable: the proof opens the gate, and what waited behind
//! it is carried out. A run that is woken has its open work carried out without a proof:
//! its state was read from the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::run::{
    Change, Dispatch, Input as RunInput, Instance, PendingDecision, ValueSource, WaitingNode,
};
use windlass_core::value::ValueRef;
use windlass_core::{NodeStatus, RunStatus};

use super::{Consequence, MAX_STANDINGS, ReadyOrder, Slot, ToChild, touches};
use crate::deadline::Deadline;
use crate::row::gate_name;
use crate::shard::{ChildCommand, Context, Effect, FailedAttempt, HandOut};

impl Slot {
    pub(super) fn carry_out(&mut self, consequences: Vec<Consequence>, context: &mut Context<'_>) {
        let run = self.run.id();
        let mut progress = Vec::with_capacity(consequences.len());
        let mut failures = Vec::new();
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
                Consequence::Failed(failed) => failures.push(FailedAttempt {
                    changes_before: progress.len(),
                    ..*failed
                }),
                Consequence::Child(told) => {
                    let ToChild {
                        node,
                        attempt,
                        child,
                        command,
                    } = *told;
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
                Consequence::Answer(id, refusal) => self.answer_now(id, refusal, context),
                Consequence::Accepted => context.effects.push_back(Effect::Accepted { run }),
                Consequence::Began { recovered } => context.effects.push_back(Effect::Began {
                    about: Box::new(self.run.about()),
                    recovered,
                }),
                Consequence::Open(node, attempt) => self.make_ready(node, attempt),
                Consequence::StopAgain(node, attempt) => self.tell_again(node, attempt, context),
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
                Consequence::ActiveChanged(going) => {
                    context.effects.push_back(Effect::ActiveChanged {
                        run,
                        tenant: self.run.queued().tenant.clone(),
                        workflow: self.run.queued().workflow.clone(),
                        gate: gate_name(self.run.queued()),
                        going,
                    })
                }
                Consequence::ArmTimeout(at) => context.deadlines.set(at, run, Deadline::Timeout),
                Consequence::ArmGrace(at) => context.deadlines.set(at, run, Deadline::Grace),
                Consequence::Stored(digest, wanted) => self.stored(digest, wanted),
                Consequence::VarsSet => self.setting_vars -= 1,
                Consequence::SlotsFreed(node, attempt, pool) => {
                    self.pooled.has_freed(node, attempt);
                    context.effects.push_back(Effect::SlotsFreed(pool));
                }
            }
        }
        let waiting_nodes = self.waiting_nodes(&touched);
        if !progress.is_empty() || !waiting_nodes.is_empty() || !failures.is_empty() {
            context.effects.push_back(Effect::Progress {
                run,
                nodes: progress,
                waiting_nodes,
                failures,
            });
        }
    }

    /// How these stand now.
    pub(super) fn waiting_nodes(&self, touched: &BTreeSet<Instance>) -> Vec<WaitingNode> {
        let run = &self.run;
        let is_told = |&&node: &&Instance| {
            let status = run.find_status(node);
            matches!(status, Some(NodeStatus::Running | NodeStatus::Waiting))
        };
        let told = touched.iter().filter(is_told).take(MAX_STANDINGS);
        told.filter_map(|&node| run.waiting_node(node)).collect()
    }

    pub(super) fn make_ready(&mut self, node: Instance, attempt: u32) {
        self.ready.insert(node, attempt, ReadyOrder::of(&self.run));
    }

    pub(super) fn changed(
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
                self.leave_line(node, context);
                self.pooled.forget(node);
                self.ready.forget(node);
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

    pub(super) fn give_up(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) {
        if self.running.remove(node, attempt) {
            self.tell_to_stop(node, attempt, true, context);
            self.give_slots(node, attempt, context);
        }
    }

    pub(super) fn tell_to_stop(
        &self,
        node: Instance,
        attempt: u32,
        give_up: bool,
        context: &mut Context<'_>,
    ) {
        let run = self.run.id();
        context.effects.push_back(Effect::Stop {
            give_up,
            run,
            node,
            attempt,
        });
    }

    /// An attempt that was asked to stop before this process acquired the run: the driver must know
    /// it, so that its worker hears of the stop and can report.
    fn tell_again(&self, node: Instance, attempt: u32, context: &mut Context<'_>) {
        if self.is_running(node, attempt) && self.run.is_open(node, attempt) {
            let dispatch = Arc::new(self.run.dispatch(node, context.now));
            context.effects.push_back(Effect::Dispatch(dispatch));
            self.tell_to_stop(node, attempt, false, context);
        }
    }

    /// Hands ready nodes out, as far as the run's bound allows.
    pub(super) fn release(&mut self, context: &mut Context<'_>) {
        if self.run.status() != RunStatus::Running || self.closed {
            self.leave_lines(context);
            if self.run.status() == RunStatus::Paused {
                self.take_back_unclaimed(context);
            }
            return;
        }
        if self.resuming > 0 {
            return;
        }
        let sequential = self.is_sequential();
        // One at a time means in definition order, so the shard must first know what an
        // undecided or undurable record may still make ready.
        let undecided = self.in_flight.is_some() || !self.record.is_empty() || self.is_waiting();
        let has_child = sequential && self.run.open_children().next().is_some();
        if has_child {
            // The child may want what an attempt got meanwhile.
            self.give_idle_slots(None, context);
        }
        if has_child || (sequential && undecided) {
            return;
        }
        let limit = self.bound(context);
        let (mut postponed, mut asking) = (Vec::new(), Vec::new());
        while self.running.len() + self.pooled.reserved(sequential) < limit {
            let Some((node, attempt)) = self.ready.pop() else {
                break;
            };
            if sequential {
                self.give_idle_slots(Some(node), context);
            }
            if self.run.is_structural(node) {
                if self.take_turn(node, attempt, context) {
                    break;
                }
                continue;
            }
            let may_go = self.run.is_open(node, attempt) && self.run.may_hand_out(node);
            if !may_go || self.running.contains(node) {
                continue;
            }
            let dispatch = self.run.dispatch(node, context.now);
            let mut is_local = context.options.is_local(&dispatch.action);
            let labels = &context.options.labels;
            if is_local && labels.lacking(&dispatch.requires).is_some() {
                // Without a queue the attempt stays open for a process that has the labels.
                if !context.options.queues_unlabelled {
                    continue;
                }
                is_local = false;
            }
            if self.names_undurable(&dispatch) {
                postponed.push((node, attempt));
                continue;
            }
            match self.slots_wanted(&dispatch, context) {
                Ok(None) => self.send(dispatch, context),
                Ok(Some(wanted)) => asking.push(wanted),
                Err(()) => {}
            }
        }
        for (node, attempt) in postponed {
            self.make_ready(node, attempt);
        }
        if !asking.is_empty() {
            context.take_slots(asking);
        }
    }

    /// A paused run holds no slots for attempts that no worker outside the process has taken: they
    /// leave the queue, and go again when the run is resumed. Where other processes serve the
    /// queue, one of them may just have handed the attempt out, so it stays there.
    fn take_back_unclaimed(&mut self, context: &mut Context<'_>) {
        let is_durable = self.in_flight.is_none() && self.record.is_empty();
        if context.options.shared_gates || !is_durable {
            return;
        }
        let unclaimed = self.running.iter().filter(|&(node, attempt)| {
            let is_local = context.options.is_local(&self.run.called_action(node));
            let has_begun = self.run.node_status(node) == NodeStatus::Running;
            !is_local
                && !has_begun
                && self.running.worker(node).is_none()
                && self.pooled.holds(node, attempt)
        });
        for (node, attempt) in unclaimed.collect::<Vec<_>>() {
            self.give_up(node, attempt, context);
            self.make_ready(node, attempt);
        }
    }

    /// How many nodes of the run may be with workers.
    pub(super) fn bound(&self, context: &Context<'_>) -> usize {
        if self.is_sequential() {
            return 1;
        }
        let own = self.run.plan().max_parallel();
        own.unwrap_or(context.options.max_parallel).max(1) as usize
    }

    /// Hands an attempt to a worker.
    pub(super) fn send(&mut self, dispatch: Dispatch, context: &mut Context<'_>) {
        let (node, attempt) = (dispatch.node, dispatch.attempt);
        self.running.insert(node, attempt);
        if context.options.is_local(&dispatch.action) {
            note_start(dispatch.run, node, attempt, context);
        }
        let dispatch = Effect::Dispatch(Arc::new(dispatch));
        context.effects.push_back(dispatch);
    }

    /// A worker of another process takes an attempt, if it may.
    pub(in crate::shard) fn hand_out(
        &mut self,
        taken: &HandOut<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        let HandOut { node, attempt, .. } = *taken;
        if !self.is_running(node, attempt) || self.closed {
            return false;
        }
        if !self.run.is_open(node, attempt) || !self.run.may_hand_out(node) {
            return false;
        }
        if self.run.status() != RunStatus::Running && !taken.resumes {
            self.running.remove(node, attempt);
            self.give_slots(node, attempt, context);
            self.make_ready(node, attempt);
            return false;
        }
        if taken.asks {
            return true;
        }
        self.running.give_to(node, taken.worker, taken.since);
        note_start(taken.run, node, attempt, context);
        true
    }

    /// With one node at a time, a loop, a wait or a child run begins at its turn; true if that
    /// has to be durable, or its values loaded, before anything else goes.
    fn take_turn(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) -> bool {
        if !self.run.is_open(node, attempt) {
            return false;
        }
        let input = if self.run.is_unopened(node) {
            RunInput::Pending(PendingDecision::Open(node))
        } else {
            RunInput::Due { node, attempt }
        };
        let postponed = self.decide((input, None), context);
        if self.loading {
            self.make_ready(node, attempt);
        }
        debug_assert!(postponed.is_none() || self.loading, "only a load postpones");
        self.is_waiting() || !self.record.is_empty()
    }

    /// Whether the parameters name a value that a worker could not find in the store yet.
    pub(super) fn names_undurable(&self, dispatch: &Dispatch) -> bool {
        let is_undurable = |value: &ValueRef| {
            if value.is_blob() {
                self.undurable.contains_key(&value.digest)
            } else {
                u64::from(value.record) > self.head.sequence
            }
        };
        dispatch.sources.iter().any(|source| match source {
            ValueSource::Stored(value)
            | ValueSource::Error { value, .. }
            | ValueSource::Item(value, _) => is_undurable(value),
            ValueSource::Vars(_) => self.setting_vars > 0,
            ValueSource::Undefined | ValueSource::Text(_) | ValueSource::Secret(_) => false,
        })
    }
}

/// An attempt that is with a worker for a while is recorded as started.
fn note_start(run: windlass_core::RunId, node: Instance, attempt: u32, context: &mut Context<'_>) {
    let noted_at = context.now.plus(context.options.still_running_ms);
    context.deadlines.note_start(noted_at, run, node, attempt);
}
