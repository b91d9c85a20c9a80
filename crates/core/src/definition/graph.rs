//! A list of nodes as a graph: ids to indices, every kind of edge in one list.
//!
//! It serves validation and the graph's signature; what runs is the plan.

use std::collections::HashMap;

use super::repair::STAND_IN;
use super::types::{Node, When};

/// The nodes of a definition or of one body, with their edges.
#[derive(Debug)]
pub struct DefinitionGraph<'d> {
    /// The nodes, in the order of the definition.
    pub nodes: &'d [Node],
    /// The first node with each id.
    pub index: HashMap<&'d str, usize>,
    /// The edges, in the order they are written.
    pub edges: Vec<GraphEdge<'d>>,
    incoming: Adjacency,
    outgoing: Adjacency,
}

/// One edge between two nodes.
#[derive(Clone, Debug)]
pub struct GraphEdge<'d> {
    /// Where it leaves.
    pub from: usize,
    /// Where it arrives.
    pub to: usize,
    /// After which end of its parent it may be taken.
    pub when: When,
    /// The expression that must hold.
    pub condition: Option<&'d str>,
    /// How it is written.
    pub origin: EdgeOrigin<'d>,
}

/// How an edge is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeOrigin<'d> {
    /// An element of the parent's `edges`.
    Edge(usize),
    /// An element of the child's `dependsOn`.
    DependsOn(usize),
    /// The parent's `onFailure`.
    OnFailure,
    /// A case of the parent's `switch`.
    Case(&'d str),
    /// The default of the parent's `switch`.
    Default,
}

/// An edge to or from a node that does not exist.
#[derive(Clone, Copy, Debug)]
pub struct Dangling<'d> {
    /// The node that it is written on.
    pub node: usize,
    /// How it is written.
    pub origin: EdgeOrigin<'d>,
    /// The name that no node has.
    pub name: &'d str,
}

/// Edges grouped by node, as offsets into one list.
#[derive(Debug)]
struct Adjacency {
    offsets: Vec<u32>,
    edges: Vec<u32>,
}

impl<'d> DefinitionGraph<'d> {
    /// The graph of these nodes, and the edges that lead nowhere. Where ids are
    /// not unique, the first node with an id stands for it.
    pub fn new(nodes: &'d [Node]) -> (Self, Vec<Dangling<'d>>) {
        let mut index = HashMap::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            if &*node.id != STAND_IN {
                index.entry(&*node.id).or_insert(at);
            }
        }
        // Counted first: growing by doubling would cost as much again for a moment.
        let count = nodes.iter().map(edges_written).sum();
        let mut builder = Builder {
            index: &index,
            edges: Vec::with_capacity(count),
            dangling: Vec::new(),
        };
        for (at, node) in nodes.iter().enumerate() {
            builder.node(at, node);
        }
        let Builder {
            edges, dangling, ..
        } = builder;
        let incoming = Adjacency::new(nodes.len(), edges.iter().map(|edge| edge.to));
        let outgoing = Adjacency::new(nodes.len(), edges.iter().map(|edge| edge.from));
        let graph = Self {
            nodes,
            index,
            edges,
            incoming,
            outgoing,
        };
        (graph, dangling)
    }

    /// The edges that arrive at a node.
    pub fn incoming(&self, node: usize) -> impl ExactSizeIterator<Item = &GraphEdge<'d>> {
        self.incoming
            .of(node)
            .iter()
            .map(|at| &self.edges[*at as usize])
    }

    /// The edges that leave a node.
    pub fn outgoing(&self, node: usize) -> impl ExactSizeIterator<Item = &GraphEdge<'d>> {
        self.outgoing
            .of(node)
            .iter()
            .map(|at| &self.edges[*at as usize])
    }

    /// The nodes in an order in which every edge leads forwards. Nodes on or
    /// after a cycle are missing from it.
    pub fn order(&self) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.nodes.len())
            .map(|node| self.incoming(node).len())
            .collect();
        let mut order: Vec<usize> = (0..left.len()).filter(|node| left[*node] == 0).collect();
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for edge in self.outgoing(node) {
                left[edge.to] -= 1;
                if left[edge.to] == 0 {
                    order.push(edge.to);
                }
            }
        }
        order
    }
}

fn edges_written(node: &Node) -> usize {
    let switched = node
        .switch
        .as_ref()
        .map_or(0, |switch| switch.cases.len() + 1);
    node.edges.len() + node.depends_on.len() + usize::from(node.on_failure.is_some()) + switched
}

impl Adjacency {
    fn new(nodes: usize, ends: impl Iterator<Item = usize> + Clone) -> Self {
        let mut offsets = vec![0u32; nodes + 1];
        for end in ends.clone() {
            offsets[end + 1] += 1;
        }
        for at in 0..nodes {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut edges = vec![0u32; offsets[nodes] as usize];
        for (edge, end) in (0u32..).zip(ends) {
            edges[next[end] as usize] = edge;
            next[end] += 1;
        }
        Self { offsets, edges }
    }

    fn of(&self, node: usize) -> &[u32] {
        &self.edges[self.offsets[node] as usize..self.offsets[node + 1] as usize]
    }
}

struct Builder<'d, 'i> {
    index: &'i HashMap<&'d str, usize>,
    edges: Vec<GraphEdge<'d>>,
    dangling: Vec<Dangling<'d>>,
}

impl<'d> Builder<'d, '_> {
    fn node(&mut self, at: usize, node: &'d Node) {
        for (number, edge) in node.edges.iter().enumerate() {
            let condition = edge.condition.as_deref();
            let origin = EdgeOrigin::Edge(number);
            self.leave(at, &edge.target_node, edge.when, condition, origin);
        }
        for (number, name) in node.depends_on.iter().enumerate() {
            let origin = EdgeOrigin::DependsOn(number);
            match self.index.get(&**name) {
                Some(from) => self.edges.push(GraphEdge {
                    from: *from,
                    to: at,
                    when: When::Success,
                    condition: None,
                    origin,
                }),
                None if &**name == STAND_IN => {}
                None => self.dangling.push(Dangling {
                    node: at,
                    origin,
                    name,
                }),
            }
        }
        if let Some(name) = &node.on_failure {
            self.leave(at, name, When::Failure, None, EdgeOrigin::OnFailure);
        }
        if let Some(switch) = &node.switch {
            for (case, name) in &switch.cases {
                self.leave(at, name, switch.when, None, EdgeOrigin::Case(case));
            }
            if let Some(name) = &switch.default {
                self.leave(at, name, switch.when, None, EdgeOrigin::Default);
            }
        }
    }

    fn leave(
        &mut self,
        from: usize,
        name: &'d str,
        when: When,
        condition: Option<&'d str>,
        origin: EdgeOrigin<'d>,
    ) {
        match self.index.get(name) {
            Some(to) => self.edges.push(GraphEdge {
                from,
                to: *to,
                when,
                condition,
                origin,
            }),
            None if name == STAND_IN => {}
            None => self.dangling.push(Dangling {
                node: from,
                origin,
                name,
            }),
        }
    }
}
