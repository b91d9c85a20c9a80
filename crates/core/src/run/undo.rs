//! Undoing (semantics §11): after a run has failed, the nodes that succeeded and have a
//! compensation are undone, strictly in reverse order of completion, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Run;
use super::apply::{Change, Corrupt};
use super::frame::{Instance, NodeState};
use super::undo_steps::{StepIndex, step_status};
use crate::definition::{CompensationPolicy, OnCompensationError};
use crate::event::{AttemptEnded, AttemptResult, Compensation, Event, Finished, StopCause};
use crate::id::Millis;
use crate::status::{NodeStatus, RunStatus};
use crate::value::ValueRef;

/// A node that succeeded and has a compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The node.
    pub node: Instance,
    /// Its parameters as recorded.
    pub parameters: Option<ValueRef>,
}

/// How the undoing of a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The number of the first instance; the others follow.
    pub(crate) base: Instance,
    /// The nodes to undo, in this order.
    pub(crate) targets: Vec<Undone>,
    pub(crate) states: Vec<NodeState>,
    /// Left as it is, by hand.
    pub(crate) skipped: Vec<bool>,
    /// Steps with the path of another: what ran again is undone as often as it succeeded.
    /// They share the numbers of their attempts, so that each has one outcome.
    pub(crate) twins: BTreeMap<u32, Arc<[u32]>>,
    /// How the run ends then.
    pub(crate) ending: Box<Finished>,
    /// Follows from the states and what is skipped.
    pub(crate) index: StepIndex,
}

impl Undo {
    fn local(&self, node: Instance) -> Option<usize> {
        let local = node.checked_sub(self.base)? as usize;
        (local < self.targets.len()).then_some(local)
    }

    pub(crate) fn state(&self, node: Instance) -> Option<&NodeState> {
        self.local(node).map(|local| &self.states[local])
    }

    pub(crate) fn state_mut(&mut self, node: Instance) -> &mut NodeState {
        let local = self.local(node).expect("an instance has a state");
        &mut self.states[local]
    }

    /// The instances that undo something.
    pub(crate) fn instances(&self) -> std::ops::Range<Instance> {
        self.base..self.base + self.targets.len() as Instance
    }

    /// Whether something is being undone.
    pub fn is_open(&self) -> bool {
        let open = [NodeStatus::Queued, NodeStatus::Running, NodeStatus::Waiting];
        open.iter().any(|&status| self.index.count(status) > 0)
    }

    fn status(&self, local: usize) -> NodeStatus {
        step_status(&self.states[local], self.skipped[local])
    }

    pub(crate) fn set_status(&mut self, node: Instance, status: NodeStatus) {
        let local = self.local(node).expect("an instance has a state");
        self.change(local, |undo| undo.states[local].status = status);
    }

    fn change(&mut self, local: usize, change: impl FnOnce(&mut Self)) {
        let was = self.status(local);
        change(self);
        let (states, skipped) = (&self.states, &self.skipped);
        let status_of = |local: usize| step_status(&states[local], skipped[local]);
        self.index.changed(local, was, states.len(), status_of);
    }

    /// The nodes to undo, in order, each with the status of its step: Pending, Queued,
    /// Running, Waiting, Succeeded, Failed, or Skipped by hand.
    pub fn steps(&self) -> impl Iterator<Item = (Instance, NodeStatus)> + '_ {
        let targets = self.targets.iter().zip(&self.states).zip(&self.skipped);
        targets.map(|((target, state), &skipped)| (target.node, step_status(state, skipped)))
    }

    pub(crate) fn outcome(&self) -> Compensation {
        let done = [NodeStatus::Succeeded, NodeStatus::Skipped];
        let done: usize = done.iter().map(|&status| self.index.count(status)).sum();
        if done == self.targets.len() {
            Compensation::Complete
        } else {
            Compensation::Incomplete
        }
    }

    /// The number of the next attempt to undo a node.
    fn next_attempt(&self, node: Instance) -> u32 {
        let local = self.local(node).unwrap_or_default();
        let own = self.states[local].attempt;
        let twins = self.twins.get(&(local as u32));
        let twins = twins.into_iter().flat_map(|twins| twins.iter());
        let used = twins.map(|&twin| self.states[twin as usize].attempt);
        used.max().unwrap_or(0).max(own) + 1
    }

    /// The instance that undoes a node.
    pub(crate) fn of(&self, target: Instance) -> Option<Instance> {
        let local = self.index.place(target)?;
        Some(self.base + local as Instance)
    }
}

impl Run {
    /// How the undoing stands, if the run is or was undone.
    pub fn undo(&self) -> Option<&Undo> {
        self.undo.as_ref()
    }

    /// The node that this instance undoes, if it undoes one.
    pub fn undone(&self, node: Instance) -> Option<Instance> {
        let undo = self.undo.as_ref()?;
        Some(undo.targets[undo.local(node)?].node)
    }

    pub(crate) fn undone_parameters(&self, node: Instance) -> Option<ValueRef> {
        let undo = self.undo.as_ref()?;
        undo.targets[undo.local(node)?].parameters
    }

