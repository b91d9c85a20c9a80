//! Walking the graph when nodes end: edges resolve, joins decide, and what that ends
//! resolves its own edges, until nothing follows. Each edge is looked at once when it
//! resolves and once when its target decides, so the cost of a run is its edges.

use super::Run;
use super::apply::Change;
use super::frame::{FrameKey, Instance};
use crate::definition::{FailurePolicy, Join, When};
use crate::event::StopCause;
use crate::plan::{EdgeIndex, EdgeKind};
use crate::routing::{self, EdgeState, EdgeVerdict, Joined, NodeSet, Union};
use crate::status::NodeStatus;

/// The consequences of one event that are still to be worked through.
#[derive(Default)]
pub(crate) struct RoutingQueue {
    /// Instances that have ended and whose edges have not been looked at.
    pub(crate) ended: Vec<Instance>,
}

impl Run {
    /// Ends a node and follows what comes of it.
    pub(crate) fn end(&mut self, node: Instance, status: NodeStatus, changes: &mut Vec<Change>) {
        let mut queue = RoutingQueue::default();
        self.mark_ended(node, status, &mut queue, changes);
        self.cascade(queue, changes);
    }

    /// Routes every node that ended, and every node that ends because of it; iterations
    /// in which nothing is left end too.
    pub(crate) fn cascade(&mut self, mut queue: RoutingQueue, changes: &mut Vec<Change>) {
        loop {
            while let Some(node) = queue.ended.pop() {
                self.route(node, &mut queue, changes);
            }
            // Joins that do not wait for all edges decide after all edges that can resolve.
            let is_decided = |node: &&Instance| self.frame_of(**node).routing == 0;
            if let Some(&node) = self.to_join.iter().find(is_decided) {
                self.to_join.remove(&node);
                self.join_some(node, &mut queue, changes);
                continue;
            }
            let Some(frame) = self.quiet.pop_first() else {
                break;
            };
            self.iteration_quiet(frame, &mut queue, changes);
        }
    }

    /// Sets a final status without routing.
    pub(crate) fn mark_ended(
        &mut self,
        node: Instance,
        status: NodeStatus,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let waited = match self.node_status(node) {
            NodeStatus::Queued => true,
            NodeStatus::Waiting => self.is_between_attempts(node),
            _ => false,
        };
        self.close_structure(node, status, queue, changes);
        let state = self.state_mut(node);
        let attempt = state.attempt;
        // A worker may have begun a node that a join cancelled.
        let never_begun = waited && !state.stopping && !state.let_go && state.deliveries == 0;
        if status == NodeStatus::Cancelled && never_begun {
            // No worker began the open attempt, so its number is not used up.
            state.attempt -= 1;
        }
        state.stopping = false;
        self.set_status(node, status);
        self.due.remove(&node);
        if status == NodeStatus::Failed {
            let key = self.key_of(node);
            self.failures += 1;
            let number = self.failures;
            self.frame_mut(key).failed.insert(node, number);
        }
        self.note_completed(node, status);
        queue.ended.push(node);
        changes.push(Change::Ended(node, attempt, status));
        self.level_ended(node, changes);
    }

    fn level_ended(&mut self, node: Instance, changes: &mut Vec<Change>) {
        let frame = self.frame_of(node);
        if frame.levels.is_none() {
            return;
        }
        let (key, level) = (frame.base, frame.plan.level(frame.node(node)));
        let levels = self.frame_mut(key).levels.as_mut();
        let released = levels.map(|levels| levels.ended(level));
        for node in released.into_iter().flatten() {
            if self.node_status(node) == NodeStatus::Pending {
                self.make_ready(node, changes);
            }
        }
    }

    /// Resolves a node's outgoing edges as far as nothing must be evaluated.
    fn route(&mut self, node: Instance, queue: &mut RoutingQueue, changes: &mut Vec<Change>) {
        let frame = self.frame_of(node);
        let (key, plan) = (frame.base, frame.plan.clone());
        let outgoing = plan.outgoing(frame.node(node));
        // As many as 100,000 nodes may begin after it at once.
        changes.reserve(outgoing.len());
        let mut must_ask = false;
        for index in outgoing {
            let edge = plan.edge(index);
            if self.frame(key).edge(index) != EdgeState::Unresolved
                || edge.kind == EdgeKind::OnFailure
            {
                continue;
            }
            match self.verdict(node, index) {
                EdgeVerdict::NotTaken => {
                    self.resolve_edge(key, index, EdgeState::NotTaken, queue, changes);
                }
                EdgeVerdict::Lost => self.resolve_edge(key, index, EdgeState::Lost, queue, changes),
                EdgeVerdict::IfConditionHolds if edge.needs_evaluation() => must_ask = true,
                EdgeVerdict::IfConditionHolds => {
                    self.resolve_edge(key, index, EdgeState::Taken, queue, changes);
                }
            }
        }
        if !must_ask {
            self.finish_routing(node, queue, changes);
            return;
        }
        self.to_route.push_back(node);
        self.frame_mut(key).routing += 1;
        if let Some(taken) = self.reuse.routes(&self.path_if_reusing(node)) {
            self.ask_no_more(node);
            self.routed_in(node, &taken, queue, changes);
        }
    }

