//! Loops (semantics §7): iterations open, end, and lead to the next or to the loop's
//! own end. What needs no evaluation follows from the end of an iteration by itself;
//! the rest the run asks for (`Advance`, `SettleBody`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::apply::Change;
use super::frame::{Frame, FrameKey, Instance, NodeState, Owner};
use super::join::RoutingQueue;
use super::{Run, Stop};
use crate::definition::OnItemFailure;
use crate::event::StopCause;
use crate::plan::Structure;
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// How an iteration ended. A missing value means null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// It has not ended.
    Open,
    /// With this output.
    Succeeded(Option<ValueRef>),
    /// With this error.
    Failed(Option<ValueRef>),
}

/// A loop that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// What a `forEach` goes over.
    pub(crate) items: Option<ValueRef>,
    /// How many items there are.
    pub(crate) count: u32,
    /// The iteration that opens next.
    pub(crate) next: u32,
    /// Iterations that are open, or kept, with their frames.
    pub(crate) frames: BTreeMap<u32, FrameKey>,
    /// Iterations that have not ended.
    pub(crate) running: u32,
    /// Of a `forEach`, how each iteration ended.
    pub(crate) results: Vec<Iteration>,
    /// Iterations that ended badly.
    pub(crate) failed: BTreeSet<u32>,
    /// How the last iteration of another loop ended.
    pub(crate) last: Option<Iteration>,
    /// The output of the iteration before the last.
    pub(crate) previous: Option<ValueRef>,
    /// Instances inside, however deep, by status.
    pub(crate) counts: [u32; 9],
    /// Attempts of instances inside are numbered from after this: a loop that is tried
    /// again repeats paths, and no attempt may have two outcomes.
    pub(crate) attempt_base: u32,
    /// The highest attempt of any instance that was inside.
    pub(crate) deepest_attempt: u32,
}

impl Loop {
    /// How many items a `forEach` has.
    pub fn items(&self) -> u32 {
        self.count
    }

    /// How many iterations were opened.
    pub fn opened(&self) -> u32 {
        self.next
    }

    /// How many iterations have not ended.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// The iterations that ended badly.
    pub fn failed(&self) -> impl Iterator<Item = u32> + '_ {
        self.failed.iter().copied()
    }

    /// How many instances inside, however deep, are in a status.
    pub fn count(&self, status: NodeStatus) -> u32 {
        self.counts[status as usize]
    }

    /// Whether it goes over items, and not round until something holds.
    pub(crate) fn is_each(&self) -> bool {
        self.items.is_some()
    }

    /// The output of the last iteration, if it succeeded with one.
    pub(crate) fn last_output(&self) -> Option<ValueRef> {
        match self.last {
            Some(Iteration::Succeeded(value)) => value,
            _ => None,
        }
    }
}

impl Run {
    /// Where the numbering of attempts begins in a frame.
    pub(crate) fn attempt_base(&self, key: FrameKey) -> u32 {
        let owner = self.frame(key).owner;
        let cycle = owner.and_then(|owner| self.loops.get(&owner.node));
        cycle.map_or(0, |cycle| cycle.attempt_base)
    }

    /// Begins a loop, with nothing open yet.
    pub(crate) fn begin_loop(&mut self, node: Instance, items: Option<ValueRef>, count: u32) {
        let outer = self.attempt_base(self.key_of(node));
        self.reset_loop(node);
        let before = self.loops.get(&node);
        let deepest = before.map_or(0, |cycle| cycle.deepest_attempt);
        let cycle = Loop {
            items,
            count,
            results: vec![Iteration::Open; count as usize],
            attempt_base: outer.max(deepest),
            deepest_attempt: deepest,
            ..Loop::default()
        };
        self.loops.insert(node, cycle);
        self.set_status(node, NodeStatus::Running);
    }

    /// Forgets the iterations of a loop, but not how high their attempts were numbered.
    pub(crate) fn reset_loop(&mut self, node: Instance) {
        let Some(cycle) = self.loops.remove(&node) else {
            return;
        };
        let deepest_attempt = self.deepest_inside(&cycle);
        self.leave_iterations(node, &cycle);
        for key in self.scopes_around(node) {
            let owner = self.frame(key).owner;
            let Some(outer) = owner.and_then(|owner| self.loops.get_mut(&owner.node)) else {
                continue;
            };
            for (count, forgotten) in outer.counts.iter_mut().zip(cycle.counts) {
                *count = count.saturating_sub(forgotten);
            }
        }
        self.remember_attempts(node, deepest_attempt);
    }

