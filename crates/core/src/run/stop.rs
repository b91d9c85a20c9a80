//! Stopping a scope before everything in it has ended: cancel, timeout and fail-fast
//! (semantics §4). What is with a worker gets a grace; the rest is Cancelled.

use std::collections::BTreeSet;

use super::apply::Change;
use super::frame::{FrameKey, Instance, TOP};
use super::join::RoutingQueue;
use super::{Run, Stop};
use crate::definition::When;
use crate::event::{StopCause, Stopping};
use crate::id::Millis;
use crate::routing::EdgeState;
use crate::status::NodeStatus;

impl Run {
    /// Whether a node's failed attempt may still be repeated.
    pub(crate) fn may_start(&self, node: Instance) -> bool {
        if self.undone(node).is_some() {
            return true;
        }
        let frame = self.frame_of(node);
        match frame.stop.as_ref().map(|stop| stop.cause) {
            None => true,
            Some(StopCause::FailFast) => frame.state(node).exempt,
            Some(StopCause::Timeout | StopCause::Cancel) => false,
        }
    }

    /// Whether an open attempt may still be handed to a worker.
    pub fn may_hand_out(&self, node: Instance) -> bool {
        let is_told = self.find_state(node).is_none_or(|state| state.stopping);
        !is_told && self.may_start(node)
    }

    pub(crate) fn stopping(
        &mut self,
        key: FrameKey,
        stopping: &Stopping,
        running: &BTreeSet<Instance>,
        changes: &mut Vec<Change>,
    ) {
        let stop = Stop {
            cause: stopping.cause,
            deadline: stopping.deadline,
            actor: stopping.actor.clone(),
            compensate: stopping.compensate,
            abandoned: stopping.abandoned.clone(),
        };
        let mut queue = RoutingQueue::default();
        if stopping.cause == StopCause::FailFast {
            self.mark_exempt(key);
        } else {
            self.forget_exempt(key);
        }
        self.stop_frame(key, &stop, running, &mut queue, changes);
        self.cascade(queue, changes);
    }

    /// Stops everything in a frame and in the loops inside it; says whether something is
    /// left that was asked to stop and has not.
    fn stop_frame(
        &mut self,
        key: FrameKey,
        stop: &Stop,
        running: &BTreeSet<Instance>,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) -> bool {
        self.to_stop.remove(&key);
        let frame = self.frame_mut(key);
        frame.stop = Some(stop.clone());
        if let Some(mut levels) = frame.levels.take() {
            // Ending the nodes of a level must not let those of the next begin.
            levels.forget_held(|node| !frame.state(node).exempt);
            frame.levels = Some(levels);
        }
        let mut is_busy = false;
        for node in self.frame(key).instances() {
            let state = self.state(node);
            if state.status.is_final() || state.exempt {
                continue;
            }
            let has_worker = running.contains(&node) || self.children.contains_key(&node);
            if has_worker {
                let state = self.state_mut(node);
                state.stopping = true;
                changes.push(Change::StopAsked(node, state.attempt));
            }
            if has_worker || self.stop_loop(node, stop, running, queue, changes) {
                is_busy = true;
            } else {
                self.mark_ended(node, NodeStatus::Cancelled, queue, changes);
            }
        }
        is_busy
    }

    /// Stops the iterations of a loop; says whether it must wait for some of them.
    fn stop_loop(
        &mut self,
        node: Instance,
        stop: &Stop,
        running: &BTreeSet<Instance>,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) -> bool {
        let Some(cycle) = self.loops.get(&node) else {
            return false;
        };
        let frames: Vec<FrameKey> = cycle.frames.values().copied().collect();
        let mut is_busy = false;
        for key in frames {
            if !self.frame(key).done {
                self.forget_exempt(key);
                is_busy |= self.stop_frame(key, stop, running, queue, changes);
            }
        }
        if is_busy {
            self.state_mut(node).stopping = true;
            self.to_advance.remove(&node);
        }
        is_busy
    }

    fn forget_exempt(&mut self, key: FrameKey) {
        let nodes = &mut self.frame_mut(key).nodes;
        nodes.iter_mut().for_each(|node| node.exempt = false);
    }

    /// Nodes reached through a taken `always` edge and what follows them go on.
    fn mark_exempt(&mut self, key: FrameKey) {
        let plan = self.frame(key).plan.clone();
        let frame = self.frame_mut(key);
        let edges = frame.shape().edges();
        let mut reached: Vec<Instance> = edges
            .filter(|&edge| {
                plan.edge(edge).when == When::Always && frame.edge(edge) == EdgeState::Taken
            })
            .map(|edge| frame.instance(plan.edge(edge).target))
            .collect();
        while let Some(node) = reached.pop() {
            if frame.state(node).exempt {
                continue;
            }
            frame.state_mut(node).exempt = true;
            let outgoing = plan.outgoing(frame.node(node));
            reached.extend(outgoing.map(|edge| frame.instance(plan.edge(edge).target)));
        }
    }

    /// Gives up what was asked to stop and has not ended, where the grace ended by this
    /// time; without one, everywhere. Nodes that are `kept` are not given up.
    pub(crate) fn give_up(
        &mut self,
        deadline: Option<Millis>,
        kept: &BTreeSet<Instance>,
        changes: &mut Vec<Change>,
    ) {
        let mut queue = RoutingQueue::default();
        for key in self.all_frames() {
            let frame = self.frame(key);
            let Some(stop) = &frame.stop else { continue };
            if deadline.is_some_and(|deadline| stop.deadline > deadline) {
                continue;
            }
            for node in self.frame(key).instances() {
                // A loop ends when what is inside it has.
                let told = self.state(node).stopping && !kept.contains(&node);
                if told && !self.has_open_iterations(node) {
                    self.mark_ended(node, NodeStatus::Cancelled, &mut queue, changes);
                }
            }
        }
        self.cascade(queue, changes);
    }

    /// The grace of the scopes that these nodes are in ends then.
    pub(crate) fn prolong_grace(&mut self, nodes: &BTreeSet<Instance>, deadline: Millis) {
        for &node in nodes {
            let key = self.key_of(node);
            if let Some(stop) = &mut self.frame_mut(key).stop {
                stop.deadline = deadline;
            }
        }
    }

    /// Whether a node's attempt was asked to stop.
    pub fn is_told_to_stop(&self, node: Instance) -> bool {
        self.find_state(node).is_some_and(|state| state.stopping)
    }

    /// When the grace of a node that was asked to stop ends.
    pub fn stops_until(&self, node: Instance) -> Option<Millis> {
        let frame = self
            .find_frame(node)
            .filter(|_| self.is_told_to_stop(node))?;
        frame.stop.as_ref().map(|stop| stop.deadline)
    }

    /// Whether some scope stops.
    pub(crate) fn is_stopping(&self) -> bool {
        let mut frames = std::iter::once(&self.top).chain(self.frames.values());
        frames.any(|frame| frame.stop.is_some())
    }

    fn has_open_iterations(&self, node: Instance) -> bool {
        self.loops.get(&node).is_some_and(|cycle| cycle.running > 0)
    }

    /// Whether an instance is in a frame, or in a loop inside it.
    pub(crate) fn is_in_frame(&self, node: Instance, key: FrameKey) -> bool {
        if key == TOP {
            return true;
        }
        let mut frame = self.frame_of(node);
        loop {
            if frame.base == key {
                return true;
            }
            match frame.owner {
                Some(owner) => frame = self.frame(self.key_of(owner.node)),
                None => return false,
            }
        }
    }
}
