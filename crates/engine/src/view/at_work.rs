//! The attempts that workers have now, as the process that executes the run knows them. The log
//! names an attempt that takes long, or its end: until then only memory has it.

use std::collections::BTreeMap;

use windlass_core::run::{Instance, Run};
use windlass_core::{Millis, NodeStatus};

/// Attempts of one run that workers have.
#[derive(Clone, Debug, Default)]
pub struct AtWork(BTreeMap<Instance, (u32, Millis)>);

impl AtWork {
    /// When a worker began with an instance that the log has as queued.
    pub fn since(&self, run: &Run, node: Instance) -> Option<Millis> {
        let &(attempt, since) = self.0.get(&node)?;
        let is_queued = run.find_status(node) == Some(NodeStatus::Queued);
        (is_queued && run.attempt(node) == attempt).then_some(since)
    }
}

impl AtWork {
    /// Each instance with the number of its attempt, and since when a worker has it.
    pub fn attempts(&self) -> impl Iterator<Item = (Instance, u32, Millis)> + '_ {
        let each = self.0.iter();
        each.map(|(&node, &(attempt, since))| (node, attempt, since))
    }
}

impl Extend<(Instance, (u32, Millis))> for AtWork {
    fn extend<T: IntoIterator<Item = (Instance, (u32, Millis))>>(&mut self, attempts: T) {
        self.0.extend(attempts);
    }
}
