//! Definitions with everything in them: loops in loops, delays, signals, child runs,
//! partial joins, undoing, and newer versions that runs follow.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalogue::{Draft, WorkflowCatalogue};
use crate::random::Random;
use crate::workload::{self, RunRequest, Workload};

/// Loops are nested at most this deep.
const MAX_DEPTH: u64 = 2;

/// The names of signals.
pub(crate) const SIGNALS: [&str; 3] = ["go", "stop", "maybe"];

/// Draws the work of one world, over `horizon` milliseconds.
pub(crate) fn workload(random: &mut Random, horizon: u64) -> Workload {
    let mut catalogue = WorkflowCatalogue::default();
    let mut publications = Vec::new();
    for (name, children) in [("child-a", 0), ("child-b", 1)] {
        publish(
            random,
            &mut catalogue,
            &mut publications,
            (name, children),
            horizon,
        );
    }
    let count = random.between(1, 2);
    let mut requests: Vec<RunRequest> = Vec::new();
    for index in 0..count {
        let name = format!("w{index}");
        publish(
            random,
            &mut catalogue,
            &mut publications,
            (&name, 2),
            horizon,
        );
        requests.push(workload::request(random, &name, horizon, true));
    }
    Workload {
        catalogue,
        requests,
        publications,
    }
}

/// Draws a workflow and maybe newer versions of it, with the moments they are published.
fn publish(
    random: &mut Random,
    catalogue: &mut WorkflowCatalogue,
    publications: &mut Vec<(u64, Box<str>)>,
    (name, children): (&str, u64),
    horizon: u64,
) {
    let mut draft = definition(random, name, children);
    imports(random, catalogue, &draft);
    if draft.head["inFlight"] != "healing" && random.chance(80) {
        catalogue.draw(name, draft);
        return;
    }
    for number in 0..random.between(1, 3) {
        let mut next = draft.clone();
        change(random, &mut next.nodes, number);
        if next.nodes == draft.nodes {
            continue;
        }
        catalogue.draw(name, std::mem::replace(&mut draft, next));
        publications.push((random.below(horizon), name.into()));
    }
    catalogue.draw(name, draft);
}

/// Draws graphs that are imported into runs of a workflow: some changes further.
fn imports(random: &mut Random, catalogue: &mut WorkflowCatalogue, draft: &Draft) {
    let name = draft.head["id"].as_str().unwrap_or_default();
    for number in 0..random.below(3) {
        let mut graph = draft.clone();
        for step in 0..random.between(1, 4) {
            change(random, &mut graph.nodes, 10 + 4 * number + step);
        }
        if random.chance(15) {
            // The next one is what there was: nodes that were removed come back.
            graph = draft.clone();
            graph.description = Some("as before");
        }
        catalogue.draw_import(name, graph);
    }
}

fn definition(random: &mut Random, name: &str, children: u64) -> Draft {
    let most = if children < 2 { 4 } else { 8 };
    let count = random_size(random, most);
    let mut nodes = scope(random, count, 0, children);
    let mut definition = json!({ "id": name, "vars": { "v": 0 } });
    if random.chance(30) {
        definition["failurePolicy"] = json!("failFast");
    }
    match random.below(8) {
        0 => definition["executionMode"] = json!("sequential"),
        1 => definition["executionMode"] = json!("levels"),
        _ => {}
    }
    if random.chance(25) {
        definition["maxParallel"] = json!(random.between(1, 3));
    }
    if random.chance(15) {
        definition["timeoutMs"] = json!(random.between(500, 60_000));
    }
    match random.below(4) {
        0 => definition["compensation"] = json!("onFailureOrCancel"),
        1 => definition["compensation"] = json!("manual"),
        _ => {}
    }
    if random.chance(35) {
        definition["inFlight"] = json!("healing");
    }
    random.shuffle(&mut nodes);
    Draft {
        head: definition,
        nodes: nodes.into_iter().map(Arc::new).collect(),
        description: None,
    }
}

