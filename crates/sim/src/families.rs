//! Parents and children: each child is started once, for one attempt of one node.

use std::collections::BTreeMap;

use windlass_core::RunId;
use windlass_core::event::ChildStarted;
use windlass_core::run::Run;

use crate::rules::CheckResult;

/// The attempt that has a child: the parent, its node, and the attempt's number.
type AttemptKey = (RunId, Box<str>, u32);

/// Which attempt has which child.
#[derive(Debug, Default)]
pub(crate) struct Families {
    of_child: BTreeMap<RunId, AttemptKey>,
    of_place: BTreeMap<AttemptKey, RunId>,
}

impl Families {
    /// A parent's log says that a child is to be started.
    pub(crate) fn started(&mut self, parent: RunId, started: &ChildStarted) -> CheckResult {
        let place = (parent, started.node.clone(), started.attempt);
        if let Some(other) = self.of_place.insert(place.clone(), started.child) {
            let (node, attempt) = (&started.node, started.attempt);
            return Err(format!(
                "attempt {attempt} of {node} has a second child {other}"
            ));
        }
        match self.of_child.insert(started.child, place) {
            Some(other) => Err(format!("child {} is {other:?}'s as well", started.child)),
            None => Ok(()),
        }
    }

    /// A run's log begins: a child's only after its parent's says so.
    pub(crate) fn begun(&self, run: RunId, state: &Run) -> CheckResult {
        let Some(parent) = &state.queued().parent else {
            return Ok(());
        };
        match self.of_child.get(&run) {
            Some((of, node, _)) if *of == parent.execution_id && *node == parent.node => Ok(()),
            other => Err(format!(
                "it begins as a child of {parent:?}, its parent has {other:?}"
            )),
        }
    }
}