    /// Attempts inside a loop that is to begin are numbered from after this.
    pub(crate) fn remember_attempts(&mut self, node: Instance, deepest_attempt: u32) {
        if deepest_attempt > 0 {
            let forgotten = Loop {
                deepest_attempt,
                ..Loop::default()
            };
            self.loops.insert(node, forgotten);
        }
    }

    fn deepest_inside(&self, cycle: &Loop) -> u32 {
        let frames = cycle.frames.values().map(|&key| self.frame(key));
        let inside = frames.map(|frame| {
            let own = frame.nodes.iter().map(|node| node.attempt).max();
            let inner = frame.instances().filter_map(|node| self.loops.get(&node));
            let inner = inner.map(|cycle| self.deepest_inside(cycle)).max();
            own.max(inner).unwrap_or(0)
        });
        inside.max().unwrap_or(0).max(cycle.deepest_attempt)
    }

    pub(crate) fn open_iteration(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let (plan, index) = self.plan_node(node);
        let (plan, Some(body)) = (plan.clone(), plan.body(index)) else {
            return;
        };
        self.set_status(node, NodeStatus::Running);
        self.due.remove(&node);
        self.drop_past_frames(node);
        let base = self.next_instance;
        let cycle = self.loops.get_mut(&node).expect("a loop has begun");
        let iteration = cycle.next;
        cycle.previous = cycle.last_output();
        cycle.next += 1;
        cycle.running += 1;
        cycle.frames.insert(iteration, base);
        let previous = cycle.previous;
        let mut frame = Frame::new(plan, body, base, Some(Owner { node, iteration }));
        frame.previous = previous;
        self.next_instance += frame.nodes.len() as Instance;
        let entries: Vec<Instance> = {
            let entries = frame.shape().entries().iter();
            entries.map(|&entry| frame.instance(entry)).collect()
        };
        let size = frame.nodes.len() as u32;
        self.frames.insert(frame);
        self.count_inside(node, size);
        changes.push(Change::IterationStarted(node, iteration));
        for entry in entries {
            self.make_ready_in(entry, queue, changes);
        }
    }

    /// New instances are pending, in this loop and in every one around it.
    fn count_inside(&mut self, node: Instance, size: u32) {
        let mut node = node;
        loop {
            if let Some(cycle) = self.loops.get_mut(&node) {
                cycle.counts[NodeStatus::Pending as usize] += size;
            }
            match self.frame_of(node).owner {
                Some(owner) => node = owner.node,
                None => break,
            }
        }
    }

    /// A loop that goes round by itself keeps only its last iteration.
    fn drop_past_frames(&mut self, node: Instance) {
        if matches!(self.structure(node), Some(Structure::ForEach(_))) {
            return;
        }
        let Some(cycle) = self.loops.get(&node) else {
            return;
        };
        let past: Vec<(u32, FrameKey)> = cycle
            .frames
            .iter()
            .map(|(&at, &key)| (at, key))
            .filter(|&(_, key)| !self.frame(key).shape().is_compensated)
            .collect();
        let cycle = self.loops.get_mut(&node).expect("a loop has begun");
        for (iteration, key) in past {
            cycle.frames.remove(&iteration);
            self.garbage.push(key);
        }
    }

    /// Opens as many items as may go at once; with none left, the loop ends.
    pub(crate) fn open_items(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let Some(Structure::ForEach(each)) = self.structure(node) else {
            return;
        };
        let limit = each.limit;
        let cycle = self.loops.get(&node).expect("a loop has begun");
        let (free, left) = (
            limit.saturating_sub(cycle.running),
            cycle.count.saturating_sub(cycle.next),
        );
        changes.reserve(free.min(left) as usize * 2);
        loop {
            let cycle = self.loops.get(&node).expect("a loop has begun");
            if !self.wants_item(node, cycle) || cycle.running >= limit {
                break;
            }
            self.open_iteration(node, queue, changes);
        }
        let cycle = self.loops.get(&node).expect("a loop has begun");
        if cycle.running == 0 {
            self.to_advance.insert(node);
        }
    }