fn random_size(random: &mut Random, most: u64) -> usize {
    random.between(1, most) as usize
}

/// The nodes of one scope.
fn scope(random: &mut Random, count: usize, depth: u64, children: u64) -> Vec<Value> {
    let mut nodes: Vec<Value> = (0..count)
        .map(|index| node(random, index, depth, children))
        .collect();
    match random.below(4) {
        0 => workload::chain(&mut nodes),
        1 => workload::fan(random, &mut nodes),
        _ => workload::graph(random, &mut nodes),
    };
    joins(random, &mut nodes);
    nodes
}

fn node(random: &mut Random, index: usize, depth: u64, children: u64) -> Value {
    let id = format!("n{index}");
    let loops = depth < MAX_DEPTH;
    let mut node = json!({ "id": id });
    match random.below(100) {
        0..=9 if loops => node["forEach"] = for_each(random, index, depth, children),
        10..=16 if loops => node["while"] = repeat_while(random, depth, children),
        17..=23 if loops => node["retryUntil"] = retry_until(random, depth, children),
        24..=32 => node["delay"] = delay(random),
        33..=39 => {
            node["waitForSignal"] = json!({ "name": SIGNALS[random.below(3) as usize] });
            if random.chance(50) {
                node["waitForSignal"]["timeoutMs"] = json!(random.between(1, 20_000));
            }
        }
        40..=50 if children > 0 => subworkflow(random, &mut node, children),
        _ => action(random, &mut node, index),
    }
    node
}

fn action(random: &mut Random, node: &mut Value, index: usize) {
    node["actionType"] = json!("act");
    let policies = workload::policies(random);
    if policies != json!({}) {
        node["policies"] = policies;
    }
    if random.chance(20) {
        node["setVars"] = json!({ "v": "{{ output ?? vars.v ?? null }}" });
    }
    if random.chance(30) {
        let other = random.below(index as u64 + 1);
        let value = format!("{{{{ context.data['n{other}'] ?? vars.v ?? null }}}}");
        node["parameters"] = json!({ "o": value });
    }
    if random.chance(40) {
        compensate(random, node);
    }
}

fn compensate(random: &mut Random, node: &mut Value) {
    node["compensate"] = json!({ "actionType": "undo" });
    if random.chance(50) {
        node["compensate"]["parameters"] = json!({ "o": "{{ output ?? null }}" });
    }
    let policies = workload::policies(random);
    if policies != json!({}) {
        node["compensate"]["policies"] = policies;
    }
}

fn body(random: &mut Random, depth: u64, children: u64) -> Value {
    let count = random_size(random, 3);
    let mut body = json!({ "nodes": scope(random, count, depth + 1, children) });
    if random.chance(20) {
        body["output"] = json!("{{ context.data['n0'] ?? vars.v ?? null }}");
    }
    body
}

fn for_each(random: &mut Random, index: usize, depth: u64, children: u64) -> Value {
    let items = match random.below(6) {
        0 => json!([]),
        1 => {
            let other = random.below(index as u64 + 1);
            json!(format!("{{{{ context.data['n{other}'] ?? [1, 2] }}}}"))
        }
        _ => json!((0..random.between(1, 4)).collect::<Vec<_>>()),
    };
    let mut each = json!({ "items": items, "body": body(random, depth, children) });
    if random.chance(30) {
        each["parallel"] = json!(false);
    } else if random.chance(30) {
        each["maxConcurrency"] = json!(random.between(1, 2));
    }
    if random.chance(40) {
        each["onItemFailure"] = json!("collect");
    }
    each
}

fn repeat_while(random: &mut Random, depth: u64, children: u64) -> Value {
    let condition = match random.below(4) {
        0 => "last === null",
        1 => "iteration < 2 && last !== 1",
        2 => "true",
        _ => "iteration < 3",
    };
    json!({
        "condition": condition,
        "maxIterations": random.between(1, 4),
        "body": body(random, depth, children),
    })
}

