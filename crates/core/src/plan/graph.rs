//! One graph of a plan: the top level, or the body of a loop.

use std::ops::Range;

use windlass_expr::Template;

use super::index::Index;
use super::{EdgeIndex, GraphIndex, NodeIndex, NodeKind, Plan, TOP};
use crate::definition::scope::BodyNames;

/// The top level of a plan, or one body.
#[derive(Debug)]
pub struct PlanGraph {
    pub(crate) nodes: Range<NodeIndex>,
    pub(crate) edges: Range<EdgeIndex>,
    /// Ids are unique within a graph; the index counts from its first node.
    pub(crate) by_id: Index,
    pub(crate) entries: Vec<NodeIndex>,
    pub(crate) sinks: Vec<NodeIndex>,
    /// Template of the graph's result.
    pub(crate) output: Option<Template>,
    /// The loop whose body it is.
    pub(crate) owner: Option<NodeIndex>,
    /// What expressions here may name besides the common things.
    pub(crate) names: BodyNames,
    /// Whether something in it, however deep, says how it is undone: then its
    /// iterations are kept, because undoing them may need their values.
    pub(crate) is_compensated: bool,
}

impl PlanGraph {
    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has no nodes; a valid one has some.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Its nodes.
    pub fn nodes(&self) -> Range<NodeIndex> {
        self.nodes.clone()
    }

    /// Its edges.
    pub fn edges(&self) -> Range<EdgeIndex> {
        self.edges.clone()
    }

    /// The nodes that are ready when it begins.
    pub fn entries(&self) -> &[NodeIndex] {
        &self.entries
    }

    /// Its nodes without outgoing edges.
    pub fn sinks(&self) -> &[NodeIndex] {
        &self.sinks
    }

    /// The loop whose body it is; none for the top level.
    pub fn owner(&self) -> Option<NodeIndex> {
        self.owner
    }

    /// Whether its result is the output of its only sink, unchanged.
    pub(crate) fn has_plain_output(&self) -> bool {
        self.output.is_none() && self.sinks.len() == 1
    }
}

impl Plan {
    /// The top level.
    pub fn top(&self) -> &PlanGraph {
        &self.graphs[TOP as usize]
    }

    /// One of its graphs.
    pub fn graph(&self, graph: GraphIndex) -> &PlanGraph {
        &self.graphs[graph as usize]
    }

    /// All graphs: the top level, then the bodies.
    pub fn graphs(&self) -> &[PlanGraph] {
        &self.graphs
    }

    /// The graph that a node belongs to.
    pub fn graph_of(&self, node: NodeIndex) -> &PlanGraph {
        let after = self
            .graphs
            .partition_point(|graph| graph.nodes.start <= node);
        &self.graphs[after - 1]
    }

    /// The node of a graph with this id.
    pub fn find(&self, graph: GraphIndex, id: &str) -> Option<NodeIndex> {
        self.graph(graph).find(self, id)
    }

    /// Whether a graph is the body of a `forEach` whose list is that of its sinks' outputs.
    pub(crate) fn gathers(&self, graph: &PlanGraph) -> bool {
        let owner = graph.owner.map(|owner| self.kind(owner));
        graph.output.is_none() && owner == Some(NodeKind::ForEach)
    }

    /// Whether a node's output is kept for nothing but the list of its `forEach`.
    pub(crate) fn is_gathered(&self, node: NodeIndex) -> bool {
        let graph = self.graph_of(node);
        graph.sinks.contains(&node) && self.gathers(graph)
    }

    /// A node's path in the definition, without iterations: `loop/node`.
    pub fn static_path(&self, node: NodeIndex) -> String {
        match self.graph_of(node).owner {
            None => self.id(node).to_owned(),
            Some(owner) => format!("{}/{}", self.static_path(owner), self.id(node)),
        }
    }

    /// The node that a name means in a graph: inner ids shadow outer ones.
    pub(crate) fn named(&self, graph: &PlanGraph, id: &str) -> Option<NodeIndex> {
        graph.find(self, id).or_else(|| {
            let outer = self.graph_of(graph.owner?);
            self.named(outer, id)
        })
    }
}

impl PlanGraph {
    pub(crate) fn find(&self, plan: &Plan, id: &str) -> Option<NodeIndex> {
        let first = self.nodes.start;
        let found = self.by_id.find(id, |node| plan.id(first + node))?;
        Some(first + found)
    }
}
