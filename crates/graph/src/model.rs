//! What is drawn: nodes, edges, and what is inside loops; made from a definition.

use std::collections::{BTreeMap, HashMap, HashSet};

use windlass_core::NodeStatus;
use windlass_core::definition::{Body, Definition, Node, When};
use windlass_core::plan::NodeKind;
use windlass_core::routing::EdgeState;

/// What is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Above the picture.
    pub title: String,
    /// In the order of the definition.
    pub nodes: Vec<GraphNode>,
    /// In the order of the plan: edge `i` here is edge `i` of a run.
    pub edges: Vec<GraphEdge>,
}

/// A box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode {
    /// As commands take it.
    pub id: String,
    /// The name for people, if it has one.
    pub label: Option<String>,
    /// What it does: the action's type, or the kind of loop or wait.
    pub detail: String,
    /// Where it stands, in a run.
    pub status: Option<NodeStatus>,
    /// How many attempts were made, in a run.
    pub attempts: u32,
    /// In a run, how far a loop is, or how the instances of a body's node stand.
    pub tally: Option<String>,
    /// What is inside a loop, where that is drawn.
    pub body: Option<Box<Graph>>,
}

/// An arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it reaches.
    pub to: usize,
    /// After which end of its parent it is taken.
    pub when: When,
    /// Its condition, or the cases of a switch that lead here.
    pub label: Option<String>,
    /// How it resolved, in a run.
    pub state: Option<EdgeState>,
}

impl Graph {
    /// The graph of a definition; with `expand`, also what is inside its loops.
    /// References that lead nowhere are left out: the validation names them.
    pub fn from_definition(definition: &Definition, expand: bool) -> Self {
        let title = Self::title_of(definition);
        Self::from_nodes(title, "", &definition.nodes, expand)
    }

    /// What people call a workflow.
    pub(crate) fn title_of(definition: &Definition) -> String {
        let title = definition.display_name.as_ref().unwrap_or(&definition.id);
        title.to_string()
    }

    /// The graph of these nodes alone.
    pub(crate) fn of_nodes(nodes: &[Node]) -> Self {
        Self::from_nodes(String::new(), "", nodes, false)
    }

    /// How many edges these nodes have.
    pub(crate) fn count_edges(nodes: &[Node]) -> usize {
        Edges::collect(nodes).len()
    }

    /// The graph of these nodes, which stand inside the loop with this path.
    fn from_nodes(title: String, inside: &str, nodes: &[Node], expand: bool) -> Self {
        let shown = nodes
            .iter()
            .map(|node| GraphNode::new(node, inside, expand));
        Self {
            title,
            nodes: shown.collect(),
            edges: Edges::collect(nodes),
        }
    }

    /// Nodes here and in all bodies that are drawn.
    pub(crate) fn total(&self) -> usize {
        let bodies = self.nodes.iter().filter_map(|node| node.body.as_deref());
        self.nodes.len() + bodies.map(Self::total).sum::<usize>()
    }
}

impl GraphNode {
    fn new(node: &Node, inside: &str, expand: bool) -> Self {
        let body = body(node).filter(|_| expand);
        let slash = if inside.is_empty() { "" } else { "/" };
        let path = format!("{inside}{slash}{}", node.id);
        Self {
            id: node.id.to_string(),
            label: node.name.as_deref().map(str::to_owned),
            detail: detail(node),
            status: None,
            attempts: 0,
            tally: None,
            body: body.map(|body| {
                let title = format!("{path}: {}", detail(node));
                Box::new(Graph::from_nodes(title, &path, &body.nodes, expand))
            }),
        }
    }

    /// What people call it.
    pub(crate) fn title(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }

