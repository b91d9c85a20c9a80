//! Trying again by hand (semantics §5): the strict rule of when it is allowed, and
//! the re-opening of everything that the failure had ended.

use std::collections::{BTreeMap, BTreeSet};

use super::Run;
use super::apply::Change;
use super::cycle::Iteration;
use super::frame::{FrameKey, Instance};
use super::join::RoutingQueue;
use crate::definition::{Join, When};
use crate::event::StopCause;
use crate::id::Millis;
use crate::plan::EdgeIndex;
use crate::routing::{self, EdgeState, Joined};
use crate::status::{NodeStatus, RunStatus};

impl Run {
    /// Every node that a retry of the whole run tries again: Cancelled, or Failed and
    /// not handled; of a loop, what failed inside it, if that is still there.
    pub fn retriable_nodes(&self) -> Vec<Instance> {
        let mut nodes = Vec::new();
        self.retriable_in(super::TOP, &mut nodes);
        nodes
    }

    fn retriable_in(&self, key: FrameKey, nodes: &mut Vec<Instance>) {
        for node in self.frame(key).instances() {
            let state = self.state(node);
            let is_retriable = match state.status {
                NodeStatus::Cancelled => !state.let_go,
                NodeStatus::Failed => !self.is_handled(node),
                _ => false,
            };
            if !is_retriable {
                continue;
            }
            let before = nodes.len();
            for key in self.present_frames(node) {
                self.retriable_in(key, nodes);
            }
            if nodes.len() == before {
                nodes.push(node);
            }
        }
    }

    /// The iterations of a loop that something may still be tried again in: those of a
    /// `forEach`, and the last one of a loop that goes round.
    fn present_frames(&self, node: Instance) -> Vec<FrameKey> {
        let Some(cycle) = self.loops.get(&node) else {
            return Vec::new();
        };
        let is_each = cycle.is_each();
        let frames = cycle.frames.iter();
        let present = frames.filter(|(at, _)| is_each || **at + 1 == cycle.next);
        present.map(|(_, &key)| key).collect()
    }

    /// Whether the loop around a frame has gone on to another iteration.
    fn is_past(&self, key: FrameKey) -> bool {
        let owner = self.frame(key).owner;
        owner.is_some_and(|owner| !self.present_frames(owner.node).contains(&key))
    }

    /// The nodes in the way of trying these again: running or succeeded ones that can
    /// be reached from them without an `always` edge, also through the loops they are in.
    pub fn in_the_way(&self, nodes: &[Instance]) -> Vec<Instance> {
        let (mut found, mut gone_on) = (BTreeSet::new(), BTreeSet::new());
        let mut roots = nodes.to_vec();
        while !roots.is_empty() {
            let mut loops = BTreeSet::new();
            for (key, roots) in self.by_frame(&roots) {
                let roots: Vec<_> = roots.into_iter().collect();
                found.extend(self.after(key, &roots, |when| when != When::Always));
                let owner = self.frame(key).owner.map(|owner| owner.node);
                gone_on.extend(owner.filter(|_| self.is_past(key)));
                loops.extend(owner);
            }
            let has_gone_on = |node: &&Instance| {
                matches!(
                    self.node_status(**node),
                    NodeStatus::Succeeded | NodeStatus::Waiting
                )
            };
            found.extend(loops.iter().filter(has_gone_on));
            roots = loops.into_iter().collect();
        }
        found.retain(|node| is_in_the_way(self.node_status(*node)));
        found.extend(gone_on);
        found.into_iter().collect()
    }

    fn by_frame(&self, nodes: &[Instance]) -> BTreeMap<FrameKey, BTreeSet<Instance>> {
        let mut frames: BTreeMap<FrameKey, BTreeSet<Instance>> = BTreeMap::new();
        for &node in nodes.iter().filter(|&&node| !self.is_kept(node)) {
            if let Some(frame) = self.find_frame(node) {
                frames.entry(frame.base).or_default().insert(node);
            }
        }
        frames
    }

