//! Random graphs, from a seed.

use serde_json::{Value, json};

use super::{After, Arrow, Graph, Names, Sort};

/// SplitMix64 (Steele, Lea, Flood 2014): a seed gives the same case for ever.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub(crate) fn pick_name(&mut self, names: &Names) -> Option<String> {
        let names: Vec<&String> = names.iter().collect();
        (!names.is_empty()).then(|| (*self.pick(&names)).clone())
    }
}

/// Conditions, and their values when the trigger is null.
const CONDITIONS: [(&str, bool); 5] = [
    ("true", true),
    ("1 < 2 && 'text'", true),
    ("false", false),
    ("trigger?.missing", false),
    // Reading a member of null errs, which counts as false.
    ("trigger.missing", false),
];

/// A graph for the model, and the same as a definition.
pub(crate) fn graph(dice: &mut Dice, size: usize) -> (Graph, String) {
    let ranks: Vec<String> = (0..size).map(|rank| format!("n{rank}")).collect();
    let mut order = ranks.clone();
    for place in (1..size).rev() {
        order.swap(place, dice.below(place + 1));
    }
    let mut graph = Graph {
        names: order,
        fail_fast: dice.chance(40),
        by_level: dice.chance(30),
        has_timeout: dice.chance(20),
        ..Graph::default()
    };
    let density = 10 + dice.roll() % 50;
    let mut nodes: Vec<Value> = Vec::new();
    for (rank, name) in ranks.iter().enumerate() {
        let later = &ranks[rank + 1..];
        nodes.push(node(dice, &mut graph, name, later, density));
    }
    depend(dice, &mut nodes);
    let mut definition = json!({ "id": "generated" });
    if graph.fail_fast {
        definition["failurePolicy"] = json!("failFast");
    }
    if graph.by_level {
        definition["executionMode"] = json!("levels");
    }
    if graph.has_timeout {
        definition["timeoutMs"] = json!(1000);
    }
    let is_entry = |name: &&String| graph.arrows.iter().all(|arrow| arrow.to != **name);
    let entries: Vec<&String> = ranks.iter().filter(is_entry).collect();
    if entries.len() == 1 && dice.chance(50) {
        definition["startNode"] = json!(entries[0]);
    }
    let place = |node: &Value| {
        graph
            .names
            .iter()
            .position(|name| node["id"] == json!(name))
    };
    nodes.sort_by_key(place);
    definition["nodes"] = Value::Array(nodes);
    (graph, definition.to_string())
}

fn node(dice: &mut Dice, graph: &mut Graph, name: &str, later: &[String], density: u64) -> Value {
    let mut node = json!({ "id": name, "actionType": "test", "edges": [] });
    for target in later {
        if !dice.chance(density) {
            continue;
        }
        let (word, after) = when(dice);
        let mut edge = json!({ "targetNode": target, "when": word });
        let mut holds = true;
        if dice.chance(25) {
            let (condition, value) = *dice.pick(&CONDITIONS);
            edge["condition"] = json!(condition);
            holds = value;
        }
        if let Some(edges) = node["edges"].as_array_mut() {
            edges.push(edge);
        }
        arrow(graph, name, target, after, Sort::Plain(holds));
    }
    if !later.is_empty() && dice.chance(15) {
        node["switch"] = switch(dice, graph, name, later);
    }
    if !later.is_empty() && dice.chance(20) {
        let target = dice.pick(later).clone();
        node["onFailure"] = json!(target);
        arrow(graph, name, &target, After::Failure, Sort::OnFailure);
    }
    if dice.chance(30) {
        let tries = dice.below(4) as u32;
        node["policies"] = json!({ "retry": { "maxAttempts": tries } });
        graph.tries.insert(name.to_owned(), tries);
    }
    node
}

fn when(dice: &mut Dice) -> (&'static str, After) {
    match dice.below(10) {
        0..=5 => ("success", After::Success),
        6..=7 => ("failure", After::Failure),
        _ => ("always", After::Always),
    }
}

/// A switch on a constant: on a case, on none, or on an error.
fn switch(dice: &mut Dice, graph: &mut Graph, name: &str, later: &[String]) -> Value {
    let (word, after) = when(dice);
    let (first, second) = (dice.pick(later).clone(), dice.pick(later).clone());
    let default = dice.chance(60).then(|| dice.pick(later).clone());
    let (on, chosen) = match dice.below(4) {
        0 => ("'x'", Some(&first)),
        1 => ("1 + 1", Some(&second)),
        2 => ("'none'", default.as_ref()),
        _ => ("trigger.missing", default.as_ref()),
    };
    let targets: Names = [Some(&first), Some(&second), default.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    for target in &targets {
        let is_chosen = Some(target) == chosen;
        arrow(graph, name, target, after, Sort::Switch(is_chosen));
    }
    let mut switch = json!({ "on": on, "cases": { "x": first, "2": second }, "when": word });
    if let Some(default) = &default {
        switch["default"] = json!(default);
    }
    switch
}

fn arrow(graph: &mut Graph, from: &str, to: &str, after: After, sort: Sort) {
    graph.arrows.push(Arrow {
        from: from.to_owned(),
        to: to.to_owned(),
        after,
        sort,
    });
}

/// Writes some plain edges where they arrive: `dependsOn` makes the same graph.
fn depend(dice: &mut Dice, nodes: &mut [Value]) {
    for source in 0..nodes.len() {
        let name = nodes[source]["id"].clone();
        let edges = nodes[source]["edges"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let plain = |edge: &Value| edge["when"] == "success" && edge["condition"].is_null();
        let (moved, kept): (Vec<Value>, Vec<Value>) = edges
            .into_iter()
            .partition(|edge| plain(edge) && dice.chance(30));
        nodes[source]["edges"] = Value::Array(kept);
        for edge in moved {
            let target = nodes
                .iter_mut()
                .find(|node| node["id"] == edge["targetNode"]);
            let target = target.expect("the target of an edge");
            if target["dependsOn"].is_null() {
                target["dependsOn"] = json!([]);
            }
            if let Some(list) = target["dependsOn"].as_array_mut() {
                list.push(name.clone());
            }
        }
    }
}
