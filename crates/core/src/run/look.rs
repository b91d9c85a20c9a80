//! Looking at a run from outside, where that needs more than one field.

use super::Run;
use super::frame::Instance;
use crate::definition::When;
use crate::routing::EdgeState;

impl Run {
    /// A node's outgoing edges, in definition order: when each is taken, where it leads,
    /// and how it stands. Empty for an instance that the run does not have.
    pub fn edges_from(&self, node: Instance) -> Vec<(When, Instance, EdgeState)> {
        let Some(frame) = self.find_frame(node) else {
            return Vec::new();
        };
        let edges = frame.plan.outgoing(frame.node(node));
        let look = |index| {
            let edge = frame.plan.edge(index);
            (edge.when, frame.instance(edge.target), frame.edge(index))
        };
        edges.map(look).collect()
    }
}
