//! Walking the graph when nodes end: edges resolve, joins decide, and what that ends
//! resolves its own edges, until nothing follows. Each edge is looked at once when it
//! resolves and once when its target decides, so the cost of a run is its edges.

use super::Run;
use super::apply::Change;
use crate::definition::{FailurePolicy, When};
use crate::event::StopCause;
use crate::plan::{EdgeIndex, EdgeKind, NodeIndex};
use crate::routing::{self, EdgeState, Joined, NodeSet, Union, Verdict};
use crate::status::NodeStatus;

impl Run {
    /// Ends a node and follows what comes of it.
    pub(crate) fn end(&mut self, node: NodeIndex, status: NodeStatus, changes: &mut Vec<Change>) {
        let mut ended = Vec::new();
        self.mark_ended(node, status, &mut ended, changes);
        self.cascade(ended, changes);
    }

    /// Routes every node that ended, and every node that ends because of it.
    pub(crate) fn cascade(&mut self, mut ended: Vec<NodeIndex>, changes: &mut Vec<Change>) {
        while let Some(node) = ended.pop() {
            self.route(node, &mut ended, changes);
        }
    }

    /// Sets a final status without routing.
    pub(crate) fn mark_ended(
        &mut self,
        node: NodeIndex,
        status: NodeStatus,
        ended: &mut Vec<NodeIndex>,
        changes: &mut Vec<Change>,
    ) {
        let waited = matches!(
            self.node_status(node),
            NodeStatus::Queued | NodeStatus::Waiting
        );
        let state = &mut self.nodes[node as usize];
        let never_begun = waited && !state.stopping && state.deliveries == 0;
        if status == NodeStatus::Cancelled && never_begun {
            // Nobody began the open attempt, so its number is not used up.
            state.attempt -= 1;
        }
        self.set_status(node, status);
        self.due.remove(&node);
        self.nodes[node as usize].stopping = false;
        if status == NodeStatus::Failed {
            self.failed.insert(node);
        }
        ended.push(node);
        changes.push(Change::Ended(node, status));
        if self.levels.is_some() {
            let level = self.plan.level(node);
            let released = self.levels.as_mut().map(|levels| levels.ended(level));
            for node in released.into_iter().flatten() {
                if self.node_status(node) == NodeStatus::Pending {
                    self.make_ready(node, changes);
                }
            }
        }
    }

    /// Resolves a node's outgoing edges as far as nothing must be evaluated.
    fn route(&mut self, node: NodeIndex, ended: &mut Vec<NodeIndex>, changes: &mut Vec<Change>) {
        let plan = self.plan.clone();
        let mut must_ask = false;
        for index in plan.outgoing(node) {
            let edge = plan.edge(index);
            if self.edge_state(index) != EdgeState::Unresolved || edge.kind == EdgeKind::OnFailure {
                continue;
            }
            match self.verdict(node, index) {
                Verdict::NotTaken => self.resolve(index, EdgeState::NotTaken, ended, changes),
                Verdict::Lost => self.resolve(index, EdgeState::Lost, ended, changes),
                Verdict::IfConditionHolds if edge.needs_evaluation() => must_ask = true,
                Verdict::IfConditionHolds => self.resolve(index, EdgeState::Taken, ended, changes),
            }
        }
        if must_ask {
            self.to_route.push_back(node);
        } else {
            self.finish_routing(node, ended, changes);
        }
    }

    /// Resolves the edges that were evaluated, and what hangs on them.
    pub(crate) fn routed(&mut self, node: NodeIndex, taken: &[u32], changes: &mut Vec<Change>) {
        let plan = self.plan.clone();
        let mut ended = Vec::new();
        self.to_route.retain(|&waiting| waiting != node);
        for (ordinal, index) in plan.outgoing(node).enumerate() {
            let asked = self.edge_state(index) == EdgeState::Unresolved
                && plan.edge(index).kind != EdgeKind::OnFailure;
            if asked {
                let is_taken = taken.contains(&(ordinal as u32));
                let state = if is_taken {
                    EdgeState::Taken
                } else {
                    EdgeState::NotTaken
                };
                self.resolve(index, state, &mut ended, changes);
            }
        }
        self.finish_routing(node, &mut ended, changes);
        self.cascade(ended, changes);
    }

