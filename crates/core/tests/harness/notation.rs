//! A terse notation of graphs, for people: one edge or one setting a line.
//!
//! ```text
//! a -> b c                     success edges from a
//! a -failure-> h               a failure edge; also -always->
//! a -if output.ok-> b          an edge with a condition; also -failure if …->
//! a -onFailure-> h             the implicit failure edge
//! a switch output.kind: x=b, y=c, default=d
//! a setVars {"name": "{{ output }}"}
//! a retry {"maxAttempts": 3}
//! a {"join": "any"}            any keys of a node; in bodies, "x" is a node of that id,
//!                              and what is nothing else is an action
//! nodes z a                    nodes in this order, with or without edges
//! failurePolicy "failFast"     any key of the definition, with its JSON value
//! ```

use serde_json::{Map, Value, json};

/// The definition that these lines describe.
pub(crate) fn definition(lines: &[&str]) -> String {
    let mut graph = Graph::default();
    for line in lines {
        graph.line(line);
    }
    graph.finish()
}

/// Keys of a definition whose values are objects, or may be.
const SETTINGS: [&str; 5] = ["vars", "output", "labels", "concurrency", "compensation"];

/// What makes a node something else than an action.
const KINDS: [&str; 6] = [
    "forEach",
    "while",
    "retryUntil",
    "subworkflow",
    "waitForSignal",
    "delay",
];

/// Writes out what people leave out: actions, and nodes that are only ids.
fn complete(node: &mut Map<String, Value>) {
    let kind = KINDS.iter().find(|kind| node.contains_key(**kind));
    let Some(kind) = kind else {
        node.entry("actionType").or_insert(json!("test"));
        return;
    };
    node.remove("actionType");
    let nodes = node[*kind].pointer_mut("/body/nodes");
    for inner in nodes.and_then(Value::as_array_mut).into_iter().flatten() {
        if inner.is_string() {
            *inner = json!({ "id": inner });
        }
        complete(inner.as_object_mut().expect("a node"));
    }
}

#[derive(Default)]
struct Graph {
    nodes: Vec<(String, Map<String, Value>)>,
    settings: Map<String, Value>,
}

impl Graph {
    fn line(&mut self, line: &str) {
        if let Some((label, targets)) = line.rsplit_once("> ")
            && let Some((source, label)) = label.split_once(" -")
        {
            let label = label.strip_suffix('-').unwrap_or(label);
            for target in targets.split_whitespace() {
                self.edge(source.trim(), label, target);
            }
            return;
        }
        let (first, rest) = line.split_once(' ').expect("two words");
        if first == "nodes" {
            for id in rest.split_whitespace() {
                self.node(id);
            }
        } else if let Some(switch) = rest.strip_prefix("switch ") {
            self.switch(first, switch);
        } else if let Some(value) = rest.strip_prefix("setVars ") {
            self.node(first).insert("setVars".into(), parse(value));
        } else if let Some(value) = rest.strip_prefix("retry ") {
            let policies = json!({ "retry": parse(value) });
            self.node(first).insert("policies".into(), policies);
        } else if rest.starts_with('{') && !SETTINGS.contains(&first) {
            let Value::Object(keys) = parse(rest) else {
                unreachable!("an object was written")
            };
            let node = self.node(first);
            node.extend(keys);
            complete(node);
        } else {
            self.settings.insert(first.into(), parse(rest));
        }
    }

    fn edge(&mut self, source: &str, label: &str, target: &str) {
        self.node(source);
        self.node(target);
        if label == "onFailure" {
            self.node(source).insert("onFailure".into(), json!(target));
            return;
        }
        let (when, condition) = match label.split_once("if ") {
            Some((when, condition)) => (when.trim(), Some(condition)),
            None => (label, None),
        };
        let mut edge = json!({ "targetNode": target });
        if !when.is_empty() {
            edge["when"] = json!(when);
        }
        if let Some(condition) = condition {
            edge["condition"] = json!(condition);
        }
        push(self.node(source), "edges", edge);
    }

    /// `on: case=node, …, default=node`, with `(failure)` or `(always)` before `on`.
    fn switch(&mut self, source: &str, text: &str) {
        let (on, targets) = text.rsplit_once(": ").expect("switch ON: CASES");
        let (when, on) = match on.strip_prefix('(').and_then(|on| on.split_once(") ")) {
            Some((when, on)) => (when, on),
            None => ("success", on),
        };
        let mut switch = json!({ "on": on, "cases": {}, "when": when });
        for target in targets.split(", ") {
            let (case, target) = target.split_once('=').expect("CASE=NODE");
            self.node(target);
            if case == "default" {
                switch["default"] = json!(target);
            } else {
                switch["cases"][case] = json!(target);
            }
        }
        self.node(source).insert("switch".into(), switch);
    }

    fn node(&mut self, id: &str) -> &mut Map<String, Value> {
        let place = self.nodes.iter().position(|(known, _)| known == id);
        let place = place.unwrap_or_else(|| {
            let node = json!({ "id": id, "actionType": "test" });
            let Value::Object(node) = node else {
                unreachable!("an object was written")
            };
            self.nodes.push((id.to_owned(), node));
            self.nodes.len() - 1
        });
        &mut self.nodes[place].1
    }

    fn finish(self) -> String {
        let mut definition = json!({ "id": "fixture" });
        for (key, value) in self.settings {
            definition[key] = value;
        }
        let nodes = self.nodes.into_iter().map(|(_, node)| node.into());
        definition["nodes"] = Value::Array(nodes.collect());
        definition.to_string()
    }
}

fn push(node: &mut Map<String, Value>, key: &str, value: Value) {
    let list = node.entry(key).or_insert_with(|| json!([]));
    list.as_array_mut().expect("a list").push(value);
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
