//! A run's graph changes under it (semantics §9): it follows a newer version, or a new
//! graph is imported. Started instances keep their shape; resolved edges keep their
//! resolution; what had not begun is computed anew.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use super::Run;
use super::apply::{Change, Corrupt};
use super::frame::{Frame, Ids, Instance, NodeState, TOP};
use super::join::RoutingQueue;
use crate::definition::When;
use crate::id::Digest;
use crate::plan::{self, EdgeKind, Plan};
use crate::routing::EdgeState;
use crate::status::NodeStatus;

/// The first version of the rules under which removed nodes let nothing of the old graph
/// begin.
const REMOVING_RULES: u32 = 3;

impl Run {
    /// Brings a graph that the next event may name.
    pub fn stage(&mut self, definition: Digest, plan: Arc<Plan>) {
        self.staged = Some((definition, plan));
    }

    pub(crate) fn take_staged(&mut self, definition: Digest) -> Result<Arc<Plan>, Corrupt> {
        match self.staged.take() {
            Some((digest, plan)) if digest == definition => Ok(plan),
            _ => self.corrupt("the graph that the run goes on with was not brought"),
        }
    }

    pub(crate) fn change_graph(
        &mut self,
        plan: Arc<Plan>,
        definition: Digest,
        changes: &mut Vec<Change>,
    ) {
        self.definition = definition;
        self.let_removed_go(&plan, changes);
        let old = mem::replace(
            &mut self.top,
            Frame::new(plan.clone(), plan::TOP, TOP, None),
        );
        self.plan = plan;
        self.number_nodes(&old);
        self.keep_states(&old);
        self.keep_edges(&old);
        self.top.stop = old.stop.clone();
        self.note_graph();
        self.count_again();
        self.adapt_queued(changes);
        // A run that has not begun has nothing to resolve, and one that has failed starts nothing
        // until it is opened again.
        if self.status.is_final() {
            self.graph_waits = true;
        } else if self.started_at.is_some() {
            self.resolve_anew(changes);
        }
    }

    /// A ready node whose kind has changed begins as its new kind: a call that a worker may have is
    /// cancelled, and a node that was no call is handed out.
    fn adapt_queued(&mut self, changes: &mut Vec<Change>) {
        for node in self.top.instances() {
            if self.node_status(node) != NodeStatus::Queued {
                continue;
            }
            let attempt = self.attempt(node);
            match (self.structure(node).is_some(), self.to_open.contains(&node)) {
                (true, false) => {
                    changes.push(Change::Ended(node, attempt, NodeStatus::Cancelled));
                    self.set_status(node, NodeStatus::Pending);
                }
                (false, true) => {
                    self.to_open.remove(&node);
                    changes.push(Change::Ready(node, attempt));
                }
                _ => {}
            }
        }
    }

    /// Cancels open nodes that the new graph does not have.
    fn let_removed_go(&mut self, plan: &Plan, changes: &mut Vec<Change>) {
        let top = &self.top;
        let removed: Vec<Instance> = top
            .instances()
            .filter(|&node| plan.index(top.plan.id(top.node(node))).is_none())
            .collect();
        if self.queued.rules >= REMOVING_RULES {
            // The new graph decides again what waits for its level.
            self.top.levels = None;
        }
        let mut queue = RoutingQueue::default();
        for node in removed {
            let first = changes.len();
            if self.to_route.contains(&node) {
                self.ask_no_more(node);
            }
            if self.state(node).is_open() {
                // A worker may have it, so the number of its attempt stays used.
                self.state_mut(node).let_go = true;
                self.mark_ended(node, NodeStatus::Cancelled, &mut queue, changes);
            }
            // The readers of the changes ask for paths after the nodes are gone.
            for change in &changes[first..] {
                let node = change.node();
                self.removed.insert(node, self.path(node));
            }
            self.removed.insert(node, self.path(node));
            self.keep_success(node);
            self.reset_loop(node);
            self.collect_garbage();
            let inside = self.loops.remove(&node);
            let inside = inside.map_or(0, |cycle| cycle.deepest_attempt);
            let id: Box<str> = self.top.plan.id(self.top.node(node)).into();
            self.past.insert(id, (self.attempt(node), inside));
            self.blocked_by.remove(&node);
            self.recovered.remove(&node);
            self.taken.remove(&node);
        }
        self.quiet.clear();
    }

    /// A node that was there keeps its number; a new one gets a new one.
    fn number_nodes(&mut self, old: &Frame) {
        let mut ids = Ids::default();
        for local in 0..self.top.nodes.len() as u32 {
            let id = self.top.plan.id(local);
            let instance = match old.plan.index(id) {
                Some(node) => old.instance(node),
                None => {
                    self.next_instance += 1;
                    self.next_instance - 1
                }
            };
            ids.instances.push(instance);
            ids.nodes.insert(instance, local);
        }
        let new = ids.instances.iter().copied().enumerate();
        let new: Vec<_> = new.filter(|&(_, node)| !old.owns(node)).collect();
        for (local, node) in new {
            // A node that the graph had before, and has again, goes on counting its attempts.
            let past = self.past.remove(self.top.plan.id(local as u32));
            if let Some((attempt, inside)) = past {
                self.top.nodes[local].attempt = attempt;
                self.remember_attempts(node, inside);
            }
        }
        self.top.ids = Some(Box::new(ids));
    }

