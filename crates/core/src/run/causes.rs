//! Root causes of a failed run (semantics §4.6): the failed nodes with no failed node behind
//! them, through loops and child runs. They are computed once, when the run ends, and
//! recorded with its end; a child's causes reach its parent in the error of the node that
//! started it. This file knows nothing of how they are shown.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::cycle::Iteration;
use super::decide::{Facts, Failure};
use super::frame::{FrameKey, Instance, TOP};
use super::{Loop, Run};
use crate::definition::OnItemFailure;
use crate::event::Cause;
use crate::id::RunId;
use crate::plan::Structure;
use crate::printable::cut;
use crate::value::ValueRef;

/// A run records at most this many causes.
pub(crate) const MAX_CAUSES: usize = 10;

/// Longer messages of causes are cut. Every run above holds a copy of the causes, and the
/// node's own error keeps the message whole.
pub(crate) const MAX_MESSAGE_BYTES: usize = 512;

/// A longer path of a cause keeps its two ends.
const MAX_PATH_BYTES: usize = 1024;

/// The error code of a run whose nodes failed.
pub(crate) const NODE_FAILED: &str = "NODE_FAILED";

/// What the error of a subworkflow node says about its child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChildDetails<C> {
    execution_id: RunId,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    causes: Option<C>,
}

/// The details of a node that failed because its child did: the child, and why it failed, with
/// the way to each cause from the node's own run.
pub(crate) fn child_details(node: &str, child: RunId, causes: &[Cause]) -> Option<Box<RawValue>> {
    let mut causes = causes.to_vec();
    for cause in &mut causes {
        lead_to(cause, node.into());
    }
    let details = ChildDetails {
        execution_id: child,
        causes: Some(causes).filter(|causes| !causes.is_empty()),
    };
    serde_json::value::to_raw_value(&details).ok()
}

/// A failure with no failed node behind it.
struct Root {
    /// Its number among the run's failures: lower is earlier.
    number: u64,
    node: Instance,
    /// The iteration that failed though no node in it did, because of its output.
    iteration: Option<u32>,
    /// Where its error is kept.
    error: Option<ValueRef>,
}

impl Run {
    /// The errors that the causes are read from.
    pub(crate) fn require_for_causes(&self, required: &mut Vec<ValueRef>) {
        let (roots, _) = self.roots();
        required.extend(roots.iter().filter_map(|root| root.error));
    }

    /// The root causes, first failed first, and how many more there are.
    pub(crate) fn causes(&self, facts: &Facts<'_>) -> (Vec<Cause>, usize) {
        let (roots, mut more) = self.roots();
        let mut causes = Vec::new();
        for root in &roots {
            causes.extend(self.causes_of(root, facts));
        }
        more += causes.len().saturating_sub(MAX_CAUSES);
        causes.truncate(MAX_CAUSES);
        (causes, more)
    }

    /// The first failures with nothing behind them, and how many more there are.
    fn roots(&self) -> (Vec<Root>, usize) {
        let mut roots = Vec::new();
        self.gather_roots(TOP, &mut roots);
        roots.sort_by_key(|root| (root.number, root.node));
        let more = roots.len().saturating_sub(MAX_CAUSES);
        roots.truncate(MAX_CAUSES);
        (roots, more)
    }

    fn gather_roots(&self, key: FrameKey, roots: &mut Vec<Root>) {
        for (&node, &number) in &self.frame(key).failed {
            if self.is_handled(node) {
                continue;
            }
            let before = roots.len();
            if let Some(cycle) = self.loops.get(&node) {
                for (iteration, error) in self.fatal_iterations(node, cycle) {
                    let inside = roots.len();
                    if let Some(&key) = cycle.frames.get(&iteration) {
                        self.gather_roots(key, roots);
                    }
                    if roots.len() == inside {
                        roots.push(Root {
                            number,
                            node,
                            iteration: Some(iteration),
                            error,
                        });
                    }
                }
            }
            if roots.len() == before {
                roots.push(Root {
                    number,
                    node,
                    iteration: None,
                    error: self.value(node),
                });
            }
        }
    }

    /// The iterations whose failure failed their loop, with their errors: none where the
    /// loop collects failures, or failed for a reason of its own.
    fn fatal_iterations(&self, node: Instance, cycle: &Loop) -> Vec<(u32, Option<ValueRef>)> {
        let error = |result: Option<&Iteration>| match result {
            Some(Iteration::Failed(error)) => Some(*error),
            _ => None,
        };
        match self.structure(node) {
            Some(Structure::ForEach(each)) if each.on_item_failure == OnItemFailure::Fail => cycle
                .failed()
                .filter_map(|at| Some((at, error(cycle.results.get(at as usize))?)))
                .collect(),
            Some(Structure::While(_) | Structure::RetryUntil(_)) => {
                let last = error(cycle.last.as_ref());
                let last = last.map(|error| (cycle.next.saturating_sub(1), error));
                last.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The causes behind a root: those of the child run that failed, or the node itself.
    fn causes_of(&self, root: &Root, facts: &Facts<'_>) -> Vec<Cause> {
        let loaded = root.error.and_then(|error| facts.values.get(&error.digest));
        let failure = loaded.and_then(|value| serde_json::from_str::<Failure>(value.text()).ok());
        let is_child = matches!(self.structure(root.node), Some(Structure::Subworkflow(_)));
        if let Some(failure) = &failure
            && is_child
            && let Some(causes) = causes_of_child(failure, &self.path(root.node))
        {
            return causes;
        }
        let (code, message) = match failure {
            Some(failure) => (failure.code, failure.message),
            None => (NODE_FAILED.into(), "its error cannot be read".into()),
        };
        let message = match root.iteration {
            Some(iteration) => format!("iteration {iteration}: {message}").into(),
            None => message,
        };
        vec![Cause {
            execution_id: self.id,
            node: self.path(root.node),
            path: Vec::new(),
            name: self.name_of(root.node).map(Into::into),
            code,
            message: cut(&message, MAX_MESSAGE_BYTES).into(),
        }]
    }
}

/// The causes that a child's failure brought along. A child that ran out of time, or whose
/// output is invalid, did not fail because of a node: then the parent's node is the cause.
///
/// Failures recorded by earlier versions have the way to a cause from the child.
fn causes_of_child(failure: &Failure, node: &str) -> Option<Vec<Cause>> {
    if &*failure.code != NODE_FAILED {
        return None;
    }
    let details = failure.details.as_ref()?;
    let details: ChildDetails<Vec<Cause>> = serde_json::from_str(details.get()).ok()?;
    let mut causes = details.causes.filter(|causes| !causes.is_empty())?;
    for cause in &mut causes {
        if cause.path.first().is_none_or(|first| &**first != node) {
            lead_to(cause, node.into());
        }
    }
    Some(causes)
}

/// Puts the node that started a child before the path to a cause in that child.
fn lead_to(cause: &mut Cause, node: Box<str>) {
    if cause.path.is_empty() {
        cause.path.push(cause.node.clone());
    }
    cause.path.insert(0, node);
    let size: usize = cause.path.iter().map(|node| node.len()).sum();
    let last = cause.path.len() - 1;
    if size > MAX_PATH_BYTES && last > 1 {
        cause.path.splice(1..last, ["…".into()]);
    }
}
