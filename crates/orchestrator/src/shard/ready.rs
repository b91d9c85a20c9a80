//! Attempts that are ready for a worker, durably. Where only one may go at a time they
//! go in definition order, iterations included; one that has begun, and that another process may
//! have handed out, goes first: it is the one that goes. Where a node of the graph has a priority they go by
//! priority, then in the order in which they became ready; otherwise in the order of their
//! numbers.

use std::collections::BTreeMap;

use windlass_core::NodeStatus;
use windlass_core::definition::ExecutionMode;
use windlass_core::run::{Instance, Run};

#[derive(Debug, Default)]
pub(super) struct Ready {
    attempts: BTreeMap<Instance, u32>,
    /// Filled only where the order matters.
    ordered: BTreeMap<Vec<u32>, Instance>,
    /// When an attempt first became ready, where priorities decide, as a count of them.
    arrivals: BTreeMap<Instance, (u32, u32)>,
    arrived: u32,
}

/// What says which ready attempt goes first.
#[derive(Clone, Copy)]
pub(super) enum ReadyOrder<'a> {
    /// The numbers of the instances.
    Number,
    /// The definition: one node goes at a time, whatever its priority.
    Definition(&'a Run),
    /// The priorities of the nodes.
    Priority(&'a Run),
}

impl<'a> ReadyOrder<'a> {
    /// The order that a run's definition asks for.
    pub(super) fn of(run: &'a Run) -> Self {
        match run.plan().execution_mode() {
            ExecutionMode::Sequential => Self::Definition(run),
            _ if run.plan().has_priorities() => Self::Priority(run),
            _ => Self::Number,
        }
    }
}

impl Ready {
    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Notes an attempt.
    pub(super) fn insert(&mut self, node: Instance, attempt: u32, order: ReadyOrder<'_>) {
        self.attempts.insert(node, attempt);
        match order {
            ReadyOrder::Definition(run) if run.find_status(node).is_some() => {
                let has_begun = run.node_status(node) == NodeStatus::Running;
                let mut place = vec![u32::from(!has_begun)];
                place.extend(run.order(node));
                self.ordered.insert(place, node);
            }
            ReadyOrder::Priority(run) if run.find_status(node).is_some() => {
                let behind = u32::from(u8::MAX - run.priority_of(node));
                let place = vec![behind, self.arrival(node, attempt)];
                self.ordered.insert(place, node);
            }
            _ => {}
        }
    }

    /// An attempt keeps its age while other things keep it from going.
    fn arrival(&mut self, node: Instance, attempt: u32) -> u32 {
        if let Some((_, arrival)) = self.arrivals.get(&node).filter(|it| it.0 == attempt) {
            return *arrival;
        }
        self.arrived += 1;
        self.arrivals.insert(node, (attempt, self.arrived));
        self.arrived
    }

    /// The graph has changed, and with it the order.
    pub(super) fn reorder(&mut self, order: ReadyOrder<'_>) {
        self.ordered.clear();
        for (node, attempt) in std::mem::take(&mut self.attempts) {
            self.insert(node, attempt, order);
        }
    }

    pub(super) fn remove(&mut self, node: Instance) {
        self.attempts.remove(&node);
    }

    /// The node has ended.
    pub(super) fn forget(&mut self, node: Instance) {
        self.arrivals.remove(&node);
    }

    pub(super) fn pop(&mut self) -> Option<(Instance, u32)> {
        while let Some((_, node)) = self.ordered.pop_first() {
            if let Some(attempt) = self.attempts.remove(&node) {
                return Some((node, attempt));
            }
        }
        self.attempts.pop_first()
    }
}