    /// The top-level nodes that a reattempt by hand may open again, as the run is now: those that
    /// failed or were cancelled and have nothing in the way, and everything after them.
    pub(crate) fn opens_again(&self) -> BTreeSet<Instance> {
        let frame = self.frame(super::TOP);
        let with = |is_meant: fn(NodeStatus) -> bool| -> Vec<Instance> {
            let instances = frame.instances();
            let meant = instances.filter(|&node| is_meant(self.node_status(node)));
            meant.collect()
        };
        let mut roots = with(|it| matches!(it, NodeStatus::Failed | NodeStatus::Cancelled));
        if roots.is_empty() {
            return BTreeSet::new();
        }
        // What leads to a node in the way without an `always` edge.
        let mut work = with(is_in_the_way);
        let mut held = BTreeSet::new();
        while let Some(node) = work.pop() {
            for &edge in frame.plan.incoming(frame.node(node)) {
                let edge = frame.plan.edge(edge);
                let source = frame.instance(edge.source);
                if edge.when != When::Always && held.insert(source) {
                    work.push(source);
                }
            }
        }
        roots.retain(|node| !held.contains(node));
        let mut again = self.after(super::TOP, &roots, |_| true);
        again.extend(roots);
        again
    }

    /// Everything in a frame after these nodes, through edges of the given kinds.
    pub(crate) fn after(
        &self,
        key: FrameKey,
        nodes: &[Instance],
        follows: impl Fn(When) -> bool,
    ) -> BTreeSet<Instance> {
        let frame = self.frame(key);
        let mut reached = BTreeSet::new();
        let mut work = nodes.to_vec();
        while let Some(node) = work.pop() {
            for edge in frame.plan.outgoing(frame.node(node)) {
                let edge = frame.plan.edge(edge);
                let target = frame.instance(edge.target);
                if follows(edge.when) && reached.insert(target) {
                    work.push(target);
                }
            }
        }
        reached
    }

    /// Everything after an instance, in its scope and in those around it.
    pub fn after_all(&self, node: Instance) -> Vec<Instance> {
        let mut found = Vec::new();
        let mut node = node;
        if self.find_frame(node).is_none() || self.is_kept(node) {
            return found;
        }
        loop {
            let frame = self.frame_of(node);
            found.extend(self.after(frame.base, &[node], |_| true));
            match frame.owner {
                // Nodes inside a loop that was taken back lead nowhere any more.
                Some(owner) if !self.is_kept(owner.node) => node = owner.node,
                _ => return found,
            }
        }
    }

    /// Opens attempt n + 1 of each node and computes anew everything after them.
    pub(crate) fn reopen(&mut self, nodes: &[Instance], at: Millis, changes: &mut Vec<Change>) {
        if self.status.is_final() {
            self.status = RunStatus::Running;
            self.started_at.get_or_insert(at);
            self.clock_from = Some(at);
            self.finished = None;
            self.ended_at = None;
        }
        // Inner frames before outer ones: opening an iteration again opens its loop.
        let mut frames = self.by_frame(&self.with_cut(nodes));
        if nodes.is_empty() {
            // A new graph removed what had failed. The failure still stops the run as a whole.
            frames.entry(super::TOP).or_default();
        }
        let mut again = Vec::new();
        let mut reopened = BTreeSet::new();
        // A frame is numbered after the one around it.
        while let Some((key, roots)) = frames.pop_last() {
            again.push((key, self.forget_frame(key, &roots, &reopened, changes)));
            if let Some(owner) = self.frame(key).owner {
                self.reopen_iteration(key);
                reopened.insert(owner.node);
                let outer = self.key_of(owner.node);
                frames.entry(outer).or_default().insert(owner.node);
            }
        }
        // Iterations of a loop that begins anew, because something before it does, are gone.
        let gone: BTreeSet<FrameKey> = self.garbage.iter().copied().collect();
        again.retain(|&(key, _)| {
            let frame = self.frame(key);
            let first = frame.instances().next();
            let around = first.map(|node| self.scopes_around(node));
            let is_gone = |key: &FrameKey| gone.contains(key) || self.kept_frames.contains_key(key);
            !around.iter().flatten().any(is_gone)
        });
        // Joins decide again before any frame is taken to have ended.
        self.quiet.clear();
        let mut queue = RoutingQueue::default();
        for (key, nodes) in again.into_iter().rev() {
            self.ask_again(key, &nodes, &mut queue, changes);
        }
        self.cascade(queue, changes);
    }

