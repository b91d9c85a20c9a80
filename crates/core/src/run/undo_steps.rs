//! What the steps of an undoing come to, kept as they change: a run that undoes 100,000 nodes asks
//! after every one of them whether another is open, has failed, or comes next.

use std::collections::BTreeMap;

use super::Undone;
use super::frame::{Instance, NodeState};
use crate::status::NodeStatus;

/// The status of a step, which an operator may have left out.
pub(crate) fn step_status(state: &NodeState, skipped: bool) -> NodeStatus {
    match skipped {
        true => NodeStatus::Skipped,
        false => state.status,
    }
}

/// Steps by status and by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepIndex {
    counts: [u32; 9],
    /// The first step that is pending, or the number of steps.
    first_pending: usize,
    /// The first step that undoes each node.
    places: BTreeMap<Instance, usize>,
}

impl StepIndex {
    pub(crate) fn new(targets: &[Undone], statuses: impl Iterator<Item = NodeStatus>) -> Self {
        let mut index = Self {
            counts: [0; 9],
            first_pending: targets.len(),
            places: BTreeMap::new(),
        };
        for (local, (target, status)) in targets.iter().zip(statuses).enumerate() {
            index.places.entry(target.node).or_insert(local);
            index.counts[status as usize] += 1;
            if status == NodeStatus::Pending {
                index.first_pending = index.first_pending.min(local);
            }
        }
        index
    }

    /// Notes that a step has another status now, which `status_of` already gives.
    pub(crate) fn changed(
        &mut self,
        local: usize,
        was: NodeStatus,
        steps: usize,
        status_of: impl Fn(usize) -> NodeStatus,
    ) {
        let status = status_of(local);
        self.counts[was as usize] -= 1;
        self.counts[status as usize] += 1;
        if status == NodeStatus::Pending {
            self.first_pending = self.first_pending.min(local);
        }
        while self.first_pending < steps && status_of(self.first_pending) != NodeStatus::Pending {
            self.first_pending += 1;
        }
    }

    pub(crate) fn count(&self, status: NodeStatus) -> usize {
        self.counts[status as usize] as usize
    }

    pub(crate) fn first_pending(&self) -> usize {
        self.first_pending
    }

    pub(crate) fn place(&self, target: Instance) -> Option<usize> {
        self.places.get(&target).copied()
    }
}