    /// Resolves the edges that were evaluated, and what hangs on them.
    pub(crate) fn routed(&mut self, node: Instance, taken: &[u32], changes: &mut Vec<Change>) {
        let mut queue = RoutingQueue::default();
        self.ask_no_more(node);
        self.routed_in(node, taken, &mut queue, changes);
        // The node's own frame may have waited for nothing but this.
        let key = self.key_of(node);
        if self.frame(key).owner.is_some() && self.frame(key).open() == 0 {
            self.quiet.insert(key);
        }
        self.cascade(queue, changes);
    }

    /// The node's conditional edges need not be evaluated any more.
    pub(crate) fn ask_no_more(&mut self, node: Instance) {
        let before = self.to_route.len();
        if self.to_route.front() == Some(&node) {
            self.to_route.pop_front();
        } else {
            self.to_route.retain(|&waiting| waiting != node);
        }
        let asked = (before - self.to_route.len()) as u32;
        let key = self.key_of(node);
        self.frame_mut(key).routing -= asked;
    }

    fn routed_in(
        &mut self,
        node: Instance,
        taken: &[u32],
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let frame = self.frame_of(node);
        let (key, plan) = (frame.base, frame.plan.clone());
        for (ordinal, index) in plan.outgoing(frame.node(node)).enumerate() {
            let asked = self.frame(key).edge(index) == EdgeState::Unresolved
                && plan.edge(index).kind != EdgeKind::OnFailure;
            if asked {
                let is_taken = taken.contains(&(ordinal as u32));
                let state = if is_taken {
                    EdgeState::Taken
                } else {
                    EdgeState::NotTaken
                };
                self.resolve_edge(key, index, state, queue, changes);
            }
        }
        self.finish_routing(node, queue, changes);
    }

    /// The implicit failure edge, and whether a failure calls for the fail-fast stop:
    /// both are known only when the explicit edges have resolved.
    fn finish_routing(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let frame = self.frame_of(node);
        let (key, plan) = (frame.base, frame.plan.clone());
        let outgoing = plan.outgoing(frame.node(node));
        let mut failure_taken = outgoing.clone().any(|index| {
            plan.edge(index).when == When::Failure
                && self.frame(key).edge(index) == EdgeState::Taken
        });
        for index in outgoing {
            if plan.edge(index).kind != EdgeKind::OnFailure
                || self.frame(key).edge(index) != EdgeState::Unresolved
            {
                continue;
            }
            let state = match self.verdict(node, index) {
                EdgeVerdict::IfConditionHolds if !failure_taken => EdgeState::Taken,
                EdgeVerdict::IfConditionHolds | EdgeVerdict::NotTaken => EdgeState::NotTaken,
                EdgeVerdict::Lost => EdgeState::Lost,
            };
            failure_taken |= state == EdgeState::Taken;
            self.resolve_edge(key, index, state, queue, changes);
        }
        if self.node_status(node) == NodeStatus::Failed
            && plan.failure_policy() == FailurePolicy::FailFast
            && !failure_taken
            && self.frame(key).stop.is_none()
        {
            self.to_stop.insert(key);
        }
    }

    /// The table of semantics §2, and one rule of stopping: the failure routes of nodes that fail
    /// during the grace do not start. Edges into nodes that were cancelled as not needed resolve
    /// like all others: a reattempt of those nodes goes by what their parents came to.
    fn verdict(&self, node: Instance, index: EdgeIndex) -> EdgeVerdict {
        let frame = self.frame_of(node);
        let edge = frame.plan.edge(index);
        let state = frame.state(node);
        let verdict = routing::verdict(state.status, edge.when);
        if verdict != EdgeVerdict::IfConditionHolds {
            return verdict;
        }
        let cause = frame.stop.as_ref().map(|stop| stop.cause);
        let fails_in_grace =
            edge.when == When::Failure && cause == Some(StopCause::FailFast) && !state.exempt;
        if fails_in_grace {
            EdgeVerdict::Lost
        } else {
            verdict
        }
    }