    /// Whether a `forEach` has another item to begin: not after a failure that fails it.
    fn wants_item(&self, node: Instance, cycle: &Loop) -> bool {
        let Some(Structure::ForEach(each)) = self.structure(node) else {
            return false;
        };
        let collects = each.on_item_failure == OnItemFailure::Collect;
        cycle.next < cycle.count && (collects || cycle.failed.is_empty())
    }

    /// Nothing is open in a frame: the iteration ends, unless something of it must
    /// still be evaluated.
    pub(crate) fn iteration_quiet(
        &mut self,
        key: FrameKey,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let Some(frame) = self.frames.get(key) else {
            return;
        };
        let Some(owner) = frame.owner.filter(|_| frame.is_quiet() && !frame.done) else {
            return;
        };
        let result = match frame.failed.keys().find(|&&node| !self.is_handled(node)) {
            _ if self.is_cut(frame, owner.node) => Iteration::Open,
            Some(&node) => Iteration::Failed(self.value(node)),
            None if frame.shape().has_plain_output() => {
                let sink = frame.instance(frame.shape().sinks[0]);
                let state = frame.state(sink);
                let value = state.value;
                Iteration::Succeeded(value.filter(|_| state.status == NodeStatus::Succeeded))
            }
            None => {
                self.to_stop.remove(&key);
                self.to_settle.insert(key);
                return;
            }
        };
        self.iteration_ended(key, result, queue, changes);
    }

    /// Whether an iteration was stopped from outside before everything in it was done.
    fn is_cut(&self, frame: &Frame, owner: Instance) -> bool {
        let cause = frame.stop.as_ref().map(|stop| stop.cause);
        let is_stopped = matches!(cause, Some(StopCause::Cancel | StopCause::Timeout))
            || self.state(owner).stopping;
        let is_lost = |node: &NodeState| node.status == NodeStatus::Cancelled && !node.let_go;
        is_stopped && frame.nodes.iter().any(is_lost)
    }

    /// Records how an iteration ended, `Open` meaning that it was cancelled, and continues the
    /// loop.
    pub(crate) fn iteration_ended(
        &mut self,
        key: FrameKey,
        result: Iteration,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        self.to_stop.remove(&key);
        self.to_settle.remove(&key);
        let frame = self.frame_mut(key);
        frame.done = true;
        let Some(Owner { node, iteration }) = frame.owner else {
            return;
        };
        let keeps = frame.shape().is_compensated || !matches!(result, Iteration::Succeeded(_));
        let status = match result {
            Iteration::Succeeded(_) => NodeStatus::Succeeded,
            Iteration::Failed(_) => NodeStatus::Failed,
            Iteration::Open => NodeStatus::Cancelled,
        };
        changes.push(Change::IterationEnded(node, iteration, status));
        let Some(cycle) = self.loops.get_mut(&node) else {
            return;
        };
        cycle.running -= 1;
        if !keeps {
            cycle.frames.remove(&iteration);
            self.garbage.push(key);
        }
        let each = cycle.is_each();
        if each {
            cycle.results[iteration as usize] = result;
        } else {
            cycle.last = Some(result);
        }
        if matches!(result, Iteration::Failed(_)) {
            cycle.failed.insert(iteration);
        }
        let is_over = cycle.running == 0;
        let state = self.state(node);
        if !state.is_open() {
            return;
        }
        if state.stopping {
            if is_over {
                self.stopped_loop_over(node, queue, changes);
            }
        } else if each {
            self.open_items(node, queue, changes);
        } else {
            self.to_advance.insert(node);
        }
    }

    /// A loop that was asked to stop has no open iteration left. If none was cut short, it ends
    /// by its own rule, unless that rule is to go round again.
    fn stopped_loop_over(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let Some(cycle) = self.loops.get(&node) else {
            return;
        };
        let opened = cycle.results.iter().take(cycle.next as usize);
        let is_cut = opened
            .chain(&cycle.last)
            .any(|result| *result == Iteration::Open);
        if is_cut || self.wants_item(node, cycle) {
            self.mark_ended(node, NodeStatus::Cancelled, queue, changes);
        } else {
            self.to_advance.insert(node);
        }
    }

