//! Trying again by hand (semantics §5): the strict rule of when it is allowed, and
//! the re-opening of everything that the failure had ended.

use std::collections::BTreeSet;

use super::Run;
use super::apply::Change;
use crate::definition::When;
use crate::event::StopCause;
use crate::plan::NodeIndex;
use crate::routing::EdgeState;
use crate::status::{NodeStatus, RunStatus};

impl Run {
    /// Every node that a retry of the whole run tries again: Cancelled, or Failed and
    /// not handled.
    pub fn retriable_nodes(&self) -> Vec<NodeIndex> {
        (0..self.nodes.len() as NodeIndex)
            .filter(|&node| match self.node_status(node) {
                NodeStatus::Cancelled => true,
                NodeStatus::Failed => !self.is_handled(node),
                _ => false,
            })
            .collect()
    }

    /// The nodes in the way of trying these again: running or succeeded ones that can
    /// be reached from them without an `always` edge.
    pub fn in_the_way(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let after = self.after(nodes, |when| when != When::Always);
        after
            .into_iter()
            .filter(|&node| {
                matches!(
                    self.node_status(node),
                    NodeStatus::Queued
                        | NodeStatus::Running
                        | NodeStatus::Waiting
                        | NodeStatus::Succeeded
                )
            })
            .collect()
    }

    /// Everything after these nodes, through edges of the given kinds.
    fn after(&self, nodes: &[NodeIndex], follows: impl Fn(When) -> bool) -> BTreeSet<NodeIndex> {
        let mut reached = BTreeSet::new();
        let mut work = nodes.to_vec();
        while let Some(node) = work.pop() {
            for edge in self.plan.outgoing(node) {
                let edge = self.plan.edge(edge);
                if follows(edge.when) && reached.insert(edge.target) {
                    work.push(edge.target);
                }
            }
        }
        reached
    }

    /// Opens attempt n + 1 of each node and computes anew everything after them.
    pub(crate) fn reopen(&mut self, nodes: &[NodeIndex], changes: &mut Vec<Change>) {
        let mut again: BTreeSet<NodeIndex> = nodes.iter().copied().collect();
        if self.stop_cause() == Some(StopCause::FailFast) {
            // What the failure had cancelled begins again with what failed.
            again.extend(self.with_status(NodeStatus::Cancelled));
        }
        let roots: Vec<NodeIndex> = again.iter().copied().collect();
        again.extend(self.after(&roots, |_| true));
        self.status = RunStatus::Running;
        self.finished = None;
        self.ended_at = None;
        self.stop = None;
        self.stop_wanted = false;
        self.to_route.retain(|node| !again.contains(node));
        self.nodes.iter_mut().for_each(|node| node.exempt = false);
        for &node in &again {
            self.forget_end(node);
        }
        self.ask_again(&again, changes);
    }

    /// Takes a node back to Pending and its outgoing edges to unresolved.
    fn forget_end(&mut self, node: NodeIndex) {
        if self.node_status(node).is_final() {
            let level = self.plan.level(node);
            if let Some(levels) = &mut self.levels {
                levels.reopened(level);
            }
        }
        self.set_status(node, NodeStatus::Pending);
        self.due.remove(&node);
        self.failed.remove(&node);
        self.blocked_by.remove(&node);
        self.recovered.remove(&node);
        let state = &mut self.nodes[node as usize];
        state.value = None;
        state.ancestry = None;
        state.stopping = false;
        for edge in self.plan.outgoing(node) {
            if self.edges[edge as usize] != EdgeState::Unresolved {
                self.edges[edge as usize] = EdgeState::Unresolved;
                self.nodes[self.plan.edge(edge).target as usize].unresolved += 1;
            }
        }
    }

    /// Joins that have all their edges decide again.
    fn ask_again(&mut self, again: &BTreeSet<NodeIndex>, changes: &mut Vec<Change>) {
        if let Some(levels) = &mut self.levels {
            levels.forget_held(|node| again.contains(&node));
        }
        let mut ended = Vec::new();
        for &node in again {
            if self.state(node).unresolved > 0 || self.node_status(node) != NodeStatus::Pending {
                continue;
            }
            if self.plan.incoming(node).is_empty() {
                self.make_ready(node, changes);
            } else {
                self.join(node, &mut ended, changes);
            }
        }
        self.cascade(ended, changes);
    }

    /// Nodes that were let go and hold back one of these: trying it again without them
    /// would run it with a missing input.
    pub fn held_back_by(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let mut again = self.after(nodes, |_| true);
        again.extend(nodes);
        if self.stop_cause() == Some(StopCause::FailFast) {
            again.extend(self.with_status(NodeStatus::Cancelled));
        }
        let mut holding: Vec<NodeIndex> = nodes
            .iter()
            .filter(|&&node| self.attempts(node) == 0)
            .flat_map(|&node| self.plan.incoming(node))
            .filter(|&&edge| self.edge_state(edge) == EdgeState::Lost)
            .map(|&edge| self.plan.edge(edge).source)
            .filter(|source| !again.contains(source))
            .collect();
        holding.sort_unstable();
        holding.dedup();
        holding
    }

    fn with_status(&self, status: NodeStatus) -> Vec<NodeIndex> {
        (0..self.nodes.len() as NodeIndex)
            .filter(|&node| self.node_status(node) == status)
            .collect()
    }
}
