//! How an edge resolves when its parent has ended (semantics §2), and how a node
//! decides once all its incoming edges have (semantics §3). Pure tables; the walking is `run`'s.

use std::sync::Arc;

use crate::definition::When;
use crate::plan::NodeIndex;
use crate::status::NodeStatus;

/// What an edge may become, before its condition is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeVerdict {
    /// Taken if its condition holds or is absent, not taken otherwise.
    IfConditionHolds,
    /// Not taken, whatever the condition.
    NotTaken,
    /// Lost.
    Lost,
}

/// The table of semantics §2. The parent must have ended.
pub fn verdict(parent: NodeStatus, when: When) -> EdgeVerdict {
    match (parent, when) {
        (NodeStatus::Succeeded, When::Success | When::Always)
        | (NodeStatus::Failed, When::Failure | When::Always)
        | (NodeStatus::Blocked, When::Always) => EdgeVerdict::IfConditionHolds,
        (NodeStatus::Succeeded, When::Failure) | (NodeStatus::Skipped, _) => EdgeVerdict::NotTaken,
        _ => EdgeVerdict::Lost,
    }
}

/// How an edge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EdgeState {
    /// Its parent has not ended, or its condition has not been evaluated.
    Unresolved,
    /// Its target may run.
    Taken,
    /// Not chosen.
    NotTaken,
    /// A failure stands in the way.
    Lost,
}

/// A sorted set of nodes, shared between all that have the same one.
pub type NodeSet = Option<Arc<[NodeIndex]>>;

/// What a node becomes once all its incoming edges have resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Nothing led here.
    Skipped,
    /// These failures were not recovered.
    Blocked(Arc<[NodeIndex]>),
    /// It may run, having recovered these.
    Ready(NodeSet),
}

/// The rule of semantics §3: `lost` and `recovered` are the unions over the node's edges.
pub fn join(any_taken: bool, lost: NodeSet, recovered: NodeSet) -> Joined {
    match (any_taken, lost) {
        (false, None) => Joined::Skipped,
        (_, None) => Joined::Ready(recovered),
        (_, Some(lost)) => match difference(&lost, recovered.as_deref().unwrap_or_default()) {
            None => Joined::Ready(recovered),
            Some(rest) if rest.len() == lost.len() => Joined::Blocked(lost),
            Some(rest) => Joined::Blocked(rest.into()),
        },
    }
}

fn difference(all: &[NodeIndex], without: &[NodeIndex]) -> Option<Vec<NodeIndex>> {
    let rest: Vec<_> = all
        .iter()
        .copied()
        .filter(|node| without.binary_search(node).is_err())
        .collect();
    if rest.is_empty() { None } else { Some(rest) }
}

/// Gathers a union. Equal sets are shared, not copied, so that a failure's set can
/// travel down a long graph at no cost.
#[derive(Default)]
pub struct Union {
    first: NodeSet,
    /// The set added last, so that a run of equal ones is added once.
    last: NodeSet,
    rest: Vec<NodeIndex>,
}

impl Union {
    /// Adds a set.
    pub fn add(&mut self, set: &NodeSet) {
        let Some(set) = set else { return };
        match &self.first {
            None => self.first = Some(Arc::clone(set)),
            Some(first) if Arc::ptr_eq(first, set) => {}
            Some(_)
                if self
                    .last
                    .as_ref()
                    .is_some_and(|last| Arc::ptr_eq(last, set)) => {}
            Some(_) => {
                self.rest.extend_from_slice(set);
                self.last = Some(Arc::clone(set));
            }
        }
    }

    /// Adds one node.
    pub fn add_one(&mut self, node: NodeIndex) {
        self.rest.push(node);
    }

    /// The union.
    pub fn finish(mut self) -> NodeSet {
        if self.rest.is_empty() {
            return self.first;
        }
        self.rest
            .extend_from_slice(self.first.as_deref().unwrap_or_default());
        self.rest.sort_unstable();
        self.rest.dedup();
        Some(self.rest.into())
    }
}