    /// What would be undone now, first to last.
    pub fn would_undo(&self) -> impl Iterator<Item = Instance> + '_ {
        self.completed.iter().rev().map(|undone| undone.node)
    }

    /// Whether a run that ends with this status is undone automatically.
    pub(crate) fn is_undone_after(&self, status: RunStatus) -> bool {
        let asked = self
            .top
            .stop
            .as_ref()
            .is_some_and(|stop| stop.cause == StopCause::Cancel && stop.compensate);
        let policy = self.plan.compensation().when;
        let is_due = match status {
            RunStatus::Failed => policy != CompensationPolicy::Manual,
            RunStatus::Cancelled => asked || policy == CompensationPolicy::OnFailureOrCancel,
            _ => false,
        };
        let abandoned = self.abandoned().is_some();
        is_due && !abandoned && self.undo.is_none() && !self.completed.is_empty()
    }

    /// Remembers a node that succeeded, if something undoes it.
    pub(crate) fn note_completed(&mut self, node: Instance, status: NodeStatus) {
        if status != NodeStatus::Succeeded || self.state(node).reused {
            return;
        }
        let (plan, index) = self.plan_node(node);
        if plan.is_compensated(index) || self.transactional.contains_key(&node) {
            let parameters = None;
            self.completed.push(Undone { node, parameters });
        }
    }

    pub(crate) fn note_parameters(&mut self, node: Instance, parameters: ValueRef) {
        if let Some(last) = self.completed.last_mut()
            && last.node == node
        {
            last.parameters = Some(parameters);
        }
    }

    pub(crate) fn begin_undo(&mut self, ending: Box<Finished>, changes: &mut Vec<Change>) {
        let targets: Vec<Undone> = self.completed.iter().rev().copied().collect();
        let base = self.next_instance;
        self.next_instance += targets.len() as Instance;
        let twins = self.twins(&targets);
        let states = vec![NodeState::new(0); targets.len()];
        self.undo = Some(Undo {
            base,
            twins,
            index: StepIndex::new(&targets, states.iter().map(|state| state.status)),
            states,
            skipped: vec![false; targets.len()],
            targets,
            ending,
        });
        self.status = RunStatus::Running;
        self.finished = None;
        self.ended_at = None;
        self.undo_next(changes);
    }

    /// The steps that share a path, each with all of them.
    fn twins(&self, targets: &[Undone]) -> BTreeMap<u32, Arc<[u32]>> {
        let mut twins = BTreeMap::new();
        if !targets.iter().any(|target| self.is_kept(target.node)) {
            return twins;
        }
        let mut by_path: BTreeMap<Box<str>, Vec<u32>> = BTreeMap::new();
        for (local, target) in targets.iter().enumerate() {
            let path = self.path(target.node);
            by_path.entry(path).or_default().push(local as u32);
        }
        for group in by_path.into_values().filter(|group| group.len() > 1) {
            let group: Arc<[u32]> = group.into();
            twins.extend(group.iter().map(|&local| (local, Arc::clone(&group))));
        }
        twins
    }

    /// The instances that undo what has this path.
    pub(crate) fn undoing(&self, path: &str) -> Vec<Instance> {
        let Some(undo) = &self.undo else {
            return Vec::new();
        };
        let mut found = Vec::new();
        found.extend(self.resolve(path).and_then(|node| undo.of(node)));
        if self.kept.is_empty() {
            return found;
        }
        for (node, target) in undo.instances().zip(&undo.targets) {
            if self.is_kept(target.node) && *self.path(target.node) == *path {
                found.push(node);
            }
        }
        found
    }

    /// The instance whose attempt, of this number, undoes or undid what has this path.
    pub fn undoing_at(&self, path: &str, attempt: u32) -> Option<Instance> {
        let undoing = self.undoing(path);
        let is_open = |&&node: &&Instance| self.is_open(node, attempt);
        let open = undoing.iter().find(is_open).copied();
        let begun = || {
            undoing
                .iter()
                .filter(|&&node| self.attempt(node) >= attempt)
        };
        open.or_else(|| begun().min_by_key(|&&node| self.attempt(node)).copied())
    }

    /// The node with this path that is undone, or was: its newest success, if any.
    pub fn resolve_undone(&self, path: &str) -> Option<Instance> {
        let first = self.undoing(path).into_iter().min()?;
        self.undone(first)
    }

    /// The instance with this path; or the one that had it, ran again or left the graph, and
    /// may still be undone.
    pub fn find(&self, path: &str) -> Option<Instance> {
        self.resolve(path).or_else(|| self.resolve_undone(path))
    }

    /// Opens the next step, if nothing is being undone.
    pub(crate) fn undo_next(&mut self, changes: &mut Vec<Change>) {
        let Some(undo) = &self.undo else { return };
        if undo.is_open() || self.undo_is_stopped() {
            return;
        }
        let next = undo.base + undo.index.first_pending() as Instance;
        if undo.instances().contains(&next) {
            self.open_undo(next, changes);
        }
    }

    /// Whether a step has failed for good and the definition lets no other follow it. An
    /// operator then retries the step or skips it.
    pub fn undo_is_stopped(&self) -> bool {
        let stops = self.plan.compensation().on_error == OnCompensationError::Stop;
        let Some(undo) = self.undo.as_ref().filter(|_| stops) else {
            return false;
        };
        undo.index.count(NodeStatus::Failed) > 0
    }

    /// Opens an attempt to undo a node.
    pub(crate) fn open_undo(&mut self, node: Instance, changes: &mut Vec<Change>) {
        let next = self.undo.as_ref().map(|undo| undo.next_attempt(node));
        let attempt = next.unwrap_or(1);
        let state = self.state_mut(node);
        state.attempt = attempt;
        state.first_attempt = attempt;
        state.deliveries = 0;
        self.set_status(node, NodeStatus::Queued);
        match self
            .undone(node)
            .and_then(|node| self.transactional.get(&node))
        {
            Some(&child) => changes.push(Change::ChildUndone(node, attempt, child)),
            None => changes.push(Change::Ready(node, attempt)),
        }
    }

    pub(crate) fn undo_ended(
        &mut self,
        node: Instance,
        event: &AttemptEnded,
        changes: &mut Vec<Change>,
    ) {
        let status = match &event.result {
            AttemptResult::Succeeded(_) | AttemptResult::Skipped {} => NodeStatus::Succeeded,
            AttemptResult::Failed(_) | AttemptResult::Stopped {} => NodeStatus::Failed,
            AttemptResult::Retrying { due, .. } => {
                self.wait_for_attempt(node, *due, changes);
                return;
            }
        };
        let attempt = self.attempt(node);
        self.due.remove(&node);
        self.set_status(node, status);
        changes.push(Change::Ended(node, attempt, status));
        self.undo_next(changes);
    }

    /// An attempt failed and another follows.
    pub(crate) fn wait_for_attempt(
        &mut self,
        node: Instance,
        due: Millis,
        changes: &mut Vec<Change>,
    ) {
        let state = self.state_mut(node);
        state.attempt += 1;
        state.deliveries = 0;
        let attempt = state.attempt;
        self.set_status(node, NodeStatus::Waiting);
        self.due.insert(node, due);
        changes.push(Change::Waiting(node, attempt, Some(due)));
    }

    /// Leaves a node as it is, by hand.
    pub(crate) fn skip_undo(&mut self, node: Instance, changes: &mut Vec<Change>) {
        let attempt = self.attempt(node);
        if self.state(node).is_open() {
            self.due.remove(&node);
            self.set_status(node, NodeStatus::Cancelled);
            changes.push(Change::Ended(node, attempt, NodeStatus::Cancelled));
        }
        if let Some(undo) = &mut self.undo
            && let Some(local) = undo.local(node)
        {
            undo.change(local, |undo| undo.skipped[local] = true);
        }
        self.undo_next(changes);
    }

    /// Folds one event about undoing.
    pub(super) fn apply_undo(
        &mut self,
        event: &Event,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        match event {
            Event::Compensating { ending, .. } => self.begin_undo(ending.clone(), changes),
            Event::CompensationEnded(ended) => {
                let node = self.open_node(&ended.node, ended.attempt, true)?;
                self.undo_ended(node, ended, changes);
            }
            Event::CompensationRetried { nodes, .. } => {
                self.resume_undo();
                for path in nodes {
                    for node in self.undoing_in(path, can_be_retried)? {
                        self.set_status(node, NodeStatus::Pending);
                    }
                }
                self.undo_next(changes);
            }
            Event::CompensationSkipped { nodes, .. } => {
                self.resume_undo();
                for path in nodes {
                    for node in self.undoing_in(path, can_be_skipped)? {
                        self.skip_undo(node, changes);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The instances that undo the node with this path and have such a status.
    fn undoing_in(
        &self,
        path: &str,
        stands: impl Fn(NodeStatus) -> bool,
    ) -> Result<Vec<Instance>, Corrupt> {
        let mut nodes = self.undoing(path);
        nodes.retain(|&node| self.undo_status(node).is_some_and(&stands));
        if nodes.is_empty() {
            return self.corrupt(&format!("'{path}' is not undone"));
        }
        Ok(nodes)
    }

    /// The status of the step that undoes a node; Skipped if an operator left the node as it
    /// is.
    pub(crate) fn undo_status(&self, node: Instance) -> Option<NodeStatus> {
        let undo = self.undo.as_ref()?;
        Some(undo.status(undo.local(node)?))
    }

    /// Reopens a run whose undoing continues, until that has ended.
    pub(crate) fn resume_undo(&mut self) {
        if self.status.is_final() {
            self.status = RunStatus::Running;
            self.finished = None;
            self.ended_at = None;
        }
    }
}

/// Whether a step with this status may be tried again.
pub(crate) fn can_be_retried(status: NodeStatus) -> bool {
    status == NodeStatus::Failed
}

/// Whether a step with this status may be left out.
pub(crate) fn can_be_skipped(status: NodeStatus) -> bool {
    !matches!(status, NodeStatus::Succeeded | NodeStatus::Skipped)
}
