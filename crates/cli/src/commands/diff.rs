//! `windlass diff`: what changed between two versions of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_core::definition::{Definition, When, graph::Graph, graph::Origin};

use crate::args::Diff;
use crate::commands::workflows::definition;
use crate::exit::{Exit, Failure};
use crate::paint::{GREEN, RED, YELLOW, paint};
use crate::session::{Session, Settings};

/// Keys of a node that are edges, and compared as such.
const EDGE_KEYS: [&str; 4] = ["edges", "dependsOn", "onFailure", "switch"];

/// Compares two versions.
pub(crate) fn run(settings: &Settings, arguments: &Diff) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let from = Side::load(&session, &arguments.id, version(&arguments.from)?)?;
    let to = Side::load(&session, &arguments.id, version(&arguments.to)?)?;
    let changes = Changes::between(&from, &to);
    if settings.output.json {
        settings.output.json(&json!({
            "workflowId": arguments.id,
            "from": from.version,
            "to": to.version,
            "nodes": {
                "added": changes.added,
                "removed": changes.removed,
                "changed": changes.changed,
            },
            "edges": { "added": changes.edges_added, "removed": changes.edges_removed },
            "keys": changes.keys,
        }))?;
    } else {
        settings.output.data(&changes.text(settings.output.color))?;
    }
    Ok(Exit::Done)
}

/// `3` or `v3`.
fn version(text: &str) -> Result<u32, Failure> {
    let number = text.strip_prefix('v').unwrap_or(text);
    number.parse().map_err(|_| {
        Failure::new(
            Exit::Usage,
            "VERSION_INVALID",
            format!("'{text}' is not a version"),
        )
        .hint("write 3 or v3")
    })
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
    fn load(session: &Session, id: &str, version: u32) -> Result<Self, Failure> {
        let row = definition(session, id, Some(version))?;
        let unreadable =
            |error: serde_json::Error| Failure::new(Exit::Storage, "DEFINITION_UNREADABLE", error);
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
    let (graph, _) = Graph::new(&definition.nodes);
    let named = |edge: &windlass_core::definition::graph::GraphEdge<'_>| {
        let (from, to) = (&graph.nodes[edge.from], &graph.nodes[edge.to]);
        let mut text = format!("{} → {}", from.id, to.id);
        match (edge.when, edge.origin) {
            (_, Origin::OnFailure) => text.push_str(" (onFailure)"),
            (When::Failure, _) => text.push_str(" (failure)"),
            (When::Always, _) => text.push_str(" (always)"),
            (When::Success, _) => {}
        }
        match edge.origin {
            Origin::Case(case) => {
                let on = from.switch.as_ref().map_or("", |switch| &switch.on);
                text.push_str(&format!(" if {on} is '{case}'"));
            }
            Origin::Default => text.push_str(" otherwise"),
            _ => {}
        }
        if let Some(condition) = edge.condition {
            text.push_str(&format!(" if {condition}"));
        }
        text
    };
    graph.edges.iter().map(named).collect()
}

struct Changes {
    added: Vec<String>,
    removed: Vec<String>,
    /// By node, the keys that differ.
    changed: BTreeMap<String, Vec<String>>,
    edges_added: Vec<String>,
    edges_removed: Vec<String>,
    keys: Vec<String>,
}

impl Changes {
    fn between(from: &Side, to: &Side) -> Self {
        let missing = |one: &Side, other: &Side| -> Vec<String> {
            let ids = one.nodes.keys().filter(|id| !other.nodes.contains_key(*id));
            ids.cloned().collect()
        };
        let mut changed = BTreeMap::new();
        for (id, before) in &from.nodes {
            let Some(after) = to.nodes.get(id) else {
                continue;
            };
            let keys = differing(before, after);
            if !keys.is_empty() {
                changed.insert(id.clone(), keys);
            }
        }
        Self {
            added: missing(to, from),
            removed: missing(from, to),
            changed,
            edges_added: to.edges.difference(&from.edges).cloned().collect(),
            edges_removed: from.edges.difference(&to.edges).cloned().collect(),
            keys: differing(&from.keys, &to.keys),
        }
    }

    fn text(&self, color: bool) -> String {
        let mut text = String::new();
        let mut line = |mark: &str, what: &str| {
            let style = match mark {
                "+" => GREEN,
                "-" => RED,
                _ => YELLOW,
            };
            text.push_str(&paint(color, style, &format!("{mark} {what}")));
            text.push('\n');
        };
        for key in &self.keys {
            line("~", key);
        }
        for id in &self.removed {
            line("-", &format!("node {id}"));
        }
        for id in &self.added {
            line("+", &format!("node {id}"));
        }
        for (id, keys) in &self.changed {
            line("~", &format!("node {id}: {}", keys.join(", ")));
        }
        for edge in &self.edges_removed {
            line("-", &format!("edge {edge}"));
        }
        for edge in &self.edges_added {
            line("+", &format!("edge {edge}"));
        }
        if text.is_empty() {
            text.push_str("no difference\n");
        }
        text
    }
}

fn differing(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .cloned()
        .collect()
}