    fn resolve_edge(
        &mut self,
        key: FrameKey,
        index: EdgeIndex,
        state: EdgeState,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let frame = self.frame_mut(key);
        frame.set_edge(index, state);
        let target_node = frame.plan.edge(index).target;
        let join = frame.plan.join(target_node);
        let target = frame.instance(target_node);
        let target_state = frame.state_mut(target);
        target_state.unresolved -= 1;
        if target_state.status != NodeStatus::Pending {
            return;
        }
        if join == Join::All {
            if target_state.unresolved == 0 {
                self.join(target, queue, changes);
            }
            return;
        }
        // A join that has enough has decided, though its level may not have begun.
        if !self.has_enough(target) {
            self.to_join.insert(target);
        }
        if state == EdgeState::Taken {
            *self.taken.entry(target).or_default() += 1;
        }
    }

    /// All incoming edges have resolved: skipped, blocked or ready (semantics §3).
    pub(crate) fn join(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let (any_taken, lost, recovered) = self.gather_all(node);
        match routing::join(any_taken, lost, recovered) {
            Joined::Skipped => self.mark_ended(node, NodeStatus::Skipped, queue, changes),
            Joined::Blocked(by) => {
                self.blocked_by.insert(node, by);
                self.mark_ended(node, NodeStatus::Blocked, queue, changes);
            }
            Joined::Ready(set) => {
                if let Some(set) = set {
                    self.recovered.insert(node, set);
                }
                self.make_ready_in(node, queue, changes);
            }
        }
    }

    pub(crate) fn gather_all(&self, node: Instance) -> (bool, NodeSet, NodeSet) {
        let frame = self.frame_of(node);
        let incoming = frame.plan.incoming(frame.node(node)).iter().copied();
        self.gather(frame.base, incoming)
    }

    /// What these edges bring: whether one is taken, what is lost, what is recovered.
    pub(crate) fn gather(
        &self,
        key: FrameKey,
        edges: impl Iterator<Item = EdgeIndex>,
    ) -> (bool, NodeSet, NodeSet) {
        let frame = self.frame(key);
        let (mut any_taken, mut lost, mut recovered) = (false, Union::default(), Union::default());
        for index in edges {
            let edge = frame.plan.edge(index);
            let source = frame.instance(edge.source);
            let parent = frame.state(source).status;
            match frame.edge(index) {
                EdgeState::Taken => {
                    any_taken = true;
                    if parent == NodeStatus::Failed && edge.when == When::Failure {
                        recovered.add_one(source);
                    }
                    if parent != NodeStatus::Blocked {
                        recovered.add(&self.recovered_set(source));
                    }
                }
                EdgeState::Lost if parent == NodeStatus::Blocked => {
                    lost.add(&self.blocked_set(source));
                }
                EdgeState::Lost => lost.add_one(source),
                EdgeState::NotTaken | EdgeState::Unresolved => {}
            }
        }
        (any_taken, lost.finish(), recovered.finish())
    }

    /// Opens a node's next attempt, or holds it until its level begins.
    pub(crate) fn make_ready(&mut self, node: Instance, changes: &mut Vec<Change>) {
        let mut queue = RoutingQueue::default();
        self.make_ready_in(node, &mut queue, changes);
        if !queue.ended.is_empty() {
            self.cascade(queue, changes);
        }
    }

    pub(crate) fn make_ready_in(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        let frame = self.frame_of(node);
        let (key, level) = (frame.base, frame.plan.level(frame.node(node)));
        let levels = self.frame_mut(key).levels.as_mut();
        if levels.is_some_and(|levels| !levels.admit(node, level)) {
            return;
        }
        if self.take_reused(node, queue, changes) {
            return;
        }
        let base = self.attempt_base(key);
        let state = self.state_mut(node);
        state.attempt = state.attempt.max(base) + 1;
        state.first_attempt = state.attempt;
        state.deliveries = 0;
        let attempt = state.attempt;
        self.set_status(node, NodeStatus::Queued);
        if self.structure(node).is_some() {
            self.to_open.insert(node);
        }
        changes.push(Change::Ready(node, attempt));
    }
}