    /// The implicit failure edge, and whether a failure calls for the fail-fast stop:
    /// both are known only when the explicit edges have resolved.
    fn finish_routing(
        &mut self,
        node: NodeIndex,
        ended: &mut Vec<NodeIndex>,
        changes: &mut Vec<Change>,
    ) {
        let plan = self.plan.clone();
        let mut failure_taken = plan.outgoing(node).any(|index| {
            plan.edge(index).when == When::Failure && self.edge_state(index) == EdgeState::Taken
        });
        for index in plan.outgoing(node) {
            if plan.edge(index).kind != EdgeKind::OnFailure
                || self.edge_state(index) != EdgeState::Unresolved
            {
                continue;
            }
            let state = match self.verdict(node, index) {
                Verdict::IfConditionHolds if !failure_taken => EdgeState::Taken,
                Verdict::IfConditionHolds | Verdict::NotTaken => EdgeState::NotTaken,
                Verdict::Lost => EdgeState::Lost,
            };
            failure_taken |= state == EdgeState::Taken;
            self.resolve(index, state, ended, changes);
        }
        if self.node_status(node) == NodeStatus::Failed
            && plan.failure_policy() == FailurePolicy::FailFast
            && !failure_taken
            && self.stop.is_none()
        {
            self.stop_wanted = true;
        }
    }

    /// The table of §2, and one rule of stopping: the failure routes of nodes that fail
    /// during the grace do not start. Edges into nodes that were let go resolve like all
    /// others: a reattempt of those nodes goes by what their parents came to.
    fn verdict(&self, node: NodeIndex, index: EdgeIndex) -> Verdict {
        let edge = self.plan.edge(index);
        let verdict = routing::verdict(self.node_status(node), edge.when);
        if verdict != Verdict::IfConditionHolds {
            return verdict;
        }
        let fails_in_grace = edge.when == When::Failure
            && self.stop_cause() == Some(StopCause::FailFast)
            && !self.state(node).exempt;
        if fails_in_grace {
            Verdict::Lost
        } else {
            verdict
        }
    }

    fn resolve(
        &mut self,
        index: EdgeIndex,
        state: EdgeState,
        ended: &mut Vec<NodeIndex>,
        changes: &mut Vec<Change>,
    ) {
        self.edges[index as usize] = state;
        let target = self.plan.edge(index).target;
        let unresolved = &mut self.nodes[target as usize].unresolved;
        *unresolved -= 1;
        if *unresolved == 0 && self.node_status(target) == NodeStatus::Pending {
            self.join(target, ended, changes);
        }
    }

    /// All incoming edges have resolved: skipped, blocked or ready (§3).
    pub(crate) fn join(
        &mut self,
        node: NodeIndex,
        ended: &mut Vec<NodeIndex>,
        changes: &mut Vec<Change>,
    ) {
        let incoming = self.plan.incoming(node).iter().copied();
        let (any_taken, lost, recovered) = self.gather(incoming);
        match routing::join(any_taken, lost, recovered) {
            Joined::Skipped => self.mark_ended(node, NodeStatus::Skipped, ended, changes),
            Joined::Blocked(by) => {
                self.blocked_by.insert(node, by);
                self.mark_ended(node, NodeStatus::Blocked, ended, changes);
            }
            Joined::Ready(set) => {
                if let Some(set) = set {
                    self.recovered.insert(node, set);
                }
                self.make_ready(node, changes);
            }
        }
    }

    /// What these edges bring: whether one is taken, what is lost, what is recovered.
    pub(crate) fn gather(
        &self,
        edges: impl Iterator<Item = EdgeIndex>,
    ) -> (bool, NodeSet, NodeSet) {
        let (mut any_taken, mut lost, mut recovered) = (false, Union::default(), Union::default());
        for index in edges {
            let edge = self.plan.edge(index);
            let parent = self.node_status(edge.source);
            match self.edge_state(index) {
                EdgeState::Taken => {
                    any_taken = true;
                    if parent == NodeStatus::Failed && edge.when == When::Failure {
                        recovered.add_one(edge.source);
                    }
                    if parent != NodeStatus::Blocked {
                        recovered.add(&self.recovered_set(edge.source));
                    }
                }
                EdgeState::Lost if parent == NodeStatus::Blocked => {
                    lost.add(&self.blocked_set(edge.source));
                }
                EdgeState::Lost => lost.add_one(edge.source),
                EdgeState::NotTaken | EdgeState::Unresolved => {}
            }
        }
        (any_taken, lost.finish(), recovered.finish())
    }

    /// Opens a node's next attempt, or holds it until its level begins.
    pub(crate) fn make_ready(&mut self, node: NodeIndex, changes: &mut Vec<Change>) {
        let level = self.plan.level(node);
        if self
            .levels
            .as_mut()
            .is_some_and(|levels| !levels.admit(node, level))
        {
            return;
        }
        let state = &mut self.nodes[node as usize];
        state.attempt += 1;
        state.first_attempt = state.attempt;
        state.deliveries = 0;
        self.set_status(node, NodeStatus::Queued);
        changes.push(Change::Ready(node));
    }
}