    /// Closes everything that is still open in a loop, wait or child run that ends.
    pub(crate) fn close_structure(
        &mut self,
        node: Instance,
        status: NodeStatus,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        if self.structure(node).is_none() {
            return;
        }
        self.to_open.remove(&node);
        self.to_advance.remove(&node);
        self.since.remove(&node);
        self.stop_waiting(node);
        self.close_child(node, status, changes);
        let Some(cycle) = self.loops.get(&node) else {
            return;
        };
        let frames: Vec<_> = cycle.frames.iter().map(|(&at, &key)| (at, key)).collect();
        for &(_, key) in &frames {
            self.cancel_frame(key, queue, changes);
        }
        if status != NodeStatus::Succeeded {
            return;
        }
        let past = frames.into_iter();
        let past: Vec<_> = past
            .filter(|&(_, key)| !self.frame(key).shape().is_compensated)
            .collect();
        let cycle = self.loops.get_mut(&node).expect("a loop has begun");
        cycle.results = Vec::new();
        for (iteration, key) in past {
            cycle.frames.remove(&iteration);
            self.garbage.push(key);
        }
    }

    /// Cancels everything in a frame at once, without a grace.
    fn cancel_frame(&mut self, key: FrameKey, queue: &mut RoutingQueue, changes: &mut Vec<Change>) {
        if self.frame(key).done {
            return;
        }
        self.to_stop.remove(&key);
        self.to_settle.remove(&key);
        let frame = self.frame_mut(key);
        frame.done = true;
        frame.stop.get_or_insert_with(Stop::let_go);
        // Ending the nodes of a level must not let those of the next begin.
        if let Some(levels) = &mut frame.levels {
            levels.forget_held(|_| true);
        }
        let owner = frame.owner;
        if let Some(owner) = owner
            && let Some(cycle) = self.loops.get_mut(&owner.node)
        {
            cycle.running -= 1;
        }
        for node in self.frame(key).instances() {
            if self.to_route.contains(&node) {
                self.ask_no_more(node);
            }
            if !self.node_status(node).is_final() {
                // A worker may have it, so the number of its attempt stays used.
                self.state_mut(node).let_go = true;
                self.mark_ended(node, NodeStatus::Cancelled, queue, changes);
            }
        }
    }

    /// Whether an instance is in a frame that is freed before the next event is applied,
    /// or kept only for what is undone.
    pub(crate) fn is_leaving(&self, node: Instance) -> bool {
        if self.find_state(node).is_none() || self.undone(node).is_some() {
            return false;
        }
        let mut key = self.key_of(node);
        loop {
            if self.garbage.contains(&key) || self.kept_frames.contains_key(&key) {
                return true;
            }
            match self.frame(key).owner {
                Some(owner) => key = self.key_of(owner.node),
                None => return false,
            }
        }
    }

    /// Frees the frames that nothing needs any more, and everything that belongs to them.
    pub(crate) fn collect_garbage(&mut self) {
        for key in std::mem::take(&mut self.garbage) {
            self.free_frame(key);
        }
    }

    pub(crate) fn free_frame(&mut self, key: FrameKey) {
        let Some(frame) = self.frames.remove(key) else {
            return;
        };
        let mut deepest = frame.nodes.iter().map(|node| node.attempt).max();
        if frame.shape().is_compensated {
            // The loop runs again; only its new iterations are undone.
            let is_gone = |node: Instance| frame.range().contains(&node);
            self.completed.retain(|undone| !is_gone(undone.node));
            self.transactional.retain(|&node, _| !is_gone(node));
        }
        for node in frame.range() {
            self.blocked_by.remove(&node);
            self.recovered.remove(&node);
            self.taken.remove(&node);
            if let Some(cycle) = self.loops.remove(&node) {
                for inner in cycle.frames.values() {
                    self.free_frame(*inner);
                }
                deepest = deepest.max(Some(cycle.deepest_attempt));
            }
        }
        if let Some(owner) = frame.owner
            && let Some(cycle) = self.loops.get_mut(&owner.node)
        {
            cycle.deepest_attempt = cycle.deepest_attempt.max(deepest.unwrap_or(0));
        }
    }
}

impl Stop {
    /// The stop of a cancelled scope: nothing starts in it any more.
    fn let_go() -> Self {
        Self {
            cause: StopCause::Cancel,
            deadline: crate::id::Millis(0),
            actor: crate::event::Actor::default(),
            compensate: false,
            abandoned: None,
        }
    }
}
