//! Results of the run that this one was forked from (semantics §5): a node that is about
//! to begin and has one ends with it at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Run;
use super::apply::Change;
use super::frame::Instance;
use super::join::RoutingQueue;
use crate::event::ReusedNode;
use crate::id::Digest;
use crate::status::NodeStatus;
use crate::value::ValueRef;

/// Results by path, until they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reuse {
    results: BTreeMap<Box<str>, Reused>,
    routes: BTreeMap<Box<str>, Vec<u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reused {
    attempt: u32,
    /// None means that the node was skipped.
    value: Option<ValueRef>,
    ancestry: Option<Digest>,
}

impl Reuse {
    fn is_empty(&self) -> bool {
        self.results.is_empty() && self.routes.is_empty()
    }

    /// Which edges of a node were taken, once.
    pub(crate) fn routes(&mut self, path: &str) -> Option<Vec<u32>> {
        self.routes.remove(path)
    }
}

impl Run {
    pub(crate) fn offer_reuse(&mut self, nodes: &[ReusedNode], record: u64) {
        for node in nodes {
            let value = node.output.as_ref();
            let reused = Reused {
                attempt: node.attempt,
                value: value.map(|output| ValueRef::new(output, output.digest(), record)),
                ancestry: node.ancestry,
            };
            self.reuse.results.insert(node.node.clone(), reused);
            if let Some(taken) = &node.taken {
                self.reuse.routes.insert(node.node.clone(), taken.clone());
            }
        }
    }

    /// The node's path, if results are reused; otherwise empty, because building one costs.
    pub(crate) fn path_if_reusing(&self, node: Instance) -> Box<str> {
        if self.reuse.is_empty() {
            "".into()
        } else {
            self.path(node)
        }
    }

    /// Ends a node with the result it is to reuse, if there is one.
    pub(crate) fn take_reused(
        &mut self,
        node: Instance,
        queue: &mut RoutingQueue,
        changes: &mut Vec<Change>,
    ) -> bool {
        if self.reuse.is_empty() {
            return false;
        }
        let path = self.path(node);
        let Some(reused) = self.reuse.results.remove(&path) else {
            return false;
        };
        self.output_bytes += reused.value.map_or(0, |value| u64::from(value.size));
        let state = self.state_mut(node);
        state.attempt = reused.attempt;
        state.first_attempt = reused.attempt;
        state.reused = true;
        state.value = reused.value;
        state.ancestry = reused.ancestry;
        let status = if reused.value.is_some() {
            NodeStatus::Succeeded
        } else {
            NodeStatus::Skipped
        };
        self.mark_ended(node, status, queue, changes);
        true
    }
}
