//! Slots of pools: an attempt asks for them before it goes to a worker, holds them while one has
//! it, and frees them with the record that ends it. One that waits takes no place among the
//! run's running nodes and keeps no other node waiting; where one node goes at a time it keeps
//! its turn.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::run::{Dispatch, Instance};
use windlass_core::{Millis, NodeStatus, RunStatus};
use windlass_store::{Partition, PoolKey, SlotRequest, WorkKey};

use super::{Consequence, Slot};
use crate::shard::Context;

/// What a run's attempts want and hold of pools; empty where no node has one.
#[derive(Debug, Default)]
pub(super) struct Pooled {
    /// Attempts that asked, and whether they know that they must wait.
    waits: BTreeMap<Instance, (SlotRequest, bool)>,
    /// How many of them have no answer yet: they may go at any moment.
    unanswered: usize,
    /// Attempts that hold slots.
    held: BTreeMap<Instance, (u32, PoolKey)>,
    /// Attempts whose end frees their slots, in a record that is not durable yet.
    ending: BTreeSet<(Instance, u32)>,
    /// Since when an attempt wants its slots, also while it stands in no line.
    since: BTreeMap<Instance, (u32, Millis)>,
}

impl Pooled {
    pub(super) fn holds(&self, node: Instance, attempt: u32) -> bool {
        self.held.get(&node).is_some_and(|held| held.0 == attempt)
    }

    fn awaits(&self, node: Instance, attempt: u32) -> bool {
        let waits = self.waits.get(&node);
        waits.is_some_and(|(request, _)| request.attempt.attempt == attempt)
    }

    /// How many places among the running nodes are kept for those that asked.
    pub(super) fn reserved(&self, one_at_a_time: bool) -> usize {
        match one_at_a_time {
            true => self.waits.len(),
            false => self.unanswered,
        }
    }

    fn stop_waiting(&mut self, node: Instance) -> Option<SlotRequest> {
        let (request, is_answered) = self.waits.remove(&node)?;
        self.unanswered -= usize::from(!is_answered);
        Some(request)
    }

    fn free(&mut self, node: Instance, attempt: u32) -> Option<PoolKey> {
        if !self.holds(node, attempt) {
            return None;
        }
        self.held.remove(&node).map(|(_, pool)| pool)
    }

    /// The record that freed an attempt's slots is durable.
    pub(super) fn has_freed(&mut self, node: Instance, attempt: u32) {
        self.ending.remove(&(node, attempt));
    }

    /// The node has ended.
    pub(super) fn forget(&mut self, node: Instance) {
        self.since.remove(&node);
    }
}

impl Slot {
    fn work_key(&self, node: Instance, attempt: u32) -> WorkKey {
        WorkKey {
            run: self.run.id(),
            instance: node,
            attempt,
        }
    }

