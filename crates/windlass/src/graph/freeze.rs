//! From a graph under construction to a frozen one: names become ids, and the whole is
//! checked as every definition is.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use windlass_core::Millis;
use windlass_core::definition::Node;

use super::{FrozenGraph, Graph, NodeId, NodeKey, Placed};
use crate::workflow::{BuildError, Problem};

pub(super) fn freeze(graph: Graph, at: Millis) -> Result<FrozenGraph, BuildError> {
    let mut problems = graph.problems;
    let names = Names::of(&graph.nodes);
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for placed in graph.nodes {
        nodes.push(node(placed, &names, &mut problems));
    }
    if !problems.is_empty() {
        let workflow = FrozenGraph::DEFAULT_WORKFLOW.into();
        return Err(BuildError { workflow, problems });
    }
    FrozenGraph::new(nodes, at)
}

/// The ids of each name, and all names in the order of their declaration.
struct Names {
    ids: BTreeMap<Box<str>, Vec<Box<str>>>,
    all: HashSet<NodeId>,
    known: Arc<[Box<str>]>,
}

impl Names {
    fn of(nodes: &[Placed]) -> Self {
        let mut ids: BTreeMap<Box<str>, Vec<Box<str>>> = BTreeMap::new();
        for placed in nodes {
            let same_name = ids.entry(placed.spec.name.clone()).or_default();
            same_name.push(placed.id.as_str().into());
        }
        let known = nodes.iter().map(|placed| placed.spec.name.clone());
        Self {
            ids,
            all: nodes.iter().map(|placed| placed.id.clone()).collect(),
            known: known.collect(),
        }
    }

    /// The id that a dependency means.
    fn resolve(&self, node: &str, key: &NodeKey) -> Result<Box<str>, Problem> {
        let name = match key {
            NodeKey::Id(id) => return self.own(node, id),
            NodeKey::Name(name) => name,
        };
        match self.ids.get(name).map(Vec::as_slice) {
            Some([id]) => Ok(id.clone()),
            Some(ids) => Err(Problem::AmbiguousName {
                node: node.into(),
                name: name.clone(),
                ids: ids.to_vec(),
            }),
            None => Err(self.unknown(node, name)),
        }
    }

    /// An id may come from another graph.
    fn own(&self, node: &str, id: &NodeId) -> Result<Box<str>, Problem> {
        if self.all.contains(id) {
            return Ok(id.as_str().into());
        }
        Err(self.unknown(node, id.as_str()))
    }

    fn unknown(&self, node: &str, name: &str) -> Problem {
        Problem::UnknownNode {
            node: node.into(),
            through: "depends_on",
            name: name.into(),
            known: Arc::clone(&self.known),
        }
    }
}

fn node(placed: Placed, names: &Names, problems: &mut Vec<Problem>) -> Node {
    let spec = placed.spec;
    let mut depends_on: Vec<Box<str>> = Vec::new();
    match &spec.depends_on {
        None => depends_on.extend(placed.previous.iter().map(|id| id.as_str().into())),
        Some(keys) => {
            let mut seen = HashSet::new();
            for key in keys {
                match names.resolve(&spec.name, key) {
                    Ok(id) if !seen.insert(id.clone()) => {}
                    Ok(id) => depends_on.push(id),
                    Err(problem) => problems.push(problem),
                }
            }
        }
    }
    let empty = serde_json::json!({ "id": placed.id.as_str() });
    let mut node: Node = serde_json::from_value(empty).expect("a node requires only its id");
    node.name = Some(spec.name);
    node.action_type = Some(spec.action);
    node.parameters = spec.parameters;
    node.depends_on = depends_on.into();
    node.policies = spec.policies;
    node.compensate = spec.compensate;
    node
}
