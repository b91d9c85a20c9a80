//! Stopping a run before everything in it has ended: cancel, timeout and fail-fast
//! (semantics §4). What is with a worker gets a grace; the rest is Cancelled.

use std::collections::BTreeSet;

use super::apply::Change;
use super::{Run, Stop};
use crate::definition::When;
use crate::event::{StopCause, Stopping};
use crate::plan::NodeIndex;
use crate::routing::EdgeState;
use crate::status::NodeStatus;

impl Run {
    /// Whether a node's failed attempt may still be repeated.
    pub(crate) fn may_start(&self, node: NodeIndex) -> bool {
        match self.stop_cause() {
            None => true,
            Some(StopCause::FailFast) => self.state(node).exempt,
            Some(StopCause::Timeout | StopCause::Cancel) => false,
        }
    }

    /// Whether an open attempt may still be handed to a worker.
    pub fn may_hand_out(&self, node: NodeIndex) -> bool {
        !self.state(node).stopping && self.may_start(node)
    }

    pub(crate) fn stopping(
        &mut self,
        stopping: &Stopping,
        running: &BTreeSet<NodeIndex>,
        changes: &mut Vec<Change>,
    ) {
        self.stop_wanted = false;
        self.stop = Some(Stop {
            cause: stopping.cause,
            deadline: stopping.deadline,
            hand: stopping.hand.clone(),
        });
        if stopping.cause == StopCause::FailFast {
            self.mark_exempt();
        } else {
            self.nodes.iter_mut().for_each(|node| node.exempt = false);
        }
        if let Some(levels) = &mut self.levels {
            // Ending the nodes of a level must not let those of the next begin.
            levels.forget_held(|node| !self.nodes[node as usize].exempt);
        }
        let mut ended = Vec::new();
        for node in 0..self.nodes.len() as NodeIndex {
            if self.node_status(node).is_final() || self.state(node).exempt {
                continue;
            }
            if running.contains(&node) {
                self.nodes[node as usize].stopping = true;
                changes.push(Change::StopAsked(node));
            } else {
                self.mark_ended(node, NodeStatus::Cancelled, &mut ended, changes);
            }
        }
        self.cascade(ended, changes);
    }

    /// Nodes reached through a taken `always` edge and what follows them go on.
    fn mark_exempt(&mut self) {
        let plan = self.plan.clone();
        let mut reached: Vec<NodeIndex> = plan
            .edges()
            .iter()
            .zip(&self.edges)
            .filter(|(edge, state)| edge.when == When::Always && **state == EdgeState::Taken)
            .map(|(edge, _)| edge.target)
            .collect();
        while let Some(node) = reached.pop() {
            if self.state(node).exempt {
                continue;
            }
            self.nodes[node as usize].exempt = true;
            reached.extend(plan.outgoing(node).map(|edge| plan.edge(edge).target));
        }
    }

    /// Gives up what was told to stop and has not ended.
    pub(crate) fn give_up(&mut self, changes: &mut Vec<Change>) {
        let mut ended = Vec::new();
        for node in 0..self.nodes.len() as NodeIndex {
            if self.state(node).stopping {
                self.mark_ended(node, NodeStatus::Cancelled, &mut ended, changes);
            }
        }
        self.cascade(ended, changes);
    }
}
