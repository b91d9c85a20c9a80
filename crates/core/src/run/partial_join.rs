//! Joins that do not wait for all edges (semantics §3): ready as soon as enough edges are
//! taken. Upstream work that feeds only such a join is cancelled.

use std::collections::BTreeSet;

use super::Run;
use super::apply::Change;
use super::frame::Instance;
use super::join::RoutingQueue;
use crate::definition::Join;
use crate::status::NodeStatus;

impl Run {
    /// Decides a join that waits for some edges only, once one of them has resolved.
    pub(crate) fn join_some(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        if self.find_status(node) != Some(NodeStatus::Pending) {
            return;
        }
        let needed = match self.join_of(node) {
            Join::All => return,
            Join::Any => 1,
            Join::AtLeast(count) => count,
        };
        let taken = self.taken.get(&node).copied().unwrap_or(0);
        let unresolved = self.state(node).unresolved;
        if taken >= needed {
            let (_, _, recovered) = self.gather_all(node);
            if let Some(set) = recovered {
                self.recovered.insert(node, set);
            }
            self.make_ready_in(node, queue, changes);
            self.let_go_before(node, queue, changes);
        } else if taken + unresolved < needed {
            let (_, lost, _) = self.gather_all(node);
            let status = match lost {
                Some(lost) => {
                    self.blocked_by.insert(node, lost);
                    NodeStatus::Blocked
                }
                None => NodeStatus::Skipped,
            };
            self.mark_ended(node, status, queue, changes);
        }
    }

    /// Cancels upstream work that feeds only a satisfied join.
    fn let_go_before(
        &mut self,
        join: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let before = self.unended_before(join);
        let serving = self.serving_elsewhere(&before);
        let needless: BTreeSet<Instance> = before.difference(&serving).copied().collect();
        let key = self.key_of(join);
        if let Some(levels) = &mut self.frame_mut(key).levels {
            // The end of one of them must not let another begin.
            levels.forget_held(|node| needless.contains(&node));
        }
        for node in needless {
            if !self.node_status(node).is_final() {
                self.state_mut(node).let_go = true;
                self.mark_ended(node, NodeStatus::Cancelled, queue, changes);
            }
        }
    }

    /// Every node before this one that has not ended.
    fn unended_before(&self, node: Instance) -> BTreeSet<Instance> {
        let frame = self.frame_of(node);
        let (mut found, mut work) = (BTreeSet::new(), vec![node]);
        while let Some(node) = work.pop() {
            for &edge in frame.plan.incoming(frame.node(node)) {
                let source = frame.instance(frame.plan.edge(edge).source);
                if !frame.state(source).status.is_final() && found.insert(source) {
                    work.push(source);
                }
            }
        }
        found
    }

    /// Those of these nodes that lead, directly or not, to a node that still waits for
    /// something and is not one of them.
    fn serving_elsewhere(&self, nodes: &BTreeSet<Instance>) -> BTreeSet<Instance> {
        let Some(&first) = nodes.first() else {
            return BTreeSet::new();
        };
        let frame = self.frame_of(first);
        let plan = &frame.plan;
        let waits = |target: Instance| {
            let is_pending = frame.state(target).status == NodeStatus::Pending;
            is_pending && !self.has_enough(target)
        };
        let leads_out = |node: &Instance| {
            plan.outgoing(frame.node(*node)).any(|edge| {
                let target = frame.instance(plan.edge(edge).target);
                waits(target) && !nodes.contains(&target)
            })
        };
        let mut serving: BTreeSet<Instance> = nodes.iter().copied().filter(leads_out).collect();
        let mut work: Vec<Instance> = serving.iter().copied().collect();
        // A node that has begun needs nothing from upstream any more.
        while let Some(node) = work.pop() {
            if !waits(node) {
                continue;
            }
            for &edge in plan.incoming(frame.node(node)) {
                let source = frame.instance(plan.edge(edge).source);
                if nodes.contains(&source) && serving.insert(source) {
                    work.push(source);
                }
            }
        }
        serving
    }

    /// Whether a join has enough, though its level may not have begun.
    pub(crate) fn has_enough(&self, node: Instance) -> bool {
        let taken = self.taken.get(&node).copied().unwrap_or(0);
        match self.join_of(node) {
            Join::All => false,
            Join::Any => taken >= 1,
            Join::AtLeast(count) => taken >= count,
        }
    }
}