    /// What stands under its name: the id if the name is not it, and what it does.
    pub(crate) fn subtitle(&self) -> String {
        let mut parts = Vec::new();
        if self.label.as_deref().is_some_and(|label| label != self.id) {
            parts.push(self.id.clone());
        }
        if !self.detail.is_empty() {
            parts.push(self.detail.clone());
        }
        if self.attempts > 1 {
            parts.push(format!("{} attempts", self.attempts));
        }
        parts.extend(self.tally.clone());
        parts.join(" · ")
    }
}

impl GraphEdge {
    /// What stands beside it in formats that cannot draw the difference.
    pub(crate) fn words(&self) -> Option<String> {
        let when = match self.when {
            When::Success => None,
            When::Failure => Some("failure"),
            When::Always => Some("always"),
        };
        match (when, &self.label) {
            (None, None) => None,
            (Some(when), None) => Some(when.to_owned()),
            (None, Some(label)) => Some(label.clone()),
            (Some(when), Some(label)) => Some(format!("{when}: {label}")),
        }
    }
}

/// What a loop repeats.
pub(crate) fn body(node: &Node) -> Option<&Body> {
    let each = node.for_each.as_ref().map(|each| &each.body);
    let repeat = node.while_loop.as_ref().map(|repeat| &repeat.body);
    let retry = node.retry_until.as_ref().map(|retry| &retry.body);
    each.or(repeat).or(retry)
}

/// What a node is.
pub(crate) fn kind(node: &Node) -> NodeKind {
    if node.for_each.is_some() {
        NodeKind::ForEach
    } else if node.while_loop.is_some() {
        NodeKind::While
    } else if node.retry_until.is_some() {
        NodeKind::RetryUntil
    } else if node.subworkflow.is_some() {
        NodeKind::Subworkflow
    } else if node.wait_for_signal.is_some() {
        NodeKind::Signal
    } else if node.delay.is_some() {
        NodeKind::Delay
    } else {
        NodeKind::Action
    }
}

fn detail(node: &Node) -> String {
    if let Some(action) = &node.action_type {
        action.to_string()
    } else if let Some(each) = &node.for_each {
        format!("forEach, {}", nodes(each.body.nodes.len()))
    } else if let Some(repeat) = &node.while_loop {
        format!("while, {}", nodes(repeat.body.nodes.len()))
    } else if let Some(retry) = &node.retry_until {
        format!("retryUntil, {}", nodes(retry.body.nodes.len()))
    } else if let Some(child) = &node.subworkflow {
        format!("subworkflow {}", child.workflow_id)
    } else if let Some(signal) = &node.wait_for_signal {
        format!("signal {}", signal.name)
    } else if node.delay.is_some() {
        "delay".to_owned()
    } else {
        String::new()
    }
}

fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

/// Gathers edges from the four places a definition may write them.
struct Edges<'a> {
    places: HashMap<&'a str, usize>,
    list: Vec<GraphEdge>,
}

