//! What a simulated world is asked to do: definitions of many shapes, the requests for
//! their runs, and what people want of them at odd moments. It knows nothing of faults.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::plan::Plan;
use windlass_orchestrator::Begin;

use crate::random::Random;

/// The largest generated graph.
const MAX_NODES: u64 = 15;

/// One run that is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its graph.
    pub plan: Arc<Plan>,
    /// The definition as JSON, for a reader of a trace.
    pub definition: String,
    /// When it is asked for, in milliseconds from the beginning; more than one entry asks again.
    pub starts: Vec<u64>,
    /// Whether it begins at once.
    pub begin: Begin,
    /// What it is started with.
    pub trigger: String,
    /// What people want of it, and when.
    pub wishes: Vec<(u64, Wish)>,
}

/// What somebody wants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// End it.
    Cancel,
    /// Start nothing more.
    Pause,
    /// Go on.
    Resume,
    /// Try one node again: the number picks it.
    ReattemptOne(u32),
    /// Try everything again that can be.
    ReattemptAll,
}

/// Draws the requests of one world, over `horizon` milliseconds.
pub fn requests(random: &mut Random, horizon: u64) -> Vec<Request> {
    let count = random.between(1, 3);
    (0..count)
        .map(|index| request(random, index, horizon))
        .collect()
}

fn request(random: &mut Random, index: u64, horizon: u64) -> Request {
    let definition = definition(random, index);
    let text = definition.to_string();
    let plan = plan(&text);
    let first = random.below(horizon / 4 + 1);
    let mut starts = vec![first];
    if random.chance(25) {
        starts.push(first + random.below(20));
    }
    if random.chance(15) {
        starts.push(first + random.below(horizon));
    }
    let large = random.chance(10);
    let trigger = if large {
        format!("\"{}\"", "t".repeat(5000))
    } else {
        "{\"n\":1}".to_owned()
    };
    Request {
        plan,
        definition: text,
        starts,
        begin: if random.chance(80) {
            Begin::Now
        } else {
            Begin::Later
        },
        trigger,
        wishes: wishes(random, first, horizon),
    }
}

/// The plan of a definition.
///
/// # Panics
/// The text is not a definition that the engine runs.
pub fn plan(text: &str) -> Arc<Plan> {
    let definition = serde_json::from_str(text).expect("a generated definition parses");
    Arc::new(Plan::build(definition).expect("a generated definition builds"))
}

fn wishes(random: &mut Random, from: u64, horizon: u64) -> Vec<(u64, Wish)> {
    let count = match random.below(4) {
        0 => 0,
        1 => random.between(1, 2),
        _ => random.between(0, 6),
    };
    let mut wishes = Vec::new();
    for _ in 0..count {
        let span = if random.chance(50) { 600 } else { horizon };
        let at = from + random.below(span);
        let wish = match random.below(10) {
            0..=1 => Wish::Cancel,
            2..=3 => Wish::Pause,
            4..=5 => Wish::Resume,
            6..=7 => Wish::ReattemptOne(random.below(MAX_NODES) as u32),
            _ => Wish::ReattemptAll,
        };
        wishes.push((at, wish));
        // People who pause mostly resume, and people who cancel often regret it.
        if wish == Wish::Pause && random.chance(70) {
            wishes.push((at + random.below(3000), Wish::Resume));
        }
        if wish == Wish::Cancel && random.chance(60) {
            wishes.push((at + random.below(15_000), Wish::ReattemptAll));
        }
    }
    wishes
}

/// A random definition.
pub fn definition(random: &mut Random, index: u64) -> Value {
    let count = random.between(1, MAX_NODES) as usize;
    let mut nodes: Vec<Value> = (0..count).map(|node| node_of(random, node)).collect();
    let rooted = match random.below(5) {
        0 => chain(&mut nodes),
        1 => fan(random, &mut nodes),
        _ => graph(random, &mut nodes),
    };
    let mut definition = json!({ "id": format!("w{index}") });
    if rooted && random.chance(20) {
        definition["startNode"] = json!("n0");
    }
    if random.chance(40) {
        definition["failurePolicy"] = json!("failFast");
    }
    match random.below(6) {
        0..=1 => definition["executionMode"] = json!("sequential"),
        2 => definition["executionMode"] = json!("levels"),
        _ => {}
    }
    if random.chance(30) {
        definition["maxParallel"] = json!(random.between(1, 3));
    }
    if random.chance(20) {
        definition["timeoutMs"] = json!(random.between(200, 20_000));
    }
    if random.chance(40) {
        expressions(random, &mut definition, &mut nodes);
    }
    random.shuffle(&mut nodes);
    definition["nodes"] = Value::Array(nodes);
    definition
}

