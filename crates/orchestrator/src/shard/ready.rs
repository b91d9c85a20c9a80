//! Attempts that are ready for a worker, durably. Where only one may go at a time they
//! go in definition order, iterations included; otherwise in the order of their numbers.

use std::collections::BTreeMap;

use windlass_core::run::{Instance, Run};

#[derive(Debug, Default)]
pub(super) struct Ready {
    attempts: BTreeMap<Instance, u32>,
    /// Filled only where the order matters.
    ordered: BTreeMap<Vec<u32>, Instance>,
}

impl Ready {
    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Notes an attempt; in definition order, if `run` is given.
    pub(super) fn insert(&mut self, node: Instance, attempt: u32, run: Option<&Run>) {
        self.attempts.insert(node, attempt);
        if let Some(run) = run.filter(|run| run.find_status(node).is_some()) {
            self.ordered.insert(run.order(node), node);
        }
    }

    /// The graph has changed, and with it the order of definition.
    pub(super) fn reorder(&mut self, run: Option<&Run>) {
        self.ordered.clear();
        for (node, attempt) in std::mem::take(&mut self.attempts) {
            self.insert(node, attempt, run);
        }
    }

    pub(super) fn remove(&mut self, node: Instance) {
        self.attempts.remove(&node);
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
