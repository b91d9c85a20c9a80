//! The attempts that workers have. A node that a reattempt took back stays with its worker until
//! the worker is asked to stop, but no longer counts as running for decisions made meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::Millis;
use windlass_core::run::Instance;

#[derive(Debug, Default)]
pub(super) struct Running {
    /// Every attempt that a worker has.
    attempts: BTreeMap<Instance, u32>,
    /// The nodes whose result the run still waits for.
    nodes: BTreeSet<Instance>,
    /// The worker that has the attempt, if it belongs to another process, and since when.
    workers: BTreeMap<Instance, (Box<str>, Option<Millis>)>,
}

impl Running {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    pub(super) fn nodes(&self) -> &BTreeSet<Instance> {
        &self.nodes
    }

    pub(super) fn attempt(&self, node: Instance) -> Option<u32> {
        self.attempts.get(&node).copied()
    }

    pub(super) fn contains(&self, node: Instance) -> bool {
        self.attempts.contains_key(&node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Instance, u32)> + '_ {
        self.attempts
            .iter()
            .map(|(&node, &attempt)| (node, attempt))
    }

    pub(super) fn insert(&mut self, node: Instance, attempt: u32) {
        self.attempts.insert(node, attempt);
        self.nodes.insert(node);
    }

    /// A worker of another process has the attempt now.
    pub(super) fn give_to(&mut self, node: Instance, worker: &str, since: Option<Millis>) {
        self.workers.insert(node, (worker.into(), since));
    }

    /// The worker of another process that has the attempt, and when the first one got it.
    pub(super) fn worker(&self, node: Instance) -> Option<(&str, Option<Millis>)> {
        let worker = self.workers.get(&node);
        worker.map(|(worker, since)| (&**worker, *since))
    }

    /// The run does not wait for the result any more.
    pub(super) fn disown(&mut self, node: Instance) {
        self.nodes.remove(&node);
    }

    /// The worker is done with the attempt, or was asked to drop it; false if it had
    /// another, or none.
    pub(super) fn remove(&mut self, node: Instance, attempt: u32) -> bool {
        let had = self.attempt(node) == Some(attempt);
        if had {
            self.attempts.remove(&node);
            self.nodes.remove(&node);
            self.workers.remove(&node);
        }
        had
    }
}
