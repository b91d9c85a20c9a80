//! What compensation has undone of the results that a fork could reuse (semantics §5.6, §11):
//! in the old run, and of results that the old run has itself from the run that it was forked
//! from, in that one. It reads states and logs, and decides nothing about the new run.

use std::collections::BTreeMap;

use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunId};

use super::again::loops_around;
use super::results::{Results, results};
use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;

/// Node instances whose compensation was begun or is still to come, by path, each with how far
/// its compensation is.
pub(super) type Compensated = BTreeMap<Box<str>, NodeStatus>;

/// Whether a node whose compensation is so far must not be reused: its effect is undone, or is
/// going to be. A node whose compensation failed still has its effect.
pub(super) fn is_undone(compensation: NodeStatus) -> bool {
    compensation != NodeStatus::Failed
}

/// What was compensated of the results that a run has.
///
/// # Errors
/// A run that it has results from is there and cannot be read.
pub(super) fn compensated(
    store: &dyn Backend,
    plans: &Plans,
    old: &Results,
) -> Result<Compensated, LoadError> {
    let mut found = steps(&old.run);
    let mut reusing: Vec<Results> = Vec::new();
    loop {
        let last = reusing.last().unwrap_or(old);
        let Some(origin) = origin_in_use(last) else {
            return Ok(found);
        };
        let before = match results(store, plans, origin) {
            Ok(before) => before,
            // A run that retention has removed cannot tell.
            Err(LoadError::NotFound(_)) => return Ok(found),
            Err(error) => return Err(error),
        };
        let is_in_use = |path: &str| {
            let mut between = std::iter::once(old).chain(&reusing);
            between.all(|run| run.reuses(path))
        };
        for (path, status) in steps(&before.run) {
            if is_in_use(&path) {
                found.entry(path).or_insert(status);
            }
        }
        reusing.push(before);
    }
}

/// The run that results of this one come from.
fn origin_in_use(results: &Results) -> Option<RunId> {
    let origin = results.run.queued().origin.as_ref()?;
    (!results.reused.is_empty()).then_some(origin.execution_id)
}

/// How far the compensation of each node is; of a node that succeeded more than once, that of
/// its newest success, whose result it is. Nodes that keep their effect are left out: those
/// that an operator skipped, and those that an ended run never came to.
fn steps(run: &Run) -> Compensated {
    let mut steps = Compensated::new();
    let is_ended = run.status().is_final();
    // Compensation goes backwards, so the newest success comes first.
    for (node, status) in run.undo().into_iter().flat_map(|undo| undo.steps()) {
        steps.entry(run.path(node)).or_insert(status);
    }
    steps.retain(|_, status| match status {
        NodeStatus::Skipped => false,
        NodeStatus::Pending => !is_ended,
        _ => true,
    });
    steps
}

impl Results {
    /// Whether the result at a path is one that this run took over, alone or within a loop.
    fn reuses(&self, path: &str) -> bool {
        let mut around = std::iter::once(path).chain(loops_around(path));
        around.any(|path| self.reused.contains(path) && self.nodes.contains_key(path))
    }
}
