//! A new run from an old one, as the engine makes it: a chosen node and everything after
//! it runs again, the results of the rest are reused.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::event::{Actor, ForkOrigin, ReusedNode};
use windlass_core::plan::NodeKind;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Run};
use windlass_core::value::Payload;
use windlass_core::{NodeStatus, RunId};
use windlass_orchestrator::Begin;

use crate::workload::{ForkRequest, RunRequest, UserAction};
use crate::world::{Event, World};

impl World {
    /// Asks for a fork of a run; the number picks the node that runs again.
    pub(crate) fn fork(&mut self, run: RunId, number: u32) {
        let Some(history) = self.oracle.history(run) else {
            return;
        };
        let Some(state) = history.last() else {
            return;
        };
        // Iterations that are no longer needed stay until the next event, and have no path.
        let stands = |node: &Instance| state.resolve(&state.path(*node)) == Some(*node);
        let nodes: Vec<Instance> = state.instances().filter(stands).collect();
        let chosen = nodes[number as usize % nodes.len()];
        let again = Again::new(state, chosen);
        let routes = !history.was_changed() && number.is_multiple_of(2);
        let reused: Vec<ReusedNode> = nodes
            .iter()
            .filter(|&&node| again.reuses(state, node))
            .filter_map(|&node| self.reused(state, node, routes))
            .collect();
        let fork = ForkRequest {
            origin: ForkOrigin {
                execution_id: run,
                nodes: vec![state.path(chosen)],
                actor: Actor::default(),
            },
            version: state.version(),
            definition: state.definition(),
            frozen: state.is_frozen(),
            reused,
        };
        let trigger = self.store.resolve(&state.queued().trigger);
        let request = RunRequest {
            workflow: state.queued().workflow.clone(),
            starts: Vec::new(),
            begin: Begin::Now,
            trigger: trigger.as_deref().unwrap_or("null").to_owned(),
            user_actions: Vec::new(),
            fork: Some(Arc::new(fork)),
            gate: state.queued().gate.clone(),
            priority: state.queued().priority,
        };
        let index = self.requests.len();
        self.requests.push(request);
        let delay = self.moment(200);
        self.after(delay, Event::Start(index));
        for _ in 0..self.moment(3) {
            let user_action = [
                UserAction::ReattemptAll,
                UserAction::Cancel,
                UserAction::Compensate,
            ];
            let user_action = user_action[self.moment(3) as usize];
            let delay = delay + self.moment(4_000);
            self.after(delay, Event::UserAction(index, user_action));
        }
    }

    fn reused(&self, state: &Run, node: Instance, routes: bool) -> Option<ReusedNode> {
        let output = match state.value(node) {
            Some(value) => Some(Payload::new(self.store.value(state.id(), &value)?).stored()),
            None => None,
        };
        Some(ReusedNode {
            node: state.path(node),
            attempt: state.attempt(node),
            output,
            files: Vec::new(),
            ancestry: state.ancestry(node),
            taken: if routes { taken(state, node) } else { None },
        })
    }
}

/// Which of a node's edges that had to be asked were taken, if all have been.
fn taken(state: &Run, node: Instance) -> Option<Vec<u32>> {
    let (plan, index) = state.place(node);
    let edges = plan.outgoing(index).zip(state.edges_from(node));
    let asked: Vec<(usize, EdgeState)> = edges
        .enumerate()
        .filter(|(_, (edge, _))| plan.edge(*edge).needs_evaluation())
        .map(|(place, (_, (_, _, state)))| (place, state))
        .collect();
    let is_asked = |(_, state): &(usize, EdgeState)| *state != EdgeState::Unresolved;
    if asked.is_empty() || !asked.iter().all(is_asked) {
        return None;
    }
    let taken = asked.iter().filter(|(_, state)| *state == EdgeState::Taken);
    Some(taken.map(|&(place, _)| place as u32).collect())
}

/// What runs again.
struct Again {
    whole: BTreeSet<Instance>,
    /// Loops that are entered again, with the iteration after which nothing is kept.
    entered: Vec<(Instance, Option<u32>)>,
}

impl Again {
    fn new(state: &Run, chosen: Instance) -> Self {
        let mut whole: BTreeSet<Instance> = state.after_all(chosen).into_iter().collect();
        whole.insert(chosen);
        let mut entered = Vec::new();
        let mut node = chosen;
        while let Some((owner, iteration)) = state.owner(node) {
            let is_each = state.kind_of(owner) == NodeKind::ForEach;
            entered.push((owner, (!is_each).then_some(iteration)));
            node = owner;
        }
        Self { whole, entered }
    }

    /// Whether an instance ended with something to reuse, and is not reused with a loop.
    fn reuses(&self, state: &Run, node: Instance) -> bool {
        if !self.keeps(state, node) {
            return false;
        }
        let mut inner = node;
        while let Some((owner, _)) = state.owner(inner) {
            if self.keeps(state, owner) {
                return false;
            }
            inner = owner;
        }
        true
    }

    fn keeps(&self, state: &Run, node: Instance) -> bool {
        let has_ended = match state.node_status(node) {
            NodeStatus::Succeeded => state.value(node).is_some(),
            NodeStatus::Skipped => state.attempt(node) > 0,
            _ => false,
        };
        if !has_ended || self.whole.contains(&node) {
            return false;
        }
        if self.entered.iter().any(|&(owner, _)| owner == node) {
            return false;
        }
        let mut inner = node;
        while let Some((owner, iteration)) = state.owner(inner) {
            let is_later = |&(entered, last): &(Instance, Option<u32>)| {
                entered == owner && last.is_some_and(|last| iteration > last)
            };
            if self.whole.contains(&owner) || self.entered.iter().any(is_later) {
                return false;
            }
            inner = owner;
        }
        true
    }
}