fn node_of(random: &mut Random, index: usize) -> Value {
    let mut node = json!({ "id": format!("n{index}"), "actionType": "act" });
    let mut policies = json!({});
    if random.chance(40) {
        policies["retry"] = json!({
            "maxAttempts": random.between(0, 4),
            "strategy": if random.chance(50) { "fixed" } else { "exponential" },
            "baseDelayMs": random_delay(random),
            "jitter": random.chance(60),
        });
    }
    if random.chance(50) {
        policies["timeoutMs"] = json!(random.between(100, 20_000));
    }
    if policies != json!({}) {
        node["policies"] = policies;
    }
    node
}

fn chain(nodes: &mut [Value]) -> bool {
    for (before, node) in nodes.iter_mut().skip(1).enumerate() {
        node["dependsOn"] = json!([format!("n{before}")]);
    }
    true
}

/// One entry, some in the middle, and a join.
fn fan(random: &mut Random, nodes: &mut [Value]) -> bool {
    let last = nodes.len() - 1;
    for (index, node) in nodes.iter_mut().enumerate().skip(1) {
        let parents: Vec<String> = if index == last && last > 1 {
            (1..last).map(|parent| format!("n{parent}")).collect()
        } else {
            vec!["n0".to_owned()]
        };
        node["dependsOn"] = json!(parents);
    }
    if last > 1 && random.chance(30) {
        nodes[1]["onFailure"] = json!(format!("n{last}"));
    }
    true
}

/// Edges from earlier to later nodes; true if every node follows the first.
fn graph(random: &mut Random, nodes: &mut [Value]) -> bool {
    let rooted = random.chance(40);
    let density = random.between(1, 3);
    for target in 1..nodes.len() {
        let low = u64::from(rooted);
        for _ in 0..random.between(low, density) {
            let source = random.below(target as u64) as usize;
            let when = match random.below(10) {
                0..=5 => "success",
                6..=7 => "failure",
                _ => "always",
            };
            let mut edge = json!({ "targetNode": format!("n{target}"), "when": when });
            if random.chance(15) {
                edge["condition"] = json!(condition(random, source));
            }
            push(&mut nodes[source], "edges", edge);
        }
    }
    for source in 0..nodes.len() - 1 {
        if random.chance(12) {
            let target = random.between(source as u64 + 1, nodes.len() as u64 - 1);
            nodes[source]["onFailure"] = json!(format!("n{target}"));
        }
    }
    rooted
}

fn push(node: &mut Value, key: &str, item: Value) {
    match node.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.push(item),
        None => node[key] = json!([item]),
    }
}

fn random_delay(random: &mut Random) -> u64 {
    [0, 1, 20, 300, 2000][random.below(5) as usize]
}

/// A condition that may hold, or not, or err; some need values of other nodes.
fn condition(random: &mut Random, source: usize) -> String {
    let other = random.below(source as u64 + 1);
    match random.below(6) {
        0 => "output === null".to_owned(),
        1 => "output > 0".to_owned(),
        2 => format!("context.data['n{other}'] !== null"),
        3 => "vars.v == output".to_owned(),
        4 => "error.code === 'NEVER'".to_owned(),
        _ => "output.a.b.c".to_owned(),
    }
}

/// Variables, switches, parameters and an output: everything that needs stored values.
/// Templates are total, so that every end is one that a worker or the graph decided.
fn expressions(random: &mut Random, definition: &mut Value, nodes: &mut [Value]) {
    let count = nodes.len() as u64;
    definition["vars"] = json!({ "v": 0 });
    if random.chance(50) {
        let node = random.below(count);
        let output = format!("{{{{ context.data['n{node}'] ?? vars.v ?? null }}}}");
        definition["output"] = json!(output);
    }
    for index in 0..nodes.len() {
        if random.chance(25) {
            nodes[index]["setVars"] = json!({ "v": "{{ output ?? vars.v ?? null }}" });
        }
        if random.chance(40) {
            let other = random.below(count);
            let value = format!("{{{{ context.data['n{other}'] ?? null }}}}");
            let parameters = json!({ "v": "{{ vars.v ?? null }}", "o": value });
            nodes[index]["parameters"] = parameters;
        }
        if index + 2 < nodes.len() && random.chance(15) {
            let low = index as u64 + 1;
            let (one, other) = (
                random.between(low, count - 1),
                random.between(low, count - 1),
            );
            let mut switch = json!({ "on": "output", "cases": { "0": format!("n{one}") } });
            if random.chance(60) {
                switch["default"] = json!(format!("n{other}"));
            }
            nodes[index]["switch"] = switch;
        }
    }
}
