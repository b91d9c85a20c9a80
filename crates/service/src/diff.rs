//! What changed between two versions of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_core::definition::{Definition, When, graph::DefinitionGraph, graph::EdgeOrigin};

use crate::failure::{Failure, FailureKind};
use crate::run_queries::RunQueries;

/// Keys of a node that are edges, and compared as such.
const EDGE_KEYS: [&str; 4] = ["edges", "dependsOn", "onFailure", "switch"];

/// What changed between two versions of a workflow.
///
/// # Errors
/// There is no such workflow or version, or it cannot be read.
pub fn diff(queries: &RunQueries, id: &str, from: u32, to: u32) -> Result<Changes, Failure> {
    let from = Side::load(queries, id, from)?;
    let to = Side::load(queries, id, to)?;
    Ok(Changes::between(id, &from, &to))
}

/// One of the two versions.
struct Side {
    version: u32,
    /// The definition without its nodes.
    keys: Map<String, Value>,
    nodes: BTreeMap<String, Map<String, Value>>,
    edges: BTreeSet<String>,
}

impl Side {
    fn load(queries: &RunQueries, id: &str, version: u32) -> Result<Self, Failure> {
        let row = queries.definition(id, Some(version))?;
        let unreadable =
            |error: serde_json::Error| Failure::new(FailureKind::DefinitionUnreadable, error);
        let typed: Definition = serde_json::from_slice(&row.text).map_err(unreadable)?;
        let mut keys: Map<String, Value> = serde_json::from_slice(&row.text).map_err(unreadable)?;
        keys.remove("nodes");
        // Through the types, so that a default that is spelt out is no change.
        let mut nodes = BTreeMap::new();
        for node in &typed.nodes {
            let value = serde_json::to_value(node).map_err(unreadable)?;
            let mut value = value.as_object().cloned().unwrap_or_default();
            for key in EDGE_KEYS {
                value.remove(key);
            }
            nodes.insert(node.id.to_string(), value);
        }
        Ok(Self {
            version: row.version,
            keys,
            nodes,
            edges: edges(&typed),
        })
    }
}

/// Edges as text: `a → b`, with what decides whether they are taken.
fn edges(definition: &Definition) -> BTreeSet<String> {
    let (graph, _) = DefinitionGraph::new(&definition.nodes);
    let named = |edge: &windlass_core::definition::graph::GraphEdge<'_>| {
        let (from, to) = (&graph.nodes[edge.from], &graph.nodes[edge.to]);
        let mut text = format!("{} → {}", from.id, to.id);
        match (edge.when, edge.origin) {
            (_, EdgeOrigin::OnFailure) => text.push_str(" (onFailure)"),
            (When::Failure, _) => text.push_str(" (failure)"),
            (When::Always, _) => text.push_str(" (always)"),
            (When::Success, _) => {}
        }
        match edge.origin {
            EdgeOrigin::Case(case) => {
                let on = from.switch.as_ref().map_or("", |switch| &switch.on);
                text.push_str(&format!(" if {on} is '{case}'"));
            }
            EdgeOrigin::Default => text.push_str(" otherwise"),
            _ => {}
        }
        if let Some(condition) = edge.condition {
            text.push_str(&format!(" if {condition}"));
        }
        text
    };
    graph.edges.iter().map(named).collect()
}

/// What changed.
pub struct Changes {
    workflow: String,
    from: u32,
    to: u32,
    /// Nodes that only the newer one has.
    pub added: Vec<String>,
    /// Nodes that only the older one has.
    pub removed: Vec<String>,
    /// By node, the keys that differ.
    pub changed: BTreeMap<String, Vec<String>>,
    /// Edges that only the newer one has.
    pub edges_added: Vec<String>,
    /// Edges that only the older one has.
    pub edges_removed: Vec<String>,
    /// Keys of the definition that differ.
    pub keys: Vec<String>,
    /// What differs inside the nodes and keys above, value by value.
    pub values: Vec<ChangedValue>,
}

/// A value that differs.
pub struct ChangedValue {
    /// The node that it belongs to; none for a key of the definition.
    pub node: Option<String>,
    /// Where it is, as an RFC 6901 pointer from the node or the definition.
    pub pointer: String,
    /// What it was; none if it is new.
    pub from: Option<Value>,
    /// What it is; none if it is gone.
    pub to: Option<Value>,
}

/// How many values are compared one by one; keys name the rest.
const VALUES: usize = 1_000;

impl Changes {
    fn between(workflow: &str, from: &Side, to: &Side) -> Self {
        let missing = |one: &Side, other: &Side| -> Vec<String> {
            let ids = one.nodes.keys().filter(|id| !other.nodes.contains_key(*id));
            ids.cloned().collect()
        };
        let mut values = Vec::new();
        let mut compare = |node: Option<&str>, key: &str, before: &Side, after: &Side| {
            let of = |side: &Side| match node {
                Some(node) => side.nodes.get(node).and_then(|it| it.get(key)).cloned(),
                None => side.keys.get(key).cloned(),
            };
            let pointer = format!("/{}", escaped(key));
            compare_values(node, &pointer, of(before), of(after), &mut values);
        };
        let keys = differing(&from.keys, &to.keys);
        keys.iter().for_each(|key| compare(None, key, from, to));
        let mut changed = BTreeMap::new();
        for (id, before) in &from.nodes {
            let Some(after) = to.nodes.get(id) else {
                continue;
            };
            let keys = differing(before, after);
            keys.iter().for_each(|key| compare(Some(id), key, from, to));
            if !keys.is_empty() {
                changed.insert(id.clone(), keys);
            }
        }
        Self {
            workflow: workflow.to_owned(),
            from: from.version,
            to: to.version,
            added: missing(to, from),
            removed: missing(from, to),
            changed,
            edges_added: to.edges.difference(&from.edges).cloned().collect(),
            edges_removed: from.edges.difference(&to.edges).cloned().collect(),
            keys,
            values,
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "workflowId": self.workflow,
            "from": self.from,
            "to": self.to,
            "nodes": { "added": self.added, "removed": self.removed, "changed": self.changed },
            "edges": { "added": self.edges_added, "removed": self.edges_removed },
            "keys": self.keys,
            "values": self.values.iter().map(ChangedValue::json).collect::<Vec<_>>(),
        })
    }
}

impl ChangedValue {
    fn json(&self) -> Value {
        json!({
            "node": self.node, "pointer": self.pointer, "from": self.from, "to": self.to,
        })
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Goes down where both are objects, or lists of one length, and names what differs.
fn compare_values(
    node: Option<&str>,
    pointer: &str,
    from: Option<Value>,
    to: Option<Value>,
    found: &mut Vec<ChangedValue>,
) {
    if from == to || found.len() >= VALUES {
        return;
    }
    match (from, to) {
        (Some(Value::Object(mut before)), Some(Value::Object(mut after))) => {
            let keys: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
            for key in keys {
                let pointer = format!("{pointer}/{}", escaped(&key));
                let (from, to) = (before.remove(&key), after.remove(&key));
                compare_values(node, &pointer, from, to, found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (at, (from, to)) in before.into_iter().zip(after).enumerate() {
                let pointer = format!("{pointer}/{at}");
                compare_values(node, &pointer, Some(from), Some(to), found);
            }
        }
        (from, to) => found.push(ChangedValue {
            node: node.map(str::to_owned),
            pointer: pointer.to_owned(),
            from,
            to,
        }),
    }
}

fn differing(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .cloned()
        .collect()
}
