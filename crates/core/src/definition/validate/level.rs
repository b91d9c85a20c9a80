//! One graph: its ids, edges, cycles and what cannot be reached.

use std::cell::RefCell;
use std::fmt::Write as _;

use super::links::written;
use super::order::Search;
use super::{Moment, Site, Validator};
use crate::definition::codes;
use crate::definition::cycle::cycles;
use crate::definition::expressions::NamesId;
use crate::definition::graph::{DefinitionGraph, GraphEdge};
use crate::definition::path::Path;
use crate::definition::problem::Severity;
use crate::definition::types::{JsonText, Node};

/// How many nodes of a cycle a message names.
const NAMED: usize = 20;

/// What a definition and a body have in common.
pub(super) struct Scene<'d> {
    pub(super) nodes: &'d [Node],
    pub(super) start_node: Option<&'d str>,
    pub(super) output: Option<&'d JsonText>,
    pub(super) names: NamesId,
    pub(super) depth: usize,
}

/// A level while it is checked, as its nodes and the levels inside see it.
pub(super) struct Level<'d, 'p> {
    pub(super) graph: DefinitionGraph<'d>,
    pub(super) names: NamesId,
    pub(super) depth: usize,
    /// The level around this one, and the node there whose body this is.
    pub(super) outer: Option<(&'p Level<'d, 'p>, usize)>,
    /// Whether no edge may be missing because it was refused before.
    pub(super) complete: bool,
    /// The order of the nodes; unknown where there are cycles.
    pub(super) search: Option<RefCell<Search>>,
}

impl Level<'_, '_> {
    /// No nodes at all: for what is evaluated before any node runs.
    pub(super) fn empty() -> Self {
        Self {
            graph: DefinitionGraph::new(&[]).0,
            names: 0,
            depth: 0,
            outer: None,
            complete: true,
            search: None,
        }
    }
}

impl<'d> Validator<'d, '_> {
    /// Checks the nodes of a definition or of a body.
    pub(super) fn level(
        &mut self,
        scene: &Scene<'d>,
        path: &Path<'_>,
        outer: Option<(&Level<'d, '_>, usize)>,
    ) {
        let list = path.key("nodes");
        if !self.counts(scene.nodes.len(), &list) {
            return;
        }
        let (graph, dangling) = DefinitionGraph::new(scene.nodes);
        if graph.index.len() < scene.nodes.len() {
            self.duplicate_nodes(&graph, &list);
        }
        for edge in &dangling {
            self.dangling(&graph, edge, &list);
        }
        let order = graph.order();
        let acyclic = order.len() == scene.nodes.len();
        if !acyclic {
            self.cycles(&graph, &list);
        }
        self.duplicate_edges(&graph, &list);
        let complete = !self.left_out.has_edges(&list.pointer());
        if let Some(start) = scene.start_node {
            self.start_node(&graph, start, path, complete.then_some(&list));
        }
        let search = acyclic.then(|| RefCell::new(Search::new(&order)));
        let level = Level {
            graph,
            names: scene.names,
            depth: scene.depth,
            outer,
            complete,
            search,
        };
        for (at, node) in scene.nodes.iter().enumerate() {
            self.node(&level, at, node, &list.index(at));
        }
        self.variables(&level, &list);
        if let Some(output) = scene.output {
            let path = path.key("output");
            self.template(&level, Moment::End, Site::Plain, output.get(), &path);
        }
    }

    fn counts(&mut self, more: usize, list: &Path<'_>) -> bool {
        let limit = self.options.limits.nodes;
        let before = self.nodes;
        self.nodes = before.saturating_add(more);
        if self.nodes > limit && before <= limit {
            let message = format!("there are more than {limit} nodes");
            self.findings
                .error(codes::NODE_LIMIT, message, list.pointer());
        }
        self.nodes <= limit
    }

    fn duplicate_nodes(&mut self, graph: &DefinitionGraph<'d>, list: &Path<'_>) {
        for (at, node) in graph.nodes.iter().enumerate() {
            let first = graph.index.get(&*node.id).copied();
            if first.is_some_and(|first| first != at) {
                let message = format!("two nodes have the id '{}'", node.id);
                let node = list.index(at);
                let pointer = node.key("id").pointer();
                let first = first.unwrap_or_default();
                self.findings
                    .error(codes::DUPLICATE_NODE, message, pointer)
                    .suggest(Some(format!("the first is element {first} of 'nodes'")));
            }
        }
    }

    fn cycles(&mut self, graph: &DefinitionGraph<'d>, list: &Path<'_>) {
        for cycle in cycles(graph) {
            let Some(last) = cycle.last() else { continue };
            let message = format!("the nodes form a cycle: {}", spelled(graph, &cycle));
            let pointer = written(last, list);
            self.findings
                .error(codes::CYCLE, message, pointer)
                .suggest(Some(
                    "remove an edge, or repeat with 'while' or 'retryUntil'".to_owned(),
                ));
        }
    }

    /// `list` is where the nodes stand, if all their edges are known.
    fn start_node(
        &mut self,
        graph: &DefinitionGraph<'d>,
        start: &str,
        path: &Path<'_>,
        list: Option<&Path<'_>>,
    ) {
        let Some(start) = graph.index.get(start).copied() else {
            let message = format!("startNode names '{start}', which is not a node here");
            let suggestion = self.nearest_node(graph, start);
            self.findings
                .error(
                    codes::UNKNOWN_NODE,
                    message,
                    path.key("startNode").pointer(),
                )
                .suggest(suggestion);
            return;
        };
        let Some(list) = list else { return };
        let mut reached = vec![false; graph.nodes.len()];
        let mut stack = vec![start];
        reached[start] = true;
        while let Some(node) = stack.pop() {
            for edge in graph.outgoing(node) {
                if !std::mem::replace(&mut reached[edge.to], true) {
                    stack.push(edge.to);
                }
            }
        }
        for (at, _) in reached.iter().enumerate().filter(|(_, reached)| !**reached) {
            let id = &graph.nodes[at].id;
            if graph.index.get(&**id) != Some(&at) {
                // The first node with an id stands for it; the others are reported.
                continue;
            }
            let message = format!(
                "node '{id}' cannot be reached from the start node '{}'",
                graph.nodes[start].id
            );
            let node = list.index(at);
            let pointer = node.key("id").pointer();
            self.findings
                .error(codes::UNREACHABLE_NODE, message, pointer);
        }
    }

    /// The nearest id of this level to a name that no node has.
    pub(super) fn nearest_node(
        &mut self,
        graph: &DefinitionGraph<'d>,
        name: &str,
    ) -> Option<String> {
        if self.findings.is_full(Severity::Error) {
            return None;
        }
        let ids = graph.nodes.iter().map(|node| &*node.id);
        self.suggester.did_you_mean(name, ids)
    }
}

/// `a -> b -> a`, with the middle of a long one left out.
fn spelled(graph: &DefinitionGraph<'_>, cycle: &[&GraphEdge<'_>]) -> String {
    let mut text = String::new();
    for (at, edge) in cycle.iter().enumerate() {
        if cycle.len() > NAMED && at == NAMED {
            // Writing to a string cannot fail.
            let _ = write!(text, "… ({} more) -> ", cycle.len() - NAMED);
            break;
        }
        let _ = write!(text, "{} -> ", graph.nodes[edge.from].id);
    }
    if let Some(first) = cycle.first() {
        text.push_str(&graph.nodes[first.from].id);
    }
    text
}