    /// These nodes, and what was cut in iterations of the loops around them: a loop that
    /// goes on leaves none of its iterations undone.
    fn with_cut(&self, nodes: &[Instance]) -> Vec<Instance> {
        let mut all = nodes.to_vec();
        for &node in nodes {
            let scopes = self.scopes_around(node);
            let owners = scopes.iter().filter_map(|&key| self.frame(key).owner);
            for cycle in owners.filter_map(|owner| self.loops.get(&owner.node)) {
                let cut = cycle.frames.iter().filter(|(at, key)| {
                    let result = cycle.results.get(**at as usize);
                    self.frame(**key).done && result == Some(&Iteration::Open)
                });
                for (_, &key) in cut.filter(|(_, key)| !scopes.contains(key)) {
                    self.cut_in(key, &mut all);
                }
            }
        }
        all
    }

    /// The cancelled nodes of a frame; of a loop, those inside it.
    fn cut_in(&self, key: FrameKey, nodes: &mut Vec<Instance>) {
        for node in self.frame(key).instances() {
            let state = self.state(node);
            if state.status != NodeStatus::Cancelled || state.let_go {
                continue;
            }
            let before = nodes.len();
            for key in self.present_frames(node) {
                self.cut_in(key, nodes);
            }
            if nodes.len() == before {
                nodes.push(node);
            }
        }
    }

    /// Forgets how these nodes of a frame and everything after them ended; loops that only
    /// open again keep their attempt. Returns the nodes that decide again.
    fn forget_frame(
        &mut self,
        key: FrameKey,
        roots: &BTreeSet<Instance>,
        reopened: &BTreeSet<Instance>,
        changes: &mut Vec<Change>,
    ) -> BTreeSet<Instance> {
        let mut roots = roots.clone();
        let frame = self.frame(key);
        let cause = frame.stop.as_ref().map(|stop| stop.cause);
        if cause == Some(StopCause::FailFast) {
            // Nodes that the failure had cancelled begin again with the failed ones.
            roots.extend(self.with_status(key, NodeStatus::Cancelled));
        }
        let first: Vec<Instance> = roots.iter().copied().collect();
        let mut again = roots;
        let after = self.after(key, &first, |_| true);
        again.extend(&after);
        let frame = self.frame_mut(key);
        frame.stop = None;
        frame.nodes.iter_mut().for_each(|node| node.exempt = false);
        self.to_stop.remove(&key);
        for node in again.clone() {
            if self.to_route.contains(&node) {
                self.ask_no_more(node);
            }
            // A loop that something before it makes wait again begins anew.
            let goes_on = reopened.contains(&node) && !after.contains(&node);
            if goes_on && !self.node_status(node).is_final() {
                again.remove(&node);
                continue;
            }
            self.forget_end(node, goes_on, changes);
            if goes_on {
                again.remove(&node);
            }
        }
        again
    }

    /// An iteration that had ended goes on.
    fn reopen_iteration(&mut self, key: FrameKey) {
        let frame = self.frame_mut(key);
        let Some(owner) = frame.owner.filter(|_| frame.done) else {
            return;
        };
        frame.done = false;
        if let Some(cycle) = self.loops.get_mut(&owner.node) {
            cycle.running += 1;
            cycle.failed.remove(&owner.iteration);
            match cycle.results.get_mut(owner.iteration as usize) {
                Some(result) => *result = Iteration::Open,
                None => cycle.last = None,
            }
        }
    }