    fn keep_states(&mut self, old: &Frame) {
        self.shapes.retain(|node, _| self.top.owns(*node));
        for node in old.instances() {
            if !self.top.owns(node) {
                continue;
            }
            let was = old.state(node);
            let has_begun = !matches!(
                was.status,
                NodeStatus::Pending | NodeStatus::Skipped | NodeStatus::Blocked
            );
            let skipped_itself = was.status == NodeStatus::Skipped && was.attempt > 0;
            let unresolved = self.top.state(node).unresolved;
            let state = self.top.state_mut(node);
            if has_begun || skipped_itself {
                *state = was.clone();
                state.unresolved = unresolved;
                if was.status != NodeStatus::Queued {
                    let shape = (old.plan.clone(), old.node(node));
                    self.shapes.entry(node).or_insert(shape);
                }
            } else {
                state.attempt = was.attempt;
                self.blocked_by.remove(&node);
                self.recovered.remove(&node);
                self.taken.remove(&node);
                if let Some(at) = self.to_route.iter().position(|&asked| asked == node) {
                    self.to_route.remove(at);
                }
            }
        }
    }

    fn keep_edges(&mut self, old: &Frame) {
        let mut known: BTreeMap<(Instance, Instance, u8, u8), EdgeState> = BTreeMap::new();
        let key = |frame: &Frame, edge: u32| {
            let edge = frame.plan.edge(edge);
            let ends = (frame.instance(edge.source), frame.instance(edge.target));
            (ends.0, ends.1, rank(edge.when), kind_rank(edge.kind))
        };
        for edge in old.shape().edges() {
            known.insert(key(old, edge), old.edge(edge));
        }
        self.top.routing = self.to_route.len() as u32;
        for edge in self.top.shape().edges() {
            let source = self.top.instance(self.top.plan.edge(edge).source);
            if !self.top.state(source).status.is_final() {
                continue;
            }
            if let Some(&state) = known.get(&key(&self.top, edge))
                && state != EdgeState::Unresolved
            {
                self.top.set_edge(edge, state);
                let target = self.top.instance(self.top.plan.edge(edge).target);
                self.top.state_mut(target).unresolved -= 1;
                if state == EdgeState::Taken {
                    *self.taken.entry(target).or_default() += 1;
                }
            }
        }
        let joins: BTreeSet<Instance> = self.top.instances().collect();
        self.taken
            .retain(|node, _| !joins.contains(node) || known.keys().any(|k| k.1 == *node));
        // A frame of a body counts its own nodes; other frames' routing was not counted here.
        let own = |node: &&Instance| joins.contains(node);
        self.top.routing = self.to_route.iter().filter(own).count() as u32;
    }

    /// Counts and sets that follow from the states.
    fn count_again(&mut self) {
        let mut counts = [0; 9];
        let numbers = std::mem::take(&mut self.top.failed);
        for node in self.top.instances() {
            let state: &NodeState = self.top.state(node);
            counts[state.status as usize] += 1;
            if state.status == NodeStatus::Failed {
                let number = numbers.get(&node).copied().unwrap_or_default();
                self.top.failed.insert(node, number);
            }
        }
        self.top.counts = counts;
        for node in self.top.instances() {
            let (level, is_final) = (
                self.top.plan.level(self.top.node(node)),
                self.top.state(node).status.is_final(),
            );
            if let Some(levels) = &mut self.top.levels
                && is_final
            {
                levels.ended(level);
            }
        }
    }

    /// New edges from ended nodes resolve now; what has not begun decides again.
    pub(super) fn resolve_anew(&mut self, changes: &mut Vec<Change>) {
        let nodes: BTreeSet<Instance> = self.top.instances().collect();
        let ended = nodes
            .iter()
            .copied()
            .filter(|node| self.node_status(*node).is_final() && !self.to_route.contains(node));
        let queue = RoutingQueue {
            ended: ended.collect(),
        };
        self.cascade(queue, changes);
        let mut queue = RoutingQueue::default();
        self.ask_again(TOP, &nodes, &mut queue, changes);
        self.cascade(queue, changes);
    }
}

fn rank(when: When) -> u8 {
    match when {
        When::Success => 0,
        When::Failure => 1,
        When::Always => 2,
    }
}

fn kind_rank(kind: EdgeKind) -> u8 {
    match kind {
        EdgeKind::Plain => 0,
        EdgeKind::OnFailure => 1,
        EdgeKind::Switch => 2,
    }
}
