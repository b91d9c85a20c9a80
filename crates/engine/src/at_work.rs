//! Which attempts workers have begun: kept in memory from the moment a worker has one until its
//! end is durable, so that a node is shown as running though no record says so yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::run::{Dispatch, Instance};
use windlass_core::{Millis, NodeStatus, RunId};

use crate::engine::Engine;
use crate::view::AtWork;

/// Attempts of this process's own workers.
#[derive(Default)]
pub(crate) struct AttemptsAtWork(Mutex<BTreeMap<(RunId, Instance), (u32, Millis)>>);

impl AttemptsAtWork {
    fn table(&self) -> MutexGuard<'_, BTreeMap<(RunId, Instance), (u32, Millis)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker begins with an attempt.
    pub(crate) fn begin(&self, dispatch: &Dispatch, now: Millis) {
        let key = (dispatch.run, dispatch.node);
        self.table().insert(key, (dispatch.attempt, now));
    }

    /// These changes are durable.
    pub(crate) fn ended(&self, run: RunId, nodes: &[(Instance, NodeStatus)]) {
        let mut table = self.table();
        for &(node, status) in nodes {
            if status == NodeStatus::Waiting || status.is_final() {
                table.remove(&(run, node));
            }
        }
    }

    /// The run is not here any more.
    pub(crate) fn forget(&self, run: RunId) {
        let mut table = self.table();
        let all = (run, Instance::MIN)..=(run, Instance::MAX);
        let gone: Vec<_> = table.range(all).map(|(key, _)| *key).collect();
        for key in gone {
            table.remove(&key);
        }
    }

    /// When a worker began an attempt, if one has it.
    pub(crate) fn since(&self, key: (RunId, Instance), attempt: u32) -> Option<Millis> {
        let begun = self.table().get(&key).copied();
        begun.filter(|(begun, _)| *begun == attempt).map(|it| it.1)
    }

    fn of(&self, run: RunId) -> Vec<(Instance, (u32, Millis))> {
        let all = (run, Instance::MIN)..=(run, Instance::MAX);
        let table = self.table();
        table.range(all).map(|(key, it)| (key.1, *it)).collect()
    }
}

impl Engine {
    /// The attempts of a run that workers have, of this process or through it.
    pub fn at_work(&self, run: RunId) -> AtWork {
        let mut found = AtWork::default();
        found.extend(self.workers().at_work.of(run));
        found.extend(self.shared().remote.open.begun(run));
        found
    }
}