    /// Takes a node back to Pending, or a loop that goes on to Running, and its outgoing
    /// edges to unresolved. An open attempt is cancelled: it may be with a worker, so its number
    /// stays used.
    fn forget_end(&mut self, node: Instance, goes_on: bool, changes: &mut Vec<Change>) {
        let attempt = self.attempt(node);
        if self.is_open(node, attempt) {
            let mut queue = RoutingQueue::default();
            self.close_structure(node, NodeStatus::Cancelled, &mut queue, changes);
            changes.push(Change::Ended(node, attempt, NodeStatus::Cancelled));
        }
        let frame = self.frame_of(node);
        let (key, plan, index) = (frame.base, frame.plan.clone(), frame.node(node));
        if self.node_status(node).is_final() {
            let level = plan.level(index);
            if let Some(levels) = &mut self.frame_mut(key).levels {
                levels.reopened(level);
            }
        }
        let status = if goes_on {
            NodeStatus::Running
        } else {
            NodeStatus::Pending
        };
        self.set_status(node, status);
        self.due.remove(&node);
        self.keep_success(node);
        self.frame_mut(key).failed.remove(&node);
        self.blocked_by.remove(&node);
        if !goes_on {
            // A new attempt is of the graph as it is now.
            self.shapes.remove(&node);
            self.reset_loop(node);
            self.recovered.remove(&node);
            self.taken.remove(&node);
        }
        let state = self.state_mut(node);
        state.value = None;
        state.ancestry = None;
        state.stopping = false;
        state.let_go = false;
        state.reused = false;
        state.by_hand = false;
        let frame = self.frame_mut(key);
        for edge in plan.outgoing(index) {
            if frame.edge(edge) != EdgeState::Unresolved {
                frame.set_edge(edge, EdgeState::Unresolved);
                let target = frame.instance(plan.edge(edge).target);
                frame.state_mut(target).unresolved += 1;
            }
        }
    }

    /// Joins that have all their edges decide again.
    pub(crate) fn ask_again(
        &mut self,
        key: FrameKey,
        again: &BTreeSet<Instance>,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) {
        if let Some(levels) = &mut self.frame_mut(key).levels {
            levels.forget_held(|node| again.contains(&node));
        }
        for &node in again {
            if self.node_status(node) != NodeStatus::Pending {
                continue;
            }
            let (plan, index) = self.plan_node(node);
            let (edges, join) = (plan.incoming(index).to_vec(), plan.join(index));
            let is_resolved = self.state(node).unresolved == 0;
            if edges.is_empty() {
                self.make_ready_in(node, queue, changes);
            } else if join != Join::All {
                let is_taken = |edge: &&EdgeIndex| self.frame(key).edge(**edge) == EdgeState::Taken;
                let taken = edges.iter().filter(is_taken).count() as u32;
                self.taken.insert(node, taken);
                self.to_join.insert(node);
            } else if is_resolved {
                self.join(node, queue, changes);
            }
        }
    }

    /// Failed or cancelled nodes that hold back one of these and are not tried again
    /// with it: without them it would be blocked once more. What a parent that is tried
    /// again may still recover holds back nothing; a cancelled node is never recovered.
    pub fn held_back_by(&self, nodes: &[Instance]) -> Vec<Instance> {
        let mut holding = BTreeSet::new();
        for (key, roots) in self.by_frame(nodes) {
            let frame = self.frame(key);
            let roots: Vec<_> = roots.into_iter().collect();
            let mut again = self.after(key, &roots, |_| true);
            again.extend(&roots);
            let cause = frame.stop.as_ref().map(|stop| stop.cause);
            if cause == Some(StopCause::FailFast) {
                again.extend(self.with_status(key, NodeStatus::Cancelled));
            }
            for &node in &roots {
                if self.join_of(node) != Join::All {
                    continue;
                }
                let source = |edge: &EdgeIndex| frame.instance(frame.plan.edge(*edge).source);
                let is_kept = |edge: &EdgeIndex| !again.contains(&source(edge));
                let incoming = frame.plan.incoming(frame.node(node));
                let may_recover = !incoming.iter().all(is_kept);
                let kept = incoming.iter().copied().filter(is_kept);
                let (_, lost, recovered) = self.gather(key, kept);
                if let Joined::Blocked(by) = routing::join(true, lost, recovered) {
                    let holds = |node: &&Instance| {
                        !may_recover || self.node_status(**node) == NodeStatus::Cancelled
                    };
                    holding.extend(by.iter().filter(holds));
                }
            }
        }
        holding.into_iter().collect()
    }

    fn with_status(&self, key: FrameKey, status: NodeStatus) -> Vec<Instance> {
        let instances = self.frame(key).instances();
        instances
            .filter(|&node| self.node_status(node) == status)
            .collect()
    }
}

/// Whether a node after others keeps these from being tried again.
fn is_in_the_way(status: NodeStatus) -> bool {
    matches!(
        status,
        NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting | NodeStatus::Succeeded
    )
}
