//! Edges one by one: those that lead nowhere, and those written twice.

use std::collections::HashMap;

use super::Validator;
use crate::definition::codes;
use crate::definition::graph::{Dangling, DefinitionGraph, EdgeOrigin, GraphEdge};
use crate::definition::path::Path;
use crate::definition::types::When;

impl<'d> Validator<'d, '_> {
    pub(super) fn dangling(
        &mut self,
        graph: &DefinitionGraph<'d>,
        edge: &Dangling<'d>,
        list: &Path<'_>,
    ) {
        let written = match edge.origin {
            EdgeOrigin::Edge(_) => "an edge leads to",
            EdgeOrigin::DependsOn(_) => "dependsOn names",
            EdgeOrigin::OnFailure => "onFailure names",
            EdgeOrigin::Case(_) => "a case leads to",
            EdgeOrigin::Default => "the default leads to",
        };
        let message = format!("{written} '{}', which is not a node here", edge.name);
        let suggestion = self.nearest_node(graph, edge.name);
        let pointer = pointer(edge.node, edge.origin, list);
        self.findings
            .error(codes::UNKNOWN_NODE, message, pointer)
            .suggest(suggestion);
    }

    pub(super) fn duplicate_edges(&mut self, graph: &DefinitionGraph<'d>, list: &Path<'_>) {
        let mut seen: HashMap<(usize, When, Option<&str>), ()> = HashMap::new();
        for from in 0..graph.nodes.len() {
            let edges = graph.outgoing(from);
            if edges.len() < 2 {
                continue;
            }
            seen.clear();
            for edge in edges {
                // Cases of a switch may share a target, and onFailure waits
                // for the explicit edges.
                let plain = matches!(edge.origin, EdgeOrigin::Edge(_) | EdgeOrigin::DependsOn(_));
                let key = (edge.to, edge.when, edge.condition);
                if plain && seen.insert(key, ()).is_some() {
                    let message = format!(
                        "the edge from '{}' to '{}' is written twice",
                        graph.nodes[from].id, graph.nodes[edge.to].id
                    );
                    let pointer = written(edge, list);
                    self.findings
                        .warning(codes::DUPLICATE_EDGE, message, pointer);
                }
            }
        }
    }
}

/// The pointer of the place where an edge is written.
pub(super) fn written(edge: &GraphEdge<'_>, list: &Path<'_>) -> String {
    let node = match edge.origin {
        EdgeOrigin::DependsOn(_) => edge.to,
        _ => edge.from,
    };
    pointer(node, edge.origin, list)
}

fn pointer(node: usize, origin: EdgeOrigin<'_>, list: &Path<'_>) -> String {
    let node = list.index(node);
    match origin {
        EdgeOrigin::Edge(number) => node.key("edges").index(number).key("targetNode").pointer(),
        EdgeOrigin::DependsOn(number) => node.key("dependsOn").index(number).pointer(),
        EdgeOrigin::OnFailure => node.key("onFailure").pointer(),
        EdgeOrigin::Case(case) => node.key("switch").key("cases").key(case).pointer(),
        EdgeOrigin::Default => node.key("switch").key("default").pointer(),
    }
}