fn retry_until(random: &mut Random, depth: u64, children: u64) -> Value {
    let mut repeat = json!({
        "maxAttempts": random.between(1, 3),
        "body": body(random, depth, children),
    });
    match random.below(3) {
        0 => repeat["until"] = json!("iteration >= 1"),
        1 => repeat["until"] = json!("last !== null"),
        _ => {}
    }
    if random.chance(60) {
        repeat["backoff"] = json!({
            "baseDelayMs": workload::random_delay(random),
            "jitter": random.chance(50),
        });
    }
    repeat
}

fn delay(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!({ "until": "1970-01-01T00:16:50Z" }),
        1 => json!({ "ms": 0 }),
        2 => json!({ "ms": random.between(60_000, 6_000_000) }),
        _ => json!({ "ms": random.between(1, 4_000) }),
    }
}

fn subworkflow(random: &mut Random, node: &mut Value, children: u64) {
    let name = if random.chance(4) {
        "missing"
    } else if children > 1 && random.chance(50) {
        "child-b"
    } else {
        "child-a"
    };
    let isolation = ["isolated", "shared", "transactional"][random.below(3) as usize];
    node["subworkflow"] = json!({
        "workflowId": name,
        "input": { "v": "{{ vars.v ?? null }}" },
        "isolation": isolation,
    });
    if random.chance(40) {
        let retry = json!({ "maxAttempts": 2, "baseDelayMs": workload::random_delay(random) });
        node["policies"] = json!({ "retry": retry });
    }
    if random.chance(25) {
        compensate(random, node);
    }
}

/// Joins that do not wait for all their edges.
fn joins(random: &mut Random, nodes: &mut [Value]) {
    for index in 0..nodes.len() {
        let id = format!("n{index}");
        let incoming = |node: &Value| {
            let edges = node["edges"].as_array().into_iter().flatten();
            edges
                .filter(|edge| edge["targetNode"] == id.as_str())
                .count()
        };
        let own = nodes[index]["dependsOn"].as_array().map_or(0, Vec::len);
        let count = own + nodes.iter().map(incoming).sum::<usize>();
        if count < 2 || !random.chance(35) {
            continue;
        }
        nodes[index]["join"] = if random.chance(60) {
            json!("any")
        } else {
            json!({ "atLeast": random.between(1, count as u64) })
        };
    }
}

/// Makes a newer version: a node more, one less, or one that is different.
fn change(random: &mut Random, nodes: &mut Vec<Arc<Value>>, number: u64) {
    match random.below(4) {
        0 => remove_one(random, nodes),
        1 => {
            let place = random.below(nodes.len() as u64) as usize;
            if nodes[place].get("actionType").is_some() {
                let node = Arc::make_mut(&mut nodes[place]);
                node["policies"] = json!({ "timeoutMs": 5_000 });
            }
        }
        _ => {
            let mut added = json!({ "id": format!("m{number}"), "actionType": "act" });
            if random.chance(30) {
                added = json!({ "id": format!("m{number}"), "delay": { "ms": 100 } });
            }
            if random.chance(80) {
                let place = random.below(nodes.len() as u64) as usize;
                added["dependsOn"] = json!([nodes[place]["id"]]);
            }
            nodes.retain(|node| node["id"] != added["id"]);
            nodes.push(Arc::new(added));
        }
    }
}

/// Removes a node that nothing names.
fn remove_one(random: &mut Random, nodes: &mut Vec<Arc<Value>>) {
    if nodes.len() < 2 {
        return;
    }
    let place = random.below(nodes.len() as u64) as usize;
    let id = nodes[place]["id"].as_str().unwrap_or_default().to_owned();
    let names = [format!("\"{id}\""), format!("'{id}'")];
    let mut rest = nodes.iter().filter(|node| node["id"] != id.as_str());
    let is_named = rest.any(|node| {
        let text = node.to_string();
        names.iter().any(|name| text.contains(name.as_str()))
    });
    if !is_named {
        nodes.remove(place);
    }
}
