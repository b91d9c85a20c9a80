//! Trying again by hand (semantics §5): the strict rule of when it is allowed, and
//! the re-opening of everything that the failure had ended.

use std::collections::BTreeSet;

use super::Run;
use super::apply::Change;
use crate::definition::When;
use crate::event::StopCause;
use crate::id::Millis;
use crate::plan::{EdgeIndex, NodeIndex};
use crate::routing::{self, EdgeState, Joined};
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
    pub(crate) fn reopen(&mut self, nodes: &[NodeIndex], at: Millis, changes: &mut Vec<Change>) {
        let mut again: BTreeSet<NodeIndex> = nodes.iter().copied().collect();
        if self.stop_cause() == Some(StopCause::FailFast) {
            // What the failure had cancelled begins again with what failed.
            again.extend(self.with_status(NodeStatus::Cancelled));
        }
        let roots: Vec<NodeIndex> = again.iter().copied().collect();
        again.extend(self.after(&roots, |_| true));
        if self.status.is_final() {
            self.status = RunStatus::Running;
            self.started_at.get_or_insert(at);
            self.clock_from = Some(at);
            self.finished = None;
            self.ended_at = None;
        }
        self.stop = None;
        self.stop_wanted = false;
        self.to_route.retain(|node| !again.contains(node));
        self.nodes.iter_mut().for_each(|node| node.exempt = false);
        for &node in &again {
            self.forget_end(node, changes);
        }
        self.ask_again(&again, changes);
    }

    /// Takes a node back to Pending and its outgoing edges to unresolved. An attempt that
    /// is open is let go: it may be with a worker, so its number stays used.
    fn forget_end(&mut self, node: NodeIndex, changes: &mut Vec<Change>) {
        if self.is_open(node, self.attempt(node)) {
            changes.push(Change::Ended(node, NodeStatus::Cancelled));
        }
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

    /// Failed or cancelled nodes that hold back one of these and are not tried again
    /// with it: without them it would be blocked once more. What a parent that is tried
    /// again may still recover holds back nothing; a cancelled node is never recovered.
    pub fn held_back_by(&self, nodes: &[NodeIndex]) -> Vec<NodeIndex> {
        let mut again = self.after(nodes, |_| true);
        again.extend(nodes);
        if self.stop_cause() == Some(StopCause::FailFast) {
            again.extend(self.with_status(NodeStatus::Cancelled));
        }
        let mut holding = BTreeSet::new();
        for &node in nodes {
            let is_kept = |edge: &EdgeIndex| !again.contains(&self.plan.edge(*edge).source);
            let incoming = self.plan.incoming(node);
            let may_recover = !incoming.iter().all(is_kept);
            let kept = incoming.iter().copied().filter(is_kept);
            let (_, lost, recovered) = self.gather(kept);
            if let Joined::Blocked(by) = routing::join(true, lost, recovered) {
                let holds = |node: &&NodeIndex| {
                    !may_recover || self.node_status(**node) == NodeStatus::Cancelled
                };
                holding.extend(by.iter().filter(holds));
            }
        }
        holding.into_iter().collect()
    }

    fn with_status(&self, status: NodeStatus) -> Vec<NodeIndex> {
        (0..self.nodes.len() as NodeIndex)
            .filter(|&node| self.node_status(node) == status)
            .collect()
    }
}