    /// What an attempt must ask for before it goes; none if it needs no slots or holds them.
    /// `Err` if it has asked.
    pub(super) fn slots_wanted(
        &mut self,
        dispatch: &Dispatch,
        context: &mut Context<'_>,
    ) -> Result<Option<SlotRequest>, ()> {
        let (node, attempt) = (dispatch.node, dispatch.attempt);
        let Some(pool) = &dispatch.pool else {
            return Ok(None);
        };
        if self.pooled.holds(node, attempt) {
            return Ok(None);
        }
        if self.pooled.awaits(node, attempt) {
            return Err(());
        }
        self.leave_line(node, context);
        let is_started = self.run.node_status(node) == NodeStatus::Running;
        let since = self.pooled.since.entry(node).or_insert((0, context.now));
        if since.0 != attempt {
            *since = (attempt, context.now);
        }
        let request = SlotRequest {
            pool: PoolKey::new(dispatch.tenant.as_deref(), &pool.name),
            attempt: WorkKey {
                run: dispatch.run,
                instance: node,
                attempt,
            },
            node: dispatch.path.clone(),
            slots: pool.slots.max(1),
            rank: match (is_started, dispatch.reopened) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            },
            priority: dispatch.priority,
            since: since.1,
            partition: Partition(self.run.queued().partition),
            fence: self.records(),
        };
        context.lines.insert(&request);
        self.pooled.waits.insert(node, (request.clone(), false));
        self.pooled.unanswered += 1;
        Ok(Some(request))
    }

    /// The store's answer to an attempt that asked.
    pub(in crate::shard) fn slots_answered(
        &mut self,
        (node, attempt): (Instance, u32),
        granted: bool,
        context: &mut Context<'_>,
    ) {
        if !self.pooled.awaits(node, attempt) {
            // It asked twice, or stopped waiting meanwhile.
            if !self.needs_slots(node, attempt) {
                let key = self.work_key(node, attempt);
                context.give_slots(key, self.records());
            }
            return;
        }
        if !granted {
            if let Some((_, is_answered)) = self.pooled.waits.get_mut(&node) {
                self.pooled.unanswered -= usize::from(!std::mem::replace(is_answered, true));
            }
            return;
        }
        let Some(request) = self.pooled.stop_waiting(node) else {
            return;
        };
        context.lines.remove(&request);
        self.pooled.held.insert(node, (attempt, request.pool));
        if self.is_sequential() && self.run.status() == RunStatus::Running {
            // It goes at its turn, which is next.
            self.make_ready(node, attempt);
        } else if !self.go_with_slots(node, attempt, context) {
            // Other nodes have taken its place in the run: it goes, or asks again, when there is
            // one.
            if !self.keeps_slots(node, attempt) {
                self.give_slots(node, attempt, context);
            }
            self.make_ready(node, attempt);
        }
    }

    fn go_with_slots(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) -> bool {
        let has_room = self.running.len() + self.pooled.unanswered < self.bound(context);
        let goes_on = self.run.status() == RunStatus::Running && self.resuming == 0;
        let may_go = self.run.is_open(node, attempt) && self.run.may_hand_out(node);
        if !has_room || !goes_on || self.closed || !may_go || self.running.contains(node) {
            return false;
        }
        let dispatch = self.run.dispatch(node, context.now);
        if self.names_undurable(&dispatch) {
            return false;
        }
        self.send(dispatch, context);
        true
    }

    /// Whether an attempt holds slots that it needs, or waits for them. One that has ended needs them
    /// until that is durable, also if an earlier process had taken them, and an open one while a
    /// record may still hand it out: a run that was just recovered asks for what is its own.
    pub(in crate::shard) fn needs_slots(&self, node: Instance, attempt: u32) -> bool {
        self.pooled.awaits(node, attempt)
            || self.pooled.holds(node, attempt)
            || self.pooled.ending.contains(&(node, attempt))
            || self.is_running(node, attempt)
            || self.may_be_open(node, attempt)
            || self.keeps_slots(node, attempt)
    }

    /// Whether an attempt waits for its turn among the nodes of its run while a worker that an
    /// earlier process handed it to may still have it: its slots are not free. Where one node
    /// goes at a time, only an attempt that the log says has begun keeps them: its turn is next,
    /// and another node that waited for them would wait for ever.
    fn keeps_slots(&self, node: Instance, attempt: u32) -> bool {
        let has_turn = match self.run.find_status(node) {
            Some(NodeStatus::Running) => true,
            Some(NodeStatus::Queued) => !self.is_sequential(),
            _ => false,
        };
        has_turn
            && self.run.is_open(node, attempt)
            && self.run.was_handed_out(node)
            && self.run.may_hand_out(node)
            && self.run.status() == RunStatus::Running
    }

    /// Whether the log may say that an attempt is open, or will be: what ended it is not durable, or
    /// something is still to be decided.
    fn may_be_open(&self, node: Instance, attempt: u32) -> bool {
        let is_last = match self.run.find_status(node) {
            Some(_) => self.run.attempt(node) == attempt,
            // Its scope has ended, in a record that may not be durable either.
            None => true,
        };
        is_last && !self.is_settled()
    }

    /// Whether nothing is to be decided, and everything that was is durable.
    fn is_settled(&self) -> bool {
        let is_durable = self.record.is_empty() && self.in_flight.is_none();
        is_durable && !self.is_waiting() && self.resuming == 0
    }

    /// What the run's attempts wait for.
    pub(in crate::shard) fn slot_requests(&self) -> impl Iterator<Item = &SlotRequest> {
        self.pooled.waits.values().map(|(request, _)| request)
    }

    /// Frees the slots of an attempt that no worker has any more, with the record that says so
    /// if there is one.
    pub(super) fn free_slots(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) {
        if self.record.is_empty() {
            self.give_slots(node, attempt, context);
        } else if let Some(pool) = self.pooled.free(node, attempt) {
            self.freed.push((node, attempt));
            self.pooled.ending.insert((node, attempt));
            let freed = Consequence::SlotsFreed(node, attempt, pool);
            self.consequences.push(freed);
        }
    }

    /// Frees the slots of an attempt without a record.
    pub(super) fn give_slots(&mut self, node: Instance, attempt: u32, context: &mut Context<'_>) {
        if self.pooled.free(node, attempt).is_some() {
            let key = self.work_key(node, attempt);
            context.give_slots(key, self.records());
        }
    }

    /// Where one node goes at a time, and it is the turn of this one or of a child: an attempt that
    /// got its slots and comes later gives them back, and asks again at its turn. Otherwise the
    /// node, or the child, might wait for them for ever.
    pub(super) fn give_idle_slots(&mut self, turn: Option<Instance>, context: &mut Context<'_>) {
        let held = self.pooled.held.iter();
        let idle =
            held.filter(|(node, held)| Some(**node) != turn && !self.is_running(**node, held.0));
        let idle: Vec<(Instance, u32)> = idle.map(|(&node, held)| (node, held.0)).collect();
        for (node, attempt) in idle {
            self.give_slots(node, attempt, context);
        }
    }

    /// A node does not wait for slots any more.
    pub(super) fn leave_line(&mut self, node: Instance, context: &mut Context<'_>) {
        if let Some(request) = self.pooled.stop_waiting(node) {
            context.lines.remove(&request);
            context.give_slots(request.attempt, self.records());
        }
    }

    /// The run starts nothing now: what waits for slots, or has them and is with no worker, gives
    /// them to others, and asks again when the run is executed again.
    pub(super) fn leave_lines(&mut self, context: &mut Context<'_>) {
        if self.pooled.waits.is_empty() && self.pooled.held.is_empty() {
            return;
        }
        let waiting = self.pooled.waits.values();
        let waiting = waiting.map(|(request, _)| request.attempt);
        let idle = self.pooled.held.iter();
        let idle = idle.filter(|(node, held)| !self.is_running(**node, held.0));
        let idle = idle.map(|(&node, held)| self.work_key(node, held.0));
        for WorkKey {
            instance, attempt, ..
        } in waiting.chain(idle).collect::<Vec<_>>()
        {
            self.leave_line(instance, context);
            self.give_slots(instance, attempt, context);
            self.make_ready(instance, attempt);
        }
    }
}