impl<'a> Edges<'a> {
    fn collect(nodes: &'a [Node]) -> Vec<GraphEdge> {
        let places: HashMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (&*node.id, index))
            .collect();
        let mut edges = Self {
            places,
            list: Vec::new(),
        };
        for (index, node) in nodes.iter().enumerate() {
            edges.add_node(index, node);
        }
        edges.finish()
    }

    fn add_node(&mut self, index: usize, node: &Node) {
        for edge in &node.edges {
            let label = edge.condition.as_deref().map(str::to_owned);
            self.push(Some(index), self.place(&edge.target_node), edge.when, label);
        }
        if let Some(switch) = &node.switch {
            let mut cases: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
            let default = switch.default.iter().map(|target| ("default", target));
            let named = switch.cases.iter().map(|(case, target)| (&**case, target));
            for (case, target) in named.chain(default) {
                if let Some(target) = self.place(target) {
                    cases.entry(target).or_default().push(case);
                }
            }
            for (target, cases) in cases {
                self.push(
                    Some(index),
                    Some(target),
                    switch.when,
                    Some(cases.join(" | ")),
                );
            }
        }
        if let Some(target) = &node.on_failure {
            self.push(Some(index), self.place(target), When::Failure, None);
        }
        for source in &node.depends_on {
            self.push(self.place(source), Some(index), When::Success, None);
        }
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    fn push(&mut self, from: Option<usize>, to: Option<usize>, when: When, label: Option<String>) {
        if let (Some(from), Some(to)) = (from, to) {
            self.list.push(GraphEdge {
                from,
                to,
                when,
                label,
                state: None,
            });
        }
    }

    /// Sorted by source; `edges` and `dependsOn` that say the same are one edge.
    fn finish(mut self) -> Vec<GraphEdge> {
        self.list.sort_by_key(|edge| edge.from);
        let mut seen = HashSet::new();
        self.list.retain(|edge| {
            let plain = edge.when == When::Success && edge.label.is_none();
            !plain || seen.insert((edge.from, edge.to))
        });
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(definition: &str) -> Graph {
        let definition: Definition = serde_json::from_str(definition).expect("a definition");
        Graph::from_definition(&definition, false)
    }

    fn edges(graph: &Graph) -> Vec<String> {
        graph
            .edges
            .iter()
            .map(|edge| {
                let words = edge.words().map(|words| format!(" {words}"));
                let (from, to) = (&graph.nodes[edge.from].id, &graph.nodes[edge.to].id);
                format!("{from} {to}{}", words.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn every_way_to_write_an_edge_is_drawn() {
        let graph = graph(
            r#"{"id": "w", "displayName": "A workflow", "nodes": [
                {"id": "a", "actionType": "core.echo", "onFailure": "d",
                 "edges": [{"targetNode": "b"}, {"targetNode": "c", "when": "always",
                            "condition": "output > 1"}]},
                {"id": "b", "name": "Second", "actionType": "core.echo",
                 "switch": {"on": "output", "cases": {"x": "c", "y": "c", "z": "d"}, "default": "d"}},
                {"id": "c", "delay": {"ms": 5}, "dependsOn": ["b", "a"]},
                {"id": "d", "waitForSignal": {"name": "go"}, "dependsOn": ["c", "missing"]}]}"#,
        );
        assert_eq!(graph.title, "A workflow");
        assert_eq!(
            edges(&graph),
            [
                "a b",
                "a c always: output > 1",
                "a d failure",
                "a c",
                "b c x | y",
                "b d z | default",
                "b c",
                "c d"
            ]
        );
        assert_eq!(graph.nodes[1].subtitle(), "b · core.echo");
        assert_eq!(graph.nodes[2].detail, "delay");
        assert_eq!(graph.nodes[3].detail, "signal go");
    }

    #[test]
    fn an_edge_written_on_both_ends_is_one() {
        let graph = graph(
            r#"{"id": "w", "nodes": [
                {"id": "a", "actionType": "core.echo", "edges": [{"targetNode": "b"}]},
                {"id": "b", "actionType": "core.echo", "dependsOn": ["a"]}]}"#,
        );
        assert_eq!(edges(&graph), ["a b"]);
    }

    #[test]
    fn edges_stand_in_the_order_of_the_plan() {
        let text = r#"{"id": "w", "nodes": [
            {"id": "z", "actionType": "core.echo", "dependsOn": ["m"], "onFailure": "a"},
            {"id": "m", "actionType": "core.echo", "edges": [{"targetNode": "z"},
                {"targetNode": "a", "when": "always"}]},
            {"id": "a", "actionType": "core.echo", "dependsOn": ["m", "z"]}]}"#;
        let definition: Definition = serde_json::from_str(text).expect("a definition");
        let plan = windlass_core::plan::Plan::build(definition).expect("a plan");
        let planned: Vec<_> = plan
            .edges()
            .iter()
            .map(|edge| (edge.source as usize, edge.target as usize, edge.when))
            .collect();
        let drawn: Vec<_> = graph(text)
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to, edge.when))
            .collect();
        assert_eq!(drawn, planned);
    }
}
